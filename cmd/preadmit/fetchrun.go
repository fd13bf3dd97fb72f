package main

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
	maxRounds   = 8 // what is fetched may need more
	maxRemotes  = 5000
	maxDownload = 3 * time.Minute
	downloads   = 6 // at once
)

// fetcher is a Fetcher for the hosts and logins of this run.
func (f *fetching) fetcher() (*fetch.Fetcher, error) {
	hosts, locked, err := f.trusted()
	if err != nil {
		return nil, err
	}
	o := fetch.Options{Hosts: hosts, Locked: locked, Only: len(hosts) > 0 || f.o.base != "", Proxy: http.ProxyFromEnvironment, Timeout: maxDownload}
	os.Setenv("PATH", os.Getenv(editorPath)) // for the helpers that docker's configuration names, and git
	if o.Logins, err = readLogins(); err != nil {
		return nil, err
	}
	if o.RegistryLogin, err = registryLogins(); err != nil {
		return nil, err
	}
	if f.o.git {
		o.Git = gitProgram
	}
	return fetch.New(o), nil
}

// trusted reads the configuration: the hosts that it names, and with --base those
// of the lock there, and whose signatures content needs. With --base all are the
// base's: a change does not choose whom its check talks to or trusts.
func (f *fetching) trusted() (named, locked []string, err error) {
	t, lock := f.tree, (*store.Lock)(nil)
	if f.o.base != "" {
		b, err := openBase(f.tree, f.o.base)
		if err != nil {
			return nil, nil, err
		}
		defer b.repo.Close()
		t = b.in.tree
		if lock, err = store.ReadLock(t.Repository()); err != nil {
			return nil, nil, fmt.Errorf("--base: %w", err)
		}
	}
	s, err := readSections(t, configFile)
	if err != nil {
		return nil, nil, err
	}
	if lock != nil {
		for _, e := range lock.Entries {
			for _, address := range []string{e.URL, e.Archive} {
				if host := fetch.HostOf(address); host != "" {
					locked = append(locked, host)
				}
			}
		}
	}
	f.trust = s.trust
	return s.Fetch.Hosts, locked, nil
}

// fetchAll fetches what the units need until they need nothing more, and locks
// it.
func (f *fetching) fetchAll(ctx context.Context) (int, error) {
	if f.lock == nil {
		f.lock = &store.Lock{Version: 1}
	}
	progress := newFetchProgress(f.stderr, f.o.quiet)
	fetcher, err := f.fetcher()
	if err != nil {
		return 0, err
	}
	tried := make(map[render.Remote]bool)
	var needs []graphRemote
	for range maxRounds {
		if needs, err = f.discover(ctx); err != nil {
			return 0, err
		}
		var todo []wanted
		for _, n := range needs {
			if !tried[n.Remote] && (n.State != store.Fetched || f.updates(&n.Remote) || !f.verified(&n.Remote)) {
				tried[n.Remote] = true
				w := wanted{remote: n.Remote}
				if !f.updates(&n.Remote) {
					w.locked = f.lock.Find(&n.Remote)
				}
				todo = append(todo, w)
			}
		}
		if len(todo) == 0 {
			break
		}
		if len(tried) > maxRemotes {
			return 0, &exitError{exitIncomplete, fmt.Errorf("more than %d sources are needed", maxRemotes)}
		}
		if err := f.bring(ctx, fetcher, progress, todo); err != nil {
			return 0, err
		}
	}
	if len(f.failed) == 0 {
		if err := f.prune(needs); err != nil {
			return 0, err
		}
	}
	return f.finish(len(needs)), nil
}

// verified reports whether what a Remote is locked to has the signature that it
// needs. What units are rendered from may be less strict: the change's
// configuration.
func (f *fetching) verified(r *render.Remote) bool {
	e := f.lock.Find(r)
	return e == nil || f.trust.Verify(e, f.dirs.Blob) == nil
}

// A wanted is a Remote to fetch, with the entry that it is locked by, nil without
// one.
type wanted struct {
	remote render.Remote
	locked *store.Entry
}

