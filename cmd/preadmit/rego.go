package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/cmd/preadmit/suites"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
)

// regos are the flags of policies in Rego, as conftest has them.
type regos struct {
	data       []string
	namespaces []string
	combine    bool
}

func (r *regos) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&r.data, "data", nil, "data for Rego policies, which they read under data: a YAML or JSON file, or a directory, at `PATH` (repeatable)")
	f.StringArrayVar(&r.namespaces, "rego-namespace", nil, "evaluate the Rego package `NAME` (repeatable; default: all that have a deny, violation or warn rule)")
	f.BoolVar(&r.combine, "combine", false, "evaluate Rego packages once over all objects, as conftest --combine does")
}

// rego reads the Rego modules at or below the paths of --policy, and what
// --data names. What can't be read is among the results.
func (l *loader) rego(o *checkOptions) error {
	in := l.in
	var broken error
	var err error
	if in.modules, broken, err = regoModules(in.tree, o.policies, l.stdin); err != nil {
		return err
	}
	in.found = append(in.found, policy.Errors(policy.EngineCompile, nil, broken)...)
	names, err := dataNames(in.tree, o.data, l.stdin)
	if err != nil {
		return err
	}
	in.data, broken = rego.LoadData(in.tree, names...)
	in.found = append(in.found, policy.Errors(policy.EngineCompile, nil, broken)...)
	return nil
}

// regoModules reads the .rego files at or below paths of the command line, each
// once; broken joins those that can't be read.
func regoModules(t *tree, paths []string, stdin io.Reader) (modules []rego.Module, broken, err error) {
	seen := make(map[string]bool)
	var unread []error
	for _, p := range paths {
		name, err := t.name(p, stdin)
		if err != nil {
			return nil, nil, err
		}
		for _, file := range regoFilesOf(t, p, name) {
			if seen[file] {
				continue
			}
			seen[file] = true
			text, err := render.ReadFile(t, file)
			if err != nil {
				unread = append(unread, err)
				continue
			}
			modules = append(modules, rego.Module{File: file, Text: string(text)})
		}
	}
	return modules, errors.Join(unread...), nil
}

// newRegoTests reads the unit tests at or below the paths of --policy.
func newRegoTests(t *tree, o *testOptions) (*suites.RegoTests, error) {
	modules, unread, err := regoModules(t, o.policies, nil)
	if err = cmp.Or(err, unread); err != nil {
		return nil, fmt.Errorf("--policy: %w", err)
	}
	if len(modules) == 0 {
		return nil, fmt.Errorf("--policy %s: no .rego file is there", strings.Join(o.policies, ", "))
	}
	names, err := dataNames(t, o.data, nil)
	if err != nil {
		return nil, err
	}
	r := &suites.RegoTests{Modules: modules, Now: (&suppressionFlags{}).midnight(), Display: t.Display}
	r.Data, r.Broken = rego.LoadData(t, names...)
	return r, nil
}

// dataNames are values of --data with names in the tree for their paths.
func dataNames(t *tree, values []string, stdin io.Reader) ([]string, error) {
	names := make([]string, len(values))
	for i, v := range values {
		under, file := cutData(v)
		name, err := t.name(file, stdin)
		if err != nil {
			return nil, fmt.Errorf("--data: %w", err)
		}
		if _, err := fs.Stat(t, name); err != nil && !t.Paired {
			return nil, fmt.Errorf("--data: %w", notFound(v, file))
		}
		if names[i] = under + name; under == "" && strings.Contains(name, ":") { // of a registry with a port
			names[i] = ":" + name
		}
	}
	return names, nil
}

// cutData splits a value of --data, PREFIX:PATH or PATH, into the prefix with
// its colon and the path. The letter of a Windows drive is no prefix.
func cutData(value string) (under, file string) {
	if render.IsAddress(value) || filepath.VolumeName(value) != "" {
		return "", value
	}
	if i := strings.IndexByte(value, ':'); i > 0 {
		return value[:i+1], value[i+1:]
	}
	return "", value
}

// dataFiles are the paths of values of --data.
func dataFiles(values []string) []string {
	files := make([]string, len(values))
	for i, v := range values {
		_, files[i] = cutData(v)
	}
	return files
}

// regoFilesOf returns the .rego files at a path of the command line. A
// file that it names so is one, also when the name is of a link to another.
func regoFilesOf(t *tree, p, name string) []string {
	if info, err := fs.Stat(t, name); err == nil && !info.IsDir() && strings.HasSuffix(p, ".rego") {
		return []string{name}
	}
	return regoFiles(t, name)
}

// regoFiles are the .rego files at or below a name, those that links lead to
// and those that can't be read too: reading them says why. What else can't be
// looked at is said by the walk that finds the other policies.
func regoFiles(t *tree, name string) []string {
	fsys, below, err := t.Locate("open", name)
	if err != nil {
		return nil
	}
	prefix := strings.TrimSuffix(name, below)
	if below == "." && name != "." {
		prefix = name + "/"
	}
	var files []string
	for _, file := range rego.Files(fsys, below) {
		files = append(files, path.Join(prefix, file))
	}
	return files
}

// rego adds the engine of packages in Rego. They see what is written, each
// object by itself or, with --combine, all together.
func (b *bench) rego(in, trusted *input, o benchOptions) {
	if len(trusted.modules) == 0 {
		return
	}
	engine, err := rego.New(trusted.modules, rego.Options{
		Namespaces: o.RegoNamespaces, Data: trusted.data, Now: o.now(), Print: o.prints.add, Coverage: o.coverage,
	})
	b.broken(err)
	b.notes = append(b.notes, engine.Notes()...)
	if !o.Combine {
		b.chain.Validators = append(b.chain.Validators, engine)
		return
	}
	b.together, b.all = engine, engine.Combine(render.Objects(in.head))
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

func (p *prints) write(w io.Writer, t *tree) {
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
		fmt.Fprintf(w, "print: %s:%d: %s\n", plain(t.Display(l.file)), l.line, plain(l.text))
	}
	if len(lines) == maxPrinted {
		fmt.Fprintln(w, "print: and more")
	}
}

// sameRego tells whether both sides have the same modules and data.
func sameRego(base, head *input) bool {
	return slices.Equal(base.modules, head.modules) &&
		slices.EqualFunc(base.data, head.data, func(x, y rego.Document) bool {
			return x.File == y.File && x.Text == y.Text && slices.Equal(x.Under, y.Under)
		})
}

// trustedRego are the modules and data of the base, those that the head has
// otherwise under the names that Git has for them.
func (b *base) trustedRego(head *input) (modules []rego.Module, data []rego.Document) {
	modules, data = slices.Clone(b.in.modules), slices.Clone(b.in.data)
	for i, m := range modules {
		if !slices.Contains(head.modules, m) {
			modules[i].File = b.name(m.File)
		}
	}
	for i, d := range data {
		same := func(x rego.Document) bool { return x.File == d.File && x.Text == d.Text }
		if !slices.ContainsFunc(head.data, same) {
			data[i].File = b.name(d.File)
		}
	}
	return modules, data
}
