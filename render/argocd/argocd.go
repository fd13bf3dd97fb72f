// Package argocd finds what Argo CD's Applications and ApplicationSets deploy,
// as Argo CD 3.6 would, offline.
//
// It takes an object and a [render.World], which knows the other objects of the
// cluster, the clusters and the repositories, and returns one [render.Unit].
// The unit of an ApplicationSet holds the Applications that it generates
// (applicationset.go, generators.go, git.go, clusters.go, template.go). The
// unit of an Application holds the rendered objects of its sources
// (deployment.go, sources.go, helm.go, kustomize.go, directory.go, jsonnet.go),
// checked against its AppProject (project.go). render.Graph calls it.
//
// Nothing is fetched and no plugin runs: an Application with a remote chart or
// a plugin is not rendered, and its unit says what it needs.
package argocd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/preadmit/preadmit/render"
)

const group = "argoproj.io"

// maxTime is how long one object may take.
const maxTime = 2 * time.Minute

// A Resolver follows Applications and ApplicationSets. The zero value is ready.
type Resolver struct{}

// New returns a Resolver.
func New() *Resolver { return &Resolver{} }

var _ render.Resolver = (*Resolver)(nil)

// Follows reports whether o is an Application or an ApplicationSet.
func (*Resolver) Follows(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == group && (gvk.Kind == "Application" || gvk.Kind == "ApplicationSet")
}

// Resolve returns the unit that o makes. Its errors are *[render.Error] values
// with the rules "argocd-application", "argocd-applicationset",
// "missing-params", "duplicate-application", "argocd-project" and those of the
// renderers.
func (r *Resolver) Resolve(ctx context.Context, o *render.Object, w *render.World) *render.Unit {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if o.GetKind() == "ApplicationSet" {
		return applicationSet(ctx, o, w)
	}
	return deploy(ctx, o, w)
}

func applicationSet(ctx context.Context, o *render.Object, w *render.World) *render.Unit {
	u := unit(o, w, "applicationset")
	u.Namespace = namespaceOf(o)
	u.User = serviceAccount(namespaceOf(o), "argocd-applicationset-controller")
	u.Objects, u.Err = generate(ctx, o, w)
	u.State = state(u.Err)
	return u
}

// unit returns a unit for an object of Argo CD.
func unit(o *render.Object, w *render.World, kind string) *render.Unit {
	u := &render.Unit{
		Source: render.Source{Kind: "argocd", Path: ".", Owner: o},
		Name:   o.GetName(), Cluster: w.Cluster.Name,
		ID: kind + "/" + namespaceOf(o) + "/" + o.GetName(),
	}
	if places := o.At(""); len(places) > 0 {
		u.Origin = places[0]
	}
	return u
}

// state returns Foreign for an error about another repository. Other states
// follow from the error itself.
func state(err error) render.State {
	for _, e := range render.Errors(err) {
		if e.Rule == "foreign-repository" {
			return render.Foreign
		}
	}
	return ""
}

// namespaceOf returns the namespace of an object of Argo CD: its own, else that
// of the unit that makes it, else argocd.
func namespaceOf(o *render.Object) string {
	var made string
	if o.Unit != nil {
		made = o.Unit.Namespace
	}
	return cmp.Or(o.GetNamespace(), made, "argocd")
}

func serviceAccount(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// placed adds the place of a field to an error without one.
func placed(o *render.Object, pointer string, err error) error {
	var e *render.Error
	if !errors.As(err, &e) {
		return &render.Error{Span: o.Span(pointer), Rule: "argocd-application", Err: err}
	}
	if e.Span != (render.Span{}) {
		return e
	}
	moved := *e
	moved.Span = o.Span(pointer)
	return &moved
}
