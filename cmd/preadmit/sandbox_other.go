//go:build !linux

package main

import "errors"

var errNoSandbox = errors.New("this system has neither seccomp nor Landlock")

func denyCalls() error { return errNoSandbox }

func denyFiles([]string, string) error { return errNoSandbox }
