package policytest

import (
	"context"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/policytest/internal/mutation"
	"github.com/preadmit/preadmit/render"
)

// MutateOptions configure how mutants are made and run.
type MutateOptions struct {
	Options // with NewEngines in place of Engines

	// NewEngines returns the engines of one suite, which count the branches that
	// its policies take; nil counts nothing.
	NewEngines func(*policy.Coverage) Engines

	Modules *ModuleTests // unit tests of Rego, or nil
	Strict  bool         // cases without an evaluated rule fail

	Time       time.Duration // time for all mutants; the rest are not tried
	MutantTime time.Duration // for one
	Short      func()        // called if half of the time does not suffice to find all mutants; may be nil
}

// ModuleTests are the unit tests of Rego modules, which run together.
type ModuleTests struct {
	Files []string // modules in Options.FS, including tests

	// Run runs the tests with the text of one module replaced; "" replaces none.
	Run func(ctx context.Context, file string, text []byte, coverage *policy.Coverage) ([]Suite, error)
}

// Mutate makes small changes to the policies of the suites at the paths, one at
// a time, and runs the suites that evaluate the changed part. Mutants are in
// the order of their places, whatever the number of processors. It fails only
// if ctx ends.
func Mutate(ctx context.Context, o MutateOptions, paths ...string) ([]policy.Mutant, error) {
	if o.Name == nil {
		o.Name = func(name string) string { return name }
	}
	m := &mutator{o: &o, files: &readFiles{all: make(map[string]readFile)}}
	if err := m.prepare(ctx, paths); err != nil {
		return nil, err
	}
	timed, cancel := context.WithTimeout(ctx, o.Time)
	defer cancel()
	making, made := context.WithTimeout(ctx, o.Time/2) // a large policy has more mutants than can be tried
	all := m.mutants(making)
	late := making.Err() != nil
	made()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if late && o.Short != nil {
		o.Short()
	}
	done := make([]policy.Mutant, len(all))
	group := new(errgroup.Group)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range all {
		group.Go(func() error {
			done[i] = m.try(timed, &all[i])
			return nil
		})
	}
	_ = group.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return done, nil
}

// A mutator runs tests with mutants of their policies.
type mutator struct {
	o     *MutateOptions
	tests []*mutatedTests
	files *readFiles
}

func placeOf(o *render.Object) policyPlace {
	s := o.Span("")
	return policyPlace{s.File, s.Line, s.Column}
}

// runTests runs the tests that concern the policy at a place, with the content of
// its file replaced, until enough, which may be nil, reports that the cases so far
// suffice. With a zero place all run, and nothing is replaced.
type runTests func(ctx context.Context, at policyPlace, data []byte, coverage *policy.Coverage, r *recorder, enough func([]Case) bool) ([]Suite, error)

// mutatedTests are tests that run together, with their outcome without a
// mutant.
type mutatedTests struct {
	name     string
	run      runTests
	policies map[policyPlace]bool
	hits     map[render.Span]int64 // of the branches that begin at a place
	outcome  testOutcome
}

// A policyPlace is the place of a policy.
type policyPlace struct {
	file         string
	line, column int
}

// A testOutcome counts failures by case, and compile errors.
type testOutcome struct {
	failed, vacuous map[string]int
	where           map[string]string // FILE:LINE of a case
	broken          map[string]int    // number of mutants that do not compile, by file; "" for Rego modules
}

// A recorder records which policies are compiled, and their errors.
type recorder struct {
	mu       sync.Mutex
	policies map[policyPlace]bool // true if its match constraints are evaluated
	errs     map[string]int       // by file
}

func newRecorder() *recorder {
	return &recorder{policies: make(map[policyPlace]bool), errs: make(map[string]int)}
}

func (r *recorder) compiled(match bool, err error, objects ...*render.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range objects {
		if o != nil {
			r.policies[placeOf(o)] = match
		}
	}
	for _, e := range render.Failures(err) {
		r.errs[e.Span.File]++
	}
}

// engines returns e wrapped so that compiled policies are recorded.
func (r *recorder) engines(e Engines) Engines {
	wrapped := e
	wrapped.Admission = func(p *render.Object, kinds policy.Kinds, cluster *policy.Cluster) (Evaluator, error) {
		x, err := e.Admission(p, kinds, cluster)
		r.compiled(false, err, p)
		return x, err
	}
	wrapped.Mutation = func(p *render.Object, kinds policy.Kinds, cluster *policy.Cluster) (Mutator, error) {
		x, err := e.Mutation(p, kinds, cluster)
		r.compiled(false, err, p)
		return x, err
	}
	wrapped.Kyverno = func(p *render.Object, s *KyvernoSetup) (KyvernoPolicy, error) {
		x, err := e.Kyverno(p, s)
		r.compiled(true, err, p)
		return x, err
	}
	wrapped.Gator = func(s *GatorSetup) (GatorPolicy, error) {
		x, err := e.Gator(s)
		r.compiled(true, err, s.Template, s.Constraint)
		return x, err
	}
	return wrapped
}

