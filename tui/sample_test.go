package tui

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// today is the day of all tests.
var today = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

// sampleTree are the files that sample's results point to.
func sampleTree() fstest.MapFS {
	return fstest.MapFS{
		"charts/web/values.yaml": {Data: []byte(`# what the chart is given
image:
  repository: registry.example/web
  tag: latest # to be pinned
replicas: 12
resources: {}
notes: "日本語 and é"
`)},
		"charts/web/templates/deployment.yaml": {Data: []byte("apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: {{ .Values.replicas }}\n")},
		"apps/db.yaml":                         {Data: []byte("apiVersion: v1\nkind: Pod\nmetadata:\n  name: db\nspec:\n\thostNetwork: true\n")},
		"apps/secret.yaml":                     {Data: []byte("apiVersion: v1\nkind: Secret\nstringData:\n  password: hunter2\n  token: hunter3\n")},
	}
}

func at(file string, line, column, end int, role render.Role) render.Origin {
	return render.Origin{Span: render.Span{File: file, Line: line, Column: column, EndLine: line, EndColumn: end}, Role: role}
}

// sample is a report with something of everything.
func sample() *report.Report {
	web := render.Key{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: "web", Unit: "charts/web"}
	db := render.Key{APIVersion: "v1", Kind: "Pod", Namespace: "prod", Name: "db", Unit: "apps"}
	secret := render.Key{APIVersion: "v1", Kind: "Secret", Namespace: "prod", Name: "keys", Unit: "apps"}
	rule := func(p string, line int) render.Span { return at("policies/"+p+".yaml", line, 17, 40, "").Span }
	results := []policy.Result{
		{
			Engine: policy.EngineAdmission, Policy: "max-replicas", Rule: "validations[0]", Operation: "CREATE", Object: web, Outcome: policy.Fail, Action: policy.Deny,
			Message: "at most 10 replicas are allowed", Fields: []string{"/spec/replicas"}, PolicyOrigin: rule("replicas", 18), Severity: policy.Medium,
			Origins: []render.Origin{at("charts/web/values.yaml", 5, 11, 13, render.Value), at("charts/web/templates/deployment.yaml", 4, 3, 11, render.Template)},
		},
		{
			Engine: policy.EngineAdmission, Policy: "images", Rule: "validations[1]", Operation: "CREATE", Object: web, Outcome: policy.Fail, Action: policy.Deny,
			Message: "images must have a tag other than latest, or a digest", Fields: []string{"/spec/template/spec/containers/0/image"}, PolicyOrigin: rule("images", 38),
			Origins: []render.Origin{at("charts/web/values.yaml", 4, 8, 14, render.Value)}, Severity: policy.High,
		},
		{
			Engine: policy.EngineAdmission, Policy: "images", Rule: "validations[1]", Operation: "CREATE", Object: db, Outcome: policy.Fail, Action: policy.Warn,
			Message: "images must have a tag other than latest, or a digest", Origins: []render.Origin{at("apps/db.yaml", 2, 1, 5, render.Manifest)}, PolicyOrigin: rule("images", 38),
		},
		{
			Engine: policy.EnginePodSecurity, Policy: "baseline", Rule: "hostNamespaces", Operation: "CREATE", Object: db, Outcome: policy.Fail, Action: policy.Deny, Baseline: policy.Unchanged,
			Message: "host namespaces (hostNetwork=true)", Fields: []string{"/spec/hostNetwork"}, Origins: []render.Origin{at("apps/db.yaml", 6, 2, 19, render.Manifest)},
		},
		{
			Engine: policy.EngineKyverno, Policy: "no-secrets", Rule: "plain", Operation: "CREATE", Object: secret, Outcome: policy.Fail, Action: policy.Audit,
			Message: "secrets are not to be written in plain", Origins: []render.Origin{at("apps/secret.yaml", 4, 3, 11, render.Manifest)},
			Suppression: &policy.Suppression{Rule: "no-secrets/**", Object: "/Secret/prod/*", Reason: "sealed in CI", Expires: "2027-01-31", Owner: "team-db", Origin: render.Span{File: ".preadmit/suppressions.yaml", Line: 2, Column: 3}},
		},
		{
			Engine: policy.EngineKyverno, Policy: "quota", Rule: "asks-cluster", Operation: "CREATE", Object: db, Outcome: policy.Unknown, Action: policy.Deny,
			Message: "apiCall /api/v1/namespaces needs a live cluster",
		},
		{
			Engine: policy.EngineRender, Policy: "helm", Rule: "missing-dependency", Object: render.Key{Unit: "charts/api"}, Outcome: policy.Error, Action: policy.Deny,
			Message: "dependency redis is not vendored", Hint: "run helm dependency build", Origins: []render.Origin{at("charts/api/Chart.yaml", 3, 1, 1, render.Manifest)},
		},
		{Engine: policy.EnginePodSecurity, Policy: "baseline", Rule: "hostNamespaces", Operation: "CREATE", Object: web, Outcome: policy.Pass},
	}
	for i := range results {
		results[i].Fingerprint = fmt.Sprintf("%032x", i+1)
	}
	r := report.New(report.Tool{Name: "preadmit", Version: "test"}, nil, []policy.Rule{{
		Engine: policy.EngineAdmission, Policy: "max-replicas", Name: "validations[0]", Title: "at most 10 replicas are allowed", Severity: policy.Medium,
		Expression: "object.spec.replicas <= 10", Description: "More is a question of money.", Help: "Lower `replicas`, or ask.", Origin: rule("replicas", 18),
	}}, results)
	r.Tree = sampleTree()
	r.Units = []report.Unit{
		{ID: "clusters/prod", Path: "clusters/prod", Kind: "kustomize", Renderer: "kustomize", Status: "rendered", Objects: 2},
		{ID: "apps", Path: "apps", Kind: "manifest", Renderer: "directory", Status: "rendered", Objects: 3, Owner: "clusters/prod"},
		{ID: "charts/web", Path: "charts/web", Kind: "helm", Renderer: "helm", Namespace: "prod", Status: "rendered", Objects: 1, Owner: "apps"},
		{ID: "charts/api", Path: "charts/api", Kind: "helm", Renderer: "helm", Status: "failed", Reason: "dependency redis is not vendored", Owner: "apps"},
		{ID: "old", Path: "old", Kind: "manifest", Renderer: "directory", Status: "unreached", Objects: 4},
	}
	return r
}

