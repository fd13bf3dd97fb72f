package main

import (
	"errors"
	"io"

	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
)

// The exit codes, one table for all commands.
const (
	exitOK          = 0   // nothing denied
	exitDenied      = 1   // denied: a failure at or above --fail-on
	exitUsage       = 2   // bad command line or configuration
	exitIncomplete  = 3   // something could not be rendered, compiled or decided
	exitInterrupted = 130 // SIGINT
)

// stdio holds the streams of a command.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var ended *supervise.Ended
	var incomplete *supervise.Incomplete
	switch {
	case errors.As(err, &ended):
		return ended.Code
	case errors.As(err, &incomplete):
		return exitIncomplete
	}
	return exitUsage
}
