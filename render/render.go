// Package render renders a tree of GitOps sources to the objects that would be
// applied, and knows where each field of each object is written.
//
// It takes an [fs.FS], outside of which nothing is read, and the [Source]s in
// it: charts, kustomizations, manifests. It returns [Unit]s with their
// [Object]s, each with its [Provenance], and an [Error] for each part that
// could not be rendered. The root package holds these types, finds sources
// ([Graph.Discover]) and reads plain YAML ([Parse]); each child package renders
// one kind of source. Rendering opens no connection and runs no program.
//
// The files:
//
//   - walk.go, shape.go, units.go, source.go: which files and directories are sources
//   - render.go renders the sources; follow.go, gitops.go and overlay.go follow objects of
//     GitOps controllers to further ones, holder.go finds objects inside of objects
//   - manifests.go and yaml.go read files: split.go divides them, yamlblock.go, json.go
//     and the YAML library make nodes, decode.go and scalar.go values, tree.go and
//     source.go their places
//   - object.go, provenance.go, positions.go, textspan.go: objects and where their fields
//     are written; documents.go: what became of each document
//   - variant.go renders charts as they would be on other clusters
//   - remote.go: sources that are not in the tree
//   - share.go: memory of large runs
//   - error.go, objectcheck.go: errors with their places
package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
)

// A Source is something in a tree that renders to objects.
type Source struct {
	FS        fs.FS  // nothing outside of it is read
	Path      string // directory or file, slash-separated, from the root of FS
	Kind      string // the Renderer's name for it: "helm", "kustomize", "manifest"
	Namespace string // namespace of objects that name none; "" is "default"
	Helm      *Helm  // for charts; nil means the chart's defaults
	Kustomize *Kustomize
	Owner     *Object
	Store     Store   // fetched content; nil if there is none
	Inputs    *Inputs // collects the use of documents and the questions of templates; may be nil
	Variant   Variant // the variant to render charts with
}

// Helm holds the parameters of a chart's release, as `helm template` takes
// them. The zero value renders a chart with its own values.
type Helm struct {
	Version     string   // of Helm, such as "v4.2"; "" is the version 3 that the project uses
	ReleaseName string   // default: the chart's name
	ValueFiles  []string // paths from the root of the source's FS; later ones win
	Set         []string // key=value, parsed as by Helm's --set
	SetAt       []Span   // where the first entries of Set are written, if known
	SetString   []string
	SetFile     []string // key=path
	Values      map[string]any
	KubeVersion string   // such as "1.31"; default: the newest that the libraries know
	APIVersions []string // added to those of Kubernetes
	AtCommit    []string // last parts of the names of values that hold the commit, which is not known before the merge
	SkipCRDs    bool     // leaves out the chart's crds/ directory
	SkipSchema  bool
	SkipTests   bool    // leaves out hooks that are tests
	SkipHooks   bool    // leaves out all hooks
	Dialect     Dialect // in which the manifests that templates write are read
}

// SkipsHook reports whether an object with the given annotation helm.sh/hook is left out.
func (h *Helm) SkipsHook(events string) bool {
	if events == "" || h.SkipHooks {
		return events != ""
	}
	for event := range strings.SplitSeq(events, ",") {
		if event = strings.ToLower(strings.TrimSpace(event)); event == "test" || event == "test-success" {
			return h.SkipTests
		}
	}
	return false
}

// Kustomize holds the options of a kustomization's build. The zero value, like
// nil, restricts files to the kustomization's directory and renders charts.
type Kustomize struct {
	AnyFile bool // files may lie anywhere in the source's FS, as with LoadRestrictionsNone
	NoHelm  bool // charts are errors, as without --enable-helm
}

// A Renderer turns one kind of source into objects. It is safe for concurrent use.
type Renderer interface {
	// Kind is the name of the sources it renders.
	Kind() string

	// Detect reports whether it can render the directory dir of fsys, and
	// describes the source there.
	Detect(fsys fs.FS, dir string) (c Claim, ok bool)

	// Render returns the objects of src in the order in which they are written.
	// The error joins *Error values; on error Render also returns the objects
	// that it could render.
	Render(ctx context.Context, src Source) ([]*Object, error)
}

