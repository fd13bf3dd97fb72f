package triage

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/lsp"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// Limits of an answer about a line.
const (
	maxLooked = 200_000 // fields whose places are looked up
	maxShown  = 5       // fields that a hover shows
	maxPlaces = 1000
)

// fileUses are the fields that the lines of a file determine.
type fileUses struct {
	file    string
	list    []use
	cut     bool // there may be others
	secrets policy.Secrets
}

// A use is a field that one place determines.
type use struct {
	object  *render.Object
	pointer string
	at      render.Span
}

// uses returns what the value at a position of a file becomes, or nil.
func (h *Host) uses(ctx context.Context, run *shownRun, q *question) (*lsp.Uses, error) {
	if !run.has(q) {
		return nil, nil
	}
	all, err := run.usesOf(ctx, q.File)
	if err != nil {
		return nil, err
	}
	h.mu.Lock() // a Source is not safe for concurrent use
	defer h.mu.Unlock()
	lines, _ := run.source.Lines(q.File)
	line := q.At.Line + 1
	if line < 1 || line > len(lines) {
		return nil, nil
	}
	found := all.at(line, q.Encoding.Column(lines[line-1], q.At.Character))
	m := findingMaker{run: run, encoding: q.Encoding}
	answer := &lsp.Uses{Range: lsp.Range{Start: q.At, End: q.At}}
	if all.cut {
		answer.Note = fmt.Sprintf("There may be more: only %d fields were looked at.", maxLooked)
	}
	if len(found) > 0 {
		if at, ok := run.source.Mark(render.Origin{Span: found[0].at}); ok {
			answer.Range = m.place(at).Range
		}
	}
	for _, x := range found[:min(maxShown, len(found))] {
		answer.Fields = append(answer.Fields, run.describe(x, all.secrets))
	}
	answer.More = len(found) - len(answer.Fields)
	answer.Places = m.elsewhere(found, q.File, line)
	return answer, nil
}

// elsewhere returns the other lines that determine fields or, where there are none, those that name the
// objects.
func (m *findingMaker) elsewhere(found []use, file string, line int) (all []lsp.Place) {
	seen := make(map[render.Span]bool)
	for _, x := range found {
		others := 0
		for _, pointer := range []string{x.pointer, "/metadata/name"} {
			for _, o := range report.Displayed(x.object.At(pointer), m.run.tree.Display) {
				at, ok := m.run.source.Mark(o)
				if !ok || at.File == file && at.Line == line {
					continue
				}
				if others++; !seen[o.Span] && len(all) < maxPlaces {
					seen[o.Span] = true
					all = append(all, m.place(at))
				}
			}
			if others > 0 {
				break
			}
		}
	}
	return all
}

// has reports whether the text of the file that a question is about is that of the run.
func (s *shownRun) has(q *question) bool {
	now, open := q.Texts[q.File]
	was, wasOpen := s.texts[q.File]
	return s.evaluation != nil && open == wasOpen && now == was
}

// usesOf returns the fields that a file's lines determine. It looks at the objects of all units that may
// have read the file, and keeps the answer for the next question about that file.
func (s *shownRun) usesOf(ctx context.Context, file string) (*fileUses, error) {
	s.using.Lock()
	defer s.using.Unlock()
	if s.used != nil && s.used.file == file {
		return s.used, nil
	}
	all := &fileUses{file: file, secrets: evaluate.SecretsOf(s.in)}
	looked := 0
	for _, u := range s.in.Head {
		if state := render.State(u.Status()); state == render.NotRendered || state == render.Foreign || !s.in.Graph.MayRead(u, file) {
			continue
		}
		before := len(all.list)
		for _, o := range u.Objects {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			for pointer, v := range render.Fields(o.Object, "") {
				if !isLeaf(v) {
					continue
				}
				if looked++; looked > maxLooked {
					all.cut = true
					break
				}
				all.add(s, o, pointer)
			}
		}
		if len(all.list) == before {
			u.Forget()
		}
	}
	s.used = all
	return all, nil
}

// isLeaf reports whether a value holds no other value.
func isLeaf(v any) bool {
	m, _ := v.(map[string]any)
	list, _ := v.([]any)
	return len(m)+len(list) == 0
}

// add adds the places of a field in the file. A place that only refers to others, such as an entry of
// resources, determines no value.
func (f *fileUses) add(s *shownRun, o *render.Object, pointer string) {
	for _, at := range o.At(pointer) {
		if at.Line > 0 && at.Role != render.Reference && s.tree.Display(at.File) == f.file {
			at.File = f.file
			f.list = append(f.list, use{o, pointer, at.Span})
		}
	}
}

// at returns the fields that a position determines: by the value there or, if there is none, by any value
// of the line. Each field comes once.
func (f *fileUses) at(line, column int) []use {
	var found, exact []use
	for _, x := range f.list {
		end := max(x.at.EndLine, x.at.Line)
		if line < x.at.Line || line > end || line == end && end > x.at.Line && x.at.EndColumn <= 1 {
			continue
		}
		found = append(found, x)
		if (line > x.at.Line || column >= x.at.Column) && (line < end || column <= x.at.EndColumn) {
			exact = append(exact, x)
		}
	}
	if len(exact) > 0 {
		found = exact
	}
	type field struct {
		object  *render.Object
		pointer string
	}
	seen := make(map[field]bool)
	return slices.DeleteFunc(found, func(x use) bool {
		k := field{x.object, x.pointer}
		defer func() { seen[k] = true }()
		return seen[k]
	})
}

