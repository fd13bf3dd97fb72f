package store

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/artifact"
)

// LockFile is the lock's path from the repository's root.
const LockFile = ".preadmit/lock.yaml"

// Limits of a lock: its size, and its number of entries.
const (
	maxLock    = 8 << 20
	maxEntries = 10_000
)

// A Lock records the content of each Remote. People review it.
type Lock struct {
	Version int     `yaml:"version" json:"version"`
	Entries []Entry `yaml:"entries" json:"entries"`
}

// An Entry is one Remote and its content.
type Entry struct {
	Kind      render.RemoteKind `yaml:"kind" json:"kind"`
	URL       string            `yaml:"url" json:"url"`
	Name      string            `yaml:"name,omitempty" json:"name,omitempty"`         // of a chart, or group/Kind of a schema
	Requested string            `yaml:"requested" json:"requested"`                   // as in the objects: a version, range, tag or revision
	Resolved  string            `yaml:"resolved,omitempty" json:"resolved,omitempty"` // the version, tag or commit found for it
	Digest    string            `yaml:"digest" json:"digest"`                         // sha256 of the archive, the manifest (OCI), the packed tree (git) or the file
	Size      int64             `yaml:"size" json:"size"`                             // of the content with that digest, in bytes
	Archive   string            `yaml:"archive,omitempty" json:"archive,omitempty"`   // the address of a chart's archive

	// Signature is the sha256 digest of the signature that verified the
	// content.
	Signature string `yaml:"signature,omitempty" json:"signature,omitempty"`
}

// Remote returns the Remote that the entry locks.
func (e *Entry) Remote() *render.Remote {
	return &render.Remote{Kind: e.Kind, URL: e.URL, Name: e.Name, Version: e.Requested}
}

// Label returns a name for the entry's content, such as "chart podinfo 6.9.2".
func (e *Entry) Label() string {
	version := cmp.Or(e.Resolved, e.Requested)
	switch e.Kind {
	case render.HelmChart, render.HelmOCIChart:
		return strings.TrimSpace("chart " + e.Name + " " + version)
	case render.OCIArtifact:
		return strings.TrimSpace("artifact " + withoutScheme(e.URL) + " " + short(version))
	case render.GitTree:
		return strings.TrimSpace("repository " + withoutScheme(e.URL) + " " + short(version))
	case render.KindSchema:
		return "schema " + e.Name + " " + e.Requested
	}
	return "file " + withoutScheme(e.URL)
}

func withoutScheme(url string) string {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	return rest
}

// short returns the first twelve digits of a commit or digest, and other
// versions unchanged.
func short(version string) string {
	digits := strings.TrimPrefix(version, "sha256:")
	if _, err := hex.DecodeString(digits); err == nil && len(digits) >= 40 {
		return digits[:12]
	}
	return version
}

// Compare orders entries as in a lock.
func (e *Entry) Compare(o *Entry) int {
	return cmp.Or(strings.Compare(string(e.Kind), string(o.Kind)), strings.Compare(e.URL, o.URL),
		strings.Compare(e.Name, o.Name), strings.Compare(e.Requested, o.Requested))
}

// ReadLock reads the lock of a repository. It returns nil if there is none.
func ReadLock(repository fs.FS) (*Lock, error) {
	data, err := render.ReadFile(repository, LockFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := render.OneDocument(LockFile, data); err != nil {
		return nil, err
	}
	lock, err := ParseLock(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", LockFile, err)
	}
	return lock, nil
}

// ParseLock reads a lock. The error begins with the line, if known.
func ParseLock(data []byte) (*Lock, error) {
	if len(data) > maxLock {
		return nil, fmt.Errorf("it is larger than %d MiB", maxLock>>20)
	}
	l := &Lock{}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(l); err != nil {
		return nil, errors.New(strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
	}
	switch {
	case l.Version != 1:
		return nil, fmt.Errorf("version %d: this preadmit knows version 1", l.Version)
	case len(l.Entries) > maxEntries:
		return nil, fmt.Errorf("it has more than %d entries", maxEntries)
	}
	seen := make(map[render.Remote]bool, len(l.Entries))
	for i := range l.Entries {
		e := &l.Entries[i]
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("entry %d, %s: %w", i+1, e.Remote(), err)
		}
		if seen[*e.Remote()] {
			return nil, fmt.Errorf("entry %d, %s: there are two for it", i+1, e.Remote())
		}
		seen[*e.Remote()] = true
	}
	l.sort()
	return l, nil
}

var kinds = []render.RemoteKind{render.HelmChart, render.HelmOCIChart, render.OCIArtifact, render.GitTree, render.URLFile, render.KindSchema}

func (e *Entry) check() error {
	chart := e.Kind == render.HelmChart || e.Kind == render.HelmOCIChart
	switch {
	case !slices.Contains(kinds, e.Kind):
		return fmt.Errorf("kind %q is none of helm, helm-oci, oci, git, url, crd", e.Kind)
	case e.URL == "":
		return errors.New("url is missing")
	case (chart || e.Kind == render.KindSchema) && e.Name == "":
		return errors.New("name is missing")
	}
	_, err := artifact.ParseDigest(e.Digest)
	if err == nil && e.Signature != "" {
		_, err = artifact.ParseDigest(e.Signature)
	}
	return err
}

func (l *Lock) sort() {
	slices.SortFunc(l.Entries, func(a, b Entry) int { return a.Compare(&b) })
}

// Find returns the entry of a Remote, or nil. l may be nil.
func (l *Lock) Find(r *render.Remote) *Entry {
	if l == nil {
		return nil
	}
	for i := range l.Entries {
		if *l.Entries[i].Remote() == *r {
			return &l.Entries[i]
		}
	}
	return nil
}

// Put adds an entry, or replaces the one with the same Remote.
func (l *Lock) Put(e Entry) {
	if have := l.Find(e.Remote()); have != nil {
		*have = e
		return
	}
	l.Entries = append(l.Entries, e)
	l.sort()
}

const lockHead = "# Written by `preadmit fetch`. Commit it.\n"

// Marshal returns the lock's file content, which is the same for the same
// entries.
func (l *Lock) Marshal() ([]byte, error) {
	sorted := Lock{Version: 1, Entries: slices.Clone(l.Entries)}
	if sorted.Entries == nil {
		sorted.Entries = []Entry{}
	}
	sorted.sort()
	var b bytes.Buffer
	b.WriteString(lockHead)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&sorted); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

// Replaced returns the entries whose content differs from that in an earlier lock although the
// version is the same and a version should always name the same content. A cluster can't get both.
// Both locks may be nil.
func (l *Lock) Replaced(was *Lock) []Entry {
	var all []Entry
	if was == nil || l == nil {
		return nil
	}
	for _, e := range l.Entries {
		if old := was.Find(e.Remote()); old != nil && e.fixed() && old.Resolved == e.Resolved && old.Digest != e.Digest {
			all = append(all, e)
		}
	}
	return all
}

// fixed reports whether the entry's version always names the same content.
func (e *Entry) fixed() bool {
	switch e.Kind {
	case render.HelmChart, render.HelmOCIChart, render.GitTree:
		return e.Resolved != ""
	}
	return false
}
