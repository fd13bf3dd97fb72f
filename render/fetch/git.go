package fetch

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/artifact"
)

// Limits of a Git tree.
const (
	maxTreeFiles = 20_000
	maxTreeDepth = 64
	maxObject    = 64 << 20
)

// git downloads the files of a revision as a tar archive. The same files give
// the same archive.
func (f *Fetcher) git(ctx context.Context, r *render.Remote, locked *Locked) (*Content, error) {
	revision := r.Version
	if locked != nil && locked.Resolved != "" {
		revision = locked.Resolved
	}
	if !strings.HasPrefix(r.URL, "https://") && !strings.HasPrefix(r.URL, "http://") || f.options.Git != nil {
		return f.program(ctx, r.URL, revision)
	}
	endpoint, err := transport.NewEndpoint(r.URL)
	if err != nil {
		return nil, fmt.Errorf("%q is no address of a repository", r.URL)
	}
	session, err := githttp.NewClient(f.client).NewUploadPackSession(endpoint, nil)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	refs, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, gitError(err)
	}
	commit, err := findRevision(refs, revision)
	if err != nil {
		return nil, err
	}
	objects, err := download(ctx, session, refs, commit)
	if err != nil {
		return nil, gitError(err)
	}
	hash, data, err := packed(objects, commit)
	return &Content{Resolved: hash, Data: data}, err
}

// program fetches a revision with the git program, if the user allows it, from
// permitted hosts.
func (f *Fetcher) program(ctx context.Context, address, revision string) (*Content, error) {
	if f.options.Git == nil {
		return nil, errors.New("only the git program can reach this address; --git allows it")
	}
	u, err := gitAddress(address)
	if err != nil {
		return nil, err
	}
	if err := f.options.allows(u); err != nil {
		return nil, err
	}
	resolve, err := f.options.resolve(ctx, u)
	if err != nil {
		return nil, err
	}
	commit, data, err := f.options.Git(ctx, Clone{address, revision, resolve})
	return &Content{Resolved: commit, Data: data}, err
}

// HostOf returns the host of an address, with its port if it has one.
func HostOf(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Host
	}
	u, err := gitAddress(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// gitAddress parses the address of a repository, which may be in scp's form,
// user@host:path.
func gitAddress(address string) (*url.URL, error) {
	if !strings.Contains(address, "://") {
		host, path, ok := strings.Cut(address, ":")
		user, name, hasUser := strings.Cut(host, "@")
		if !hasUser {
			user, name = "", host
		}
		if !ok || name == "" || strings.ContainsAny(host, "/[") || strings.HasPrefix(path, ":") {
			return nil, fmt.Errorf("%q is no address of a repository", address)
		}
		return &url.URL{Scheme: "ssh", User: url.User(user), Host: name, Path: path}, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"https", "http", "ssh"}, u.Scheme) {
		return nil, fmt.Errorf("%q can't be fetched by the git program: use https, http or ssh", address)
	}
	return u, nil
}

// resolve looks up a host's addresses for the git program, unless the user
// names the host. The program itself does not check addresses.
func (o *Options) resolve(ctx context.Context, u *url.URL) (string, error) {
	if o.names(u.Hostname(), port(u)) {
		return "", nil
	}
	if o.Proxy != nil {
		if proxy, err := o.Proxy(&http.Request{URL: u}); err == nil && proxy != nil {
			if !isPublicName(u.Hostname()) {
				return "", &privateError{u.Hostname()}
			}
			return "", nil
		}
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil || len(addresses) == 0 {
		return "", fmt.Errorf("%s is not known to the name servers", u.Hostname())
	}
	var all []string
	for _, a := range addresses {
		if !isPublic(a) {
			return "", &privateError{u.Hostname()}
		}
		all = append(all, a.Unmap().String())
	}
	return u.Hostname() + ":" + port(u) + ":" + strings.Join(all, ","), nil
}

func gitError(err error) error {
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed):
		return errors.New("the server requires a login")
	case errors.Is(err, transport.ErrRepositoryNotFound), errors.Is(err, transport.ErrEmptyRemoteRepository):
		return errors.New("there is no such repository")
	}
	return reason(err)
}

// findRevision returns the commit or tag of a revision: a reference, a commit,
// or the newest tag in a range. "" and HEAD mean the default branch.
func findRevision(refs *packp.AdvRefs, revision string) (plumbing.Hash, error) {
	if revision == "" || revision == "HEAD" {
		if refs.Head == nil {
			return plumbing.ZeroHash, errors.New("the repository has no default branch")
		}
		return *refs.Head, nil
	}
	for _, prefix := range []string{"", "refs/", "refs/tags/", "refs/heads/"} {
		if hash, ok := refs.References[prefix+revision]; ok {
			return hash, nil
		}
	}
	if plumbing.IsHash(revision) {
		return plumbing.NewHash(revision), nil
	}
	var tags []string
	for name := range refs.References {
		if tag, ok := strings.CutPrefix(name, "refs/tags/"); ok {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	i, err := newest(tags, revision)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("the repository has no branch, tag or commit %s", revision)
	}
	return refs.References["refs/tags/"+tags[i]], nil
}

// download downloads the objects of a commit without its history. If the server
// can't give a single commit, all its references are downloaded.
func download(ctx context.Context, session transport.UploadPackSession, refs *packp.AdvRefs, commit plumbing.Hash) (*memory.Storage, error) {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	req.Capabilities.Delete(capability.Sideband) // progress messages, which nobody reads
	req.Capabilities.Delete(capability.Sideband64k)
	single := refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) || refs.Capabilities.Supports(capability.AllowTipSHA1InWant) || names(refs, commit)
	if single {
		req.Wants = []plumbing.Hash{commit}
	} else {
		for _, hash := range refs.References {
			if !slices.Contains(req.Wants, hash) {
				req.Wants = append(req.Wants, hash)
			}
		}
	}
	if single && refs.Capabilities.Supports(capability.Shallow) {
		req.Depth = packp.DepthCommits(1)
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return nil, err
		}
	}
	res, err := session.UploadPack(ctx, req)
	if err != nil {
		return nil, err
	}
	defer res.Close()
	pack, err := readAll(res, artifact.MaxBlob, -1)
	if err != nil {
		return nil, err
	}
	objects := &boundedObjects{Storage: memory.NewStorage(), left: 4 * artifact.MaxBlob}
	if err := packfile.UpdateObjectStorage(objects, bytes.NewReader(pack)); err != nil {
		return nil, errors.New("the server's answer is no valid pack of objects, or too large when unpacked")
	}
	return objects.Storage, nil
}

