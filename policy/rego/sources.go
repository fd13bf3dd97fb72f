package rego

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/policy"
	opa "github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// A source is a module given to New.
type source struct {
	file   string
	text   string
	module *ast.Module // nil: it does not parse
	pkg    string      // the package, or "" where that can't be read
	test   bool        // a file of unit tests, which is no policy
	uses   []use
	broken bool // it does not parse or compile
	aside  bool // it is for Gatekeeper
}

// out reports whether the source is not part of the program.
func (s *source) out() bool { return s.broken || s.aside }

// A use is a reference of a module below data.
type use struct {
	path []string
	at   *ast.Location
}

// sources holds all modules with their errors.
type sources struct {
	all   []*source
	of    map[string][]*source // by package
	errs  []error
	notes []string

	strict bool // a broken unit test is an error, and not a warning
}

// readSources parses modules with rules about objects.
func readSources(modules []Module) *sources {
	s := parseSources(modules, false)
	s.setAside()
	return s
}

// parseSources parses modules. It marks those that don't parse as broken.
func parseSources(modules []Module, strict bool) *sources {
	s := &sources{of: map[string][]*source{}, strict: strict}
	seen := map[string]bool{}
	for _, m := range modules {
		if seen[m.File] {
			continue
		}
		seen[m.File] = true
		src := s.read(m)
		s.all = append(s.all, src)
		s.of[src.pkg] = append(s.of[src.pkg], src)
	}
	return s
}

func (s *sources) read(m Module) *source {
	src := &source{file: m.File, text: m.Text, test: strings.HasSuffix(m.File, "_test.rego")}
	module, err := opa.Parse(opa.Source{Name: m.File, Text: m.Text})
	if err != nil {
		src.broken, src.pkg = true, packageIn(m.Text)
		s.fail(src, "syntax", err)
		return src
	}
	src.module, src.pkg = module, nameOf(module.Package.Path)
	src.uses = usesOf(module)
	src.test = src.test || onlyTests(module)
	return src
}

var packageLine = regexp.MustCompile(`(?m)^\s*package\s+([A-Za-z0-9_.]+)`)

