package flux

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// maxChain is how many sources may be made of each other.
const maxChain = 16

// An artifact holds the files of a source, as its controller packs them.
type artifact struct {
	fsys   fs.FS
	root   string            // directory of fsys
	layers []*render.Overlay // in fsys, innermost first
}

// over returns an empty Overlay over the artifact, and the artifact with it.
func (a artifact) over() (*render.Overlay, artifact) {
	o := render.NewOverlay(a.fsys, nil)
	return o, artifact{fsys: o, root: a.root, layers: append(a.layers[:len(a.layers):len(a.layers)], o)}
}

// path returns the name in fsys of a path of the artifact. No path leads above
// its root.
func (a artifact) path(name string) string {
	return path.Join(a.root, strings.TrimPrefix(path.Join("/", name), "/"))
}

// shown returns a name in fsys as a path for messages: from the tree's root, or
// from the root of an artifact that is not a folder of the tree.
func (a artifact) shown(name string) string {
	if within(a.root, generatedRoot) {
		return relative(a.root, name)
	}
	return name
}

func (a artifact) isDir(name string) bool {
	info, err := fs.Stat(a.fsys, name)
	return err == nil && info.IsDir()
}

// provenance returns p with places in the tree only.
func (a artifact) provenance(p render.Provenance) render.Provenance {
	for i := len(a.layers) - 1; i >= 0; i-- {
		p = a.layers[i].Provenance(p)
	}
	return p
}