// prepare runs all tests without a mutant, each with its own coverage.
func (m *mutator) prepare(ctx context.Context, paths []string) error {
	for _, f := range discover(m.o.FS, paths) {
		if f.format != nil && f.err == nil {
			m.tests = append(m.tests, m.suite(f))
		}
	}
	if m.o.Modules != nil {
		m.tests = append(m.tests, m.modules())
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, t := range m.tests {
		group.Go(func() error { return t.prepare(ctx) })
	}
	return group.Wait()
}

// suite returns the tests of a file.
func (m *mutator) suite(f found) *mutatedTests {
	return &mutatedTests{name: m.o.Name(f.name), run: func(ctx context.Context, at policyPlace, data []byte, coverage *policy.Coverage, r *recorder, enough func([]Case) bool) ([]Suite, error) {
		o := m.o.Options
		o.Watch, o.Engines, o.about, o.files = nil, r.engines(m.o.NewEngines(coverage)), at, m.files
		if at.file != "" {
			changed := render.NewOverlay(m.o.FS, nil)
			changed.WriteText(at.file, data, nil)
			o.FS, o.enough = changed, enough
		}
		s := f.run(ctx, &o)
		return []Suite{s}, ctx.Err()
	}}
}

// modules returns the unit tests of Rego.
func (m *mutator) modules() *mutatedTests {
	t := &mutatedTests{name: "unit tests of Rego", policies: make(map[policyPlace]bool)}
	t.run = func(ctx context.Context, at policyPlace, data []byte, coverage *policy.Coverage, r *recorder, _ func([]Case) bool) ([]Suite, error) {
		all, err := m.o.Modules.Run(ctx, at.file, data, coverage)
		for _, s := range all {
			if s.Error != "" {
				r.errs[""]++
			}
		}
		return all, err
	}
	return t
}

func (m *mutatedTests) prepare(ctx context.Context) error {
	coverage, r := policy.NewCoverage(), newRecorder()
	all, err := m.run(ctx, policyPlace{}, nil, coverage, r, nil)
	if err != nil {
		return err
	}
	m.policies, m.outcome, m.hits = r.policies, outcomeOf(all, r), make(map[render.Span]int64)
	for _, b := range coverage.Branches() {
		m.hits[placeOnly(b.Origin)] += b.Hits
	}
	return nil
}

func placeOnly(s render.Span) render.Span {
	return render.Span{File: s.File, Line: s.Line, Column: s.Column}
}

func outcomeOf(all []Suite, r *recorder) testOutcome {
	o := testOutcome{failed: map[string]int{}, vacuous: map[string]int{}, where: map[string]string{}, broken: r.errs}
	for _, s := range all {
		for i := range s.Cases {
			c := &s.Cases[i]
			key := keyOfCase(s.File, c)
			o.where[key] = fmt.Sprintf("%s:%d", s.File, c.Line)
			if !c.OK {
				o.failed[key]++
			}
			if c.Vacuous {
				o.vacuous[key]++
			}
		}
	}
	return o
}

func keyOfCase(file string, c *Case) string {
	return strings.Join([]string{file, fmt.Sprint(c.Line), c.Name, c.Policy, c.Kind, c.Resource, c.Operation, c.Want}, "\x00")
}

// enough returns a function that reports whether a case fails that passes without
// the mutant, so that no more need to run. It returns nil if the file has errors
// without the mutant: then all must run.
func (m *mutatedTests) enough(file string, strict bool) func([]Case) bool {
	if m.outcome.broken[file] > 0 {
		return nil
	}
	return func(cases []Case) bool {
		return slices.ContainsFunc(cases, func(c Case) bool {
			key := keyOfCase(m.name, &c)
			return !c.OK && m.outcome.failed[key] == 0 || strict && c.Vacuous && m.outcome.vacuous[key] == 0
		})
	}
}

// more returns the first key with a higher count than before.
func more(now, before map[string]int) string {
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if now[key] > before[key] {
			return key
		}
	}
	return ""
}

// A trial is a mutant with the place of its policy, the content of the file, and
// the tests that compile it.
type trial struct {
	mutation.Mutant
	at    policyPlace
	data  []byte
	tests []*mutatedTests
}

