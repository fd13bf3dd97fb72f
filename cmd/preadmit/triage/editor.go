package triage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/fixes"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/lsp"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/tui"
)

// Opener returns a function that returns the host for a folder of the editor, and the directory of its
// repository. Paths are relative to the folder.
func Opener(args []string) func(string, lsp.Encoding, func(string)) (lsp.Host, string, error) {
	return func(folder string, e lsp.Encoding, log func(string)) (lsp.Host, string, error) {
		if !supervise.CanServe() {
			return nil, "", errors.New("no child process can be started")
		}
		h := &editorHost{Remote: Remote{watcher: watcher{folder: folder}, line: os.Args[1:]}, encoding: e, log: log}
		for _, p := range args {
			if !filepath.IsAbs(p) {
				p = filepath.Join(folder, p)
			}
			h.args = append(h.args, p)
		}
		dir, err := h.root()
		return h, dir, err
	}
}

// An editorHost evaluates the repository in a child process, which keeps its rendered units for the next
// evaluation. It starts a new child after an error, and if the child can't evaluate again.
type editorHost struct {
	Remote
	encoding lsp.Encoding
	log      func(string)
	failed   atomic.Bool // the current child has ended before, or has other settings
}

// Evaluate implements lsp.Host.
func (e *editorHost) Evaluate(ctx context.Context, texts map[string]string, tell func(lsp.Progress)) ([]lsp.Finding, error) {
	e.opened(texts)
	before, err := e.look()
	if err != nil {
		return nil, err
	}
	e.begun(before)
	var found editorFindings
	s := e.current()
	if s != nil && !e.failed.Load() {
		if err = e.findings(ctx, s, texts, tell, &found); ctx.Err() != nil {
			return nil, err
		}
	}
	if s == nil || e.failed.Load() || err != nil || found.Anew {
		if err = e.evaluateAnew(ctx, texts, tell, &found); err != nil {
			return nil, err
		}
	}
	for _, text := range found.Placeless {
		e.log(text)
	}
	return found.Findings, nil
}

// evaluateAnew evaluates in a new child.
func (e *editorHost) evaluateAnew(ctx context.Context, texts map[string]string, tell func(lsp.Progress), found *editorFindings) error {
	e.failed.Store(false)
	e.mu.Lock()
	line := e.line
	e.mu.Unlock()
	s, err := supervise.NewService(e.folder, line, nil)
	if err != nil {
		return err
	}
	s.Died = func(why string) {
		e.failed.Store(true)
		e.log("the process that evaluates ended, and is started again: " + why)
	}
	*found = editorFindings{}
	if err := e.findings(ctx, s, texts, tell, found); err != nil {
		s.Close()
		return err
	}
	e.use(s)
	return nil
}

// maxAnswer limits the size of a child's answer. maxFindings findings are far smaller.
const maxAnswer = 256 << 20

func (e *editorHost) findings(ctx context.Context, s *supervise.Service, texts map[string]string, tell func(lsp.Progress), found *editorFindings) error {
	if err := e.askOf(ctx, s, question{Do: "facts"}, &e.facts); err != nil {
		return err
	}
	data, err := s.Ask(ctx, supervise.Question{
		Text: question{Do: "findings", Texts: texts, Encoding: e.encoding}, Limit: e.facts.Timeout + time.Minute, Most: maxAnswer,
		News: stepsOf(func(n step, _ []byte) { tell(lsp.Progress{Step: n.Step, Done: n.Done}) }),
	})
	if err != nil {
		return err
	}
	return json.Unmarshal(data, found)
}

// askNow asks the child of the last evaluation.
func (e *editorHost) askNow(ctx context.Context, q question, answer any) error {
	if e.current() == nil {
		return errors.New("nothing is rendered yet")
	}
	q.Encoding = e.encoding
	return e.ask(ctx, q, answer)
}

// Explain implements lsp.Host.
func (e *editorHost) Explain(ctx context.Context, f *lsp.Finding, texts map[string]string) (text string, err error) {
	return text, e.askNow(ctx, question{Do: "explain", Result: f.Result, Texts: texts}, &text)
}

// Fix implements lsp.Host.
func (e *editorHost) Fix(ctx context.Context, f *lsp.Finding, texts map[string]string) (all []lsp.Fix, err error) {
	if f.Result == nil {
		return nil, nil
	}
	err = e.askNow(ctx, question{Do: "fixes", Result: f.Result, Texts: texts}, &all)
	return slices.DeleteFunc(all, func(x lsp.Fix) bool {
		return len(x.Changes) == 0 || slices.ContainsFunc(x.Changes, func(c lsp.Change) bool { return fixes.Reserved(c.File) })
	}), err
}

// Uses implements lsp.Host.
func (e *editorHost) Uses(ctx context.Context, at lsp.Place, texts map[string]string) (u *lsp.Uses, err error) {
	return u, e.askAbout(ctx, "uses", at, texts, &u)
}

