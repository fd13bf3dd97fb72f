package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// rego adds the engine of packages in Rego. They see what is written, each
// object by itself or, with --combine, all together.
func (b *bench) rego(in, trusted *load.Input, o benchOptions) {
	if len(trusted.Modules) == 0 {
		return
	}
	engine, err := rego.New(trusted.Modules, rego.Options{
		Namespaces: o.RegoNamespaces, Data: trusted.Data, Now: o.now(), Print: o.prints.add, Coverage: o.coverage,
	})
	b.broken(err)
	b.notes = append(b.notes, engine.Notes()...)
	if !o.Combine {
		b.chain.Validators = append(b.chain.Validators, engine)
		return
	}
	b.together, b.all = engine, engine.Combine(render.Objects(in.Head))
	b.chain.Validators = append(b.chain.Validators, b.all)
}

// among is the bench for other objects than those that it was made for: with
// --combine these are evaluated together.
func (b *bench) among(others []*render.Object) *bench {
	if b.together == nil {
		return b
	}
	moved := *b
	moved.all = b.together.Combine(others)
	moved.chain.Validators = slices.Clone(b.chain.Validators)
	for i, v := range moved.chain.Validators {
		if v == policy.Validator(b.all) {
			moved.chain.Validators[i] = moved.all
		}
	}
	return &moved
}

// rest returns the results about all objects together.
func (b *bench) rest(ctx context.Context) ([]policy.Result, error) {
	if b.all == nil {
		return nil, nil
	}
	return b.all.Rest(ctx)
}

// prints are what policies print, for -v: each line once, in order. Of nil
// nobody reads any.
type prints struct {
	mu    sync.Mutex
	lines map[printedLine]bool
}

type printedLine struct {
	file string
	line int
	text string
}

// maxPrinted bounds what is kept of the printing of policies.
const maxPrinted = 10000

func (p *prints) add(file string, line int, text string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines == nil {
		p.lines = make(map[printedLine]bool)
	}
	if len(p.lines) < maxPrinted {
		p.lines[printedLine{file, line, text}] = true
	}
}

func (p *prints) write(w io.Writer, t *load.Tree) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := make([]printedLine, 0, len(p.lines))
	for l := range p.lines {
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b printedLine) int {
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line), strings.Compare(a.text, b.text))
	})
	for _, l := range lines {
		fmt.Fprintf(w, "print: %s:%d: %s\n", report.Plain(t.Display(l.file)), l.line, report.Plain(l.text))
	}
	if len(lines) == maxPrinted {
		fmt.Fprintln(w, "print: and more")
	}
}
