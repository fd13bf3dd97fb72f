package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/helm"
	"github.com/preadmit/preadmit/render/kustomize"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestFidelity holds what is rendered here against the helm and kustomize
// programs, where they are on PATH: `make fidelity`. It goes over every chart
// and kustomization in PREADMIT_REPOS, by default ../shared/repos, and testdata.
func TestFidelity(t *testing.T) {
	charts := helm.New(helm.Options{})
	for _, c := range []struct {
		program  string
		renderer render.Renderer
		args     func(dir string) []string
	}{
		{"helm", charts, func(dir string) []string {
			return []string{"template", chartName(dir), dir, "--include-crds", "--kube-version", "1.37.0"}
		}},
		{"kustomize", kustomize.New(kustomize.Options{Helm: charts}), func(dir string) []string {
			return []string{"build", "--enable-helm", dir}
		}},
	} {
		t.Run(c.program, func(t *testing.T) {
			program, err := exec.LookPath(c.program)
			if err != nil {
				t.Skipf("no %s on PATH", c.program)
			}
			if os.Getenv("PREADMIT_FIDELITY") == "" {
				t.Skip("takes minutes; make fidelity runs it")
			}
			var equal, both, ours, theirs int
			for _, root := range repositories(t) {
				tr := treeOf(t, root)
				for _, dir := range claimed(t, tr, c.renderer) {
					got, gotErr := c.renderer.Render(context.Background(), render.Source{FS: tr, Path: dir, Kind: c.renderer.Kind()})
					want, wantErr := objectsOf(program, c.args(filepath.Join(root, dir)))
					gotErr = fatal(gotErr)
					switch {
					case gotErr != nil && wantErr != nil:
						both++
					case gotErr != nil:
						// A remote base that the program fetched, or a chart
						// that it took from its cache, is none of ours.
						ours++
						t.Logf("%s: only here: %v", filepath.Join(root, dir), gotErr)
					case wantErr != nil && strings.Contains(wantErr.Error(), "missing in charts/ directory"):
						theirs++ // a file:// dependency, which helm wants copied first
					case wantErr != nil:
						theirs++
						t.Errorf("%s: only %s fails: %v", filepath.Join(root, dir), c.program, wantErr)
					default:
						if diff := cmp.Diff(want, canonical(got)); diff != "" && !random(got) {
							t.Errorf("%s: %s -, here +:\n%.2000s", filepath.Join(root, dir), c.program, diff)
							continue
						}
						equal++
					}
				}
			}
			t.Logf("%s: %d equal, %d fail in both, %d fail here alone, %d there alone", c.program, equal, both, ours, theirs)
			if equal == 0 {
				t.Error("nothing was compared")
			}
		})
	}
}

func chartName(dir string) string {
	data, _ := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	var chart struct{ Name string }
	_ = yaml.Unmarshal(data, &chart)
	return chart.Name
}

func repositories(t *testing.T) []string {
	t.Helper()
	dir := os.Getenv("PREADMIT_REPOS")
	if dir == "" {
		dir = "../../../shared/repos"
	}
	roots, _ := filepath.Glob(filepath.Join(dir, "*"))
	roots = append(roots, "../../testdata/repos/shop")
	roots = slices.DeleteFunc(roots, func(p string) bool { info, err := os.Stat(p); return err != nil || !info.IsDir() })
	for i := range roots {
		abs, err := filepath.Abs(roots[i])
		rendertest.OK(t, err)
		roots[i] = abs
	}
	return roots
}

// claimed are the directories that are units of the renderer.
func claimed(t *testing.T, tr *load.Tree, r render.Renderer) []string {
	t.Helper()
	var dirs []string
	err := fs.WalkDir(tr, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		c, ok := r.Detect(tr, p)
		if ok && c.Unit {
			dirs = append(dirs, p)
		}
		if ok && c.Whole {
			return fs.SkipDir
		}
		return nil
	})
	rendertest.OK(t, err)
	return dirs
}

// fatal leaves out warnings.
func fatal(err error) error {
	for _, e := range render.Errors(err) {
		if !e.Warning {
			return e
		}
	}
	return nil
}

func objectsOf(program string, args []string) ([]string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, errors.New(strings.TrimSpace(stderr.String()))
	}
	objects, _ := render.Parse(program, stdout.Bytes()) // what is wrong with it shows in the objects
	return canonical(objects), nil
}

// canonical are the objects as JSON, sorted: the programs order them by their
// own lists.
func canonical(objects []*render.Object) []string {
	all := make([]string, len(objects))
	for i, o := range objects {
		data, _ := json.MarshalIndent(o.Object, "", " ")
		all[i] = string(data)
	}
	slices.Sort(all)
	return all
}

// random tells whether something that is different each time is in the objects.
func random(objects []*render.Object) bool {
	return slices.ContainsFunc(objects, func(o *render.Object) bool {
		return slices.ContainsFunc(o.Assumed, func(a string) bool { return strings.HasPrefix(a, "template uses") && !strings.Contains(a, "lookup") })
	})
}
