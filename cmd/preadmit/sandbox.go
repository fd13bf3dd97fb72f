package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/confine"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/git"
)

// sandboxModes are the values of --sandbox.
var sandboxModes = []string{"auto", "require", "off"}

// confineCalls has the kernel deny a child what evaluation has no use for. Flags are
// not parsed yet, and nothing of the repository is read.
func confineCalls(w *tasks.Watch, args []string) {
	off := slices.Contains(args, "--sandbox=off")
	for i := range args {
		off = off || args[i] == "--sandbox" && i+1 < len(args) && args[i+1] == "off"
	}
	if !off {
		w.Unconfined = confine.DenyCalls()
	}
}

// confineFiles has the kernel deny reading, but below the directories given, and
// writing, but to the cache. It says with -v what of the sandbox is missing.
// --sandbox=require makes that an error.
func confineFiles(w *tasks.Watch, mode string, read []string, cache string, notes io.Writer) error {
	if err := flagOneOf("sandbox", mode, sandboxModes...); err != nil {
		return err
	}
	if mode == "off" {
		return nil
	}
	missing := errors.New("this command has no process of its own")
	if w != nil {
		missing = errors.Join(w.Unconfined, confine.DenyFiles(read, cache))
		confine.FileSize(cache != "")
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

// readable are the directories that a run reads: the tree with what is named
// beside it, and those of Git. What can't be found is left to whoever looks for
// it again and says so.
func readable(t *tree, stdin io.Reader, named []string) []string {
	for _, p := range named {
		if p != "" && p != "-" && !render.IsAddress(p) {
			_, _ = t.name(p, stdin)
		}
	}
	dirs := append([]string{t.Dir}, git.Dirs(t.Dir)...)
	for _, m := range t.Mounts() {
		if m.Dir != "" {
			dirs = append(dirs, m.Dir)
		}
	}
	return dirs
}

// named are the paths that the command line and the configuration name.
func (o *checkOptions) named(t *tree, args []string) []string {
	paths := slices.Concat(args, o.policies, o.with, o.values, dataFiles(o.data), []string{o.asFile, o.config, o.suppressions, o.authorizer})
	for _, kv := range o.setFile {
		_, file, _ := strings.Cut(kv, "=")
		paths = append(paths, file)
	}
	for _, s := range o.configuration.Sources {
		paths = append(paths, filepath.Join(t.Dir, filepath.FromSlash(s.Path)))
	}
	return paths
}
