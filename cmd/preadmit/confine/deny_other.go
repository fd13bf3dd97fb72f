//go:build !linux

package confine

import "errors"

var errNoSandbox = errors.New("this system has neither seccomp nor Landlock")

// DenyCalls is an error here.
func DenyCalls() error { return errNoSandbox }

// DenyFiles is an error here.
func DenyFiles([]string, string) error { return errNoSandbox }
