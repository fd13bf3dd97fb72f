// Package store reads what `preadmit fetch` stored: the lock, and the locked content from
// directories of files named by their digests.
//
// [New] takes a [Lock] and the directories, and returns a [render.Store] whose
// files are parts of the run's tree ([Store.Mounts]). Each time a file is read
// its content is compared with its digest, so a store may be in a place where
// others can write. This package opens no connection; package fetch fills the
// directories.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/artifact"
	"github.com/preadmit/preadmit/render/internal/tarball"
)

// SchemaFile is the name of the file with a catalogue's schema.
const SchemaFile = "schema.json"

// VendorDir is the repository's directory for content.
const VendorDir = ".preadmit/vendor"

// unpacked limits the unpacked size of an archive, as for charts in the tree.
var unpacked = tarball.Limits{Bytes: 100 << 20, Entries: 20_000}

// ErrAbsent is the error for content that is in no directory.
var ErrAbsent = errors.New("it is not in the store")

// Dirs are directories of content, searched in order.
type Dirs []fs.FS

// ContentDir returns the directory of dir that holds content by its digest: "." or,
// in an OCI image layout, "blobs".
func ContentDir(dir fs.FS) string {
	if info, err := fs.Stat(dir, "oci-layout"); err == nil && info.Mode().IsRegular() {
		return "blobs"
	}
	return "."
}

// BlobName returns the file name, in a directory, of the content with a digest.
func BlobName(digest string) string { return strings.Replace(digest, ":", "/", 1) }

// Digest returns the digest of content.
func Digest(data []byte) string { return artifact.Digest(data) }

// Has reports whether a directory has a file for the digest. It does not check
// the content.
func (d Dirs) Has(digest string) bool {
	return slices.ContainsFunc(d, func(dir fs.FS) bool {
		info, err := fs.Stat(dir, BlobName(digest))
		return err == nil && info.Mode().IsRegular()
	})
}

// Blob returns the content with a digest. It returns an error if the file's
// content has another digest, and ErrAbsent if there is no file.
func (d Dirs) Blob(digest string) ([]byte, error) {
	if _, err := artifact.ParseDigest(digest); err != nil {
		return nil, err
	}
	for _, dir := range d {
		data, err := readBlob(dir, BlobName(digest))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the store's file %s can't be read", BlobName(digest))
		}
		if got := Digest(data); got != digest {
			return nil, fmt.Errorf("the store's file %s has other content: its digest is %s", BlobName(digest), got)
		}
		return data, nil
	}
	return nil, ErrAbsent
}

func readBlob(dir fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(dir, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > artifact.MaxBlob {
		return nil, errors.New("no regular file, or too large")
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, artifact.MaxBlob+1))
	if err == nil && len(data) > artifact.MaxBlob {
		err = errors.New("too large")
	}
	return data, err
}

// A Store is a [render.Store] for the entries of a lock.
type Store struct {
	lock   *Lock
	dirs   Dirs
	trust  Trust
	tree   fs.FS
	mounts map[string]*content // by path in the tree

	mu    sync.Mutex
	asked map[render.Remote]bool
}

var _ render.Store = (*Store)(nil)

// New returns the Store of a lock, which may be nil. tree is the run's tree, to
// which the caller must add the Mounts. Content that trust does not verify is
// an error.
func New(lock *Lock, dirs Dirs, trust Trust, tree fs.FS) *Store {
	s := &Store{lock: lock, dirs: dirs, trust: trust, tree: tree, mounts: make(map[string]*content), asked: make(map[render.Remote]bool)}
	if lock == nil {
		return s
	}
	for i := range lock.Entries {
		e := &lock.Entries[i]
		s.mounts[mountName(e)] = &content{entry: e, dirs: dirs, trust: trust}
	}
	return s
}

func mountName(e *Entry) string {
	return render.FetchedName(e.Label(), strings.TrimPrefix(e.Digest, "sha256:"))
}

// A Mount is a directory of the tree with the files of an entry.
type Mount struct {
	Name string
	FS   fs.FS
}

// Mounts returns the directories of the tree with the Store's files. They are
// unpacked when first read.
func (s *Store) Mounts() []Mount {
	all := make([]Mount, 0, len(s.mounts))
	for name, c := range s.mounts {
		all = append(all, Mount{name, c})
	}
	slices.SortFunc(all, func(a, b Mount) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Asked returns the Remotes that the Store was asked for, in order.
func (s *Store) Asked() []render.Remote {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.asked), func(a, b render.Remote) int {
		return entryOf(a).Compare(entryOf(b))
	})
}

