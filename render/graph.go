package render

import (
	"context"
	"errors"
	"fmt"
	"path"
)

func (g Graph) render(ctx context.Context, src Source) *Unit {
	u := g.renderOnce(ctx, src)
	g.Parts.Share(u)
	if g.Forgets {
		ctx := context.WithoutCancel(ctx)
		u.forgets(func() *Unit { return g.renderOnce(ctx, src) })
		if g.Parts.forgetEarly(u) {
			u.Forget()
		}
	}
	return u
}

func (g Graph) renderOnce(ctx context.Context, src Source) *Unit {
	u := &Unit{Source: src, Name: path.Base(src.Path)}
	r := g.renderer(src.Kind)
	if r == nil {
		u.Err = &Error{Span: Span{File: src.Path}, Rule: "unknown-source", Err: fmt.Errorf("no renderer for sources of kind %q", src.Kind)}
		return u
	}
	store := storeOf(g.Store)
	src.Inputs, src.Store = new(Inputs), store
	u.Objects, u.Err = r.Render(ctx, src)
	if store.used.Load() {
		u.edited(src.Owner)
	}
	u.Err = errors.Join(u.Err, u.bound())
	u.Inputs = src.Inputs.All()
	u.vary(ctx, src.Inputs, func(v Variant, inputs *Inputs) ([]*Object, error) {
		src := src
		src.Variant, src.Inputs = v, inputs
		return r.Render(ctx, src)
	})
	for _, o := range u.Objects {
		o.Unit = u
	}
	u.Err = errors.Join(u.Err, u.check())
	if n, ok := r.(interface{ Name(Source) string }); ok {
		u.Name = n.Name(src)
	}
	return u
}

// maxObjects bounds the objects of a unit: more than any release has, and fewer
// than would keep a run busy.
const maxObjects = 20_000

// bound leaves out the objects beyond maxObjects.
func (u *Unit) bound() error {
	if len(u.Objects) <= maxObjects {
		return nil
	}
	e := u.errorAt(u.Objects[maxObjects], "", "too-many-objects",
		"this is object %d of the unit, of which %d are evaluated: the others are left out", maxObjects+1, maxObjects)
	u.Objects = u.Objects[:maxObjects:maxObjects]
	return e
}

// Objects renders one source, as part of what a GitOps object deploys, by the
// renderer of its kind.
func (g Graph) Objects(ctx context.Context, src Source) ([]*Object, error) {
	r := g.renderer(src.Kind)
	if r == nil {
		return nil, &Error{Span: Span{File: src.Path}, Rule: "unknown-source", Err: fmt.Errorf("no renderer for sources of kind %q", src.Kind)}
	}
	if src.Store == nil {
		src.Store = g.Store
	}
	return r.Render(ctx, src)
}

func (g Graph) renderer(kind string) Renderer {
	for _, r := range g.Renderers {
		if r.Kind() == kind {
			return r
		}
	}
	return nil
}
