package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
)

// loadOptions choose what is rendered, and how.
type loadOptions struct {
	renderers func() []render.Renderer
	resolvers func() []render.Resolver

	values      []string
	set         []string
	setString   []string
	setFile     []string
	release     string
	namespace   string
	includeCRDs bool
	kubeVersion string
	apiVersions []string

	selection    render.Selection
	gitops       string
	clusters     []string // that are looked at; none is all
	repositories []string // other names of this repository
	base         string   // the revision to compare with

	policies, with, data             []string
	asFile, authorizer, suppressions string // files that evaluation reads, or ""
	config                           string // the configuration file; "" is that of the tree
	store                            string // beside the tree's own

	timeout time.Duration
	tasks.Limits
	verbose bool

	cache   string    // directory; "" is the user's
	noCache bool      // reports are the same bytes with and without a cache
	notes   io.Writer // for messages about the cache with -v; nil for commands without a cache
	memory  *memory   // set by load; nil without a cache

	progress *progress    // of a screen; nil elsewhere
	watch    *tasks.Watch // of a child; nil elsewhere

	configuration *config.File      // of the configuration, once it is read
	rendered      *cache.Graph      // that rendered the work tree, where it is compared with a base
	forgets       bool              // places of units that are evaluated
	parts         *render.Parts     // that objects share; nil where they do not
	sparse        bool              // objects of --with that are not fetched are left out, see present
	texts         map[string]string // of files, in the place of those on disk
}

// apply gives the chart parameters of the command line to sources that are
// charts and the namespace to all.
func (o *loadOptions) apply(t *tree, stdin io.Reader, srcs []render.Source) error {
	params := render.Helm{
		ReleaseName: o.release, Set: o.set, SetString: o.setString,
		KubeVersion: o.kubeVersion, APIVersions: o.apiVersions, SkipCRDs: !o.includeCRDs,
	}
	for _, v := range o.values {
		name, err := t.name(v, stdin)
		if err != nil {
			return err
		}
		params.ValueFiles = append(params.ValueFiles, name)
	}
	for _, kv := range o.setFile {
		resolved, err := setFile(t, stdin, kv)
		if err != nil {
			return err
		}
		params.SetFile = append(params.SetFile, resolved)
	}
	for i := range srcs {
		srcs[i].Namespace = cmp.Or(srcs[i].Namespace, o.namespace)
		switch srcs[i].Kind {
		case "helm":
			h := params
			srcs[i].Helm = &h
		case "kustomize": // for the charts in it
			srcs[i].Helm = &render.Helm{KubeVersion: o.kubeVersion, APIVersions: o.apiVersions}
		}
	}
	return nil
}

// chartFlag is a flag of the command line that only charts take, if there is one.
func (o *loadOptions) chartFlag() string {
	switch {
	case len(o.values) > 0:
		return "--values"
	case len(o.set)+len(o.setString)+len(o.setFile) > 0:
		return "--set"
	case o.release != "":
		return "--release"
	}
	return ""
}

// setFile resolves the path in a --set-file value.
func setFile(t *tree, stdin io.Reader, kv string) (string, error) {
	for i, c := range kv {
		if c == '=' {
			name, err := t.name(kv[i+1:], stdin)
			return kv[:i+1] + name, err
		}
	}
	return "", fmt.Errorf("--set-file %s: want KEY=FILE", kv)
}

// The values of gitops.
const (
	gitopsAuto = "auto"
	gitopsOnly = "only"
	gitopsOff  = "off"
)

var gitopsModes = []string{gitopsAuto, gitopsOnly, gitopsOff}
