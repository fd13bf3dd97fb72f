package admission

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
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
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no archives", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			golden(t, file)
		})
	}
}

func golden(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	rendertest.OK(t, err)
	got := evaluateArchive(t, a)
	if again := evaluateArchive(t, a); again != got {
		t.Errorf("a second run differs:\n%s", again)
	}
	for i := range a.Files {
		if a.Files[i].Name != "want" {
			continue
		}
		if want := string(a.Files[i].Data); want != got && os.Getenv("UPDATE_GOLDEN") == "" {
			t.Errorf("want:\n%s\ngot:\n%s", want, got)
		}
		a.Files[i].Data = []byte(got)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		rendertest.OK(t, os.WriteFile(file, txtar.Format(a), 0o644))
	}
}

func evaluateArchive(t *testing.T, a *txtar.Archive) string {
	setting := settings(string(a.Comment))
	objects := map[string][]*render.Object{}
	for _, f := range a.Files {
		if strings.HasSuffix(f.Name, ".yaml") {
			objects[f.Name] = parse(t, f.Name, f.Data)
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

func parse(t testing.TB, name string, data []byte) []*render.Object {
	t.Helper()
	objects, err := render.Parse(name, data)
	rendertest.OK(t, err)
	return objects
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
