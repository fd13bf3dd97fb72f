// Package download implements the command fetch: it downloads the sources that the units of a
// repository need and the repository does not contain, and locks them.
//
// The caller sets flags, lock and trust in a [Fetch]. The results are files of content, the lock,
// and a list of failures. A confined child process lists the needed sources (needs.go). They are
// downloaded by package render/fetch with the user's logins (login.go), taken from Helm's cache
// or cloned with git (programs.go). Then they are verified and written (download.go).
// progress.go draws progress bars.
//
// This package is the only importer of render/fetch, and cmd/preadmit/fetch.go is its only
// importer, so no other command can use the network.
package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/fetch"
	"github.com/preadmit/preadmit/render/store"
)

// Limits of a run of fetch.
const (
	maxRounds   = 8 // fetched sources may need further sources
	maxRemotes  = 5000
	maxDownload = 3 * time.Minute
	downloads   = 6 // at once
)

// A Fetch is one run of the command fetch.
type Fetch struct {
	Dir     string // of the repository
	Content string // the directory that content is written to
	Shared  bool   // other repositories use Content too, so nothing is removed from it
	Dirs    store.Dirs
	Lock    *store.Lock // nil if there is none yet
	Base    *store.Lock // of the revision to compare with; nil without one
	Hosts   []string    // from the configuration
	Only    bool        // only Hosts and the hosts of Base may be contacted
	Trust   store.Trust

	Graph     []string // flags and paths for the command graph, which lists the sources that units need
	Addresses []string // further needed sources
	Whole     bool     // Graph covers the whole repository

	Locked bool   // fetch only what the lock names, and do not change the lock
	Keep   bool   // keep entries of the lock that nothing needs
	Git    bool   // clone with the git program
	Update string // resolve again the versions of Remotes whose name contains this; "*" is all
	Header string // the first line of a lock that is written
	Path   string // PATH for git and for the credential helpers of docker's configuration

	Stderr io.Writer
	Quiet  bool
	Say    func(parts ...string)
	Plain  func(string) string // escapes text from outside for one line of output

	failed  []string
	fetched int
}

// Done is the outcome of a run.
type Done struct {
	Needed, Fetched int
	Failed          []string // a sentence for each source that could not be fetched, sorted
}

// Run fetches the locked content if Locked is set. Otherwise it fetches the content that the units
// need, and locks it. It keeps content fetched before an error.
func (f *Fetch) Run(ctx context.Context) (done Done, err error) {
	run := f.fetchAll
	if f.Locked {
		run = f.fetchLocked
	}
	done.Needed, err = run(ctx)
	slices.Sort(f.failed)
	done.Fetched, done.Failed = f.fetched, f.failed
	return done, err
}

// fetcher returns a Fetcher for the hosts and logins of this run.
func (f *Fetch) fetcher() (*fetch.Fetcher, error) {
	o := fetch.Options{Hosts: f.Hosts, Locked: hostsOf(f.Base), Only: f.Only, Proxy: http.ProxyFromEnvironment, Timeout: maxDownload}
	os.Setenv("PATH", f.Path)
	var err error
	if o.Logins, err = readLogins(); err != nil {
		return nil, err
	}
	if o.RegistryLogin, err = registryLogins(); err != nil {
		return nil, err
	}
	if f.Git {
		o.Git = gitProgram
	}
	return fetch.New(o), nil
}