// fetchLocked brings what the lock names, and that of the base, and the store
// lacks.
func (f *fetching) fetchLocked(ctx context.Context) (int, error) {
	if f.lock == nil {
		return 0, fmt.Errorf("--locked: there is no %s; `preadmit fetch` writes it", store.LockFile)
	}
	progress := newFetchProgress(f.stderr, f.o.quiet)
	fetcher, err := f.fetcher()
	if err != nil {
		return 0, err
	}
	entries, err := f.lockedEntries()
	if err != nil {
		return 0, err
	}
	var todo []wanted
	for i := range entries {
		if e := &entries[i]; !f.dirs.Holds(e, f.trust) {
			todo = append(todo, wanted{*e.Remote(), e})
		}
	}
	if err := f.bring(ctx, fetcher, progress, todo); err != nil {
		return 0, err
	}
	return f.finish(len(entries)), nil
}

// lockedEntries are those of the lock, and those of the base that are others.
func (f *fetching) lockedEntries() ([]store.Entry, error) {
	entries := slices.Clone(f.lock.Entries)
	if f.o.base == "" {
		return entries, nil
	}
	b, err := openBase(f.tree, f.o.base)
	if err != nil {
		return nil, err
	}
	defer b.repo.Close()
	was, err := store.ReadLock(b.in.tree.Repository())
	if err != nil {
		return nil, fmt.Errorf("--base: %w", err)
	}
	if was != nil {
		entries = append(entries, slices.DeleteFunc(was.Entries, func(e store.Entry) bool {
			return slices.ContainsFunc(f.lock.Entries, func(x store.Entry) bool { return x.Kind == e.Kind && x.Digest == e.Digest })
		})...)
	}
	return entries, nil
}

// bring fetches Remotes, writes their content, and then the lock.
func (f *fetching) bring(ctx context.Context, fetcher *fetch.Fetcher, progress *fetchProgress, todo []wanted) error {
	progress.expect(len(todo))
	entries := make([]*store.Entry, len(todo))
	errs := make([]error, len(todo))
	var group errgroup.Group
	group.SetLimit(downloads)
	for i := range todo {
		group.Go(func() error {
			add, done := progress.begin(todo[i].remote.String())
			defer done()
			entries[i], errs[i] = f.one(ctx, fetcher, &todo[i], add)
			return nil
		})
	}
	_ = group.Wait()
	progress.clear()
	if ctx.Err() != nil {
		return &exitError{exitIncomplete, context.Cause(ctx)}
	}
	changed := false
	for i, e := range entries {
		if errs[i] != nil {
			f.failed = append(f.failed, todo[i].remote.String()+": "+errs[i].Error())
			continue
		}
		f.brought++
		if !f.o.locked {
			changed = f.locks(*e) || changed
		}
	}
	if !changed {
		return nil
	}
	return f.writeLock()
}

// locks puts an entry into the lock, and says what is another than before.
func (f *fetching) locks(e store.Entry) bool {
	was := f.lock.Find(e.Remote())
	switch {
	case was == nil:
		f.print("locked: ", e.Remote().String(), versionNote(&e), ", ", fileSize(e.Size))
	case *was == e:
		return false
	case was.Resolved != e.Resolved:
		f.print("updated: ", e.Remote().String(), ": ", was.Resolved, " to ", e.Resolved)
	case was.Signature != e.Signature && was.Digest == e.Digest:
		f.print("verified: ", e.Remote().String(), ", by ", f.trust.Of(e.Remote()).KeyFile)
	case was.Digest != e.Digest:
		f.print("moved: ", e.Remote().String(), ": the same version has other content now")
	}
	f.lock.Put(e)
	return true
}

func versionNote(e *store.Entry) string {
	if e.Resolved == "" || e.Resolved == e.Requested {
		return ""
	}
	return " is " + e.Resolved
}

