package main

import (
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/argocd"
	"github.com/preadmit/preadmit/render/flux"
	"github.com/preadmit/preadmit/render/helm"
	"github.com/preadmit/preadmit/render/kustomize"
)

// renderers is the one list of what can be rendered.
func renderers() []render.Renderer {
	charts := helm.New(helm.Options{APIVersions: schema.APIVersions})
	return []render.Renderer{
		charts,
		kustomize.New(kustomize.Options{Helm: charts}),
		render.Manifests{},
	}
}

// resolvers is the one list of what GitOps objects are followed.
func resolvers() []render.Resolver {
	return []render.Resolver{argocd.New(), flux.New()}
}