// A Claim describes the source that a Renderer found in a directory.
type Claim struct {
	Unit  bool     // it is deployed by itself, unless another claim uses it
	Whole bool     // everything below the directory belongs to it
	Uses  []string // files and directories that it uses, from the root of the tree
	Files []string // files in the directory that it reads, such as kustomization.yaml
	Note  string   // why it is not a unit, such as "library chart" or "component"

	Commented []string // files and directories that it would use if a comment in it were none
}

// A Unit is a source and its rendered objects.
type Unit struct {
	Source
	Name    string // the chart's name, else the last element of the path
	Cluster string // "" if the tree does not name it
	Objects []*Object
	Inputs  []Input // the documents that it reads
	// Variants are objects, and other forms of objects, that exist only in some
	// installations; Object.Variant says in which.
	Variants []*Object
	Left     []*Object // that its deployer leaves alone: it neither creates nor changes them; see delivery.SetAside
	Err      error     // joins *Error values
	memory   *memory

	// The following fields are set for units that a GitOps object makes, or
	// that the configuration declares.

	ID       string         // see cli.md, "What is deployed"; "" means the path
	Renderer string         // "helm", "kustomize", "directory" or "jsonnet"; "" means the source's Kind
	State    State          // "" is derived from Err and Objects
	Reason   string         // why it is not rendered, if Err does not say
	Release  string         // release name, of a HelmRelease or Helm source
	Chart    string         // the chart's name, of a HelmRelease; "" if it is in an archive
	Values   map[string]any // the chart's values; those of Secrets are covered
	Origin   Origin         // the place of the object that makes the unit
	ByClient bool           // its release is applied client-side, unless the HelmRelease says otherwise: before Flux 2.8
	User     string         // who applies it: "system:serviceaccount:NAMESPACE:NAME"

	Impersonates bool // User is named by the object that makes the unit, and not its controller's own
}

// Identity returns the unit's ID in reports: its own, else its path.
func (u *Unit) Identity() string { return cmp.Or(u.ID, u.Path) }

// Status returns State, or else derives it from objects and errors: "rendered",
// "failed" (nothing was rendered) or "not-rendered" (a source is not in the
// tree, so some objects are unknown or all).
func (u *Unit) Status() string {
	switch {
	case u.State != "":
		return string(u.State)
	case len(Failures(u.Err)) == 0:
		return "rendered"
	case OnlyMissing(u.Err):
		return "not-rendered"
	case len(u.Objects) > 0:
		return "rendered"
	}
	return "failed"
}

// Graph renders each source by the renderer of its kind.
type Graph struct {
	Renderers []Renderer
	Selection Selection
	Store     Store  // fetched content for all sources; may be nil
	Forgets   bool   // whether Unit.Forget frees memory; units of a large run forget when they are rendered
	Parts     *Parts // that objects share; nil if they do not
}

// Render renders the sources in parallel and returns a unit for each, in the
// order of srcs. Errors of rendering are in the units; Render's own error is
// not nil only if ctx is done.
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

func (g Graph) render(ctx context.Context, src Source) *Unit {
	u := g.renderOnce(ctx, src, true)
	g.Parts.Share(u)
	if g.Forgets {
		ctx := context.WithoutCancel(ctx)
		u.forgets(func(variants bool) *Unit { return g.renderOnce(ctx, src, variants) })
		if g.Parts.forgetEarly(u) {
			u.Forget()
		}
	}
	return u
}

func (g Graph) renderOnce(ctx context.Context, src Source, variants bool) *Unit {
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
	if variants {
		u.vary(ctx, src.Inputs, func(v Variant, inputs *Inputs) ([]*Object, error) {
			src := src
			src.Variant, src.Inputs = v, inputs
			return r.Render(ctx, src)
		})
	}
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
