package render

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A RemoteKind says how a Remote is fetched.
type RemoteKind string

// The kinds of Remotes, as in the lock.
const (
	HelmChart    RemoteKind = "helm"     // a chart of a Helm repository, by HTTP
	HelmOCIChart RemoteKind = "helm-oci" // a chart of an OCI registry
	OCIArtifact  RemoteKind = "oci"      // an artifact of an OCI registry, such as Flux's
	GitTree      RemoteKind = "git"      // the files of a Git repository at a revision
	URLFile      RemoteKind = "url"      // one file, by HTTP
	KindSchema   RemoteKind = "crd"      // the schema of a custom resource in a catalogue, by HTTP; the catalogue may lack it
)

// A Remote is a source outside of the tree that the repository deploys from, as
// an object requests it: its version may be a range or a tag.
type Remote struct {
	Kind    RemoteKind `json:"kind"`
	URL     string     `json:"url"`
	Name    string     `json:"name,omitempty"` // a chart's name, or group/Kind
	Version string     `json:"requested"`      // "" is the newest, or the default branch
}

// NewRemote returns a Remote with a normalized address, from which a password
// is removed.
func NewRemote(kind RemoteKind, address, name, version string) *Remote {
	address = strings.TrimRight(strings.TrimSpace(address), "/")
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		if _, secret := u.User.Password(); secret || u.Scheme == "http" || u.Scheme == "https" {
			u.User = nil
		}
		u.Host, u.Scheme = strings.ToLower(u.Host), strings.ToLower(u.Scheme)
		address = u.String()
	}
	return &Remote{Kind: kind, URL: address, Name: name, Version: strings.TrimSpace(version)}
}

// NewChart returns the Remote of a chart in a Helm repository or OCI registry.
func NewChart(address, name, version string) *Remote {
	if strings.HasPrefix(address, "oci://") {
		return NewRemote(HelmOCIChart, address, name, version)
	}
	return NewRemote(HelmChart, address, name, version)
}

// NewAddressed returns the Remote of a file at a URL, or of an artifact by its address with a tag
// or digest, such as oci://ghcr.io/example/policies:1.2.
func NewAddressed(address string) *Remote {
	if !strings.HasPrefix(address, "oci://") {
		return NewRemote(URLFile, address, "", "")
	}
	version := ""
	if name, digest, ok := strings.Cut(address, "@"); ok {
		address, version = name, digest
	}
	if i := strings.LastIndexByte(address, ':'); i > strings.LastIndexByte(address, '/') {
		version, address = cmp.Or(version, address[i+1:]), address[:i]
	}
	return NewRemote(OCIArtifact, address, "", version)
}

// SchemaName returns the name of a kind's schema in a catalogue, group/Kind.
func SchemaName(kind, version string) string {
	return strings.ToLower(kind) + "_" + version + ".json"
}

// IsAddress reports whether a path is the address of an artifact in a registry,
// or the URL of a file.
func IsAddress(path string) bool {
	return strings.HasPrefix(path, "oci://") || strings.HasPrefix(path, "https://") || strings.HasPrefix(path, "http://")
}

// String returns the Remote's name for messages.
func (r *Remote) String() string {
	switch r.Kind {
	case HelmChart, HelmOCIChart:
		return strings.Join(strings.Fields("chart "+r.Name+" "+cmp.Or(r.Version, "*")+" of "+r.URL), " ")
	case OCIArtifact:
		return strings.TrimSpace("artifact " + r.URL + " " + r.Version)
	case GitTree:
		return strings.TrimSpace("repository " + r.URL + " " + r.Version)
	case KindSchema:
		return "schema " + r.Name + " " + r.Version + " of " + r.URL
	}
	return r.URL
}

// A Store holds fetched content. It is safe for concurrent use.
type Store interface {
	// Fetched returns the files of a Remote; those of a chart are at the Root
	// of the Repository. The error is an *Error without a place. It is Missing
	// unless the content differs from the lock.
	Fetched(r *Remote) (Repository, error)
}

