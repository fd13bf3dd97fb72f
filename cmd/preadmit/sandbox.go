package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// sandboxModes are the values of --sandbox.
var sandboxModes = []string{"auto", "require", "off"}

// confine has the kernel deny a child what evaluation has no use for. Flags are
// not parsed yet, and nothing of the repository is read.
func (w *watch) confine(args []string) {
	off := slices.Contains(args, "--sandbox=off")
	for i := range args {
		off = off || args[i] == "--sandbox" && i+1 < len(args) && args[i+1] == "off"
	}
	if !off {
		w.unconfined = denyCalls()
	}
}

// confineFiles has the kernel deny writing, but to the cache, and says with -v
// what of the sandbox is missing. --sandbox=require makes that an error.
func (w *watch) confineFiles(mode, cache string, notes io.Writer) error {
	if !slices.Contains(sandboxModes, mode) {
		return fmt.Errorf("--sandbox %q is none of %s", mode, strings.Join(sandboxModes, ", "))
	}
	if mode == "off" {
		return nil
	}
	missing := errors.New("this command has no process of its own")
	if w != nil {
		missing = errors.Join(w.unconfined, denyWriting(cache))
	}
	switch {
	case missing == nil:
		return nil
	case mode == "require":
		return &exitError{exitIncomplete, fmt.Errorf("--sandbox require: %s", plain(missing.Error()))}
	case notes != nil && w != nil:
		fmt.Fprintf(notes, "sandbox: %s\n", plain(missing.Error()))
	}
	return nil
}
