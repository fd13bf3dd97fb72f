package load

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/git"
)

// checkouts finds the files of the repositories and sources that GitOps
// objects name. It implements render.Outside.
type checkouts struct {
	tree          *Tree
	graph         render.Graph
	configuration *config.File
	sources       []mountedSource // from the configuration, in its order

	names    map[string]bool // of this repository, normalised
	branches map[string]bool // branches whose files are those of the work tree

	mu        sync.Mutex
	git       *git.Repository
	gitErr    error
	revisions map[string]string // directories in the tree by commit
}

type mountedSource struct {
	config.Source
	url  string // normalised
	root string // in the tree
}

// newCheckouts mounts the sources of the configuration and determines the URLs of the tree's
// repository.
func newCheckouts(o *Sources, t *Tree, s *config.File, g render.Graph) (*checkouts, error) {
	r := &checkouts{
		tree: t, graph: g, configuration: s,
		names: make(map[string]bool), branches: map[string]bool{"": true, "head": true, "main": true, "master": true}, revisions: make(map[string]string),
	}
	for _, x := range s.Sources {
		name, err := t.NameOf(filepath.Join(t.Dir, filepath.FromSlash(x.Path)), nil)
		if err != nil {
			return nil, config.Errorf(x.Line, "sources: %v", err)
		}
		r.sources = append(r.sources, mountedSource{x, RepositoryName(x.URL), name})
	}
	for _, name := range slices.Concat(s.Repository, o.Repositories) {
		r.names[RepositoryName(name)] = true
	}
	if r.git, r.gitErr = git.Open(t.Dir); r.gitErr == nil {
		r.cloned(r.git.Clone())
	}
	if o.Base != "" {
		r.branches[strings.ToLower(strings.TrimPrefix(o.Base, "origin/"))] = true
	}
	return r, nil
}

// cloned adds the clone's origin to the names of this repository, and its branch and default branch
// to those that the work tree is used for.
func (r *checkouts) cloned(c git.Clone) {
	if c.Origin != "" {
		r.names[RepositoryName(c.Origin)] = true
	}
	if c.Default != "" {
		delete(r.branches, "main")
		delete(r.branches, "master")
	}
	r.branches[strings.ToLower(c.Branch)], r.branches[strings.ToLower(c.Default)] = true, true
}

var (
	urlScheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://`)
	urlUser   = regexp.MustCompile(`^[^/@]*@`)
	urlPort   = regexp.MustCompile(`^([^/:]+):[0-9]+/`)
	urlHost   = regexp.MustCompile(`^([^/:]+):/*`)
)

// RepositoryName returns the host and path of a repository's URL, so that all
// ways to write it are equal.
func RepositoryName(url string) string {
	url = strings.ToLower(strings.TrimSpace(url))
	url = urlScheme.ReplaceAllString(url, "")
	url = urlUser.ReplaceAllString(url, "")
	url = urlPort.ReplaceAllString(url, "$1/")
	url = urlHost.ReplaceAllString(url, "$1/")
	return strings.TrimSuffix(strings.TrimRight(url, "/"), ".git")
}

// Repository implements render.Outside. The URL "" is this repository.
func (r *checkouts) Repository(url, revision string) (render.Repository, error) {
	name := RepositoryName(url)
	for _, s := range r.sources {
		if s.URL != "" && s.url == name && (s.Revision == "" || s.Revision == revision) {
			return render.Repository{FS: r.tree, Root: s.root}, nil
		}
	}
	if url != "" && !r.names[name] {
		return render.Repository{}, &render.Error{
			Rule: "foreign-repository", Missing: true, Err: fmt.Errorf("%s is another repository, which is not checked out here", url),
			Hint: "check that repository out beside this one and name its folder under `sources` in " + config.Path +
				"; if it is this repository, name its address under `repository` there",
		}
	}
	branch := strings.ToLower(strings.TrimPrefix(revision, "refs/heads/"))
	if r.branches[branch] {
		return render.Repository{FS: r.tree, Root: "."}, nil
	}
	root, err := r.revision(revision)
	if err != nil {
		return render.Repository{}, &render.Error{
			Rule: "missing-revision", Missing: true, Err: fmt.Errorf("revision %q of this repository is not here: %w", revision, err),
			Hint: "fetch it, such as `git fetch --depth 1 origin " + revision + "`",
		}
	}
	return render.Repository{FS: r.tree, Root: root}, nil
}

// Fetched implements render.Outside.
func (r *checkouts) Fetched(remote *render.Remote) (render.Repository, error) {
	return r.tree.Store.Fetched(remote)
}

// revision mounts the files of a revision and returns their directory in the tree.
func (r *checkouts) revision(name string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gitErr != nil {
		return "", r.gitErr
	}
	commit, err := r.git.Resolve(name)
	if err != nil {
		if remote, remoteErr := r.git.Resolve("origin/" + strings.TrimPrefix(name, "refs/heads/")); remoteErr == nil {
			commit, err = remote, nil
		}
	}
	if err != nil {
		return "", errors.Unwrap(err)
	}
	if root, ok := r.revisions[commit.Hash]; ok {
		return root, nil
	}
	files, err := r.git.Tree(commit)
	if err != nil {
		return "", err
	}
	root := r.tree.MountRevision(commit.Hash, files)
	r.revisions[commit.Hash] = root
	return root, nil
}

// Source implements render.Outside.
func (r *checkouts) Source(kind, namespace, name string) (render.Repository, bool) {
	for _, s := range r.sources {
		if s.Object == kind+"/"+namespace+"/"+name {
			return render.Repository{FS: r.tree, Root: s.root}, true
		}
	}
	return render.Repository{}, false
}

// Params implements render.Outside.
func (r *checkouts) Params(namespace, name string) ([]map[string]any, bool) {
	for _, g := range r.configuration.Generators {
		if g.ApplicationSet == namespace+"/"+name {
			return g.Params, true
		}
	}
	return nil, false
}

// Render implements render.Outside.
func (r *checkouts) Render(ctx context.Context, src render.Source) ([]*render.Object, error) {
	return r.graph.Objects(ctx, src)
}