// Matches implements lsp.Host.
func (e *editorHost) Matches(ctx context.Context, at lsp.Place, texts map[string]string) (all []lsp.Place, err error) {
	return all, e.askAbout(ctx, "matches", at, texts, &all)
}

// Complete implements lsp.Host.
func (e *editorHost) Complete(ctx context.Context, at lsp.Place, texts map[string]string) (all []policy.Completion, err error) {
	return all, e.askAbout(ctx, "complete", at, texts, &all)
}

// askAbout asks the child of the last evaluation about a place. Before the first one the answer is empty.
func (e *editorHost) askAbout(ctx context.Context, what string, at lsp.Place, texts map[string]string, answer any) error {
	if e.current() == nil {
		return nil
	}
	return e.askNow(ctx, question{Do: what, File: at.File, At: at.Range.Start, Texts: texts}, answer)
}

// Inspect implements lsp.Host.
func (e *editorHost) Inspect(ctx context.Context, texts map[string]string) (all []lsp.Finding, err error) {
	return all, e.askNow(ctx, question{Do: "inspect", Texts: texts}, &all)
}

// Configure implements lsp.Host. The settings are a flag of the next child.
func (e *editorHost) Configure(settings string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.line = slices.Clone(os.Args[1:])
	e.line = slices.Insert(e.line, slices.Index(e.line, "lsp")+1, "--"+SettingsFlag+"="+settings)
	e.failed.Store(true)
}

// SettingsFlag is the flag of lsp that gives a child the editor's settings.
const SettingsFlag = "editor-settings"

// Accept implements lsp.Host.
func (e *editorHost) Accept(ctx context.Context, x policy.Suppression, texts map[string]string) (c *lsp.Change, err error) {
	if err = e.askNow(ctx, question{Do: "accept", Decisions: &tui.Decisions{Add: []policy.Suppression{x}}, Texts: texts}, &c); err == nil && c == nil {
		err = fmt.Errorf("nothing is proposed")
	}
	return c, err
}

// editorFindings is a child's answer: findings with ranges in the editor's encoding, and a line of
// text for each finding without a place in the tree.
type editorFindings struct {
	Findings  []lsp.Finding
	Placeless []string
	Anew      bool // nothing was evaluated, because this child can't; a new one must
}

// maxFindings limits the findings that an editor gets, the worst ones first.
const maxFindings = 5000

// inTurn ends the context of the call before, and returns one that the next call ends.
func (h *Host) inTurn(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != nil {
		h.stop()
	}
	h.stop = stop
	return ctx, stop
}

// findings evaluates the repository with the texts of an editor. It ends an evaluation that is still
// running: the editor no longer waits for it.
func (h *Host) findings(ctx context.Context, q *question, news func([]byte)) (*editorFindings, error) {
	ctx, stop := h.inTurn(ctx)
	defer stop()
	h.one.Lock()
	defer h.one.Unlock()
	if h.graphs != nil {
		if h.finish(); !h.configured() || liveBytes() > 2*h.live+spare {
			return &editorFindings{Anew: true}, nil
		}
	}
	texts := maps.Clone(q.Texts)
	delete(texts, h.configuration()) // flags are read from the file, so changes count once it is saved
	h.opened(texts)
	h.mu.Lock()
	h.texts = texts
	h.mu.Unlock()
	r, err := h.firstOrNext(ctx, news)
	if err != nil {
		return nil, err
	}
	h.mu.Lock() // a Source is not safe for concurrent use
	run := h.run
	found, placeless := report.Findings(r, run.source)
	found = report.AddUncounted(found, r, run.source, func(file string) bool { _, open := run.texts[file]; return open })
	h.mu.Unlock()
	if more := len(found) - maxFindings; more > 0 {
		placeless = append(placeless, policy.Plural(more, "more finding")+" not shown")
		found = found[:maxFindings]
	}
	m := findingMaker{run, q.Encoding, unitsOfObjects(r)}
	all := &editorFindings{Findings: []lsp.Finding{}, Placeless: placeless}
	for i := range found {
		all.Findings = append(all.Findings, m.finding(&found[i]))
	}
	go h.finish()
	return all, nil
}

// finish saves the last evaluation in the cache, if that is not done. The editor gets its findings
// before, and answers to questions about them afterwards.
func (h *Host) finish() {
	h.finishing.Lock()
	defer h.finishing.Unlock()
	if h.save == nil {
		return
	}
	h.save()
	h.save = nil
	if h.live == 0 {
		runtime.GC() // before, the number is that of an earlier collection
		h.live = liveBytes()
	}
}

// spare is how many bytes a child may use in addition to twice those after its first evaluation.
const spare = 128 << 20

// liveBytes returns the bytes in use at the last garbage collection.
func liveBytes() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// configuration returns the name in the tree of the configuration file.
func (h *Host) configuration() string {
	if dir, err := load.Root(h.args); err == nil && h.options.Config != "" {
		if file, err := filepath.Abs(h.options.Config); err == nil {
			if name, ok := disk.Within(dir, file); ok {
				return name
			}
		}
	}
	return config.Path
}