func names(refs *packp.AdvRefs, commit plumbing.Hash) bool {
	for _, hash := range refs.References {
		if hash == commit {
			return true
		}
	}
	return refs.Head != nil && *refs.Head == commit
}

// boundedObjects limits the unpacked size of a pack.
type boundedObjects struct {
	*memory.Storage
	left int64
}

// NewEncodedObject implements storer.EncodedObjectStorer.
func (b *boundedObjects) NewEncodedObject() plumbing.EncodedObject {
	return &boundedObject{EncodedObject: b.Storage.NewEncodedObject(), of: b}
}

// SetEncodedObject implements storer.EncodedObjectStorer.
func (b *boundedObjects) SetEncodedObject(o plumbing.EncodedObject) (plumbing.Hash, error) {
	if bounded, ok := o.(*boundedObject); ok {
		o = bounded.EncodedObject
	} else if b.left -= o.Size(); b.left < 0 {
		return plumbing.ZeroHash, errTooLarge
	}
	return b.Storage.SetEncodedObject(o)
}

var errTooLarge = errors.New("too large")

type boundedObject struct {
	plumbing.EncodedObject
	of *boundedObjects
}

// SetSize implements plumbing.EncodedObject.
func (b *boundedObject) SetSize(n int64) { b.EncodedObject.SetSize(min(max(n, 0), maxObject)) }

// Writer implements plumbing.EncodedObject.
func (b *boundedObject) Writer() (io.WriteCloser, error) {
	w, err := b.EncodedObject.Writer()
	return &boundedWriter{w, b.of}, err
}

type boundedWriter struct {
	io.WriteCloser
	of *boundedObjects
}

func (b *boundedWriter) Write(p []byte) (int, error) {
	if b.of.left -= int64(len(p)); b.of.left < 0 {
		return 0, errTooLarge
	}
	return b.WriteCloser.Write(p)
}

// packed returns the files of a commit as a tar archive: sorted, without owners
// and times. Links and submodules are dropped.
func packed(objects *memory.Storage, hash plumbing.Hash) (commit string, data []byte, err error) {
	c, err := object.GetCommit(objects, hash)
	if err != nil {
		tag, tagErr := object.GetTag(objects, hash)
		if tagErr != nil {
			return "", nil, errors.New("the server did not give the commit")
		}
		if c, err = tag.Commit(); err != nil {
			return "", nil, errors.New("the tag names no commit")
		}
	}
	tree, err := c.Tree()
	if err != nil {
		return "", nil, errors.New("the server did not give the commit's files")
	}
	p := &packer{objects: objects}
	p.w = tar.NewWriter(&p.data)
	if err := p.tree(tree, "", 0); err != nil {
		return "", nil, err
	}
	if err := p.w.Close(); err != nil {
		return "", nil, err
	}
	return c.Hash.String(), p.data.Bytes(), nil
}

type packer struct {
	objects *memory.Storage
	data    bytes.Buffer
	w       *tar.Writer
	files   int
}

func (p *packer) tree(t *object.Tree, dir string, depth int) error {
	if depth > maxTreeDepth {
		return fmt.Errorf("directories are nested more than %d deep", maxTreeDepth)
	}
	entries := slices.Clone(t.Entries)
	slices.SortFunc(entries, func(a, b object.TreeEntry) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		switch e.Mode {
		case filemode.Dir:
			sub, err := object.GetTree(p.objects, e.Hash)
			if err != nil {
				return fmt.Errorf("the server did not give %s", name)
			}
			if err := p.tree(sub, name, depth+1); err != nil {
				return err
			}
		case filemode.Regular, filemode.Executable, filemode.Deprecated:
			if err := p.file(name, e.Hash); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *packer) file(name string, hash plumbing.Hash) error {
	blob, err := object.GetBlob(p.objects, hash)
	if err != nil {
		return fmt.Errorf("the server did not give %s", name)
	}
	from, err := blob.Reader()
	if err != nil {
		return err
	}
	defer from.Close()
	return p.add(name, blob.Size, from)
}

func (p *packer) add(name string, size int64, from io.Reader) error {
	if p.files++; p.files > maxTreeFiles || int64(p.data.Len())+size > artifact.MaxBlob {
		return fmt.Errorf("it has more than %d files or %d MiB", maxTreeFiles, artifact.MaxBlob>>20)
	}
	if err := p.w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := io.CopyN(p.w, from, size)
	return err
}

// Pack returns the regular files of a file system as an archive in the form of
// packed.
func Pack(files fs.FS) ([]byte, error) {
	p := &packer{}
	p.w = tar.NewWriter(&p.data)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := files.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return p.add(name, info.Size(), f)
	})
	if err == nil {
		err = p.w.Close()
	}
	return p.data.Bytes(), err
}
