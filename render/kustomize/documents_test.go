package kustomize_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/kustomize"
)

// TestSharedFiles renders overlays of one base side by side, and one after the
// base has changed.
func TestSharedFiles(t *testing.T) {
	t.Parallel()
	const base = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: b\n"
	r := kustomize.New(kustomize.Options{})
	check := func(overlay, base string, line int) {
		fsys := tree(overlay+"/kustomization.yaml", "resources: [../base]\nnamePrefix: "+overlay+"-\n",
			"base/kustomization.yaml", "resources: [cm.yaml]\n", "base/cm.yaml", base)
		objects, err := r.Render(context.Background(), render.Source{FS: fsys, Path: overlay, Kind: "kustomize"})
		if err != nil || len(objects) != 1 || objects[0].GetName() != overlay+"-c" {
			t.Errorf("%s: %d objects, %v", overlay, len(objects), err)
			return
		}
		if at := objects[0].At("/data/a")[0]; at.File != "base/cm.yaml" || at.Line != line {
			t.Errorf("%s: data is at %v, want line %d", overlay, at, line)
		}
	}
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() { check(fmt.Sprint("app", i), base, 5) })
	}
	group.Wait()
	check("late", "# one more line\n"+base, 6)
}
