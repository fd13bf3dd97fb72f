package main

import (
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/argocd"
	"github.com/preadmit/preadmit/render/flux"
	"github.com/preadmit/preadmit/render/helm"
	"github.com/preadmit/preadmit/render/kustomize"
)

// renderers lists all renderers.
func renderers() []render.Renderer {
	charts := helm.New(helm.Options{APIVersions: schema.APIVersions})
	return []render.Renderer{
		charts,
		kustomize.New(kustomize.Options{Helm: charts}),
		render.Manifests{},
	}
}

// resolvers lists all resolvers of GitOps objects.
func resolvers() []render.Resolver {
	return []render.Resolver{argocd.New(), flux.New()}
}
