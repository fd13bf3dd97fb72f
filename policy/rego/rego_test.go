package rego

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	opa "github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// given are the files of a test: *.rego, data/*, and objects in *.yaml.
type given struct {
	modules []Module
	options Options
	objects []*render.Object
}

func files(t testing.TB, text string) given {
	t.Helper()
	var g given
	for _, f := range txtar.Parse([]byte(text)).Files {
		switch {
		case strings.HasSuffix(f.Name, ".rego"):
			g.modules = append(g.modules, Module{f.Name, string(f.Data)})
		case strings.HasPrefix(f.Name, "data/"):
			g.options.Data = append(g.options.Data, Document{File: f.Name, Under: between("data", f.Name), Text: string(f.Data)})
		case f.Name == "want":
		default:
			g.objects = append(g.objects, objects(t, f.Name, f.Data)...)
		}
	}
	return g
}

// objects are those of a YAML file. Unlike render.Parse it takes any mapping.
func objects(t testing.TB, file string, text []byte) []*render.Object {
	t.Helper()
	docs, err := render.Documents(file, text, render.YAML11)
	rendertest.OK(t, err)
	var all []*render.Object
	for _, d := range docs {
		all = append(all, &render.Object{
			Unstructured: &unstructured.Unstructured{Object: d.Value.(map[string]any)},
			Provenance:   render.File{Span: render.Span{File: file}},
		})
	}
	return all
}

// said is what a run says, a line each: first what New did, then results.
func (g given) said(t testing.TB) string {
	t.Helper()
	e, err := New(g.modules, g.options)
	var b strings.Builder
	for _, x := range render.Errors(err) {
		fmt.Fprintf(&b, "%s [%s]", x, x.Rule)
		if x.Warning {
			b.WriteString(" warning")
		}
		if x.Hint != "" {
			fmt.Fprintf(&b, " (%s)", x.Hint)
		}
		b.WriteByte('\n')
	}
	for _, n := range e.Notes() {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for _, o := range g.objects {
		results, err := e.Validate(t.Context(), &policy.Request{Operation: policy.Create, Object: o})
		rendertest.OK(t, err)
		b.WriteString(lines(o.GetName(), results))
	}
	return b.String()
}

func lines(object string, results []policy.Result) string {
	var all []string
	for _, r := range results {
		line := fmt.Sprintf("%s: %s %s %s.%s %s", object, r.Outcome, r.Action, r.Policy, r.Rule, r.PolicyOrigin)
		if r.Severity != "" {
			line += " " + string(r.Severity)
		}
		if r.Message != "" {
			line += fmt.Sprintf(" %q", r.Message)
		}
		if len(r.Fields) > 0 {
			line += " " + strings.Join(r.Fields, " ")
		}
		for _, a := range r.Assumed {
			if a != opa.Unsure {
				line += " [" + a + "]"
			}
		}
		all = append(all, line+"\n")
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

const pod = `
-- pod.yaml --
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: a, image: "web:latest"}, {name: b, image: "db:1"}]}
`

// TestGolden evaluates the modules of each archive in testdata, with its data, its
// objects and a Pod.
func TestGolden(t *testing.T) {
	t.Parallel()
	rendertest.Archives(t, "testdata", func(t *testing.T, a *txtar.Archive) string {
		return files(t, pod+string(txtar.Format(a))).said(t)
	})
}

// withoutPasses leaves out the lines of rules that hold.
func withoutPasses(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, ": pass ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
