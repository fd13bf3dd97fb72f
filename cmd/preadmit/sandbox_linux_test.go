package main

import (
	"os"
	"syscall"
)

// startProcess tries to start a process without the help of any library.
func startProcess() error {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	switch {
	case errno != 0:
		return errno
	case pid == 0:
		os.Exit(0)
	}
	return nil
}