func entryOf(r render.Remote) *Entry {
	return &Entry{Kind: r.Kind, URL: r.URL, Name: r.Name, Requested: r.Version}
}

// State returns how far a Remote is fetched, and its entry in the lock, or nil.
func (s *Store) State(r *render.Remote) (State, *Entry) {
	e := s.lock.Find(r)
	if e == nil {
		return NotLocked, nil
	}
	if _, err := s.mounts[mountName(e)].files(); err != nil {
		return NotInStore, e
	}
	return Fetched, e
}

// A State says how far a Remote is fetched.
type State string

// The states of a Remote.
const (
	Fetched    State = "fetched"
	NotInStore State = "not-in-store" // locked, but its content is missing or wrong
	NotLocked  State = "not-locked"
)

// Fetched implements render.Store.
func (s *Store) Fetched(r *render.Remote) (render.Repository, error) {
	s.mu.Lock()
	s.asked[*r] = true
	s.mu.Unlock()
	e := s.lock.Find(r)
	switch {
	case s.lock == nil:
		return render.Repository{}, render.NotFetched(r)
	case e == nil:
		missing := render.NotFetched(r)
		missing.Rule, missing.Err = "not-locked", fmt.Errorf("%s is not in the tree, and not in %s", r, LockFile)
		return render.Repository{}, missing
	}
	name := mountName(e)
	_, err := s.mounts[name].files()
	var unverified *SignatureError
	switch {
	case errors.As(err, &unverified):
		return render.Repository{}, &render.Error{Rule: "not-verified", Err: fmt.Errorf("%s can't be used: %w", r, err), Hint: "run `preadmit fetch`, which brings its signature"}
	case errors.Is(err, ErrAbsent):
		missing := render.NotFetched(r)
		missing.Rule, missing.Err = "not-in-store", fmt.Errorf("%s is locked, but its content is not in the store", r)
		missing.Hint = "run `preadmit fetch --locked`"
		return render.Repository{}, missing
	case err != nil:
		return render.Repository{}, &render.Error{Rule: "wrong-content", Err: fmt.Errorf("%s can't be used: %w", r, err), Hint: "run `preadmit fetch`, or remove the file from the store"}
	}
	return render.Repository{FS: s.tree, Root: name}, nil
}

// A content holds the files of an entry, unpacked when first read.
type content struct {
	entry *Entry
	dirs  Dirs
	trust Trust

	once sync.Once
	fsys *memory
	err  error
}

func (c *content) files() (*memory, error) {
	c.once.Do(func() { c.fsys, c.err = c.unpack() })
	return c.fsys, c.err
}

func (c *content) unpack() (*memory, error) {
	data, err := c.dirs.Blob(c.entry.Digest)
	if err != nil {
		return nil, err
	}
	if err := c.trust.Verify(c.entry, c.dirs.Blob); err != nil {
		return nil, err
	}
	return Unpack(c.entry, data, c.dirs.Blob)
}

// Unpack returns the files of an entry with the content data. blob returns
// other content by its digest. Unpack reads no more than the store's limits
// allow.
func Unpack(e *Entry, data []byte, blob func(digest string) ([]byte, error)) (*memory, error) {
	m := &memory{files: make(map[string][]byte), dirs: map[string][]string{".": nil}}
	var err error
	switch e.Kind {
	case render.HelmChart:
		return m, unpackChart(m, data)
	case render.HelmOCIChart, render.OCIArtifact:
		if files, err := artifact.Files(data); e.Kind == render.OCIArtifact && (err != nil || len(files) > 0) {
			return m, errors.Join(err, m.addFiles(files, blob))
		}
		layer, err := artifact.Layer(data)
		if err != nil {
			return nil, err
		}
		if data, err = blob(layer.Digest); err != nil {
			return nil, err
		}
		if e.Kind == render.HelmOCIChart {
			return m, unpackChart(m, data)
		}
		return m, tarball.Each(data, unpacked, m.add)
	case render.GitTree:
		err = tarball.Each(data, unpacked, m.add)
	case render.URLFile:
		err = m.add(FileName(e.URL), data)
	case render.KindSchema:
		if len(data) > 0 { // an empty file means that the catalogue has no schema
			err = m.add(SchemaFile, data)
		}
	}
	return m, err
}

