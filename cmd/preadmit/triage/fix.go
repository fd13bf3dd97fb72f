package triage

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/preadmit/preadmit/cmd/preadmit/fixes"
	"github.com/preadmit/preadmit/cmd/preadmit/lsp"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
)

// fixes returns the proved fixes of a finding for an editor: of its line and, if there are more of its
// rule, of its file. They are kept until the next evaluation. It returns none if a file has changed
// since the last one.
func (h *Host) fixes(ctx context.Context, q *question) ([]lsp.Fix, error) {
	h.fixing.Lock()
	defer h.fixing.Unlock()
	if err := h.evaluated(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	run := h.run
	h.mu.Unlock()
	texts := maps.Clone(q.Texts)
	delete(texts, h.configuration())
	if run == nil || run.evaluation == nil || !maps.Equal(texts, run.texts) || h.outdated() {
		return nil, nil
	}
	place := fixes.PlaceOf(q.Result)
	if known, ok := run.fixes[place]; ok {
		return known, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.options.Timeout, fmt.Errorf("no fix is proved after --timeout %s", h.options.Timeout))
	defer cancel()
	all, err := h.prove(ctx, run, place)
	if err != nil || h.outdated() {
		return nil, err
	}
	if run.fixes == nil {
		run.fixes = make(map[fixes.Place][]lsp.Fix)
	}
	run.fixes[place] = all
	return all, nil
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
		o.Notes, o.Texts = io.Discard, run.texts
		run.finder, err = fixes.Run(ctx, &o, h.args)
	}
	return run.finder, err
}

// prove finds and proves the fixes of a finding.
func (h *Host) prove(ctx context.Context, run *shownRun, place fixes.Place) ([]lsp.Fix, error) {
	f, err := h.finder(ctx, run)
	if err != nil {
		return nil, err
	}
	name := func(x *policy.Result) fixes.Place {
		p := fixes.PlaceOf(x)
		p.File = run.tree.Display(p.File)
		return p
	}
	here, err := f.Each(ctx, fixes.Options{Unsafe: true, Only: func(x *policy.Result) bool { return name(x) == place }})
	if err != nil || len(here) == 0 || len(here[0].Texts) == 0 {
		return nil, err
	}
	one := here[0]
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
	c, err := f.Fix(ctx, fixes.Options{Unsafe: !one.Safe(), Only: func(x *policy.Result) bool { return inFile(name(x)) }})
	if err != nil {
		return nil, err
	}
	lines, fixed := make(map[int]bool), 0 // of the lines with findings, those without one that stays
	for _, x := range c.Findings {
		line := report.Place(&x.Result).Line
		gone, again := lines[line]
		lines[line] = (gone || !again) && x.Reason == ""
	}
	for _, gone := range lines {
		if gone {
			fixed++
		}
	}
	if fixed > 1 {
		count := fmt.Sprintf("%d of %d", fixed, len(lines))
		if fixed == len(lines) {
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
