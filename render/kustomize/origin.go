package kustomize

import "github.com/preadmit/preadmit/render"

type origins struct{ root *node }

func newOrigins(w *walk, root *node, n int) *origins { return &origins{root} }

func (o *origins) object(i int, value map[string]any) render.Provenance {
	return render.File{Span: render.Span{File: o.root.name}, Role: render.Reference}
}
