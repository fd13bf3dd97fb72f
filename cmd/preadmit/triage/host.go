// Package triage evaluates for a screen or an editor, and answers their requests about the results.
//
// A Host evaluates in this process. A Remote, and the host that Opener returns, evaluate in child
// processes.
//
//   - host.go: the Host; serve.go: the child's answers
//   - remote.go: the screen's questions; editor.go: an editor's
//   - fix.go: proved fixes, of findings that a person chooses
//   - uses.go: what lines of files become, what policies match, and problems of policies
//   - file.go: the suppressions file, and reports that were saved; watch.go: changes of files
//
// A Remote starts a new child for each evaluation. The child answers requests until the next child
// has its results. Only the Remote writes files and starts the editor. The host that Opener returns
// keeps its child for several evaluations.
package triage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/fixes"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/lsp"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/report/explanation"
	"github.com/preadmit/preadmit/report/objects"
	"github.com/preadmit/preadmit/tui"
)

// A Host does for the screen everything outside of the screen: it evaluates, renders, explains,
// writes the suppressions file and returns the command of the editor.
type Host struct {
	watcher
	options  *evaluate.Options
	readOnly bool
	Editor   tui.EditorCommand
	stdin    []byte

	quiet     bool       // show no results before the end
	rendering sync.Mutex // held while the tree of a saved report is rendered
	oneFix    sync.Mutex // held while a fix is proved

	// For an editor, which evaluates many times:
	configured func() bool             // the configuration file is unchanged since the options were read from it
	one        sync.Mutex              // held by an evaluation, also for the screen if a question needs one
	stop       context.CancelFunc      // ends the last one, if it is running
	graphs     map[string]*cache.Graph // of the last one, by side
	finishing  sync.Mutex              // held by finish, and guards save
	save       func()                  // saves the last one in the cache; nil once that is done
	live       uint64                  // bytes in use after the first one

	mu         sync.Mutex
	run        *shownRun
	evaluating bool              // the first evaluation is running
	partial    *report.Source    // for the results so far, during the first evaluation
	texts      map[string]string // of open files of an editor
}

// A shownRun holds the results of one evaluation.
type shownRun struct {
	tree       *load.Tree
	report     *report.Report
	source     *report.Source
	in         *load.Input
	engines    *engines.Set
	compiled   map[string]*engines.Set // by cluster, if there are several
	was        *load.Input
	evaluation *evaluate.Evaluation
	whole      bool // it ended in time, so its results can be cached
	note       string
	texts      map[string]string // of open files of an editor
	memory     *load.Memory
	finder     *fixes.Finder // of the same state of the tree; nil until a fix is asked for
	fixes      map[fixes.Place][]lsp.Fix
	types      admission.Types // of the kinds that are served; nil until an expression is completed
	typing     sync.Mutex      // guards types
	using      sync.Mutex      // guards used
	used       *fileUses       // of the file that an editor asked about last; may be nil
	objects    map[render.Key]*render.Object
	old        map[render.Key]*render.Object // at the base
}

// Evaluate renders and evaluates the current tree, or reads the report again.
func (h *Host) Evaluate(ctx context.Context, tell func(tui.Progress)) (*report.Report, error) {
	if h.saved != "" {
		return h.readSaved(ctx)
	}
	o := *h.options
	o.Progress, o.Notes = &load.Progress{Tell: tell, Quiet: h.quiet}, io.Discard
	if h.quiet { // for an editor, which shows no passes, and evaluates again after each change
		o.Passes, o.Forgets = new(policy.Passes), true
		o.Last, o.Next = h.graphs, make(map[string]*cache.Graph)
	}
	h.mu.Lock()
	if o.Texts = h.texts; h.run != nil {
		o.Memory = h.run.memory
	}
	h.mu.Unlock()
	before, err := h.look()
	if err != nil {
		return nil, err
	}
	r, run, err := h.evaluate(ctx, &o)
	var incomplete *supervise.Incomplete
	if errors.As(err, &incomplete) {
		r, run, err = h.failed(evaluate.FailedReport(report.Plain(err.Error()), ""))
	}
	if err != nil {
		return nil, err
	}
	run.memory = o.Memory
	save := func() {
		if run.whole {
			o.SaveCache()
		}
		for _, g := range o.Next {
			g.Settle()
		}
	}
	if h.quiet {
		h.finishing.Lock()
		h.save = save
		h.finishing.Unlock()
	} else {
		save()
	}
	h.graphs = o.Next
	h.keep(run, before)
	return r, nil
}

