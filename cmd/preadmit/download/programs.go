package download

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/helmpath"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/fetch"
	"github.com/preadmit/preadmit/render/git"
	"github.com/preadmit/preadmit/render/store"
)

// gitProgram fetches a revision with the git program, into a temporary bare
// repository. Git writes none of its files and runs none of its hooks.
func gitProgram(ctx context.Context, c fetch.Clone) (commit string, tar []byte, err error) {
	revision := c.Revision
	if strings.HasPrefix(c.Address, "-") || strings.HasPrefix(revision, "-") {
		return "", nil, errors.New("address or revision begins with -")
	}
	dir, err := os.MkdirTemp("", "preadmit-git-*")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	if _, err := gitCommand(ctx, dir, "init", "--bare", "--quiet", "."); err != nil {
		return "", nil, err
	}
	if c.Resolve != "" {
		if _, err := gitCommand(ctx, dir, "config", "http.curloptResolve", c.Resolve); err != nil {
			return "", nil, err
		}
	}
	revision = cmp.Or(revision, "HEAD")
	if _, err := gitCommand(ctx, dir, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--end-of-options", c.Address, revision); err != nil {
		return "", nil, err
	}
	hash, err := gitCommand(ctx, dir, "rev-parse", "--verify", "--end-of-options", "FETCH_HEAD^{commit}")
	if err != nil {
		return "", nil, err
	}
	repo, err := git.Open(dir)
	if err != nil {
		return "", nil, err
	}
	defer repo.Close()
	at, err := repo.Resolve(strings.TrimSpace(hash))
	if err != nil {
		return "", nil, err
	}
	files, err := repo.Tree(at)
	if err != nil {
		return "", nil, err
	}
	tar, err = fetch.Pack(files)
	return at.Hash, tar, errors.Join(err, files.Err())
}

func gitCommand(ctx context.Context, dir string, args ...string) (string, error) {
	name, err := exec.LookPath("git")
	if err != nil {
		return "", errors.New("--git: there is no git program")
	}
	hardened := []string{"-c", "http.followRedirects=false", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}
	cmd := exec.CommandContext(ctx, name, append(hardened, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=https:http:ssh")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return "", fmt.Errorf("git %s: %s", args[0], said)
	}
	return out.String(), nil
}

// helmCached returns the locked archive of an entry from Helm's own cache, with its provenance
// file. It returns nil if the cache does not have exactly that archive.
func helmCached(e *store.Entry) *fetch.Content {
	if e == nil || e.Kind != render.HelmChart {
		return nil
	}
	dir := cmp.Or(os.Getenv("HELM_REPOSITORY_CACHE"), helmpath.CachePath("repository"))
	name := e.Name + "-" + e.Resolved + ".tgz"
	if filepath.Base(name) != name {
		return nil
	}
	data := readCached(filepath.Join(dir, name))
	if data == nil || store.Digest(data) != e.Digest {
		return nil
	}
	c := &fetch.Content{Resolved: e.Resolved, Digest: e.Digest, Archive: e.Archive, Data: data}
	if signature := readCached(filepath.Join(dir, name+".prov")); signature != nil {
		c.Signatures = [][]byte{signature}
	}
	return c
}

// readCached returns the content of a regular file, nil if it can't be read or is
// larger than an archive may be.
func readCached(name string) []byte {
	const most = 100 << 20
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil
	}
	return data
}
