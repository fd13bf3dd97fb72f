package main

import (
	"path/filepath"
	"testing"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/render/rendertest"
)

func treeOf(t *testing.T, dir string) *load.Tree {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	rendertest.OK(t, err)
	opened, err := disk.OpenTree(dir)
	rendertest.OK(t, err)
	t.Cleanup(func() { opened.Close() })
	return &load.Tree{Tree: opened}
}

// TestBoundObjects holds that units beyond what a run evaluates are errors, and
// those that fit are kept.
func TestBoundObjects(t *testing.T) {
	t.Parallel()
	var units []*render.Unit
	for _, n := range []int{3, 5, 2} {
		units = append(units, &render.Unit{Source: render.Source{Path: "u"}, Objects: make([]*render.Object, n)})
	}
	if got := load.BoundObjects(units, 4, 10); got != 9 {
		t.Errorf("%d objects are kept", got)
	}
	if len(units[0].Objects) != 3 || units[1].Objects != nil || units[1].Err == nil || len(units[2].Objects) != 2 || units[2].Err != nil {
		t.Errorf("%+v", units)
	}
}