// evaluate renders and evaluates. If --timeout is over, it returns the results so
// far.
func (h *Host) evaluate(ctx context.Context, o *evaluate.Options) (*report.Report, *shownRun, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("not done after --timeout %s", o.Timeout))
	defer cancel()
	rendering, rendered := load.TimeToRender(ctx)
	in, err := load.Load(rendering, &o.Sources, h.args, bytes.NewReader(h.stdin))
	rendered()
	if tasks.IsTimeUp(ctx, err) {
		return h.failed(o.Unrendered(ctx))
	}
	if err != nil {
		return nil, nil, err
	}
	j, err := evaluate.Run(o.Watch.Timed(ctx), o, in, h.args, bytes.NewReader(h.stdin))
	late := tasks.IsTimeUp(ctx, err)
	if err = j.Unfinished(ctx, in, err, o.Watch.Slowest); err != nil {
		return nil, nil, err
	}
	r, run := evaluate.NewReport(in, j), newTriageRun(in, j)
	run.report, run.source, run.texts, run.whole = r, report.NewSource(r), o.Texts, !late
	return r, run, nil
}

// failed returns a report and the run for it, which has no objects.
func (h *Host) failed(r *report.Report) (*report.Report, *shownRun, error) {
	t, err := load.Open(h.args)
	return r, &shownRun{tree: t, in: &load.Input{Tree: t}, source: report.NewSource(r)}, err
}

func newTriageRun(in *load.Input, j *evaluate.Evaluation) *shownRun {
	run := &shownRun{tree: in.Tree, in: in, engines: j.Engines, was: j.Was, evaluation: j, objects: byKey(in)}
	if j.Was != nil {
		run.old = byKey(j.Was)
	}
	return run
}

// byKey returns the objects by their keys in reports. An object without a namespace is also found
// by its effective one.
func byKey(in *load.Input) map[render.Key]*render.Object {
	all := make(map[render.Key]*render.Object)
	for _, o := range render.Objects(in.Head) {
		k := o.Key()
		k.Unit = in.Tree.Display(k.Unit)
		names := []render.Key{k}
		if k.Namespace == "" {
			k.Namespace = o.EffectiveNamespace()
			names = append(names, k)
		}
		for _, k := range names {
			if all[k] == nil {
				all[k] = o
			}
		}
	}
	return all
}

// keep replaces the current run.
func (h *Host) keep(run *shownRun, before stamp) {
	h.begun(before)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.run, h.partial, h.evaluating = run, nil, false
}

// readSaved reads the saved report, and marks the results that the current suppressions accept.
func (h *Host) readSaved(ctx context.Context) (*report.Report, error) {
	before, err := h.look()
	if err != nil {
		return nil, err
	}
	t, err := load.Open(nil)
	if err != nil {
		return nil, err
	}
	o := *h.options
	if err := o.Confine(ctx, t, []string{h.saved}, nil); err != nil {
		return nil, err
	}
	data := h.stdin
	if h.saved != "-" {
		if data, err = load.ReadRegular(h.saved); err != nil {
			return nil, err
		}
	}
	r, err := report.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.saved, err)
	}
	r.Tree = disk.Shown{Tree: t.Tree}
	held, err := evaluate.ReadSuppressions(h.options, &load.Input{Tree: t})
	if err != nil {
		return nil, err
	}
	for i := range r.Results {
		r.Results[i].Suppression = stillHeld(r.Results[i].Suppression, held.Listed, t)
	}
	policy.Suppress(r.Results, nil, held, h.options.Day())
	h.keep(&shownRun{tree: t, source: report.NewSource(r)}, before)
	return r, nil
}

