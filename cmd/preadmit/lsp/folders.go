package lsp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// A repository is one that the editor has a folder of.
type repository struct {
	*server
	host  Host
	root  root
	wake  chan struct{}      // something changed
	close context.CancelFunc // nil if it is not evaluated yet

	docs     map[string]*document // by name in the repository
	findings []Finding
	problems []Finding         // of policies in open files
	sent     map[string]string // the diagnostics that the editor has, by URI
	stale    context.CancelFunc
	shown    string // the last error that was shown
}

// initialize opens the repositories of the editor's folders.
func (s *server) initialize(p *initializeParams) error {
	if s.repositories != nil {
		return failf(invalidRequest, "initialize comes twice")
	}
	s.client, s.encoding = *p, UTF16
	if slices.Contains(p.Capabilities.General.PositionEncodings, UTF8) {
		s.encoding = UTF8
	}
	folders, err := p.folders()
	if err = errors.Join(err, s.open(folders)); err != nil && len(s.repositories) == 0 {
		s.repositories = nil
		return failf(invalidParams, "%v", err)
	}
	if err != nil {
		s.show(Error, err.Error())
	}
	if err := s.configure(p.Settings, true); len(p.Settings) > 0 && err != nil {
		s.show(Error, "initializationOptions: "+err.Error())
	}
	return nil
}

// folders returns the directories that the editor has open; "", which is the working directory, if it
// names none.
func (i *initializeParams) folders() ([]string, error) {
	uris := []string{}
	for _, f := range i.WorkspaceFolders {
		uris = append(uris, f.URI)
	}
	switch {
	case len(uris) > 0:
	case i.RootURI != nil && *i.RootURI != "":
		uris = append(uris, *i.RootURI)
	case i.RootPath != nil:
		return []string{*i.RootPath}, nil
	default:
		return []string{""}, nil
	}
	var all []string
	var errs []error
	for _, uri := range uris {
		folder, err := pathOf(uri)
		if errs = append(errs, err); err == nil {
			all = append(all, folder)
		}
	}
	return all, errors.Join(errs...)
}

// changeFolders opens and closes repositories as the editor opens and closes folders.
func (s *server) changeFolders(p *foldersParams) error {
	folders := slices.Clone(s.folders)
	for _, f := range p.Event.Removed {
		if gone, err := pathOf(f.URI); err == nil {
			folders = slices.DeleteFunc(folders, func(have string) bool { return have == gone })
		}
	}
	var errs []error
	for _, f := range p.Event.Added {
		folder, err := pathOf(f.URI)
		if errs = append(errs, err); err == nil {
			folders = append(folders, folder)
		}
	}
	return errors.Join(append(errs, s.open(folders))...)
}

// open opens the repositories of the folders, and closes others. A repository in another one is a part
// of that. Documents that the editor has open move to the repository that they are in then.
func (s *server) open(folders []string) error {
	var errs []error
	var all []*repository
	s.folders = folders
	for _, folder := range folders {
		host, dir, err := s.Open(folder, s.encoding, func(text string) { s.log(Warning, text) })
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", folder, err))
			continue
		}
		all = append(all, &repository{
			server: s, host: host, root: newRoot(dir, cmp.Or(folder, dir)), wake: make(chan struct{}, 1),
			docs: make(map[string]*document), sent: make(map[string]string),
		})
	}
	slices.SortStableFunc(all, func(a, b *repository) int { return len(a.root.real) - len(b.root.real) })
	kept := []*repository{}
	for _, r := range all {
		if i := slices.IndexFunc(kept, func(k *repository) bool { return within(k.root.real, r.root.real) }); i >= 0 {
			if kept[i].root.real != r.root.real {
				s.log(Information, fmt.Sprintf("%s is checked as a part of %s", r.root.real, kept[i].root.real))
			}
			r.host.Close()
			continue
		}
		if i := slices.IndexFunc(s.repositories, func(was *repository) bool { return was.root.real == r.root.real }); i >= 0 {
			r.host.Close()
			r = s.repositories[i]
		} else if s.settings != "" {
			r.host.Configure(s.settings)
		}
		kept = append(kept, r)
	}
	s.state.Lock()
	defer s.state.Unlock()
	was := s.repositories
	s.repositories = kept
	for _, r := range was {
		if slices.Contains(kept, r) {
			continue
		}
		for _, d := range r.docs {
			if now := s.holding(d.uri); now != nil {
				name, _ := now.root.name(d.uri)
				now.docs[name] = d
			}
		}
		r.docs, r.findings, r.problems = nil, nil, nil
		r.publish(nil)
		if r.close != nil {
			r.close()
		}
		r.host.Close()
	}
	return errors.Join(errs...)
}

// within reports whether a directory is another one or lies in it.
func within(outer, inner string) bool {
	rel, err := filepath.Rel(outer, inner)
	return err == nil && filepath.IsLocal(rel)
}

// evaluateAll evaluates all repositories again, once the editor is ready for findings.
func (s *server) evaluateAll(ctx context.Context) {
	if !s.started {
		return
	}
	for _, r := range s.repositories {
		if r.close == nil {
			var of context.Context
			of, r.close = context.WithCancel(ctx)
			go r.keepEvaluating(of)
		}
		r.changed()
	}
}

// of returns the repository that a file is in, or nil.
func (s *server) of(uri string) *repository {
	s.state.Lock()
	defer s.state.Unlock()
	return s.holding(uri)
}

// holding does what of does. The caller holds the lock.
func (s *server) holding(uri string) *repository {
	for _, r := range s.repositories {
		if _, err := r.root.name(uri); err == nil {
			return r
		}
	}
	return nil
}

// withDocument calls do with the repository that a document is in.
func (s *server) withDocument(uri string, do func(*repository) error) error {
	r := s.of(uri)
	if r == nil {
		return fmt.Errorf("%.200q is in no folder of the editor", uri)
	}
	return do(r)
}