// A fakeHost answers from memory, and says what it was asked.
type fakeHost struct {
	report            *report.Report
	err               error // of Evaluate
	file              []byte
	edits             []string
	proposed, written []Decisions
	changed           bool // the file was changed meanwhile, once
	editErr           error
}

func (f *fakeHost) Evaluate(_ context.Context, tell func(Progress)) (*report.Report, error) {
	tell(Progress{Step: "evaluating", Done: 1, Total: 2})
	return f.report, f.err
}

func (f *fakeHost) Watch(ctx context.Context) error { return context.Canceled }

func (f *fakeHost) Object(_ context.Context, x *policy.Result) (*Rendered, error) {
	if x.Object.Kind != "Deployment" {
		return nil, errors.New("this object is not among those that are rendered here")
	}
	return &Rendered{Diff: "--- base\n+++ now\n@@ -1,2 +1,2 @@\n kind: Deployment\n-  replicas: 2\n+  replicas: 12\n", Lines: []Line{
		{"apiVersion: apps/v1", "/apiVersion", "charts/web/templates/deployment.yaml:1"},
		{"kind: Deployment", "/kind", "charts/web/templates/deployment.yaml:2"},
		{"spec:", "/spec", "charts/web/templates/deployment.yaml:3"},
		{"  replicas: 12", "/spec/replicas", "charts/web/values.yaml:5"},
	}}, nil
}

func (f *fakeHost) Explain(_ context.Context, x *policy.Result) (string, error) {
	return "rule " + x.Rule + "\n  object.spec.replicas <= 10\n    object.spec.replicas = 12\n", nil
}