// stillHeld returns the suppression of a saved result, or nil if it was removed from the
// suppressions file. If held is empty, there may be no such file here, so the suppression is kept.
// It also returns nil for a comment in a file of the tree, since Suppress reads that again.
func stillHeld(was *policy.Suppression, held []policy.Suppression, tree fs.FS) *policy.Suppression {
	switch {
	case was == nil:
	case was.Line > 0:
		if _, err := fs.Stat(tree, was.Path); err == nil {
			return nil
		}
	case len(held) > 0 && !slices.ContainsFunc(held, func(s policy.Suppression) bool {
		return s.Rule == was.Rule && s.Object == was.Object && s.Path == was.Path
	}):
		return nil
	}
	return was
}

// looked returns the run whose details are shown. For a saved report it is evaluated
// when first needed, from the current files.
func (h *Host) looked(ctx context.Context) (*shownRun, error) {
	h.mu.Lock()
	run := h.run
	h.mu.Unlock()
	if run == nil {
		return nil, errors.New("nothing is rendered yet")
	}
	h.rendering.Lock() // the screen may request two objects at once
	defer h.rendering.Unlock()
	if run.in != nil {
		return run, nil
	}
	o := *h.options
	o.Base = ""
	in, err := load.Load(ctx, &o.Sources, []string{run.tree.Dir}, nil)
	if err != nil {
		return nil, fmt.Errorf("this is a saved report, and the files here do not render: %w", err)
	}
	s, _, err := o.EngineOptions(in)
	if err != nil {
		return nil, err
	}
	set, err := engines.New(in, in, s)
	if err != nil {
		return nil, err
	}
	run.objects, run.engines = byKey(in), set
	run.note = "Rendered now from the files here; the report was saved before."
	run.in = in
	return run, nil
}

// Object returns the object of a result, as it is rendered now.
func (h *Host) Object(ctx context.Context, x *policy.Result) (*tui.Rendered, error) {
	if x.Object.Kind == "" {
		return nil, errors.New("this is about no object: nothing was rendered there")
	}
	run, err := h.looked(ctx)
	if err != nil {
		return nil, err
	}
	now, old := run.objects[x.Object], run.oldOf(x.Object)
	switch {
	case now == nil && old == nil:
		return nil, errors.New("this object is not among those that are rendered here" + evaluate.InUnit(x.Object.Unit))
	case now == nil:
		r, err := renderedOf(run.was.Tree, old)
		if err == nil {
			r.Note, r.Diff = "The change deletes it; this is the object at the base.", ""
		}
		return r, err
	}
	r, err := renderedOf(run.tree, now)
	if err != nil {
		return nil, err
	}
	r.Note = run.note
	return r, run.compare(r, old, now)
}

// oldOf returns the object at the base: that of the same unit, else the only one with that name.
func (s *shownRun) oldOf(k render.Key) *render.Object {
	if o := s.old[k]; o != nil {
		return o
	}
	var found *render.Object
	for was, o := range s.old {
		if was.Kind == k.Kind && was.Namespace == k.Namespace && was.Name == k.Name {
			if found != nil {
				return nil
			}
			found = o
		}
	}
	return found
}

func (s *shownRun) compare(x *tui.Rendered, old, now *render.Object) error {
	switch {
	case s.was == nil:
		x.Note = cmp.Or(x.Note, "Nothing to compare with: --base names a revision.")
		return nil
	case old == nil:
		x.Note = "The change creates it."
		return nil
	}
	before, err := objects.YAML(old)
	if err != nil {
		return err
	}
	after, err := objects.YAML(now)
	if err != nil {
		return err
	}
	if x.Diff = objects.UnifiedDiff("base", before, "now", after); x.Diff == "" {
		x.Note = "It is as it was at the base."
	}
	return nil
}