// NotFetched returns the error of a Store that does not hold a Remote.
func NotFetched(r *Remote) *Error {
	return &Error{Rule: "not-fetched", Missing: true, Err: fmt.Errorf("%s is not in the tree", r), Hint: fetchHint, Remote: r}
}

const fetchHint = "run `preadmit fetch`"

// NoStore is a Store that holds nothing.
type NoStore struct{}

// Fetched implements Store.
func (NoStore) Fetched(r *Remote) (Repository, error) { return Repository{}, NotFetched(r) }

// Fetched returns the files of a Remote of the source, see [Store].
func (s Source) Fetched(r *Remote) (Repository, error) {
	if s.Store == nil {
		return NoStore{}.Fetched(r)
	}
	return s.Store.Fetched(r)
}

// Needs returns e, the error of a source that needs a Remote, completed by err, the error of the
// Store. Content that is in the store but wrong is reported as such, not as missing. instead is an
// alternative to fetching, for the hint.
func (e *Error) Needs(r *Remote, err error, instead string) *Error {
	needs := *e
	var s *Error
	if !errors.As(err, &s) {
		s = NotFetched(r)
	}
	if !s.Missing {
		needs.Rule, needs.Err, needs.Hint, needs.Missing = s.Rule, s.Err, s.Hint, false
		return &needs
	}
	if s.Rule != "not-fetched" {
		needs.Err = s.Err
	}
	needs.Missing, needs.Remote, needs.Hint = true, r, s.Hint
	if instead != "" {
		needs.Hint += ", or " + instead
	}
	return &needs
}

// A noting Store records whether it returned any content.
type noting struct {
	Store
	used atomic.Bool
}

// Fetched implements Store.
func (n *noting) Fetched(r *Remote) (Repository, error) {
	repo, err := n.Store.Fetched(r)
	if err == nil {
		n.used.Store(true)
	}
	return repo, err
}

func storeOf(s Store) *noting {
	if s == nil {
		s = NoStore{}
	}
	return &noting{Store: s}
}

// fetchedRoot is the directory of the tree in which Stores show their files.
const fetchedRoot = ".outside/fetched/"

// FetchedName returns the directory of the tree in which a Store shows the
// files of a Remote, by its label, such as "chart podinfo 6.9.2", and the
// content's digest.
func FetchedName(label, hexDigest string) string {
	elements := strings.FieldsFunc(label, func(r rune) bool { return r == '/' || r < ' ' })
	elements = slices.DeleteFunc(elements, func(e string) bool { return e == "." || e == ".." || strings.HasPrefix(e, "@") })
	return fetchedRoot + cmp.Or(path.Join(elements...), "source") + "/@" + hexDigest[:min(12, len(hexDigest))]
}

// Fetched reports whether a file of the tree is shown by a Store, and returns
// the Remote's label and the file's path within it.
func Fetched(file string) (label, rest string, ok bool) {
	inner, ok := strings.CutPrefix(file, fetchedRoot)
	if !ok {
		return "", "", false
	}
	label, rest, ok = strings.Cut(inner, "/@")
	_, rest, _ = strings.Cut(rest, "/")
	return label, rest, ok
}

// FetchedDir returns the directory of the Remote that a name of the tree
// belongs to, if a Store shows it.
func FetchedDir(name string) (dir string, ok bool) {
	_, rest, ok := Fetched(name)
	return strings.TrimSuffix(strings.TrimSuffix(name, rest), "/"), ok
}

// Beside returns base with the files of r, which base may not show.
func Beside(base fs.FS, r Repository) fs.FS {
	if b, ok := base.(beside); ok {
		base = b.FS
	}
	return beside{base, r.FS}
}

type beside struct {
	fs.FS
	fetched fs.FS
}

func (b beside) of(name string) fs.FS {
	if strings.HasPrefix(name, fetchedRoot) {
		return b.fetched
	}
	return b.FS
}