// mutants returns the mutants of all policies that the tests compile.
func (m *mutator) mutants(ctx context.Context) []trial {
	files := make(map[string]bool)
	for _, t := range m.tests {
		for p := range t.policies {
			files[p.file] = true
		}
	}
	var all []trial
	for _, file := range slices.Sorted(maps.Keys(files)) {
		all = append(all, m.ofFile(ctx, file)...)
	}
	if m.o.Modules != nil {
		t := m.tests[len(m.tests)-1]
		for _, file := range slices.Sorted(slices.Values(m.o.Modules.Files)) {
			data, err := render.ReadFile(m.o.FS, file)
			if err != nil || strings.HasSuffix(path.Base(file), "_test.rego") {
				continue
			}
			for _, x := range mutation.OfModule(file, data) {
				all = append(all, trial{x, policyPlace{file: file}, data, []*mutatedTests{t}})
			}
		}
	}
	return all
}

// ofFile makes the mutants of the policies in a file.
func (m *mutator) ofFile(ctx context.Context, file string) []trial {
	data, err := render.ReadFile(m.o.FS, file)
	if err != nil {
		return nil
	}
	objects, _ := render.Parse(file, data)
	var all []trial
	for _, o := range objects {
		at := placeOf(o)
		var tests []*mutatedTests
		match := false
		for _, t := range m.tests {
			if counts, ok := t.policies[at]; ok {
				tests, match = append(tests, t), match || counts
			}
		}
		if len(tests) == 0 {
			continue
		}
		for _, x := range mutation.OfPolicy(ctx, o, data, mutation.MatchEvaluated(match)) {
			all = append(all, trial{x, at, data, tests})
		}
		if ctx.Err() != nil {
			all = append(all, trial{mutation.Mutant{Policy: o.GetName(), Change: "further changes, which the time did not suffice to make", Origin: o.Span("")}, at, data, tests})
		}
	}
	return all
}

// try runs the tests that evaluate the mutant's place.
func (m *mutator) try(ctx context.Context, x *trial) policy.Mutant {
	r := policy.Mutant{
		Policy: x.Policy, Rule: x.Rule, Mutator: string(x.Mutator), Change: x.Change, Origin: x.Origin, Diff: x.Diff(x.data), Tests: []string{},
	}
	r.Origin.File = m.o.Name(r.Origin.File)
	if x.Equivalent {
		r.Status = policy.MutantEquivalent
		return r
	}
	tests := slices.DeleteFunc(slices.Clone(x.tests), func(t *mutatedTests) bool { return !t.reaches(x) })
	switch {
	case len(tests) == 0:
		r.Status = policy.MutantNotCovered
		return r
	case ctx.Err() != nil:
		r.Status = policy.MutantNotTried
		return r
	}
	if m.o.Watch != nil {
		done, err := m.o.Watch(fmt.Sprintf("mutant %s:%d:%d %s", x.Origin.File, x.Origin.Line, x.Origin.Column, x.Change))
		if err != nil {
			r.Status = policy.MutantTimedOut
			return r
		}
		defer done()
	}
	mine, cancel := context.WithTimeout(ctx, m.o.MutantTime)
	defer cancel()
	r.Status = policy.MutantSurvived
	for _, t := range tests {
		r.Tests = append(r.Tests, t.name)
		t.against(mine, x, m.o.Strict, &r)
		switch {
		case ctx.Err() != nil:
			r.Status, r.Tests = policy.MutantNotTried, []string{}
			return r
		case mine.Err() != nil:
			r.Status = policy.MutantTimedOut
			return r
		case r.Status != policy.MutantSurvived:
			return r
		}
	}
	return r
}

// reaches reports whether the tests evaluate the mutant's place, or may do so
// because no branch begins there.
func (m *mutatedTests) reaches(x *trial) bool {
	for _, at := range x.Reach {
		if hits, ok := m.hits[placeOnly(at)]; ok {
			return hits > 0
		}
	}
	return true
}

// against runs the tests with a mutant and records the outcome in r.
func (m *mutatedTests) against(ctx context.Context, x *trial, strict bool, r *policy.Mutant) {
	rec := newRecorder()
	all, err := m.run(ctx, x.at, x.Apply(x.data), nil, rec, m.enough(x.Origin.File, strict))
	if err != nil {
		return
	}
	now := outcomeOf(all, rec)
	killer := more(now.failed, m.outcome.failed)
	vacuous := more(now.vacuous, m.outcome.vacuous)
	switch {
	case more(now.broken, m.outcome.broken) != "" || now.broken[""] > m.outcome.broken[""]:
		r.Status = policy.MutantInvalid
	case killer != "":
		r.Status, r.Killer = policy.MutantKilled, now.where[killer]
	case vacuous != "" && strict:
		r.Status, r.Killer = policy.MutantKilled, now.where[vacuous]
	case vacuous != "":
		r.Vacuous = true
	}
}
