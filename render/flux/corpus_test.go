package flux_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const corpora = "../../../shared/corpora/gitops"

// outcome is what Flux's own code makes of a case.
type outcome struct {
	Status  string `json:"status"`
	Stage   string `json:"stage"`
	Error   string `json:"error"`
	Objects []struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Namespace  string         `json:"namespace"`
		Name       string         `json:"name"`
		Object     map[string]any `json:"object"`
	} `json:"objects"`
}

// cases lists the folders of a table of the corpora.
func cases(t *testing.T, table string) []string {
	t.Helper()
	dirs, _ := filepath.Glob(filepath.Join(corpora, table, "*", "want.json"))
	if len(dirs) == 0 {
		t.Skipf("no cases in %s", filepath.Join(corpora, table))
	}
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	return dirs
}

func readWant(t *testing.T, dir string, into any) {
	t.Helper()
	data := rendertest.ReadFile(t, filepath.Join(dir, "want.json"))
	rendertest.OK(t, json.Unmarshal(data, into))
}

// damaged are cases that the table does not hold as they were.
var damaged = map[string]string{"gen-38-symlink-gone": "its symbolic link is stored as a file"}

// TestBuild holds Kustomizations against the outcomes of kustomize-controller.
func TestBuild(t *testing.T) {
	t.Parallel()
	for _, dir := range cases(t, "flux-build") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			if why := damaged[filepath.Base(dir)]; why != "" {
				t.Skip(why)
			}
			var want struct {
				Kustomizations []struct {
					Strict outcome         `json:"strict"`
					Lax    json.RawMessage `json:"lax"`
				} `json:"kustomizations"`
			}
			readWant(t, dir, &want)
			for _, k := range want.Kustomizations {
				lax := k.Strict
				if string(k.Lax) != `"same"` {
					lax = outcome{}
					rendertest.OK(t, json.Unmarshal(k.Lax, &lax))
				}
				compare(t, k.Strict, buildCase(t, dir, "2.9"))
				compare(t, lax, buildCase(t, dir, "2.8"))
			}
		})
	}
}

func buildCase(t *testing.T, dir, version string) *render.Unit {
	t.Helper()
	tree := os.DirFS(filepath.Join(dir, "in"))
	w := &world{tree: tree, cluster: render.Cluster{FluxVersion: version}}
	w.objects = append(parse(t, tree, "ks.yaml"), parse(t, tree, "objects.yaml")...)
	source, _ := render.Lookup(w.objects[0].Object, "/spec/sourceRef/name")
	kind, _ := render.Lookup(w.objects[0].Object, "/spec/sourceRef/kind")
	w.sources = map[string]string{strings.Join([]string{kind.(string), w.objects[0].GetNamespace(), source.(string)}, "/"): "root"}
	return w.resolve(t)[0]
}

// compare compares a unit with an outcome: whether it is rendered, and its
// objects.
func compare(t *testing.T, want outcome, u *render.Unit) {
	t.Helper()
	if (want.Status == "ok") != (u.Status() == "rendered") {
		t.Errorf("want %s (%s %s), got %s: %v", want.Status, want.Stage, want.Error, u.Status(), u.Err)
		return
	}
	if want.Status != "ok" {
		return // what was rendered without absent sources is not wanted there
	}
	var have, wanted []map[string]any
	for _, o := range u.Objects {
		have = append(have, canonical(t, o.Object))
	}
	for _, o := range want.Objects {
		if o.Object == nil {
			t.Logf("%s %s: too large to be kept", o.Kind, o.Name)
			return
		}
		wanted = append(wanted, canonical(t, o.Object))
	}
	order(have)
	order(wanted)
	rendertest.Equal(t, wanted, have)
}

func canonical(t *testing.T, v map[string]any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	rendertest.OK(t, err)
	var out map[string]any
	rendertest.OK(t, json.Unmarshal(data, &out))
	return out
}

func order(objects []map[string]any) {
	slices.SortFunc(objects, func(a, b map[string]any) int {
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		return strings.Compare(string(x), string(y))
	})
}
