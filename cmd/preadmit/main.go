package main

import (
	_ "github.com/Masterminds/sprig/v3"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "github.com/spf13/cobra"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/sync/errgroup"
	_ "helm.sh/helm/v3/pkg/chart/loader"
	_ "helm.sh/helm/v3/pkg/chartutil"
	_ "helm.sh/helm/v3/pkg/cli/values"
	_ "helm.sh/helm/v3/pkg/engine"
	_ "helm.sh/helm/v3/pkg/releaseutil"
	_ "helm.sh/helm/v3/pkg/strvals"
	_ "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	_ "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	_ "k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	_ "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	_ "k8s.io/apiserver/pkg/cel/environment"
	_ "k8s.io/apiserver/pkg/cel/library"
	_ "k8s.io/client-go/kubernetes/scheme"
	_ "k8s.io/component-helpers/auth/rbac/validation"
	_ "k8s.io/pod-security-admission/policy"
	_ "sigs.k8s.io/kustomize/api/krusty"
	_ "sigs.k8s.io/yaml"
)

func main() {}
