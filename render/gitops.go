package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Resolver follows the objects of one GitOps controller, such as Argo CD's
// Applications, to the objects that the controller deploys for them. It is safe
// for concurrent use.
type Resolver interface {
	// Follows reports whether o makes the controller deploy something.
	Follows(o *Object) bool

	// Resolve renders what the controller deploys for o, as far as w has the
	// sources, and returns one unit. If nothing can be rendered, the unit has
	// no objects and its Err says why; an Error with Missing reports that a
	// source is not in the tree. Graph calls Resolve again when an answer of w
	// that it asked for has changed, so Resolve must not keep state or wait.
	Resolve(ctx context.Context, o *Object, w *World) *Unit
}

// A State says how far a unit was rendered. The JSON report has it.
type State string

// The states of a unit.
const (
	Rendered    State = "rendered"
	Failed      State = "failed"       // its source is in the tree and can't be rendered
	NotRendered State = "not-rendered" // a source that it needs is not in the tree
	Suspended   State = "suspended"    // its controller is suspended
	Foreign     State = "foreign"      // its source is another repository that is not here
	Unreached   State = "unreached"    // nothing found in the tree deploys it
)

// A Cluster is one API server that units are deployed to.
type Cluster struct {
	Name        string // "" is the only cluster, if the tree names none
	Server      string // Argo CD's destination.server
	Labels      map[string]string
	Annotations map[string]string

	KubeVersion string // such as "1.34"; "" is the newest known
	APIVersions []string
	FluxVersion string // such as "2.9"; "" is the newest known
	// ArgoCDVersion is the version of the Argo CD that runs there, such as "3.6"; "" is the newest
	// known.
	ArgoCDVersion string

	// Substitute holds the data of ConfigMaps and Secrets that are on the
	// cluster and not in git, by namespace/name.
	Substitute map[string]map[string]string
}

// Since reports whether a version such as "2.9" or "v2.9.1" is not older than major.minor. A version
// that it can't read is not older.
func Since(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	second, _, _ := strings.Cut(rest, ".")
	m, err := strconv.Atoi(first)
	n, err2 := strconv.Atoi(second)
	return err != nil || err2 != nil || m > major || m == major && n >= minor
}

// A Repository is the file tree that a GitOps object names as its source.
type Repository struct {
	FS   fs.FS  // its file names are those of the run's tree
	Root string // the repository's root in FS; "." is the tree itself
}

// Path returns the name in FS of a path from the repository's root. As in the
// controllers, a leading slash means the root, and ".." does not lead above it.
func (r Repository) Path(name string) string {
	return path.Join(r.Root, strings.TrimPrefix(path.Join("/", name), "/"))
}

// A World answers a Resolver's questions about everything but the object being resolved. Each call
// of Resolve gets its own. Graph records the questions and resolves the object again when an answer
// changes.
type World struct {
	Cluster  Cluster   // the cluster of the object
	Clusters []Cluster // all declared clusters
	Variant  Variant   // the variant to render charts with

	answers WorldAnswers
	inputs  *Inputs // inputs of the unit's rendering
}

// WorldAnswers answers the questions that a World passes on. Graph implements
// it, and so do tests of resolvers.
type WorldAnswers interface {
	// Object returns the object of that identity on a cluster, or nil.
	Object(cluster string, kind schema.GroupKind, namespace, name string) *Object

	// Objects returns all objects of a kind on a cluster, ordered by namespace
	// and name.
	Objects(cluster string, kind schema.GroupKind) []*Object

	// Repository returns the files at a revision of a repository. The error is
	// an *Error without a place; its Rule is "foreign-repository" if the
	// repository is another one that is not here, and "missing-revision" if
	// only the revision is not.
	Repository(url, revision string) (Repository, error)

	// Source returns the folder that the configuration declares for a source
	// object such as OCIRepository/flux-system/apps.
	Source(kind, namespace, name string) (Repository, bool)

	// Params returns the parameters that the configuration declares for those
	// generators of an ApplicationSet which query systems outside of git; ok is
	// false if it declares none.
	Params(namespace, name string) (params []map[string]any, ok bool)

	// Store returns the files of a source that is not in the tree.
	Store

	// Render renders one source by the renderer of its kind.
	Render(ctx context.Context, src Source) ([]*Object, error)
}

// NewWorld returns a World on a cluster.
func NewWorld(c Cluster, all []Cluster, answers WorldAnswers) *World {
	return &World{Cluster: c, Clusters: all, answers: answers, inputs: new(Inputs)}
}

// With returns a copy of w that gets its answers from answers. Those may pass
// questions on to [World.Answers].
func (w *World) With(answers WorldAnswers) *World {
	other := *w
	other.answers = answers
	return &other
}

// Answers returns where w gets its answers.
func (w *World) Answers() WorldAnswers { return w.answers }

// Object returns the object of that identity on the cluster, or nil.
func (w *World) Object(kind schema.GroupKind, namespace, name string) *Object {
	return w.answers.Object(w.Cluster.Name, kind, namespace, name)
}

// Objects returns all objects of a kind on the cluster, ordered by namespace
// and name.
func (w *World) Objects(kind schema.GroupKind) []*Object {
	return w.answers.Objects(w.Cluster.Name, kind)
}

// Repository returns the files at a revision of a repository, see
// [WorldAnswers]. If it is another repository, they may have been fetched.
func (w *World) Repository(url, revision string) (Repository, error) {
	repo, err := w.answers.Repository(url, revision)
	var foreign *Error
	if !errors.As(err, &foreign) || foreign.Rule != "foreign-repository" || url == "" {
		return repo, err
	}
	remote := NewRemote(GitTree, url, "", revision)
	if repo, err = w.Fetched(remote); err == nil {
		return repo, nil
	}
	return Repository{}, foreign.Needs(remote, err, foreign.Hint)
}