// Open implements fs.FS.
func (b beside) Open(name string) (fs.File, error) { return b.of(name).Open(name) }

// Stat implements fs.StatFS.
func (b beside) Stat(name string) (fs.FileInfo, error) { return fs.Stat(b.of(name), name) }

// Lstat implements fs.ReadLinkFS.
func (b beside) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(b.of(name), name) }

// ReadLink implements fs.ReadLinkFS.
func (b beside) ReadLink(name string) (string, error) { return fs.ReadLink(b.of(name), name) }

// ReadDir implements fs.ReadDirFS.
func (b beside) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(b.of(name), name) }

// inFetched formats a place in fetched files: "in chart podinfo 6.9.2,
// templates/x.yaml:12".
func inFetched(s Span) string {
	label, rest, _ := Fetched(s.File)
	text := "in " + label
	if rest != "" {
		s.File = rest
		text += ", " + Span{File: rest, Line: s.Line}.String()
	}
	return text
}

// edited changes the provenance of the unit so that the first place is one that
// a person can edit: before a place in a fetched file it puts the reference
// that makes the unit use it.
func (u *Unit) edited(owner *Object) {
	charts := &defaults{fs: u.FS}
	for i, o := range u.Objects {
		copied := *o
		copied.Provenance = &editable{Provenance: o.Provenance, owner: owner, unit: u, defaults: charts}
		u.Objects[i] = &copied
	}
	if u.Err == nil {
		return
	}
	var all []error
	for _, e := range Errors(u.Err) {
		if _, _, ok := Fetched(e.Span.File); ok {
			moved := *e
			moved.Err = fmt.Errorf("%s: %w", inFetched(e.Span), e.Err)
			moved.Span = u.reference(owner).Span
			e = &moved
		}
		all = append(all, e)
	}
	u.Err = errors.Join(all...)
}

// reference returns where the unit refers to the fetched source.
func (u *Unit) reference(owner *Object) Origin {
	if owner == nil {
		return Origin{Span: Span{File: cmp.Or(firstFile(u.files()), u.Path)}, Role: Reference}
	}
	for _, pointer := range []string{"/spec/values", "/spec/chart/spec", "/spec/chartRef", "/spec/source/helm/valuesObject", "/spec/source/helm", "/spec/source", "/spec/sources", "/spec/path"} {
		if _, ok := Lookup(owner.Object, pointer); ok {
			if at := owner.At(pointer); len(at) > 0 {
				return Origin{Span: at[0].Span, Role: Reference}
			}
		}
	}
	if at := owner.At(""); len(at) > 0 {
		return Origin{Span: at[0].Span, Role: Reference}
	}
	return Origin{}
}

func firstFile(files []string) string {
	if len(files) == 0 {
		return ""
	}
	return files[0]
}

// editable is the Provenance of an object that may come from fetched files.
type editable struct {
	Provenance
	owner    *Object
	unit     *Unit
	defaults *defaults // default values of the unit's charts
}

// At implements Provenance.
func (e *editable) At(pointer string) []Origin {
	if e.Provenance == nil {
		return nil
	}
	return e.order(e.Provenance.At(pointer))
}

// order puts places in fetched files last, and adds the reference if there is
// no other place.
func (e *editable) order(origins []Origin) []Origin {
	fetched := func(o Origin) bool { _, _, ok := Fetched(o.File); return ok }
	if !slices.ContainsFunc(origins, fetched) {
		return origins
	}
	var here, there []Origin
	for _, o := range origins {
		if fetched(o) {
			there = append(there, o)
		} else {
			here = append(here, o)
		}
	}
	if len(here) > 0 {
		return append(here, there...)
	}
	at, ok := e.defaults.override(e.owner, there)
	if !ok {
		at = e.unit.reference(e.owner)
	}
	if at.File != "" {
		here = append(here, at)
	}
	return append(here, there...)
}

