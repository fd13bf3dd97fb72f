package kustomize_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/kustomize"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestCorpus builds every kustomization of real repositories and compares with
// `kustomize build` on disk. It needs those repositories beside the project.
func TestCorpus(t *testing.T) {
	const repos = "../../../shared/repos"
	rendertest.SkipWithout(t, repos)
	entries, err := os.ReadDir(repos)
	rendertest.OK(t, err)
	for _, e := range entries {
		if e.IsDir() {
			t.Run(e.Name(), func(t *testing.T) { t.Parallel(); compareAll(t, filepath.Join(repos, e.Name())) })
		}
	}
}

type counts struct{ built, component, missing, failed, wrong int }

func compareAll(t *testing.T, root string) {
	fsys := os.DirFS(root)
	r := kustomize.New(kustomize.Options{})
	var n counts
	units := 0
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if c, ok := r.Detect(fsys, name); !ok {
			return nil
		} else if !c.Unit {
			n.component++
			return nil
		}
		if units++; wanted(units) {
			n.compare(t, r, root, name)
		}
		return nil
	})
	rendertest.OK(t, err)
	t.Logf("%d built and equal, %d components, %d need what is not in the tree, %d fail on both sides, %d wrong", n.built, n.component, n.missing, n.failed, n.wrong)
}

func (c *counts) compare(t *testing.T, r *kustomize.Renderer, root, dir string) {
	src := render.Source{FS: os.DirFS(root), Path: dir, Kind: "kustomize"}
	got, err := r.Render(context.Background(), src)
	if missing(err) {
		c.missing++
		return // kustomize would fetch
	}
	want, kerr := kustomizeBuild(filepath.Join(root, dir))
	switch {
	case failed(err) && kerr != nil:
		c.failed++
		t.Logf("%s: %v", dir, err)
	case failed(err) || kerr != nil:
		c.wrong++
		t.Errorf("%s: our error: %v; kustomize's: %v", dir, err, kerr)
	default:
		if diff := cmp.Diff(want, values(got)); diff != "" {
			c.wrong++
			t.Errorf("%s: objects differ from kustomize's (-want +got)\n%.2000s", dir, diff)
			return
		}
		c.built++
	}
}

// wanted takes a sample of the units of a repository: the first twenty, and then
// fewer and fewer. PREADMIT_CORPUS=all takes all.
func wanted(i int) bool {
	return i <= 20 || i%16 == 0 || os.Getenv("PREADMIT_CORPUS") == "all"
}

func missing(err error) bool {
	for _, e := range render.Errors(err) {
		if e.Missing {
			return true
		}
	}
	return false
}

func failed(err error) bool {
	for _, e := range render.Errors(err) {
		if !e.Warning {
			return true
		}
	}
	return false
}

func values(objects []*render.Object) []map[string]any {
	var all []map[string]any
	for _, o := range objects {
		all = append(all, o.Object)
	}
	return all
}

// kustomizeBuild is `kustomize build` on disk, its output read as the API
// server would.
func kustomizeBuild(dir string) ([]map[string]any, error) {
	defer kustomize.ShareSchema()() // parallel tests render
	o := &krusty.Options{LoadRestrictions: types.LoadRestrictionsRootOnly, PluginConfig: types.DisabledPluginConfig(), Reorder: krusty.ReorderOptionUnspecified}
	m, err := krusty.MakeKustomizer(o).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	var all []map[string]any
	for _, r := range m.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		docs, err := render.Documents("out.yaml", text, render.YAML11)
		if err != nil && failed(err) || len(docs) != 1 {
			return nil, errors.Join(err, errors.New(strings.SplitN(string(text), "\n", 2)[0]))
		}
		all = append(all, docs[0].Value.(map[string]any))
	}
	return all, nil
}