// Declared returns the files that the configuration declares for an address.
func (w *World) Declared(url string) (Repository, bool) {
	repo, err := w.answers.Repository(url, "")
	return repo, err == nil
}

// Source returns the folder that the configuration declares for a source object.
func (w *World) Source(kind, namespace, name string) (Repository, bool) {
	return w.answers.Source(kind, namespace, name)
}

// Params returns the declared parameters of an ApplicationSet's generators.
func (w *World) Params(namespace, name string) ([]map[string]any, bool) {
	return w.answers.Params(namespace, name)
}

// APIVersions returns the API versions with which charts at a path of fsys are
// rendered for a cluster, in addition to those of Kubernetes. They are the
// declared ones and, if the chart's templates ask for any, those of
// CustomResourceDefinitions on the cluster. Definitions that owner deploys
// itself do not count, since they are not there before it.
func (w *World) APIVersions(c Cluster, owner *Object, fsys fs.FS, chart string) []string {
	if !asksAPIVersions(fsys, chart) {
		return c.APIVersions
	}
	all := slices.Clone(c.APIVersions)
	for _, crd := range w.answers.Objects(c.Name, schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
		if u := crd.Unit; u == nil || u.Owner == nil || !sameTarget(u.Owner, owner) {
			all = append(all, servedBy(crd)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func sameTarget(a, b *Object) bool {
	return a != nil && b != nil && targetOf(a, "") == targetOf(b, "")
}

// servedBy lists the API versions that a CustomResourceDefinition serves.
func servedBy(crd *Object) []string {
	group, _ := Lookup(crd.Object, "/spec/group")
	kind, _ := Lookup(crd.Object, "/spec/names/kind")
	versions, _ := Lookup(crd.Object, "/spec/versions")
	list, _ := versions.([]any)
	var all []string
	for _, v := range list {
		name, _ := Lookup(v, "/name")
		if served, _ := Lookup(v, "/served"); served != false {
			gv := fmt.Sprint(group, "/", name)
			all = append(all, gv, fmt.Sprint(gv, "/", kind))
		}
	}
	return all
}

// asksAPIVersions reports whether a chart's templates ask which API versions a
// cluster serves. For an archive it returns true.
func asksAPIVersions(fsys fs.FS, chart string) bool {
	if strings.HasSuffix(chart, "gz") {
		return true
	}
	asks, files := false, 0
	_ = fs.WalkDir(fsys, chart, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // rendering the chart reports it
		case strings.HasSuffix(name, "gz"):
			asks = true
		case e.Type().IsRegular() && strings.Contains(name, "/templates/"):
			data, err := ReadFile(fsys, name)
			asks = err == nil && bytes.Contains(data, []byte("APIVersions"))
		}
		if files++; asks || files > maxFiles {
			return fs.SkipAll
		}
		return nil
	})
	return asks
}

// Reads records that the objects of a file are deployed, although no renderer reads the file.
func (w *World) Reads(fsys fs.FS, file string) {
	if name, ok := fileOf(fsys, file); ok {
		w.inputs.Note(name, -1, DocRendered)
	}
}

// Ask adds a question about the unit.
func (w *World) Ask(q Question) { w.inputs.Ask(q) }

// Skips records objects that were rendered but that the controller does not apply, and why. applied
// are the other objects of the unit.
func (w *World) Skips(skipped, applied []*Object, reason string) {
	w.inputs.NoteSkipped(skipped, applied, reason)
}

// SkipsFile records a file whose objects the controller does not apply, and why.
func (w *World) SkipsFile(fsys fs.FS, file, reason string) {
	if name, ok := fileOf(fsys, file); ok {
		w.inputs.add(Input{File: name, Index: -1, State: DocSkipped, Reason: reason})
	}
}

// GivePatches records patches of the unit that are written in its parent.
func (w *World) GivePatches(patches ...GivenPatch) {
	w.inputs.mu.Lock()
	defer w.inputs.mu.Unlock()
	w.inputs.patches = append(w.inputs.patches, patches...)
}

// Fetched returns the files of a source that is not in the tree, see [Store].
func (w *World) Fetched(r *Remote) (Repository, error) { return w.answers.Fetched(r) }

// Render renders one source by the renderer of its kind.
func (w *World) Render(ctx context.Context, src Source) ([]*Object, error) {
	src.Inputs, src.Variant = new(Inputs), w.Variant
	objects, err := w.answers.Render(ctx, src)
	w.inputs.include(src.Inputs, func(name string) (string, bool) { return fileOf(src.FS, name) })
	return objects, err
}

// Recalled records that a Resolver returns a cached unit. opened are the files that rendering the
// unit opened, fetched reports whether it used fetched ones, and n is what Noted returned then.
func (w *World) Recalled(opened []string, fetched bool, n Noted) {
	w.GivePatches(n.Patches...)
	w.inputs.include(&Inputs{all: n.Inputs, asked: n.Questions, branches: n.Branches}, func(name string) (string, bool) { return name, true })
	a, ok := w.answers.(*answers)
	if !ok {
		return
	}
	a.reads.add(opened...)
	if fetched {
		a.store.used.Store(true)
	}
}

// Noted returns what was recorded of documents and templates so far.
func (w *World) Noted() Noted { return w.inputs.noted() }

// UsedFetched reports whether the Resolver used fetched files.
func (w *World) UsedFetched() bool {
	a, ok := w.answers.(*answers)
	return ok && a.store.used.Load()
}