// override returns where the owner would override a default of a fetched chart
// that is among places: in its values, at the innermost map that they already
// have around that value.
func (d *defaults) override(owner *Object, places []Origin) (Origin, bool) {
	i := slices.IndexFunc(places, func(o Origin) bool { return o.Role == Value })
	if i < 0 || owner == nil {
		return Origin{}, false
	}
	pointer, ok := d.pointer(places[i].Span)
	if !ok {
		return Origin{}, false
	}
	for _, values := range valuesOf(owner) {
		if _, ok := Lookup(owner.Object, values); !ok {
			continue
		}
		path := Path(pointer)
		for n := len(path) - 1; n > 0; n-- {
			at := values
			for _, key := range path[:n] {
				at += Pointer(key)
			}
			if set, ok := Lookup(owner.Object, at); ok && set != nil {
				values = at
				break
			}
		}
		if at := owner.At(values); len(at) > 0 {
			return Origin{Span: at[0].Span, Role: Reference}, true
		}
	}
	return Origin{}, false
}

// valuesOf returns pointers to the fields in which an owner may have values for
// charts.
func valuesOf(owner *Object) []string {
	all := []string{"/spec/values", "/spec/source/helm/valuesObject"}
	sources, _ := Lookup(owner.Object, "/spec/sources")
	list, _ := sources.([]any)
	for i, s := range list {
		if chart, _ := Lookup(s, "/chart"); chart != nil {
			all = append(all, Pointer("spec", "sources", i, "helm", "valuesObject"))
		}
	}
	return all
}

// A defaults finds values in the default values of a unit's fetched charts. It
// is safe for concurrent use.
type defaults struct {
	fs fs.FS

	mu     sync.Mutex
	fields map[string]map[place]string // pointers of fields, by file and place
}

// pointer returns the pointer of a default in the chart's values. A subchart's
// defaults are below its name.
func (d *defaults) pointer(s Span) (string, bool) {
	_, rest, ok := Fetched(s.File)
	if !ok || path.Base(rest) != "values.yaml" || d.fs == nil {
		return "", false
	}
	found, ok := d.of(s.File)[place{uint32(s.Line), uint32(s.Column)}]
	under := ""
	for dir := strings.Split(path.Dir(rest), "/"); len(dir) > 1 && dir[0] == "charts"; dir = dir[2:] {
		under += Pointer(dir[1])
	}
	return under + found, ok
}

// of returns the pointers of a file's fields, by the places of their keys and
// values.
func (d *defaults) of(file string) map[place]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.fields[file]; ok {
		return known
	}
	fields := make(map[place]string)
	if d.fields == nil {
		d.fields = make(map[string]map[place]string)
	}
	d.fields[file] = fields
	data, err := ReadFile(d.fs, file)
	if err != nil {
		return fields
	}
	docs, err := Documents(file, data, YAML11)
	if err != nil || len(docs) != 1 {
		return fields
	}
	docs[0].Positions.Each(func(pointer string, line, column int) {
		fields[place{uint32(line), uint32(column)}] = pointer
		if key, _, ok := docs[0].Positions.Field(pointer); ok && key.Line > 0 {
			fields[place{uint32(key.Line), uint32(key.Column)}] = pointer
		}
	})
	return fields
}

// Line is called by [Object.Line].
func (e *editable) Line(pointer string, n int) []Origin {
	return e.order((&Object{Provenance: e.Provenance}).Line(pointer, n))
}

// Part is called by [Object.Part].
func (e *editable) Part(pointer, part string) []Origin {
	return e.order((&Object{Provenance: e.Provenance}).Part(pointer, part))
}

// Inside is called by [Object.Inside].
func (e *editable) Inside(pointer, text string, n int) (Span, bool) {
	s, ok := (&Object{Provenance: e.Provenance}).Inside(pointer, text, n)
	if _, _, fetched := Fetched(s.File); fetched {
		return Span{}, false
	}
	return s, ok
}
