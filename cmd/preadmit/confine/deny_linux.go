// Package confine makes the kernel restrict a child process: its system calls and files
// (deny_linux.go), its memory and processor time (limits_*.go). It also reads how much memory the
// machine has (memory_linux.go).
//
// Functions return an error if the kernel can't enforce a restriction. On systems without such
// limits they do nothing; package tasks then ends tasks that use too much. All restrictions apply
// to the whole process and can't be lifted.
package confine

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/landlock-lsm/go-landlock/landlock"
	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// denied lists system calls that evaluation does not need and that hostile input could misuse: the
// network, other programs and processes, the system itself, and modes, owners and attributes of
// files.
var denied = []string{
	"socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "sendto", "sendmsg", "sendmmsg",
	"execve", "execveat", "fork", "vfork", "kill", "pidfd_open", "pidfd_getfd", "pidfd_send_signal",
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp",
	"mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "mount_setattr",
	"unshare", "setns", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff",
	"keyctl", "add_key", "request_key", "acct", "quotactl", "settimeofday", "clock_settime", "sethostname", "setdomainname",
	"mknod", "mknodat", "open_by_handle_at", "name_to_handle_at",
	"truncate", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", // Landlock does not restrict them, or truncate only in newer kernels
	"setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat",
}

// newProcess is the flag of clone that starts a process and not a thread. The filter
// can't see clone3's flags, which are in memory, so clone3 is reported as unknown and
// callers fall back to clone.
var newProcess = seccomp.NameWithConditions{Name: "clone", Conditions: seccomp.ArgumentConditions{
	{Argument: 0, Operation: seccomp.BitsNotSet, Value: unix.CLONE_THREAD},
}}

// DenyCalls makes the kernel refuse the denied system calls on all threads.
func DenyCalls() error {
	runtime.LockOSThread() // no_new_privs is set on this thread, and copied from it to the others
	defer runtime.UnlockOSThread()
	info, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(slices.Clone(denied), func(name string) bool {
		_, known := info.SyscallNames[name]
		return !known
	})
	return seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true,
		Flag:       seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionAllow,
			Syscalls: []seccomp.SyscallGroup{
				{Action: seccomp.ActionErrno, Names: names, NamesWithCondtions: []seccomp.NameWithConditions{newProcess}},
				{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"clone3"}},
			},
		},
	})
}

// DenyFiles makes the kernel refuse opening files outside the given directories, and changing files
// outside the cache.
func DenyFiles(read []string, cache string) error {
	if abi, err := landlocksys.LandlockGetABIVersion(); err != nil || abi < 1 {
		return errors.New("the kernel has no Landlock")
	}
	rules := []landlock.Rule{
		landlock.RODirs(read...).IgnoreIfMissing(), landlock.RWFiles("/dev/null").IgnoreIfMissing(),
		landlock.RODirs("/usr/share/zoneinfo").IgnoreIfMissing(), landlock.ROFiles("/etc/localtime").IgnoreIfMissing(),
	}
	if cache != "" {
		real, err := filepath.EvalSymlinks(cache)
		if err != nil {
			return err
		}
		rules = append(rules, landlock.RWDirs(real))
	}
	if err := landlock.V9.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("Landlock: %w", err)
	}
	return nil
}