// errors returns err with places in the tree only.
func (a artifact) errors(err error) error {
	var all []error
	for _, e := range render.Errors(err) {
		for i := len(a.layers) - 1; i >= 0; i-- {
			e = a.layers[i].Error(e)
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}

// source returns the artifact of the source that the field at a pointer of the
// task's object refers to.
func (t *task) source(pointer string, ref reference) (artifact, error) {
	s := sources{task: t, at: pointer}
	ref.Namespace = cmp.Or(ref.Namespace, t.object.GetNamespace())
	return s.find(ref)
}

// sources finds the artifacts that a task needs.
type sources struct {
	*task
	at    string      // the field of the task's object that refers to the source
	stack []reference // the sources that contain the current one
}

func (s sources) find(ref reference) (artifact, error) {
	for _, above := range s.stack {
		if above == ref {
			return artifact{}, s.error(s.at, "source-cycle", "%s is made of itself", ref)
		}
	}
	if len(s.stack) >= maxChain {
		return artifact{}, s.error(s.at, "source-cycle", "more than %d sources are made of each other", maxChain)
	}
	s.stack = append(s.stack[:len(s.stack):len(s.stack)], ref)
	switch ref.Kind {
	case "GitRepository", "OCIRepository", "Bucket", "HelmChart":
		return s.fetched(ref)
	case "ExternalArtifact":
		return s.external(ref)
	case "":
		return artifact{}, s.error(s.at, "missing-source", "%s %s names no source", s.object.GetKind(), s.object.GetName())
	}
	return artifact{}, s.error(s.at, "unknown-source", "%s is no kind of source that Flux knows", ref.Kind)
}

// sourceSpec holds the fields of all kinds of sources.
type sourceSpec struct {
	URL            string     `json:"url"`
	Ref            gitRef     `json:"ref"`
	Ignore         *string    `json:"ignore"`
	Include        []include  `json:"include"`
	SparseCheckout []string   `json:"sparseCheckout"`
	BucketName     string     `json:"bucketName"`
	Endpoint       string     `json:"endpoint"`
	Chart          string     `json:"chart"`
	SourceRef      *reference `json:"sourceRef"`
}

type gitRef struct {
	Branch string `json:"branch"`
	Tag    string `json:"tag"`
	SemVer string `json:"semver"`
	Name   string `json:"name"`
	Commit string `json:"commit"`
	Digest string `json:"digest"`
}

// revision returns the revision that source-controller checks out.
func (g gitRef) revision() string {
	return cmp.Or(g.Commit, g.Name, g.SemVer, g.Tag, g.Branch, "master")
}

// artifact returns the requested version of an OCI artifact: its digest, range
// or tag.
func (g gitRef) artifact() string {
	if g.Digest == "" && g.SemVer != "" {
		return "semver:" + g.SemVer
	}
	return cmp.Or(g.Digest, g.Tag, "latest")
}

type include struct {
	Repository reference `json:"repository"`
	FromPath   string    `json:"fromPath"`
	ToPath     string    `json:"toPath"`
}

// fetched returns the artifact of a source that source-controller fetches: the
// folder that the configuration declares for it, else the repository at its
// URL.
func (s sources) fetched(ref reference) (artifact, error) {
	o := s.world.Object(schema.GroupKind{Group: sourceGroup, Kind: ref.Kind}, ref.Namespace, ref.Name)
	var spec sourceSpec
	if o != nil {
		if err := decodeSpec(o, &spec); err != nil {
			return artifact{}, err
		}
	}
	repo, declared := s.world.Source(ref.Kind, ref.Namespace, ref.Name)
	if !declared {
		var err error
		if repo, err = s.repository(ref, o, spec); err != nil {
			return artifact{}, err
		}
	}
	root := path.Clean(cmp.Or(repo.Root, "."))
	f := newFilter(repo.FS, root, spec.Ignore)
	a := artifact{fsys: repo.FS, root: root}
	a.layers = []*render.Overlay{render.NewOverlay(repo.FS, f.hides)}
	a.fsys = a.layers[0]
	if err := s.include(a.layers[0], root, o, spec.Include); err != nil {
		return artifact{}, err
	}
	return a, nil
}

// repository returns the files of a source for which the configuration declares
// no folder.
func (s sources) repository(ref reference, o *render.Object, spec sourceSpec) (render.Repository, error) {
	switch {
	case o == nil && ref.Kind == "GitRepository" && ref.Namespace == "flux-system" && ref.Name == "flux-system":
		// This is the repository that Flux was bootstrapped from.
		return s.own(ref)
	case o == nil:
		e := s.missing(s.at, "missing-source", "there is no %s", ref)
		e.Hint = folderHint
		return render.Repository{}, e
	case ref.Kind == "GitRepository":
		repo, err := s.world.Repository(spec.URL, spec.Ref.revision())
		if err == nil {
			return repo, nil
		}
		if ref.Namespace == "flux-system" && ref.Name == "flux-system" && foreign(err) {
			if own, err := s.own(ref); err == nil {
				return own, nil
			}
		}
		return render.Repository{}, s.placed(o, err)
	}
	if ref.Kind == "OCIRepository" && spec.URL != "" {
		return s.ociArtifact(ref, o, spec)
	}
	from := cmp.Or(spec.URL, path.Join(spec.Endpoint, spec.BucketName), spec.Chart)
	e := errorAt(o, "/spec/url", "foreign-repository", "%s fetches %s, which is not in the tree", ref, from)
	e.Missing, e.Source = true, from
	e.Hint = folderHint
	return render.Repository{}, e
}

const folderHint = "declare the folder with its content under `sources` in .preadmit/config.yaml"

// ociArtifact returns the files of an artifact that the configuration declares
// for its address, or that was fetched.
func (s sources) ociArtifact(ref reference, o *render.Object, spec sourceSpec) (render.Repository, error) {
	if repo, ok := s.world.Declared(spec.URL); ok {
		return repo, nil
	}
	remote := render.NewRemote(render.OCIArtifact, spec.URL, "", spec.Ref.artifact())
	repo, err := s.world.Fetched(remote)
	if err == nil {
		return repo, nil
	}
	e := errorAt(o, "/spec/url", "foreign-repository", "%s fetches %s, which is not in the tree", ref, spec.URL)
	return render.Repository{}, e.Needs(remote, err, folderHint)
}

// own returns this repository, which Flux was bootstrapped from.
func (s sources) own(ref reference) (render.Repository, error) {
	repo, err := s.world.Repository("", "")
	if err != nil {
		return repo, s.missing(s.at, "missing-source", "there is no %s", ref)
	}
	return repo, nil
}

func foreign(err error) bool {
	var e *render.Error
	return errors.As(err, &e) && e.Rule == "foreign-repository"
}

// placed adds the place of a source's URL to an error about its repository.
func (s sources) placed(o *render.Object, err error) error {
	var all []error
	for _, e := range render.Errors(err) {
		moved := *e
		field := "/spec/url"
		if e.Rule == "missing-revision" {
			field = "/spec/ref"
		}
		if at := o.At(field); len(at) > 0 && moved.Span.File == "" {
			moved.Span = at[0].Span
		}
		all = append(all, &moved)
	}
	return errors.Join(all...)
}

// include adds the files of other repositories that a GitRepository includes.
func (s sources) include(to *render.Overlay, root string, o *render.Object, all []include) error {
	for _, in := range all {
		in.Repository.Kind = "GitRepository"
		in.Repository.Namespace = cmp.Or(in.Repository.Namespace, o.GetNamespace())
		from, err := s.find(in.Repository)
		if err != nil {
			return err
		}
		source := from.path(in.FromPath)
		target := artifact{root: root}.path(cmp.Or(in.ToPath, in.Repository.Name))
		err = eachFile(from.fsys, source, func(name string) error {
			to.LinkTo(path.Join(target, relative(source, name)), from.fsys, name)
			return nil
		})
		if err != nil {
			return errorAt(o, "/spec/include", "missing-path", "%s has no directory %s to include", in.Repository, in.FromPath)
		}
	}
	return nil
}

// eachFile calls f for each regular file in and below a directory.
func eachFile(fsys fs.FS, dir string, f func(name string) error) error {
	return fs.WalkDir(fsys, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return f(name)
	})
}
