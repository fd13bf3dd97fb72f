package load

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

// Sources select the files to render, and how.
type Sources struct {
	Renderers func() []render.Renderer
	Resolvers func() []render.Resolver

	Values      []string
	Set         []string
	SetString   []string
	SetFile     []string
	Release     string
	Namespace   string
	IncludeCRDs bool
	KubeVersion string
	APIVersions []string

	Selection    render.Selection
	GitOps       string
	Clusters     []string // to evaluate; none means all
	Repositories []string // other names of this repository
	Base         string   // the revision to compare with

	Policies, With, Data             []string
	AsFile, Authorizer, Suppressions string // files that evaluation reads, or ""
	Config                           string // the configuration file; "" is the tree's own
	Store                            string // directory in addition to the tree's own store

	Timeout time.Duration
	tasks.Limits
	Verbose bool

	Cache   string    // directory; "" is the user's
	NoCache bool      // reports are the same with and without a cache
	Notes   io.Writer // for messages about the cache with -v; nil for commands without a cache
	Memory  *Memory   // set by load; nil without a cache

	Progress *Progress    // for a screen; nil elsewhere
	Watch    *tasks.Watch // of a child process; nil elsewhere

	Configuration *config.File            // the configuration file, once it is read
	Rendered      *cache.Graph            // the graph that rendered the work tree, if it is compared with a base
	Dropped       map[string]string       // paths that are not deployed on their own, each with the kustomization that built it at the base
	ClustersThere ClusterDirs             // of the other side of a change
	Forgets       bool                    // forget the origins of fields of evaluated units, to save memory
	Parts         *render.Parts           // parts that objects share; nil to share none
	Flat          bool                    // leave out objects that are contained in other objects
	Sparse        bool                    // leave out addresses of --with that are not fetched, see present
	Again         bool                    // Rendered is of the same tree with other texts, or another run follows
	Last, Next    map[string]*cache.Graph // by side: of the last run of this process, and of this run; Next is nil if no run follows
	Texts         map[string]string       // by file name, used instead of the files on disk
}

// apply sets the chart parameters of the command line in charts, and the namespace in all sources.
func (o *Sources) apply(t *Tree, stdin io.Reader, srcs []render.Source) error {
	params := render.Helm{
		ReleaseName: o.Release, Set: o.Set, SetString: o.SetString,
		KubeVersion: o.KubeVersion, APIVersions: o.APIVersions, SkipCRDs: !o.IncludeCRDs,
	}
	for _, v := range o.Values {
		name, err := t.NameOf(v, stdin)
		if err != nil {
			return err
		}
		params.ValueFiles = append(params.ValueFiles, name)
	}
	for _, kv := range o.SetFile {
		resolved, err := setFile(t, stdin, kv)
		if err != nil {
			return err
		}
		params.SetFile = append(params.SetFile, resolved)
	}
	for i := range srcs {
		srcs[i].Namespace = cmp.Or(srcs[i].Namespace, o.Namespace)
		switch srcs[i].Kind {
		case "helm":
			h := params
			srcs[i].Helm = &h
		case "kustomize": // for the charts in it
			srcs[i].Helm = &render.Helm{KubeVersion: o.KubeVersion, APIVersions: o.APIVersions}
		}
	}
	return nil
}

// chartFlag returns a given flag that only applies to charts, or "".
func (o *Sources) chartFlag() string {
	switch {
	case len(o.Values) > 0:
		return "--values"
	case len(o.Set)+len(o.SetString)+len(o.SetFile) > 0:
		return "--set"
	case o.Release != "":
		return "--release"
	}
	return ""
}

// setFile resolves the path in a --set-file value.
func setFile(t *Tree, stdin io.Reader, kv string) (string, error) {
	for i, c := range kv {
		if c == '=' {
			name, err := t.NameOf(kv[i+1:], stdin)
			return kv[:i+1] + name, err
		}
	}
	return "", fmt.Errorf("--set-file %s: want KEY=FILE", kv)
}

// The values of gitops.
const (
	GitOpsAuto = "auto"
	GitOpsOnly = "only"
	GitOpsOff  = "off"
)

var GitOpsModes = []string{GitOpsAuto, GitOpsOnly, GitOpsOff}
