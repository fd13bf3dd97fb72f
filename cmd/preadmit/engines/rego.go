package engines

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

// rego adds the engine for Rego packages. It evaluates objects as written, without defaults: each
// on its own or, with --combine, all together.
func (b *Set) rego(in, trusted *load.Input, o Options) {
	if len(trusted.Modules) == 0 {
		if len(o.RegoNamespaces) > 0 {
			b.broken(&render.Error{Rule: "namespace", Err: fmt.Errorf("--rego-namespace %s checks nothing: --policy gives no Rego files", strings.Join(o.RegoNamespaces, ", "))})
		}
		return
	}
	engine, err := rego.New(trusted.Modules, rego.Options{
		Namespaces: o.RegoNamespaces, Data: trusted.Data, Now: o.now(), Print: o.Prints.add, Coverage: o.Coverage,
	})
	b.broken(err)
	b.Notes = append(b.Notes, engine.Notes()...)
	if !o.Combine {
		b.Chain.Validators = append(b.Chain.Validators, engine)
		return
	}
	b.together, b.all = engine, engine.Combine(render.Objects(in.Head))
	b.Chain.Validators = append(b.Chain.Validators, b.all)
}

// Among returns the engines for other objects than those they were compiled with. This matters for
// --combine only, which evaluates all objects together.
func (b *Set) Among(others []*render.Object) *Set {
	if b.together == nil {
		return b
	}
	moved := *b
	moved.all = b.together.Combine(others)
	moved.Chain.Validators = slices.Clone(b.Chain.Validators)
	for i, v := range moved.Chain.Validators {
		if v == policy.Validator(b.all) {
			moved.Chain.Validators[i] = moved.all
		}
	}
	return &moved
}

// Rest returns the results about all objects together.
func (b *Set) Rest(ctx context.Context) ([]policy.Result, error) {
	if b.all == nil {
		return nil, nil
	}
	return b.all.Rest(ctx)
}

// Prints collects the output of print in policies for -v: each line once, sorted. A nil *Prints
// discards it.
type Prints struct {
	mu    sync.Mutex
	lines map[printedLine]bool
}

type printedLine struct {
	file string
	line int
	text string
}

// maxPrinted limits the lines that a Prints keeps.
const maxPrinted = 10000

func (p *Prints) add(file string, line int, text string) {
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

func (p *Prints) Write(w io.Writer, t *load.Tree) {
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