func (f *fakeHost) Lines(_ context.Context, file string) ([]string, error) {
	if lines, ok := report.NewSource(f.report).Lines(file); ok {
		return lines, nil
	}
	return nil, fmt.Errorf("%s: this file is not available, or is not text", file)
}

func (f *fakeHost) Propose(d Decisions) (*Change, error) {
	f.proposed = append(f.proposed, d)
	return &Change{File: ".preadmit/suppressions.yaml", Before: f.file, After: policy.WriteSuppressions(d.Add), Diff: "--- a\n+++ b\n" + string(policy.WriteSuppressions(d.Add))}, nil
}

func (f *fakeHost) Fix(_ context.Context, x *policy.Result) (*Change, error) {
	if x.Object.Kind != "Deployment" {
		return nil, errors.New("no fix: no rule or standard determines the value")
	}
	return &Change{File: "a.yaml", Fix: "Set replicas: 3 (safe)", Before: f.file, After: []byte("3"), Diff: "--- a/a.yaml\n+++ b/a.yaml\n@@ -1 +1 @@\n-12\n+3\n", More: []*Change{{File: "b.yaml"}}}, nil
}

func (f *fakeHost) Write(c *Change) error {
	if f.changed {
		f.changed = false
		return ErrChanged
	}
	if string(c.Before) != string(f.file) || (c.Before == nil) != (f.file == nil) {
		return ErrChanged
	}
	if c.Fix == "" {
		f.written = append(f.written, f.proposed[len(f.proposed)-1])
	}
	f.file = c.After
	return nil
}

func (f *fakeHost) Edit(at render.Span) (*Editor, error) {
	f.edits = append(f.edits, at.String())
	if f.editErr != nil {
		return nil, f.editErr
	}
	return &Editor{Cmd: &exec.Cmd{Err: errors.New("exit status 1")}, Window: true}, nil // starts nothing
}

// A driver plays a screen without a terminal: what commands come to is told at
// once.
type driver struct {
	*model
	host *fakeHost
	quit bool
}

func newDriver(tb testing.TB, width, height int, change func(*fakeHost, *Options)) *driver {
	tb.Helper()
	d := &driver{host: &fakeHost{report: sample()}}
	o := Options{Today: today, Theme: "dark"}
	if change != nil {
		change(d.host, &o)
	}
	d.model = newModel(tb.Context(), d.host, o)
	d.tell(tea.WindowSizeMsg{Width: width, Height: height})
	d.run(d.Init())
	return d
}

func (d *driver) tell(msg tea.Msg) {
	_, cmd := d.Update(msg)
	d.run(cmd)
}

func (d *driver) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			d.run(c)
		}
	case tea.QuitMsg:
		d.quit = true
	case nil:
	default:
		d.tell(msg)
	}
}

// press presses keys: words apart by blanks, "quoted" ones are typed.
func (d *driver) press(keys string) {
	for _, k := range splitWords(keys) {
		if text, ok := strings.CutPrefix(k, `"`); ok {
			for _, r := range strings.TrimSuffix(text, `"`) {
				d.tell(tea.KeyPressMsg{Code: r, Text: string(r)})
			}
			continue
		}
		d.tell(keyPress(k))
	}
}

var keyCodes = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "space": tea.KeySpace, "up": tea.KeyUp, "down": tea.KeyDown,
	"left": tea.KeyLeft, "right": tea.KeyRight, "backspace": tea.KeyBackspace, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "home": tea.KeyHome, "end": tea.KeyEnd, "delete": tea.KeyDelete,
}

func keyPress(k string) tea.KeyPressMsg {
	name, ctrl := strings.CutPrefix(k, "ctrl+")
	code, special := keyCodes[name]
	if !special {
		code = []rune(name)[0]
	}
	switch {
	case ctrl:
		return tea.KeyPressMsg{Code: code, Mod: tea.ModCtrl}
	case name == "space":
		return tea.KeyPressMsg{Code: code, Text: " "}
	case special:
		return tea.KeyPressMsg{Code: code}
	default:
		return tea.KeyPressMsg{Code: code, Text: name}
	}
}