// one fetches a Remote and writes its content into the store, once that is known
// to be what it should be.
func (f *fetching) one(ctx context.Context, fetcher *fetch.Fetcher, w *wanted, progress func(n int, of int64)) (*store.Entry, error) {
	r := &w.remote
	entry, locked := store.Entry{Kind: r.Kind, URL: r.URL, Name: r.Name, Requested: r.Version}, (*fetch.Locked)(nil)
	if have := w.locked; have != nil {
		entry, locked = *have, &fetch.Locked{Digest: have.Digest, Resolved: have.Resolved, Archive: have.Archive}
	}
	want := fetch.Want{Remote: r, Locked: locked, Progress: progress, Has: func(digest string) bool { _, err := f.dirs.Blob(digest); return err == nil }}
	signer, err := f.trust.Of(r), error(nil)
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
func (f *fetching) verify(e *store.Entry, c *fetch.Content, signer *store.Signer) error {
	blob := func(digest string) ([]byte, error) {
		if digest == c.Digest {
			return c.Data, nil
		}
		if data, ok := c.More[digest]; ok {
			return data, nil
		}
		return f.dirs.Blob(digest)
	}
	if err := store.Verify(e, c.Data, blob); err != nil || signer == nil {
		e.Signature = ""
		return err
	}
	signed, err := signature(e, c, signer, blob)
	if err != nil {
		return err
	}
	if digest := store.Digest(signed); f.o.locked && e.Signature != digest {
		return &store.SignatureError{Signer: signer, Err: errors.New("the lock does not name its signature; `preadmit fetch` without --locked does that")}
	}
	e.Signature = store.Digest(signed)
	if c.More == nil {
		c.More = make(map[string][]byte)
	}
	c.More[e.Signature] = signed
	return nil
}

// signature returns a signature that verifies content. If the locked signature is
// among them, it is tried first.
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

// writeBlob puts content into the store, as a whole or not at all.
func (f *fetching) writeBlob(digest string, data []byte) error {
	if have, err := f.dirs.Blob(digest); err == nil && len(have) == len(data) {
		return nil
	}
	name := filepath.Join(f.dir, filepath.FromSlash(store.BlobName(digest)))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return replaceFile(name, data)
}

func (f *fetching) writeLock() error {
	data, err := f.lock.Marshal()
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(f.tree.Dir, filepath.FromSlash(store.LockFile)), append([]byte(schemaLine("lock")), data...))
}

// replaceFile puts a file in its place as a whole or not at all.
func replaceFile(name string, data []byte) error {
	return supervise.WriteFile(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// prune takes out of the lock what nothing needs, and out of the repository's
// store what the lock does not name.
func (f *fetching) prune(needs []graphRemote) error {
	stale := f.stale(needs)
	for _, e := range stale {
		f.print("removed: ", e.Remote().String())
		f.lock.Entries = slices.DeleteFunc(f.lock.Entries, func(x store.Entry) bool { return *x.Remote() == *e.Remote() })
	}
	if len(stale) > 0 {
		if err := f.writeLock(); err != nil {
			return err
		}
	}
	if f.o.store != "" {
		return nil // which others may use
	}
	named := make(map[string]bool)
	for i := range f.lock.Entries {
		for _, digest := range f.dirs.Needs(&f.lock.Entries[i]) {
			named[filepath.Base(filepath.FromSlash(store.BlobName(digest)))] = true
		}
	}
	dir := filepath.Join(f.dir, "sha256")
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

// finish says what came of the run.
func (f *fetching) finish(needed int) int {
	slices.Sort(f.failed)
	for _, why := range f.failed {
		fmt.Fprintf(f.stderr, "preadmit: %s\n", plain(why))
	}
	f.print(fmt.Sprintf("%s needed, %d fetched, %d failed", plural(needed, "source"), f.brought, len(f.failed)))
	if len(f.failed) > 0 {
		return exitIncomplete
	}
	return exitOK
}

func fileSize(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// alone waits until no other fetch is at work in the repository, and removes what
// one left behind that was killed.
func (f *fetching) alone(ctx context.Context) (release func(), err error) {
	dir := filepath.Join(f.tree.Dir, ".preadmit")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for said := false; ; said = true {
		release, ok, err := tryAlone(f.tree.Dir)
		if err != nil {
			return nil, err
		}
		if ok {
			f.sweep(dir)
			f.sweep(filepath.Join(f.dir, "sha256"))
			return release, nil
		}
		if !said {
			fmt.Fprintln(f.stderr, "another preadmit fetch is at work here: waiting for it")
		}
		select {
		case <-ctx.Done():
			return nil, &exitError{exitIncomplete, context.Cause(ctx)}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sweep removes files that supervise.WriteFile did not come to rename. In a store
// that others use, those of an hour ago.
func (f *fetching) sweep(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, ".preadmit-*"))
	for _, name := range names {
		info, err := os.Lstat(name)
		if err == nil && info.Mode().IsRegular() && (f.o.store == "" || time.Since(info.ModTime()) > time.Hour) {
			os.Remove(name)
		}
	}
}
