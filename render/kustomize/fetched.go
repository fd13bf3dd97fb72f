package kustomize

import (
	"cmp"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// fetchable returns the remote that a reference names, and the path of the
// kustomization inside it. ok is false for references that preadmit does not
// fetch.
func fetchable(r ref) (remote *render.Remote, dir string, ok bool) {
	if r.kind != refResource && r.kind != refComponent {
		return nil, "", false
	}
	if r.kind == refResource && isFileURL(r.text) {
		return render.NewRemote(render.URLFile, r.text, "", ""), "", true
	}
	address, dir, revision, ok := repository(r.text)
	if !ok {
		return nil, "", false
	}
	return render.NewRemote(render.GitTree, address, "", revision), dir, true
}

// isFileURL reports whether kustomize reads text as the URL of a file.
// kustomize tries a file first and then a repository.
func isFileURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || strings.Contains(u.Path, "//") || strings.Contains(u.Path, ".git/") {
		return false
	}
	switch path.Ext(u.Path) {
	case ".yaml", ".yml", ".json":
		return u.Query().Get("ref") == "" && u.Query().Get("version") == ""
	}
	return false
}

// repository splits the URL of a base by the rules of NewRepoSpecFromURL
// (internal/git in kustomize): the repository ends at //, at .git, at Azure's
// _git/NAME, or else after two path elements.
func repository(text string) (address, dir, revision string, ok bool) {
	text, query, _ := strings.Cut(strings.TrimPrefix(text, "git::"), "?")
	if values, err := url.ParseQuery(query); err == nil {
		revision = values.Get("ref")
		if version := values.Get("version"); version != "" {
			revision = version
		}
	}
	host, rest, ok := splitHost(text)
	if !ok || rest == "" {
		return "", "", "", false
	}
	repo, dir, found := strings.Cut(rest, "//")
	if !found {
		repo, dir, found = cutAfter(rest, ".git")
	}
	if !found {
		repo, dir = splitElements(rest)
	}
	repo, dir = strings.Trim(repo, "/"), strings.Trim(dir, "/")
	dir = cmp.Or(dir, ".")
	return host + repo, path.Clean(dir), revision, repo != "" && fs.ValidPath(path.Clean(dir))
}

// splitHost parts the beginning of a repository's URL, with its slash or colon,
// from the path. GitHub's is known without a scheme.
func splitHost(text string) (host, rest string, ok bool) {
	for _, short := range []string{"github.com/", "github.com:"} {
		if len(text) > len(short) && strings.EqualFold(text[:len(short)], short) {
			return "https://github.com/", text[len(short):], true
		}
	}
	if scheme, after, found := strings.Cut(text, "://"); found {
		name, rest, _ := strings.Cut(after, "/")
		switch scheme = strings.ToLower(scheme); scheme {
		case "https", "http", "ssh":
			return scheme + "://" + name + "/", rest, name != ""
		}
		return "", "", false
	}
	if userHost.MatchString(text) { // git@host:path
		name, rest, found := strings.Cut(text, ":")
		return name + ":", rest, found
	}
	return "", "", false
}

func cutAfter(text, suffix string) (before, after string, found bool) {
	i := strings.Index(text, suffix)
	if i < 0 {
		return text, "", false
	}
	i += len(suffix)
	if i < len(text) && text[i] != '/' {
		return text, "", false
	}
	return text[:i], text[i:], true
}

func splitElements(text string) (repo, dir string) {
	elements := strings.Split(text, "/")
	n := 2
	for i, e := range elements {
		if e == "_git" {
			n = i + 2
		}
	}
	n = min(n, len(elements))
	return strings.Join(elements[:n], "/"), strings.Join(elements[n:], "/")
}

// fetched visits the kustomization that a remote reference names, if it was
// fetched.
func (w *walk) fetched(n *node, r ref, remote *render.Remote, dir string) error {
	repo, err := w.src.Fetched(remote)
	if err != nil {
		return err
	}
	w.show(repo, n.place(r))
	name := repo.Path(dir)
	if remote.Kind == render.URLFile {
		entries, err := fs.ReadDir(repo.FS, repo.Root)
		if err != nil || len(entries) != 1 {
			return render.NotFetched(remote)
		}
		name = path.Join(repo.Root, entries[0].Name())
	}
	p := w.tree.resolve(name)
	if p.err != nil {
		w.reject(n, r, "missing-"+rule(r.kind), "%s %s: there is no %s in it", nouns[r.kind], show(withoutSecrets(r.text)), show(dir))
		return nil
	}
	rel, err := filepath.Rel(n.dir, name)
	if err != nil {
		return err
	}
	n.refer(r.text, filepath.ToSlash(rel))
	if p.dir {
		w.followDir(n, r, name, p.real)
	} else {
		w.followFile(n, r, name, p.real)
	}
	return nil
}

// show makes the files of a fetched repository visible to the walk. asked is
// the place of the reference to it.
func (w *walk) show(repo render.Repository, asked render.Span) {
	if _, ok := w.asked[repo.Root]; !ok {
		w.asked[repo.Root] = render.Origin{Span: asked, Role: render.Reference}
	}
	w.src.FS = render.Beside(w.src.FS, repo)
	w.tree.fsys = w.src.FS
	w.tree.known[repo.Root] = place{real: repo.Root, dir: true}
}

// refer has the build read a path in the place of a URL.
func (n *node) refer(text, name string) {
	n.rewritten = true
	for _, list := range []*[]string{&n.build.Resources, &n.build.Components} {
		copied := make([]string, len(*list))
		for i, entry := range *list {
			if copied[i] = entry; entry == text {
				copied[i] = name
			}
		}
		*list = copied
	}
}

// A referred is the Provenance of an object that may come from fetched files.
// It puts the place of the reference before places in fetched files.
type referred struct {
	render.Provenance
	asked map[string]render.Origin // by directory of fetched files
}

// At implements render.Provenance.
func (r referred) At(pointer string) []render.Origin { return r.lead(r.Provenance.At(pointer)) }

// Line does what [render.Object.Line] does.
func (r referred) Line(pointer string, n int) []render.Origin {
	return r.lead((&render.Object{Provenance: r.Provenance}).Line(pointer, n))
}

// Part does what [render.Object.Part] does.
func (r referred) Part(pointer, part string) []render.Origin {
	return r.lead((&render.Object{Provenance: r.Provenance}).Part(pointer, part))
}

// lead prepends the place of the reference if all origins are in fetched files.
func (r referred) lead(origins []render.Origin) []render.Origin {
	if len(origins) == 0 {
		return nil
	}
	for _, o := range origins {
		if _, ok := render.FetchedDir(o.File); !ok {
			return origins
		}
	}
	at := origins[0]
	for range len(r.asked) {
		if dir, ok := render.FetchedDir(at.File); ok {
			at = r.asked[dir]
		}
	}
	if at.File == "" {
		return origins
	}
	return append([]render.Origin{at}, origins...)
}