// renderedOf returns an object as YAML with the place of each line.
func renderedOf(t *load.Tree, o *render.Object) (*tui.Rendered, error) {
	data, err := objects.YAML(o)
	if err != nil {
		return nil, err
	}
	r := &tui.Rendered{}
	for _, line := range objects.Lines(o, data, t.Display) {
		r.Lines = append(r.Lines, tui.Line{Text: line.Text, Pointer: line.Pointer, Place: report.Plain(line.Place.String())})
	}
	return r, nil
}

// enginesOf returns the engines for the cluster of an object. If there are several clusters, or if
// all results were cached, they are compiled when first needed.
func (h *Host) enginesOf(run *shownRun, o *render.Object) (*engines.Set, engines.Options, error) {
	options, _, err := h.options.EngineOptions(run.in)
	if err != nil {
		return nil, options, err
	}
	there, s := options.ForCluster(run.in, o.Unit.Cluster)
	if there == run.in && run.engines.Cluster != nil { // they are compiled
		return run.engines, s, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if run.compiled[o.Unit.Cluster] == nil {
		b, err := engines.New(there, there, s)
		if err != nil {
			return nil, s, err
		}
		if run.compiled == nil {
			run.compiled = make(map[string]*engines.Set)
		}
		run.compiled[o.Unit.Cluster] = b
	}
	return run.compiled[o.Unit.Cluster], s, nil
}

// Explain returns the output of the command explain for the result.
func (h *Host) Explain(ctx context.Context, x *policy.Result) (string, error) {
	run, err := h.looked(ctx)
	if err != nil {
		return "", err
	}
	d, err := h.decision(ctx, run, x)
	if err != nil {
		return "", err
	}
	es, err := d.Explain(ctx, x.Policy, x.Rule)
	if err != nil {
		return "", err
	}
	if len(es) == 0 {
		return "", fmt.Errorf("%s has no steps to show", x.Engine)
	}
	var b strings.Builder
	err = explanation.Write(&b, "text", report.Tool{}, es, report.Options{Verbose: h.options.Verbose})
	return b.String(), err
}

// decision returns the request of a result and its engines.
func (h *Host) decision(ctx context.Context, run *shownRun, x *policy.Result) (*evaluate.Decision, error) {
	object := run.objects[x.Object]
	if object == nil {
		object = run.oldOf(x.Object)
	}
	switch {
	case object == nil:
		return nil, errors.New("there is no object here to explain this by")
	case run.was != nil:
		return run.evaluation.Decision(ctx, h.options, run.in, object)
	}
	set, s, err := h.enginesOf(run, object)
	if err != nil {
		return nil, err
	}
	return evaluate.NewDecision(run.in, s, set, object), nil
}

// Lines returns the lines of a file of the run's tree.
func (h *Host) Lines(_ context.Context, file string) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock() // a Source is not safe for concurrent use
	source := h.partial
	if h.run != nil {
		source = h.run.source
	}
	if source == nil {
		return nil, errors.New("nothing is rendered yet")
	}
	lines, ok := source.Lines(file)
	if !ok {
		return nil, fmt.Errorf("%s: this file is not available, or is not text", file)
	}
	return lines, nil
}

// Edit returns the editor command for a place of the repository.
func (h *Host) Edit(at render.Span) (*tui.Editor, error) {
	if at.File == "" {
		return nil, errors.New("no file is known for this")
	}
	file, err := h.real(at.File)
	if err != nil {
		return nil, err
	}
	return h.Editor.Open(file, at)
}

// real returns the path of a file of the run, given its name in reports.
func (h *Host) real(file string) (string, error) {
	h.mu.Lock()
	run := h.run
	h.mu.Unlock()
	if run == nil {
		return "", errors.New("nothing is rendered yet")
	}
	return run.tree.Path(file)
}
