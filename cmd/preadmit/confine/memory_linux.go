package confine

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MachineMemory returns the bytes of memory of the machine, or of this process's
// control group if that has less; 0 if unknown.
func MachineMemory() uint64 {
	var info unix.Sysinfo_t
	most := uint64(0)
	if unix.Sysinfo(&info) == nil {
		most = uint64(info.Totalram) * uint64(info.Unit)
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	for _, file := range limitFilesOf(string(groups)) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64) // "max" is none
		if err == nil && limit > 0 && (most == 0 || limit < most) {
			most = limit
		}
	}
	return most
}

// limitFilesOf lists the files that may contain a memory limit of a process with these control
// groups: those of its own group and of the root group, which in a container is the container's.
func limitFilesOf(groups string) []string {
	files := []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || strings.Contains(fields[2], "..") {
			continue
		}
		switch {
		case fields[0] == "0":
			files = append(files, "/sys/fs/cgroup"+fields[2]+"/memory.max")
		case fields[1] == "memory":
			files = append(files, "/sys/fs/cgroup/memory"+fields[2]+"/memory.limit_in_bytes")
		}
	}
	return files
}
