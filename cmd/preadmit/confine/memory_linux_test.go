package confine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLimitFilesOf(t *testing.T) {
	t.Parallel()
	first := []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}
	for groups, more := range map[string][]string{
		"":                            nil,
		"0::/user.slice/job\n":        {"/sys/fs/cgroup/user.slice/job/memory.max"},
		"4:memory:/docker/1\n3:cpu:/": {"/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes"},
		"0::/../../etc\n":             nil,
	} {
		if diff := cmp.Diff(append(first[:2:2], more...), limitFilesOf(groups)); diff != "" {
			t.Errorf("%q: %s", groups, diff)
		}
	}
	if MachineMemory() == 0 {
		t.Error("the memory of this machine is not known")
	}
}
