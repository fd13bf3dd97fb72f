//go:build !windows

package main

import (
	"os/signal"
	"syscall"
)

var errPipe error = syscall.EPIPE

// survivePipe makes a reader that goes away an error of the write, not the
// end of the program: the verdict is still to be given.
func survivePipe() { signal.Ignore(syscall.SIGPIPE) }