// packageIn finds the package of a text that does not parse.
func packageIn(text string) string {
	if m := packageLine.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// nameOf returns a package's name as conftest writes it.
func nameOf(path ast.Ref) string { return strings.TrimPrefix(path.String(), "data.") }

// conftestOnly matches errors about functions that conftest adds to OPA's.
var conftestOnly = regexp.MustCompile(`^undefined function parse_(combined_)?config(_files?)?$`)

// fail records why a source is not part of the program. For unit tests it is a
// warning, unless s is strict.
func (s *sources) fail(src *source, rule string, err error) {
	for _, e := range leaves(err) {
		hint := ""
		if conftestOnly.MatchString(e.Text) {
			hint = "only conftest has this function, for its own unit tests"
		}
		s.errs = append(s.errs, &render.Error{
			Span: spanOf(e, src.file), Rule: rule, Warning: src.test && !s.strict, Hint: hint,
			Err: &policy.NamedError{Policy: src.pkg, Err: errors.New(e.Text)},
		})
	}
}

// failAt records an error at a place of a source.
func (s *sources) failAt(src *source, at *ast.Location, rule, hint, format string, args ...any) {
	e := &render.Error{
		Span: render.Span{File: src.file}, Rule: rule, Hint: hint,
		Err: &policy.NamedError{Policy: src.pkg, Err: fmt.Errorf(format, args...)},
	}
	if at != nil {
		e.Span = locationSpan(at)
	}
	s.errs = append(s.errs, e)
}

// leaves returns the errors joined in an error.
func leaves(err error) []*opa.Error {
	switch err := err.(type) {
	case *opa.Error:
		return []*opa.Error{err}
	case interface{ Unwrap() []error }:
		var all []*opa.Error
		for _, e := range err.Unwrap() {
			all = append(all, leaves(e)...)
		}
		return all
	}
	return []*opa.Error{{Text: err.Error()}}
}

func spanOf(e *opa.Error, file string) render.Span {
	if e.Name != "" {
		file = e.Name
	}
	return render.Span{File: file, Line: e.Line, Column: e.Column}
}

func locationSpan(at *ast.Location) render.Span {
	return render.Span{File: at.File, Line: at.Row, Column: at.Col}
}

// usesOf returns the documents below data to which a module refers, directly or
// through imports.
func usesOf(m *ast.Module) []use {
	var uses []use
	add := func(ref ast.Ref, at *ast.Location) {
		if path := ground(ref); len(path) > 0 {
			uses = append(uses, use{path, at})
		}
	}
	imported := map[ast.Var]ast.Ref{}
	for _, i := range m.Imports {
		if ref, ok := i.Path.Value.(ast.Ref); ok {
			imported[i.Name()] = ref
			add(ref, i.Location)
		}
	}
	ast.WalkTerms(m, func(t *ast.Term) bool {
		ref, ok := t.Value.(ast.Ref)
		if !ok || len(ref) == 0 {
			return false
		}
		if head, ok := ref[0].Value.(ast.Var); ok && imported[head] != nil {
			ref = append(slices.Clone(imported[head]), ref[1:]...)
		}
		add(ref, t.Location)
		return false
	})
	return uses
}

// ground returns the constant beginning of a path below data.
func ground(ref ast.Ref) []string {
	if len(ref) == 0 || !ref[0].Equal(ast.DefaultRootDocument) {
		return nil
	}
	var path []string
	for _, t := range ref[1:] {
		s, ok := t.Value.(ast.String)
		if !ok {
			break
		}
		path = append(path, string(s))
	}
	return path
}

// setAside removes modules for Gatekeeper templates, whose rules read
// input.review. No object has that field, so conftest would pass everything.
func (s *sources) setAside() {
	var aside []string
	packages := map[string]bool{}
	for _, src := range s.all {
		if !src.broken && !src.test && forGatekeeper(src.module) {
			src.aside, packages[src.pkg] = true, true
			aside = append(aside, src.file)
		}
	}
	for _, src := range s.all {
		src.aside = src.aside || src.test && packages[src.pkg]
	}
	if len(aside) > 0 {
		slices.Sort(aside)
		s.notes = append(s.notes, fmt.Sprintf(
			"%s: its rules read input.review, which only Gatekeeper gives, so that they check nothing outside a ConstraintTemplate%s",
			aside[0], others(len(aside)-1)))
	}
}

func others(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " (and 1 other file)"
	}
	return fmt.Sprintf(" (and %d other files)", n)
}

// forGatekeeper reports whether a module reads only input that Gatekeeper
// provides.
func forGatekeeper(m *ast.Module) bool {
	reviews, other := false, false
	look := func(t *ast.Term) bool {
		switch v := t.Value.(type) {
		case ast.Var:
			other = other || v == ast.InputRootDocument.Value.(ast.Var)
		case ast.Ref:
			if len(v) == 0 || !v[0].Equal(ast.InputRootDocument) {
				return false
			}
			switch {
			case len(v) > 1 && v[1].Equal(ast.StringTerm("review")):
				reviews = true
			case len(v) > 1 && v[1].Equal(ast.StringTerm("parameters")):
			default:
				other = true
			}
			return true
		}
		return false
	}
	ast.WalkTerms(m, look)
	return reviews && !other
}

// Files returns the .rego files at or below a name, sorted. It follows links, and
// returns a file once if several links lead to it. It also returns files that
// can't be read, so that reading them gives the error.
func Files(fsys fs.FS, name string) []string {
	w := fileWalk{fsys: fsys, dirs: make(map[string]bool), files: make(map[string]bool)}
	w.entry(name)
	return slices.Sorted(maps.Keys(w.files))
}

type fileWalk struct {
	fsys        fs.FS
	dirs, files map[string]bool
}

func (f *fileWalk) entry(name string) {
	real, broken := render.Resolve(f.fsys, name)
	if broken != nil {
		real = name
	}
	info, err := fs.Stat(f.fsys, real)
	switch {
	case err == nil && info.IsDir():
		f.dir(real)
	case strings.HasSuffix(name, ".rego"):
		f.files[real] = true
	}
}

func (f *fileWalk) dir(name string) {
	if f.dirs[name] || path.Base(name) == ".git" {
		return
	}
	f.dirs[name] = true
	entries, _ := fs.ReadDir(f.fsys, name)
	for _, e := range entries {
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 || strings.HasSuffix(e.Name(), ".rego") {
			f.entry(path.Join(name, e.Name()))
		}
	}
}
