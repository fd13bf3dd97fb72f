package policytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/preadmit/preadmit/render"
)

// A Format is one kind of suite.
type Format struct {
	Name string // as in Suite.Kind
	Doc  string

	// detect reports whether a file of that base name and content is such a
	// suite, also a broken one.
	detect func(base string, data []byte) bool
	run    func(*suite)
}

// Formats lists the kinds of suites, in the order in which a file is tried.
var Formats = []Format{
	{Name: "kyverno", Doc: "kyverno-test.yaml", detect: isKyverno, run: kyverno},
	{Name: "gator", Doc: "suites of Gatekeeper's gator verify", detect: isGator, run: gator},
	{Name: "kaptest", Doc: "kaptest manifests with any file name", detect: isKaptest, run: kaptest},
}

// Options configure [Run].
type Options struct {
	FS      fs.FS // all that may be read
	Engines Engines

	// Name converts a name in FS for reports. If it is nil, names are
	// unchanged.
	Name func(string) string

	// Watch, if not nil, is called with the name of each suite before it runs,
	// and done after it. If Watch fails, the suite is left out.
	Watch func(name string) (done func(), err error)

	files  *readFiles              // files read before, or nil
	about  policyPlace             // run only tests that a change of this policy may affect; zero runs all
	enough func(cases []Case) bool // reports whether a suite may end after these cases; nil never ends it
}

// Limits of the walk that looks for tests.
const (
	maxFiles = 200_000
	maxDepth = 64
)

// Run runs the suites at the paths, which are files and directories of o.FS, in
// byte order of their names. If a file that is given by name is no suite, its
// Suite has an error. The error of Run is for cancellation.
func Run(ctx context.Context, o Options, paths ...string) (*Report, error) {
	if o.Name == nil {
		o.Name = func(name string) string { return name }
	}
	all := discover(o.FS, paths)
	r := &Report{Schema: Schema, Suites: make([]Suite, len(all))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range all {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			r.Suites[i] = f.run(ctx, &o)
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	r.Summary = count(r.Suites)
	return r, nil
}

// A found file is a suite, or a file that is named like one.
type found struct {
	name   string
	data   []byte
	format *Format // nil when it is no suite
	err    error
}

// discover finds the suites at paths, each once.
func discover(fsys fs.FS, paths []string) []found {
	files := make(map[string]bool) // true if given by name
	var all []found
	for _, p := range paths {
		p = path.Clean(p)
		if info, err := fs.Stat(fsys, p); err != nil || !info.IsDir() {
			files[p] = true
			continue
		}
		for name, err := range walk(fsys, p) {
			if err != nil {
				all = append(all, found{name: name, err: err})
			} else if !files[name] {
				files[name] = false
			}
		}
	}
	for name, given := range files {
		if f := look(fsys, name); given || f.format != nil {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b found) int { return strings.Compare(a.name, b.name) })
	return all
}

// walk yields the YAML and JSON files below dir, and errors with their places.
// Links to directories are not followed.
func walk(fsys fs.FS, dir string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		n := 0
		_ = fs.WalkDir(fsys, dir, func(name string, d fs.DirEntry, err error) error {
			n++
			switch {
			case err != nil:
				return yieldError(yield, name, "can't be read", fs.SkipDir)
			case n > maxFiles:
				return yieldError(yield, dir, fmt.Sprintf("more than %d files", maxFiles), fs.SkipAll)
			case d.IsDir() && d.Name() == ".git":
				return fs.SkipDir
			case d.IsDir() && strings.Count(name, "/") > maxDepth:
				return yieldError(yield, name, fmt.Sprintf("directory is more than %d levels deep", maxDepth), fs.SkipDir)
			case !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) && !yield(name, nil):
				return fs.SkipAll
			}
			return nil
		})
	}
}

// yieldError yields an error about a name and returns then, unless the iteration
// stops.
func yieldError(yield func(string, error) bool, name, text string, then error) error {
	if !yield(name, &render.Error{Span: render.Span{File: name}, Err: errors.New(text)}) {
		return fs.SkipAll
	}
	return then
}

