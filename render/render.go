// Package render answers what a tree of GitOps sources would apply, and where
// each field of each object is written.
//
// In goes an [fs.FS], which is all that may be read, and the [Source]s in it:
// charts, kustomizations, manifests. Out come [Unit]s with their [Object]s,
// each with its [Provenance], and the [Error]s of what could not be rendered.
// The root package holds these types, the walk that finds sources
// ([Graph.Discover]) and plain YAML ([Parse]); a child package renders one kind of
// source each. Nothing here opens a connection, runs a program or reads
// outside the tree.
package render

import (
	"cmp"
	"context"
	"io/fs"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// A Source is something in a tree that renders to objects.
type Source struct {
	FS        fs.FS  // all that may be read
	Path      string // directory or file, slash-separated, from the root of FS
	Kind      string // the Renderer's name for it: "helm", "kustomize", "manifest"
	Namespace string // where namespaced objects go that name none; "" is "default"
	Helm      *Helm  // for charts; nil is the defaults
	Kustomize *Kustomize
	Owner     *Object
	Store     Store   // what was fetched; nil is nothing
	Inputs    *Inputs // collects what becomes of documents, and what templates ask; nil where nobody asks
	Variant   Variant // what templates of charts are told
}

// Helm are the parameters of a chart's release, as `helm template` takes them.
// The zero value renders a chart with its own values.
type Helm struct {
	ReleaseName string   // default: the chart's name
	ValueFiles  []string // paths from the root of the source's FS, later ones win
	Set         []string // key=value, parsed as Helm's --set
	SetAt       []Span   // where the first entries of Set are written, if anywhere
	SetString   []string
	SetFile     []string // key=path
	Values      map[string]any
	KubeVersion string   // "1.31"; default: the newest the libraries know
	APIVersions []string // added to the capabilities
	SkipCRDs    bool     // leave out the chart's crds/ directory
	SkipSchema  bool
	SkipTests   bool // leave out hooks that are tests
	SkipHooks   bool // leave out all hooks
}

// Kustomize are the options of a kustomization's build. The zero value, like
// nil, restricts files to the kustomization's directory and renders charts.
type Kustomize struct {
	AnyFile bool // files may lie anywhere in the source's FS, as with LoadRestrictionsNone
	NoHelm  bool // a chart is an error, as without --enable-helm
}

// A Renderer turns one kind of source into objects. It is safe for concurrent use.
type Renderer interface {
	// Kind is the name of the sources it renders.
	Kind() string

	// Detect looks at the directory dir of fsys and says what it makes of it;
	// ok is false when the directory is none of its business.
	Detect(fsys fs.FS, dir string) (c Claim, ok bool)

	// Render returns the objects of src in the order in which they are written.
	// On error, which joins *Error values, it returns what it could render.
	Render(ctx context.Context, src Source) ([]*Object, error)
}

// A Claim is what a Renderer makes of a directory.
type Claim struct {
	Unit  bool     // it is deployed by itself, unless some other claim uses it
	Whole bool     // everything below the directory belongs to it
	Uses  []string // files and directories that it takes in, from the root of the tree
	Files []string // files in the directory that it reads itself, such as kustomization.yaml
	Note  string   // why it is no unit: "library chart", "component"
}

// A Unit is one source with what it rendered to.
type Unit struct {
	Source
	Name    string // the chart's, else the last element of the path
	Cluster string // "" when the tree does not say
	Objects []*Object
	Inputs  []Input // the documents that it reads
	// Variants are objects, and forms of objects, that only some installations
	// have: Object.Variant says which.
	Variants []*Object
	Err      error // joins *Error values; nil when everything was rendered

	// What follows is known of units that a GitOps object makes, or that the
	// configuration declares.

	ID       string         // cli.md, "What is deployed"; "" is the path
	Renderer string         // "helm", "kustomize", "directory" or "jsonnet"; "" is the Kind
	State    State          // "" follows from Err and Objects
	Reason   string         // why it is not rendered, where Err does not say
	Release  string         // of a HelmRelease or Helm source
	Values   map[string]any // that a chart is rendered with; those of Secrets are covered
	Origin   Origin         // the place of the object that makes it
	User     string         // that applies it: "system:serviceaccount:NAMESPACE:NAME"
}

// Identity returns the unit's ID in reports: its own, else its path.
func (u *Unit) Identity() string { return cmp.Or(u.ID, u.Path) }

// Status is the unit's State. Where nothing else is known it follows from its
// objects and errors: "rendered", "failed" (nothing was rendered) or
// "not-rendered" (what it needs is not in the tree).
func (u *Unit) Status() string {
	switch {
	case u.State != "":
		return string(u.State)
	case !hard(u.Err) || len(u.Objects) > 0:
		return "rendered"
	case onlyMissing(u.Err):
		return "not-rendered"
	default:
		return "failed"
	}
}

// Graph renders sources by the renderers that know them.
type Graph struct {
	Renderers []Renderer
	Selection Selection
	Store     Store // what was fetched, for all sources; nil is nothing
}

// Render renders each source by the renderer of its kind, in parallel, and
// returns a unit for each, in the order of srcs. What could not be rendered is
// in the units; the error is for cancellation alone.
func (g Graph) Render(ctx context.Context, srcs ...Source) ([]*Unit, error) {
	units := make([]*Unit, len(srcs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, src := range srcs {
		group.Go(func() error {
			units[i] = g.render(ctx, src)
			return ctx.Err()
		})
	}
	return units, group.Wait()
}