// describe describes a field with its value, unless that may be a secret.
func (s *shownRun) describe(x use, secrets policy.Secrets) string {
	field := x.pointer
	if x.object.GetKind() != "Secret" {
		v, _ := render.Lookup(x.object.Object, x.pointer)
		field += ": " + valueText(v, func(text string) string { return secrets.Cover(text, x.object.At(x.pointer)) })
	}
	key := x.object.Key()
	unit := "unit " + s.tree.Display(key.Unit)
	if x.object.Unit.State == render.Unreached {
		unit += ", which nothing deploys"
	}
	return report.Plain(fmt.Sprintf("`%s` of %s (%s)", field, report.ObjectName(key), unit))
}

// valueText returns a scalar as YAML on one line.
func valueText(v any, cover func(string) string) string {
	text, is := v.(string)
	if !is {
		data, _ := yaml.Marshal(v)
		return cover(strings.TrimSpace(string(data)))
	}
	const most = 200
	text = render.Cut(cover(text), most)
	if data, err := yaml.Marshal(text); err == nil && !strings.Contains(text, "\n") {
		return strings.TrimSpace(string(data))
	}
	return strconv.Quote(text)
}

// matches returns the places of what the policy or rule matches that begins on the line of a question.
func (h *Host) matches(run *shownRun, q *question) []lsp.Place {
	if !run.has(q) {
		return nil
	}
	named := func(o *render.Object) bool {
		at := o.Span("/metadata/name")
		return lint.IsPart(o) && at.Line == q.At.Line+1 && run.tree.Display(at.File) == q.File
	}
	policies := load.Only(slices.Concat(render.Objects(run.in.Head), render.Objects(run.in.Given)), named)
	rules := slices.DeleteFunc(slices.Clone(run.report.Rules), func(r policy.Rule) bool {
		return r.Origin.File != q.File || r.Origin.Line != q.At.Line+1 && !slices.ContainsFunc(policies, func(o *render.Object) bool {
			return r.Policy == o.GetName() || strings.HasSuffix(r.Policy, "/"+o.GetName())
		})
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	m := findingMaker{run: run, encoding: q.Encoding}
	var all []lsp.Place
	for _, o := range report.Matched(run.report, rules) {
		if at, ok := run.source.Mark(o); ok && len(all) < maxPlaces {
			all = append(all, m.place(at))
		}
	}
	return all
}

// complete returns the names that may be written at a position in an expression, which need not be in a file of
// the run.
func (s *shownRun) complete(q *question, kubeVersion string) (all []policy.Completion, err error) {
	s.typing.Lock()
	defer s.typing.Unlock()
	lines := strings.Split(q.Texts[q.File], "\n")
	if q.At.Line < 0 || q.At.Line >= len(lines) {
		return nil, nil
	}
	column := q.Encoding.Column(lines[q.At.Line], q.At.Character)
	objects, _ := render.Parse(q.File, []byte(q.Texts[q.File]))
	for _, o := range objects {
		pointer, before, ok := o.StringAt(q.At.Line+1, column)
		if !ok || !lint.IsCompiled(o) {
			continue
		}
		if s.types == nil {
			if s.types, err = engines.Types(s.in, kubeVersion); s.types == nil {
				return nil, err
			}
		}
		all = append(all, engines.Complete(s.types, kubeVersion, o, pointer, before)...)
	}
	return all, nil
}

// inspect returns the problems of policies that the command policies finds, in the open files. The next
// evaluation ends it.
func (h *Host) inspect(ctx context.Context, q *question) ([]lsp.Finding, error) {
	ctx, stop := h.inTurn(ctx)
	defer stop()
	h.mu.Lock()
	run := h.run
	h.mu.Unlock()
	h.one.Lock()
	defer h.one.Unlock()
	if run == nil || run.evaluation == nil || !run.holdsPolicies() {
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.options.Timeout, fmt.Errorf("policies are not inspected after --timeout %s", h.options.Timeout))
	defer cancel()
	o := *h.options
	o.Base, o.Notes, o.Texts, o.Forgets = "", io.Discard, run.texts, true
	o.Memory = &load.Memory{Store: run.memory.Store, Build: run.memory.Build, Digests: run.memory.Digests}
	v, err := evaluate.ReviewPolicies(o.Watch.Timed(ctx), &o, run.in, run.tree.HoldsAll(h.args))
	if err != nil {
		return nil, err
	}
	o.Memory.Keep()
	r := v.Report(run.in).Run()
	r.Results = slices.DeleteFunc(r.Results, func(x policy.Result) bool { return x.Engine != policy.EnginePolicies })
	found, _ := report.Findings(r, report.NewSource(r))
	m := findingMaker{run: run, encoding: q.Encoding}
	all := []lsp.Finding{}
	for i := range found {
		if _, open := run.texts[found[i].At.File]; open {
			all = append(all, m.finding(&found[i]))
		}
	}
	return all, nil
}

// holdsPolicies reports whether a policy, or a part of one, is in an open file.
func (s *shownRun) holdsPolicies() bool {
	open := func(file string) bool { _, is := s.texts[s.tree.Display(file)]; return is }
	return slices.ContainsFunc(s.report.Rules, func(r policy.Rule) bool { return open(r.Origin.File) }) ||
		slices.ContainsFunc(slices.Concat(render.Objects(s.in.Head), render.Objects(s.in.Given)), func(o *render.Object) bool {
			return lint.IsPart(o) && open(o.Span("/metadata/name").File)
		})
}