// look reads a file and returns its kind of suite. A file that can't be read is
// a suite if its name says so.
func look(fsys fs.FS, name string) found {
	f := found{name: name}
	f.data, f.err = render.ReadFile(fsys, name)
	for i := range Formats {
		if Formats[i].detect(path.Base(name), f.data) {
			f.format = &Formats[i]
			break
		}
	}
	if f.err == nil && f.format == nil {
		f.err = &render.Error{Span: render.Span{File: name}, Err: fmt.Errorf("is not a test suite: want %s", formatDocs())}
	}
	return f
}

func formatDocs() string {
	docs := make([]string, len(Formats))
	for i, f := range Formats {
		docs[i] = f.Doc
	}
	return strings.Join(docs, ", ")
}

// A suite is a file of tests while it runs.
type suite struct {
	Suite
	ctx  context.Context
	opts *Options
	name string // of the file, in the tree
	data []byte
	errs []error
}

func (f found) run(ctx context.Context, o *Options) Suite {
	s := &suite{Suite: Suite{File: o.Name(f.name), Cases: []Case{}, Notes: []string{}}, ctx: ctx, opts: o, name: f.name, data: f.data}
	if f.format != nil {
		s.Kind = f.format.Name
	}
	if f.err != nil {
		s.fail(f.err)
	} else {
		s.watched(f.format.run)
	}
	s.Error = strings.Join(s.lines(s.errs...), "\n")
	return s.Suite
}

// watched runs the suite, unless Options.Watch fails.
func (s *suite) watched(run func(*suite)) {
	if s.opts.Watch == nil {
		run(s)
		return
	}
	done, err := s.opts.Watch(s.name)
	if err != nil {
		s.fail(&render.Error{Span: render.Span{File: s.name}, Err: fmt.Errorf("running it %w: it is left out", err)})
		return
	}
	defer done()
	run(s)
}

// done reports whether no further tests of the suite are wanted.
func (s *suite) done() bool {
	return s.ctx.Err() != nil || s.opts.enough != nil && s.opts.enough(s.Cases)
}

// fail records an error of the suite.
func (s *suite) fail(err error) { s.errs = append(s.errs, err) }

// note records, once, something that was not evaluated.
func (s *suite) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(s.Notes, n) {
		s.Notes = append(s.Notes, n)
	}
}

// Limits of the messages about one suite.
const (
	maxText   = 4 << 10
	maxErrors = 100
)

// lines formats errors with their places for reports, without duplicates.
func (s *suite) lines(errs ...error) []string {
	var all []string
	for _, e := range render.Errors(errors.Join(errs...)) {
		shown := *e
		shown.Span.File = s.opts.Name(shown.Span.File)
		line := render.Cut(strings.ReplaceAll(shown.Error(), "\n", " "), maxText)
		if !slices.Contains(all, line) {
			all = append(all, line)
		}
		if len(all) == maxErrors {
			return append(all, "and more")
		}
	}
	return all
}

// errorsOf returns a list of errors for functions that take errors of any type.
func errorsOf(list []*render.Error) []error {
	errs := make([]error, len(list))
	for i, e := range list {
		errs[i] = e
	}
	return errs
}

// text returns the lines joined.
func (s *suite) text(errs ...error) string { return strings.Join(s.lines(errs...), "; ") }

var (
	kyvernoKind = regexp.MustCompile(`(?m)^apiVersion:\s*["']?cli\.kyverno\.io/`)
	gatorKind   = regexp.MustCompile(`(?m)^(?:\{\s*)?["']?apiVersion["']?:\s*["']?test\.gatekeeper\.sh/`)
)

func isKyverno(base string, data []byte) bool {
	return base == "kyverno-test.yaml" || base == "kyverno-test.yml" ||
		bytes.Contains(data, []byte("cli.kyverno.io/")) && bytes.Contains(data, []byte("results:")) && kyvernoKind.Match(data)
}

func isGator(_ string, data []byte) bool {
	return bytes.Contains(data, []byte("test.gatekeeper.sh/")) && gatorKind.Match(data)
}