// hostsOf returns the hosts in a lock, which may be nil.
func hostsOf(lock *store.Lock) []string {
	var hosts []string
	if lock == nil {
		return nil
	}
	for _, e := range lock.Entries {
		for _, address := range []string{e.URL, e.Archive} {
			if host := fetch.HostOf(address); host != "" {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// fetchAll fetches the content that the units need, until they need nothing more, and
// locks it.
func (f *Fetch) fetchAll(ctx context.Context) (int, error) {
	if f.Lock == nil {
		f.Lock = &store.Lock{Version: 1}
	}
	bars := newProgress(f.Stderr, f.Quiet, f.Plain)
	fetcher, err := f.fetcher()
	if err != nil {
		return 0, err
	}
	tried := make(map[render.Remote]bool)
	var needs []store.Need
	for range maxRounds {
		if needs, err = f.Needs(ctx); err != nil {
			return 0, err
		}
		var todo []wanted
		for _, n := range needs {
			if !tried[n.Remote] && (n.State != store.Fetched || f.Updates(&n.Remote) || !f.verified(&n.Remote)) {
				tried[n.Remote] = true
				w := wanted{remote: n.Remote}
				if !f.Updates(&n.Remote) {
					w.locked = f.Lock.Find(&n.Remote)
				}
				todo = append(todo, w)
			}
		}
		if len(todo) == 0 {
			break
		}
		if len(tried) > maxRemotes {
			return 0, &supervise.Incomplete{Err: fmt.Errorf("more than %d sources are needed", maxRemotes)}
		}
		if err := f.bring(ctx, fetcher, bars, todo); err != nil {
			return 0, err
		}
	}
	if len(f.failed) == 0 && !f.Keep {
		if err := f.prune(needs); err != nil {
			return 0, err
		}
	}
	return len(needs), nil
}

// verified reports whether the locked content of a Remote has the required signature. f.Trust may
// require more than the configuration with which the units were rendered.
func (f *Fetch) verified(r *render.Remote) bool {
	e := f.Lock.Find(r)
	return e == nil || f.Trust.Verify(e, f.Dirs.Blob) == nil
}

// A wanted is a Remote to fetch, with its entry in the lock, or nil.
type wanted struct {
	remote render.Remote
	locked *store.Entry
}

// fetchLocked fetches the content of the lock and of the base's lock that is missing from the
// store.
func (f *Fetch) fetchLocked(ctx context.Context) (int, error) {
	bars := newProgress(f.Stderr, f.Quiet, f.Plain)
	fetcher, err := f.fetcher()
	if err != nil {
		return 0, err
	}
	entries := f.lockedEntries()
	var todo []wanted
	for i := range entries {
		if e := &entries[i]; !f.Dirs.Holds(e, f.Trust) {
			todo = append(todo, wanted{*e.Remote(), e})
		}
	}
	if err := f.bring(ctx, fetcher, bars, todo); err != nil {
		return 0, err
	}
	return len(entries), nil
}

// lockedEntries returns the entries of the lock, and the entries of the base that differ from them.
func (f *Fetch) lockedEntries() []store.Entry {
	entries := slices.Clone(f.Lock.Entries)
	if f.Base == nil {
		return entries
	}
	return append(entries, slices.DeleteFunc(slices.Clone(f.Base.Entries), func(e store.Entry) bool {
		return slices.ContainsFunc(f.Lock.Entries, func(x store.Entry) bool { return x.Kind == e.Kind && x.Digest == e.Digest })
	})...)
}

// bring fetches Remotes and writes their content, then the lock.
func (f *Fetch) bring(ctx context.Context, fetcher *fetch.Fetcher, bars *progress, todo []wanted) error {
	bars.expect(len(todo))
	entries := make([]*store.Entry, len(todo))
	errs := make([]error, len(todo))
	var group errgroup.Group
	group.SetLimit(downloads)
	for i := range todo {
		group.Go(func() error {
			add, done := bars.begin(todo[i].remote.String())
			defer done()
			entries[i], errs[i] = f.one(ctx, fetcher, &todo[i], add)
			return nil
		})
	}
	_ = group.Wait()
	bars.clear()
	if ctx.Err() != nil {
		return &supervise.Incomplete{Err: context.Cause(ctx)}
	}
	changed := false
	for i, e := range entries {
		if errs[i] != nil {
			f.failed = append(f.failed, todo[i].remote.String()+": "+errs[i].Error())
			continue
		}
		f.fetched++
		if !f.Locked {
			changed = f.locks(*e) || changed
		}
	}
	if !changed {
		return nil
	}
	return f.writeLock()
}

// locks puts an entry into the lock, prints how it differs from the old one, and reports whether it
// does.
func (f *Fetch) locks(e store.Entry) bool {
	was := f.Lock.Find(e.Remote())
	switch {
	case was == nil:
		f.Say("locked: ", e.Remote().String(), versionNote(&e), ", ", size(e.Size))
	case *was == e:
		return false
	case was.Resolved != e.Resolved:
		f.Say("updated: ", e.Remote().String(), ": ", was.Resolved, " to ", e.Resolved)
	case was.Signature != e.Signature && was.Digest == e.Digest:
		f.Say("verified: ", e.Remote().String(), ", by ", f.Trust.Of(e.Remote()).KeyFile)
	case was.Digest != e.Digest:
		f.Say("moved: ", e.Remote().String(), ": the same version has other content now")
	}
	f.Lock.Put(e)
	return true
}

func versionNote(e *store.Entry) string {
	if e.Resolved == "" || e.Resolved == e.Requested {
		return ""
	}
	return " is " + e.Resolved
}

// one fetches a Remote, verifies its content and writes it into the store.
func (f *Fetch) one(ctx context.Context, fetcher *fetch.Fetcher, w *wanted, progress func(n int, of int64)) (*store.Entry, error) {
	r := &w.remote
	entry, locked := store.Entry{Kind: r.Kind, URL: r.URL, Name: r.Name, Requested: r.Version}, (*fetch.Locked)(nil)
	if have := w.locked; have != nil {
		entry, locked = *have, &fetch.Locked{Digest: have.Digest, Resolved: have.Resolved, Archive: have.Archive}
	}
	want := fetch.Want{Remote: r, Locked: locked, Progress: progress, Has: func(digest string) bool { _, err := f.Dirs.Blob(digest); return err == nil }}
	signer, err := f.Trust.Of(r), error(nil)
	if signer != nil {
		if want.Signed, err = signer.Kind(r); err != nil {
			return nil, err
		}
	}
	content := helmCached(w.locked)
	if have := w.locked; have != nil && have.Kind == render.KindSchema && have.Resolved == fetch.Absent {
		content = &fetch.Content{Resolved: fetch.Absent, Digest: store.Digest(nil)}
	}
	if content == nil {
		if content, err = fetcher.Fetch(ctx, want); err != nil {
			return nil, err
		}
	}
	if locked == nil {
		entry.Resolved, entry.Digest, entry.Archive, entry.Size = content.Resolved, content.Digest, content.Archive, int64(len(content.Data))
	}
	if err := f.verify(&entry, content, signer); err != nil {
		return nil, err
	}
	for _, digest := range slices.Sorted(maps.Keys(content.More)) {
		if err := f.writeBlob(digest, content.More[digest]); err != nil {
			return nil, err
		}
	}
	return &entry, f.writeBlob(content.Digest, content.Data)
}

// verify checks content against its entry and, if signer is not nil, against its
// signatures. It records the signature that matches in both.
func (f *Fetch) verify(e *store.Entry, c *fetch.Content, signer *store.Signer) error {
	blob := func(digest string) ([]byte, error) {
		if digest == c.Digest {
			return c.Data, nil
		}
		if data, ok := c.More[digest]; ok {
			return data, nil
		}
		return f.Dirs.Blob(digest)
	}
	if err := store.Verify(e, c.Data, blob); err != nil || signer == nil {
		e.Signature = ""
		return err
	}
	signed, err := signature(e, c, signer, blob)
	if err != nil {
		return err
	}
	if digest := store.Digest(signed); f.Locked && e.Signature != digest {
		return &store.SignatureError{Signer: signer, Err: errors.New("the lock does not name its signature; `preadmit fetch` without --locked does that")}
	}
	e.Signature = store.Digest(signed)
	if c.More == nil {
		c.More = make(map[string][]byte)
	}
	c.More[e.Signature] = signed
	return nil
}

// signature returns a signature of c that verifies the content. It tries the locked signature
// first.
func signature(e *store.Entry, c *fetch.Content, signer *store.Signer, blob func(string) ([]byte, error)) ([]byte, error) {
	slices.SortStableFunc(c.Signatures, func(a, b []byte) int {
		switch e.Signature {
		case store.Digest(a):
			return -1
		case store.Digest(b):
			return 1
		}
		return 0
	})
	err := error(&store.SignatureError{Signer: signer, Err: errors.New("there is no signature of it")})
	for _, s := range c.Signatures {
		if err = signer.Verify(e, s, blob); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// writeBlob puts content into the store, completely or not at all.
func (f *Fetch) writeBlob(digest string, data []byte) error {
	if have, err := f.Dirs.Blob(digest); err == nil && len(have) == len(data) {
		return nil
	}
	name := filepath.Join(f.Content, filepath.FromSlash(store.BlobName(digest)))
	return supervise.WriteFile(name, supervise.Bytes(data))
}

func (f *Fetch) writeLock() error {
	data, err := f.Lock.Marshal()
	if err != nil {
		return err
	}
	data = append([]byte(f.Header), data...)
	return supervise.WriteFile(filepath.Join(f.Dir, filepath.FromSlash(store.LockFile)), supervise.Bytes(data))
}

// prune removes entries from the lock that nothing needs, and content from the
// repository's store that the lock does not name.
func (f *Fetch) prune(needs []store.Need) error {
	stale := f.Stale(needs)
	for _, e := range stale {
		f.Say("removed: ", e.Remote().String())
		f.Lock.Entries = slices.DeleteFunc(f.Lock.Entries, func(x store.Entry) bool { return *x.Remote() == *e.Remote() })
	}
	if len(stale) > 0 {
		if err := f.writeLock(); err != nil {
			return err
		}
	}
	if f.Shared {
		return nil // other repositories may use the content
	}
	named := make(map[string]bool)
	for i := range f.Lock.Entries {
		for _, digest := range f.Dirs.Needs(&f.Lock.Entries[i]) {
			named[filepath.Base(filepath.FromSlash(store.BlobName(digest)))] = true
		}
	}
	dir := filepath.Join(f.Content, "sha256")
	files, _ := os.ReadDir(dir)
	for _, file := range files {
		if !named[file.Name()] && file.Type().IsRegular() {
			if err := os.Remove(filepath.Join(dir, file.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// Alone waits until no other fetch works in the repository, and removes files that a
// killed one left behind. The caller must call release.
func (f *Fetch) Alone(ctx context.Context) (release func(), err error) {
	dir := filepath.Join(f.Dir, ".preadmit")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for said := false; ; said = true {
		release, ok, err := tryAlone(f.Dir)
		if err != nil {
			return nil, err
		}
		if ok {
			f.sweep(dir)
			f.sweep(filepath.Join(f.Content, "sha256"))
			return release, nil
		}
		if !said {
			fmt.Fprintln(f.Stderr, "another preadmit fetch is running here: waiting for it")
		}
		select {
		case <-ctx.Done():
			return nil, &supervise.Incomplete{Err: context.Cause(ctx)}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sweep removes temporary files that an interrupted supervise.WriteFile left behind. In a shared
// store it removes only those older than an hour.
func (f *Fetch) sweep(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, ".preadmit-*"))
	for _, name := range names {
		info, err := os.Lstat(name)
		if err == nil && info.Mode().IsRegular() && (!f.Shared || time.Since(info.ModTime()) > time.Hour) {
			os.Remove(name)
		}
	}
}
