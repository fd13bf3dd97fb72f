package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Resolver follows the objects of one GitOps controller, such as Argo CD's
// Applications, to the objects that the controller deploys for them. It is safe
// for concurrent use.
type Resolver interface {
	// Follows reports whether o makes the controller deploy something.
	Follows(o *Object) bool

	// Resolve renders what the controller deploys for o, as far as w holds what
	// it needs. It returns one unit. Where nothing can be rendered, the unit has
	// no objects and its Err says why; an Error with Missing says that the tree
	// lacks something. Graph calls Resolve again when an answer of w that it asked
	// for has changed, so Resolve keeps no state and never waits.
	Resolve(ctx context.Context, o *Object, w *World) *Unit
}

// A State says how far a unit was rendered, as in the JSON report.
type State string

// The states of a unit.
const (
	Rendered    State = "rendered"
	Failed      State = "failed"       // what is there can't be rendered
	NotRendered State = "not-rendered" // what it needs is not in the tree
	Suspended   State = "suspended"    // its controller is told to do nothing
	Foreign     State = "foreign"      // its source is another repository, which is not here
	Unreached   State = "unreached"    // nothing found in the tree deploys it
)

// A Cluster is one API server that units are deployed to.
type Cluster struct {
	Name        string // "" is the one cluster of a tree that names none
	Server      string // Argo CD's destination.server
	Labels      map[string]string
	Annotations map[string]string

	KubeVersion   string // "1.34"; "" is the newest known
	APIVersions   []string
	FluxVersion   string // "2.9"; "" is the newest known
	ArgoCDVersion string

	// Substitute holds the data of ConfigMaps and Secrets that are on the
	// cluster and not in git, by namespace/name.
	Substitute map[string]map[string]string
}

// A Repository is a tree of files that a GitOps object names as its source.
type Repository struct {
	FS   fs.FS  // names in it are names of the run's tree
	Root string // the repository's root in FS; "." is the tree itself
}

// Path returns the name in FS of a path from the repository's root. Like the
// controllers it takes a leading slash for the root and lets no ".." lead
// above the root.
func (r Repository) Path(name string) string {
	return path.Join(r.Root, strings.TrimPrefix(path.Join("/", name), "/"))
}

// A World answers what a Resolver asks about everything beside the object that
// it resolves. Each call of Resolve has its own. Graph records the questions:
// when an answer changes, it resolves the object again.
type World struct {
	Cluster  Cluster   // on which the object is
	Clusters []Cluster // all that are declared
	Variant  Variant   // what templates of charts are told

	answers WorldAnswers
	inputs  *Inputs // of what is rendered
}

// WorldAnswers is what a World is made of. Graph implements it; tests of
// resolvers do, too.
type WorldAnswers interface {
	// Object returns the object of that identity on a cluster, or nil.
	Object(cluster string, kind schema.GroupKind, namespace, name string) *Object

	// Objects returns all objects of a kind on a cluster, ordered by namespace
	// and name.
	Objects(cluster string, kind schema.GroupKind) []*Object

	// Repository returns the files at a revision of a repository. The error is an
	// *Error without a place; Rule "foreign-repository" says that the repository
	// is another one and not here, "missing-revision" that the revision is not.
	Repository(url, revision string) (Repository, error)

	// Source returns the folder that the configuration declares for a source
	// object such as OCIRepository/flux-system/apps.
	Source(kind, namespace, name string) (Repository, bool)

	// Params returns the parameters that the configuration declares for the
	// generators of an ApplicationSet which ask something outside of git; ok is
	// false where it declares none.
	Params(namespace, name string) (params []map[string]any, ok bool)

	// Fetched returns the files of something that is not in the tree.
	Store

	// Render renders one source by the renderer of its kind.
	Render(ctx context.Context, src Source) ([]*Object, error)
}

// NewWorld returns a World on a cluster.
func NewWorld(c Cluster, all []Cluster, answers WorldAnswers) *World {
	return &World{Cluster: c, Clusters: all, answers: answers, inputs: new(Inputs)}
}

// With returns a World like w with other answers, such as those that pass on what
// w answers, see [World.Answers].
func (w *World) With(answers WorldAnswers) *World {
	other := *w
	other.answers = answers
	return &other
}

// Answers returns what w asks.
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
// [WorldAnswers]. Those of another repository may have been fetched.
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

// APIVersions returns the API versions of a cluster that charts at a path of fsys
// are rendered with, beside those of Kubernetes: those that are declared, and if
// its templates ask for any those of CustomResourceDefinitions on the cluster. The
// definitions that owner itself deploys are not there before it.
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

// asksAPIVersions reports whether templates of a chart ask which API versions a
// cluster serves. Those of an archive may.
func asksAPIVersions(fsys fs.FS, chart string) bool {
	if strings.HasSuffix(chart, "gz") {
		return true
	}
	asks, files := false, 0
	_ = fs.WalkDir(fsys, chart, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // said where it counts
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

// Reads notes that the objects of a file are deployed, which no renderer reads.
func (w *World) Reads(fsys fs.FS, file string) {
	if name, ok := fileOf(fsys, file); ok {
		w.inputs.Note(name, -1, DocRendered)
	}
}

// Fetched returns the files of something that is not in the tree, see [Store].
func (w *World) Fetched(r *Remote) (Repository, error) { return w.answers.Fetched(r) }

// Render renders one source by the renderer of its kind.
func (w *World) Render(ctx context.Context, src Source) ([]*Object, error) {
	src.Inputs, src.Variant = new(Inputs), w.Variant
	objects, err := w.answers.Render(ctx, src)
	w.inputs.include(src.Inputs, func(name string) (string, bool) { return fileOf(src.FS, name) })
	return objects, err
}

// Recalled says what a Resolver that takes its unit from an earlier run would have
// opened and noted, and whether it would have used what was fetched.
func (w *World) Recalled(opened []string, fetched bool, n Noted) {
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

// Noted returns what was noted of documents and templates so far.
func (w *World) Noted() Noted { return w.inputs.noted() }

// UsedFetched reports whether the Resolver used something that was fetched.
func (w *World) UsedFetched() bool {
	a, ok := w.answers.(*answers)
	return ok && a.store.used.Load()
}
