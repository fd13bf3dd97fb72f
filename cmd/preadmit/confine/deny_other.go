//go:build !linux

package confine

import "errors"

var errNoSandbox = errors.New("this system has neither seccomp nor Landlock")

// DenyCalls returns an error: only Linux can.
func DenyCalls() error { return errNoSandbox }

// DenyFiles returns an error: only Linux can.
func DenyFiles([]string, string) error { return errNoSandbox }
