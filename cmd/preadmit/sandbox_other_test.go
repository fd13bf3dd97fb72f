//go:build !linux

package main

import "errors"

func startProcess() error { return errors.ErrUnsupported }

func runWithout() {}
