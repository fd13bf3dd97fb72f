package triage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/preadmit/preadmit/cmd/preadmit/fixes"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/lsp"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/tui"
)

// fixes returns the proved fixes of a finding for an editor: of its line and, if there are more of its
// rule, of its file. They are kept until the next evaluation. It returns none if a file has changed
// since the last one.
func (h *Host) fixes(ctx context.Context, q *question) (all []lsp.Fix, err error) {
	texts := maps.Clone(q.Texts)
	delete(texts, h.configuration())
	err = h.fixing(ctx, func(ctx context.Context, run *shownRun) error {
		if !maps.Equal(texts, run.texts) {
			return errOutdated
		}
		place := fixes.PlaceOf(q.Result)
		if known, ok := run.fixes[place]; ok {
			all = known
			return nil
		}
		if all, err = h.prove(ctx, run, place); ctx.Err() == nil {
			run.fixes[place] = all // none after an error, which would be the same the next time
		}
		return err
	})
	if errors.Is(err, errOutdated) {
		return nil, nil
	}
	return all, err
}

var errOutdated = errors.New("files have changed since they were evaluated")

// fixing calls do with the last run, unless a file has changed since it began or changes meanwhile.
// Fixes are proved one after another.
func (h *Host) fixing(ctx context.Context, do func(context.Context, *shownRun) error) error {
	h.oneFix.Lock()
	defer h.oneFix.Unlock()
	if err := h.evaluated(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	run := h.run
	h.mu.Unlock()
	switch {
	case h.saved != "":
		return errors.New("this is a saved report: run preadmit triage on the repository to fix something")
	case run == nil || run.evaluation == nil:
		return errors.New("nothing is evaluated yet")
	case h.outdated():
		return errOutdated
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.options.Timeout, fmt.Errorf("no fix is proved after --timeout %s", h.options.Timeout))
	defer cancel()
	err := do(ctx, run)
	if err == nil && h.outdated() {
		return errOutdated
	}
	return err
}

// outdated reports whether a file has changed since the last evaluation.
func (h *Host) outdated() bool {
	now, err := h.look()
	h.watched.Lock()
	defer h.watched.Unlock()
	return err != nil || now != h.stamp
}

// finder returns the finder of a run.
func (h *Host) finder(ctx context.Context, run *shownRun) (f *fixes.Finder, err error) {
	if run.finder == nil {
		o := *h.options
		o.Notes, o.Texts, o.Memory = io.Discard, run.texts, run.memory
		run.fixes = make(map[fixes.Place][]lsp.Fix)
		run.finder, err = fixes.Evaluate(ctx, &o, h.args, run.in.Graph)
	}
	return run.finder, err
}

// placeOf returns the place of a result of the finder, as the run's report names it.
func (s *shownRun) placeOf(x *policy.Result) fixes.Place {
	p := fixes.PlaceOf(x)
	p.File = s.tree.Display(p.File)
	return p
}

// here returns the fix of the findings at a place; nil if there is no finding that counts.
func (h *Host) here(ctx context.Context, run *shownRun, place fixes.Place) (*fixes.Change, error) {
	f, err := h.finder(ctx, run)
	if err != nil {
		return nil, err
	}
	all, err := f.Each(ctx, fixes.Options{Unsafe: true, Only: func(x *policy.Result) bool { return run.placeOf(x) == place }})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// prove finds and proves the fixes of a finding.
func (h *Host) prove(ctx context.Context, run *shownRun, place fixes.Place) ([]lsp.Fix, error) {
	one, err := h.here(ctx, run, place)
	if err != nil || one == nil || len(one.Texts) == 0 {
		return nil, err
	}
	all := []lsp.Fix{{Title: one.Title(), Best: one.Safe(), Changes: changesOf(one)}}
	inFile := func(at fixes.Place) bool {
		at.Line = place.Line
		return at == place
	}
	if !slices.ContainsFunc(run.evaluation.Results, func(x policy.Result) bool {
		at := fixes.PlaceOf(&x)
		return x.Outcome == policy.Fail && inFile(at) && at != place
	}) {
		return all, nil
	}
	c, err := run.finder.Fix(ctx, fixes.Options{Unsafe: !one.Safe(), Only: func(x *policy.Result) bool { return inFile(run.placeOf(x)) }})
	if err != nil {
		return nil, err
	}
	stays := make(map[int]bool) // the lines with findings, and whether one of them is not fixed
	for _, x := range c.Findings {
		line := report.Place(&x.Result).Line
		stays[line] = stays[line] || x.Reason != ""
	}
	fixed := 0
	for _, s := range stays {
		if !s {
			fixed++
		}
	}
	if fixed > 1 {
		count := fmt.Sprintf("%d of %d", fixed, len(stays))
		if fixed == len(stays) {
			count = fmt.Sprintf("all %d", fixed)
		}
		all = append(all, lsp.Fix{Title: fmt.Sprintf("Fix %s findings of %s in this file", count, report.RuleName(&c.Findings[0].Result)), Changes: changesOf(c)})
	}
	return all, nil
}

// changesOf returns the changes of files. It returns none if an editor can't make them exactly.
func changesOf(c *fixes.Change) (all []lsp.Change) {
	for _, file := range slices.Sorted(maps.Keys(c.Texts)) {
		before := c.Before(file)
		if !utf8.Valid(before) {
			return nil
		}
		all = append(all, lsp.Change{File: c.Tree.Display(file), Before: string(before), After: c.Texts[file]})
	}
	return all
}

// Fix returns the proved change of the findings of a result's rule at its line.
func (h *Host) Fix(ctx context.Context, x *policy.Result) (change *tui.Change, err error) {
	err = h.fixing(ctx, func(ctx context.Context, run *shownRun) error {
		c, err := h.here(ctx, run, fixes.PlaceOf(x))
		switch {
		case err != nil:
			return err
		case c == nil:
			return errors.New("no fix: only violations of rules that count are fixed")
		case len(c.Texts) == 0:
			return fmt.Errorf("no fix: %s", c.Why())
		}
		var all []*tui.Change
		for _, file := range slices.Sorted(maps.Keys(c.Texts)) {
			all = append(all, &tui.Change{File: run.tree.Display(file), Before: c.Before(file), After: []byte(c.Texts[file]), Fix: c.Title()})
		}
		change = all[0]
		change.More = all[1:]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return withDiff(change), nil
}

// writeFix writes the files of a fix in the repository of the paths of the command line. If one of them
// has changed since it was read, or can't be written, it writes none.
func writeFix(args []string, c *tui.Change) error {
	dir, err := load.Root(args)
	if err != nil {
		return err
	}
	files := append([]*tui.Change{c}, c.More...)
	paths := make([]string, len(files))
	for i, x := range files {
		path, err := editable(dir, x.File)
		if err != nil {
			return supervise.NotWritten(x.File, err)
		}
		if now, err := load.ReadRegular(path); err != nil || !bytes.Equal(now, x.Before) {
			return fmt.Errorf("nothing is written, since %s has changed since it was read", x.File)
		}
		paths[i] = path
	}
	for i, x := range files {
		if err := writeChange(paths[i], x); err != nil {
			for k, done := range files[:i] {
				undo := &tui.Change{File: done.File, Before: done.After, After: done.Before}
				err = errors.Join(err, writeChange(paths[k], undo))
			}
			return err
		}
	}
	return nil
}

// editable returns the path of a file of the repository that may be edited: a regular file that no link
// leads to, and that is neither git's nor preadmit's.
func editable(dir, name string) (string, error) {
	path := filepath.Join(dir, filepath.FromSlash(name))
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	if within, ok := disk.Within(root, real); !ok || within != name || fixes.Reserved(name) {
		return "", errors.New("it is not a file of the repository that may be edited")
	}
	return path, nil
}