// unitsOfObjects counts, by the object pattern of suppressions, the units with matching objects.
func unitsOfObjects(r *report.Report) map[string]int {
	seen := make(map[[2]string]bool)
	units := make(map[string]int)
	for i := range r.Results {
		k := r.Results[i].Object
		if p := policy.ObjectPattern(k); !seen[[2]string{p, k.Unit}] {
			seen[[2]string{p, k.Unit}] = true
			units[p]++
		}
	}
	return units
}

// A findingMaker converts a report's findings to an editor's.
type findingMaker struct {
	run      *shownRun
	encoding lsp.Encoding
	units    map[string]int
}

func (m *findingMaker) finding(f *report.Finding) lsp.Finding {
	x := f.Results[0]
	n := lsp.Finding{
		Place: m.place(f.At), Severity: map[string]lsp.Severity{"error": lsp.Error, "warning": lsp.Warning}[f.Level],
		Broken: x.Engine == policy.EngineRender && x.Rule == "yaml-syntax", Rule: f.Rule, URL: f.URL, Message: f.Text, Hover: m.hover(f),
	}
	n.Severity = cmp.Or(n.Severity, lsp.Information)
	for _, r := range f.Related {
		n.Related = append(n.Related, m.place(r))
	}
	if f.Written.File != "" {
		at := m.place(f.Written)
		n.Policy = &at
		if at.File != n.File || at.Range != n.Range {
			n.Related = append(n.Related, at)
		}
	}
	if x.Object.Kind != "" {
		n.Result, n.Accept = x, m.acceptances(f)
	}
	return n
}

func (m *findingMaker) place(at report.Marked) lsp.Place {
	position := func(column int) lsp.Position {
		return lsp.Position{Line: at.Line - 1, Character: m.encoding.Character(at.Text, column)}
	}
	return lsp.Place{File: at.File, Range: lsp.Range{Start: position(at.From), End: position(at.To)}, Label: at.Label}
}

// acceptances returns the suppressions that would accept a finding: for its object, if it is about
// a single one, and for all objects of the file.
func (m *findingMaker) acceptances(f *report.Finding) []lsp.Acceptance {
	x := f.Results[0]
	file := tui.AcceptFile(x)
	all := []lsp.Acceptance{{Title: "Accept " + f.Rule + " for everything in " + file.Path, Suppression: file}}
	for _, y := range f.Results {
		if y.Object != x.Object {
			return all
		}
	}
	object := tui.AcceptObject(x, m.units[policy.ObjectPattern(x.Object)] > 1)
	return append([]lsp.Acceptance{{Title: "Accept " + f.Rule + " for " + report.ObjectName(x.Object), Suppression: object}}, all...)
}

// hover describes a finding as plain text.
func (m *findingMaker) hover(f *report.Finding) string {
	text := f.Rule + "\n\n" + f.Text
	if value := m.value(f.Results[0]); value != "" {
		text += "\n\n" + value
	}
	return text + "\n\n" + f.Help
}

// value returns the rendered value of the field at fault, unless it may be a
// secret.
func (m *findingMaker) value(x *policy.Result) string {
	o := m.run.objects[x.Object]
	if o == nil || len(x.Fields) == 0 || o.GetKind() == "Secret" {
		return ""
	}
	name := render.FieldPath(x.Fields[0])
	v, ok := render.Lookup(o.Object, x.Fields[0])
	if !ok {
		return name + " is not set"
	}
	text, err := yaml.Marshal(v)
	if err != nil {
		return ""
	}
	return name + " as rendered:\n" + render.Cut(strings.TrimSpace(string(text)), 1000)
}

// reasonWanted is a comment in place of the reason. The file is invalid until somebody writes the
// reason.
const reasonWanted = "why is this accepted?"

// accept returns the suppressions file with one more suppression, whose reason the user still has
// to write.
func (h *Host) accept(q *question) (*lsp.Change, error) {
	path, display, err := h.suppressionsPath()
	if err != nil {
		return nil, err
	}
	dir, err := load.Root(h.args)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	name, ok := disk.Within(dir, path)
	if !ok {
		return nil, fmt.Errorf("%s is not in the repository", display)
	}
	before, err := readIfThere(path)
	if err != nil {
		return nil, supervise.NotWritten(display, err)
	}
	c := &lsp.Change{File: name, New: before == nil}
	if text, open := q.Texts[name]; open {
		before = []byte(text)
	}
	if q.Decisions == nil || len(q.Decisions.Add) != 1 {
		return nil, errors.New("nothing to accept")
	}
	x := &q.Decisions.Add[0]
	x.Reason, x.Expires = reasonWanted, h.options.Day().AddDate(0, 0, 90).Format(time.DateOnly)
	after, err := decided(*q.Decisions, display, before)
	if err != nil {
		return nil, err
	}
	after = bytes.Replace(after, []byte("reason: "+reasonWanted), []byte("reason: # "+reasonWanted), 1)
	c.Before, c.After = string(before), string(after)
	return c, nil
}
