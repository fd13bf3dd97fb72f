package admission

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestGolden evaluates the objects of each archive and compares the results, one
// a line. An archive holds policy.yaml (policies and bindings), object.yaml,
// old.yaml (what is there before) and cluster.yaml (context). The comment's
// lines may set `version: 1.30`, `user: name`,
// `unbound: assume` and `types: check`.
func TestGolden(t *testing.T) {
	t.Parallel()
	rendertest.Archives(t, "testdata", rendertest.Twice(evaluateArchive))
}

func evaluateArchive(t *testing.T, a *txtar.Archive) string {
	setting := settings(string(a.Comment))
	objects := map[string][]*render.Object{}
	for _, f := range a.Files {
		if strings.HasSuffix(f.Name, ".yaml") {
			objects[f.Name] = rendertest.Parse(t, f.Name, f.Data)
		}
	}
	all := append(objects["cluster.yaml"], objects["object.yaml"]...)
	options := Options{Kinds: testKinds{crds(all)}, Cluster: policy.NewCluster(all...), KubeVersion: setting["version"]}
	if setting["types"] == "check" {
		options.Types = kindsOf(t, crds(all)...)
	}
	if setting["unbound"] == "assume" {
		options.AssumeBound = always
	}
	var out strings.Builder
	e, err := New(objects["policy.yaml"], options)
	for _, x := range render.Errors(err) {
		fmt.Fprintf(&out, "! %v\n", strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf("%v: %s: %v", x.Span, x.Rule, x.Err), "\n", "⏎"), "  ", " "))
	}
	reqs := policy.Requests(objects["old.yaml"], objects["object.yaml"])
	for i := range reqs {
		reqs[i].UserInfo.Username = setting["user"]
	}
	chain := policy.Chain{Kinds: options.Kinds, Validators: []policy.Validator{e}}
	results, err := chain.Review(context.Background(), reqs)
	rendertest.OK(t, err)
	for _, r := range results {
		writeResult(&out, &r)
	}
	return out.String()
}

func writeResult(out *strings.Builder, r *policy.Result) {
	fmt.Fprintf(out, "%s %s %s/%s: %s %s %s/%s", r.Operation, r.Object.Kind, r.Object.Namespace, r.Object.Name, r.Outcome, r.Action, r.Policy, r.Rule)
	if r.PolicyOrigin.File != "" {
		fmt.Fprintf(out, " (%d:%d)", r.PolicyOrigin.Line, r.PolicyOrigin.Column)
	}
	if r.Message != "" {
		fmt.Fprintf(out, ": %s", strings.ReplaceAll(r.Message, "\n", "⏎"))
	}
	for _, s := range []string{r.Reason, string(r.Severity), r.Hint} {
		if s != "" {
			fmt.Fprintf(out, " {%s}", s)
		}
	}
	if len(r.Fields) > 0 {
		fmt.Fprintf(out, " %q", r.Fields)
	}
	if len(r.Assumed) > 0 {
		fmt.Fprintf(out, " assumed %q", r.Assumed)
	}
	out.WriteString("\n")
}

func settings(comment string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(comment) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.Contains(k, " ") {
			m[k] = v
		}
	}
	m["user"] = cmp.Or(m["user"], "alice")
	if m["user"] == "none" {
		m["user"] = ""
	}
	return m
}

func crds(objects []*render.Object) []*render.Object {
	var found []*render.Object
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			found = append(found, o)
		}
	}
	return found
}