// Verify checks content before it is stored, and returns what is wrong with it.
func Verify(e *Entry, data []byte, blob func(digest string) ([]byte, error)) error {
	if artifact.Digest(data) != e.Digest {
		return errors.New("it does not have the digest of its entry")
	}
	files, err := Unpack(e, data, blob)
	if err != nil {
		return err
	}
	if e.Kind == render.KindSchema && len(data) > 0 && !json.Valid(data) {
		return errors.New("it is no JSON Schema")
	}
	if e.Kind == render.HelmChart || e.Kind == render.HelmOCIChart {
		if _, ok := files.files["Chart.yaml"]; !ok {
			return errors.New("it is no chart: it has no Chart.yaml")
		}
	}
	if e.Kind == render.HelmChart {
		return isListed(e, files.files["Chart.yaml"])
	}
	return nil
}

// isListed returns an error if a Chart.yaml has another name or version than the repository's index
// has for it.
func isListed(e *Entry, data []byte) error {
	var is struct{ Name, Version string }
	if err := yaml.Unmarshal(data, &is); err != nil {
		return errors.New("its Chart.yaml is no valid YAML")
	}
	for _, f := range []struct{ field, is, listed string }{{"name", is.Name, e.Name}, {"version", strings.TrimPrefix(is.Version, "v"), strings.TrimPrefix(e.Resolved, "v")}} {
		if f.is != "" && f.listed != "" && f.is != f.listed {
			return fmt.Errorf("the repository's index lists it with the %s %q, but its Chart.yaml says %q", f.field, f.listed, f.is)
		}
	}
	return nil
}

// Needs returns the digests of all content of an entry, except for those that
// can't be determined.
func (d Dirs) Needs(e *Entry) []string {
	all := []string{e.Digest}
	if e.Signature != "" {
		all = append(all, e.Signature)
	}
	if e.Kind == render.HelmOCIChart || e.Kind == render.OCIArtifact {
		manifest, err := d.Blob(e.Digest)
		if err != nil {
			return all
		}
		if layer, err := artifact.Layer(manifest); err == nil {
			all = append(all, layer.Digest)
		}
		files, _ := artifact.Files(manifest)
		for _, f := range files {
			all = append(all, f.Digest)
		}
	}
	return all
}

// Holds reports whether all content of an entry is stored and valid.
func (d Dirs) Holds(e *Entry, trust Trust) bool {
	data, err := d.Blob(e.Digest)
	return err == nil && Verify(e, data, d.Blob) == nil && trust.Verify(e, d.Blob) == nil
}

// FileName returns the name of the file at an address.
func FileName(address string) string {
	address, _, _ = strings.Cut(address, "?")
	address, _, _ = strings.Cut(address, "#")
	name := path.Base(withoutScheme(address))
	if !fs.ValidPath(name) || name == "." {
		return "file"
	}
	return name
}

// unpackChart unpacks a chart's archive, whose files are in one directory.
// .helmignore is not applied: it decides what is packed, not what is read.
func unpackChart(m *memory, data []byte) error {
	top := ""
	return tarball.Each(data, unpacked, func(name string, data []byte) error {
		dir, rest, ok := strings.Cut(name, "/")
		switch {
		case !ok:
			return fmt.Errorf("it has %q outside of the chart's directory", name)
		case top != "" && dir != top:
			return errors.New("it has more than one directory")
		}
		top = dir
		if rest == ".helmignore" {
			return nil
		}
		return m.add(rest, data)
	})
}

// Open implements fs.FS.
func (c *content) Open(name string) (fs.File, error) {
	m, err := c.files()
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return m.Open(name)
}

// Lstat implements fs.ReadLinkFS.
func (c *content) Lstat(name string) (fs.FileInfo, error) { return c.Stat(name) }

// Stat implements fs.StatFS.
func (c *content) Stat(name string) (fs.FileInfo, error) {
	m, err := c.files()
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return m.Stat(name)
}

// ReadLink implements fs.ReadLinkFS. There are no links.
func (c *content) ReadLink(name string) (string, error) {
	return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
}

// A Need is something that the units of a run need and that is not in the tree.
type Need struct {
	render.Remote
	State    State        `json:"state"`
	Resolved string       `json:"resolved,omitempty"`
	Digest   string       `json:"digest,omitempty"`
	Size     int64        `json:"size,omitempty"`
	Origin   *render.Span `json:"origin,omitempty"` // the place that needs it, if it is not fetched
}
