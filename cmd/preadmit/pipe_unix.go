//go:build !windows

package main

import "syscall"

var errPipe error = syscall.EPIPE
