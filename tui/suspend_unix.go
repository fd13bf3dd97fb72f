//go:build unix

package tui

import "golang.org/x/sys/unix"

// suspends reports whether a shell can continue the program after it is suspended. The leader of a session has none.
func suspends() bool {
	session, err := unix.Getsid(0)
	return err == nil && session != unix.Getpgrp()
}
