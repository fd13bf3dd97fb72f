// Package git reads revisions of a Git repository as file systems, directly from its objects.
//
// [Open] takes the directory that holds .git, [Repository.Resolve] a revision
// as a person writes it, and [Repository.Tree] returns an [fs.FS] of its files.
// Nothing is checked out or written, and no program runs: hooks, filters and
// the repository's configuration do not influence what is read.
package git

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

// A Repository gives access to one repository's objects and references. It is
// safe for concurrent use.
type Repository struct {
	mu      sync.Mutex          // guards the storage, which isn't safe for concurrent use
	store   *filesystem.Storage // for the references
	objects *objectStore
	shallow map[plumbing.Hash]bool // commits whose parents were not cloned
	partial bool                   // a partial clone, without some objects
	facts   *Facts                 // may be nil

	dir        string // the work tree
	submodules []*Repository
}

// Open opens the repository whose work tree is dir, or dir itself if it is a
// bare repository. It follows a .git file, as of a linked work tree or a
// submodule. The error names the kind of repository that can't be read.
func Open(dir string) (*Repository, error) {
	gitDir, err := findGitDir(dir)
	if err != nil {
		return nil, err
	}
	common, err := commonDir(gitDir)
	if err != nil {
		return nil, err
	}
	r := &Repository{dir: dir}
	if err := r.readFormat(common); err != nil {
		return nil, err
	}
	files := regularFiles(gitDir)
	if common != gitDir {
		files = dotgit.NewRepositoryFilesystem(files, regularFiles(common))
	}
	r.objects = openObjects(files, filepath.Join(common, "objects"))
	r.store = r.objects.stores[0]
	hashes, err := r.store.Shallow()
	if err != nil {
		return nil, fmt.Errorf("the list of shallow commits can't be read: %w", err)
	}
	r.shallow = make(map[plumbing.Hash]bool, len(hashes))
	for _, h := range hashes {
		r.shallow[h] = true
	}
	return r, nil
}

// regular is a file system that opens only regular files. Opening a pipe would
// wait for a writer.
type regular struct{ billy.Filesystem }

func regularFiles(dir string) billy.Filesystem {
	return regular{osfs.New(dir, osfs.WithBoundOS())}
}

// Open implements billy.Filesystem.
func (r regular) Open(name string) (billy.File, error) {
	if info, err := r.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return r.Filesystem.Open(name)
}

// Dirs lists the directories outside of dir that the repository is read from:
// the main repository of a linked work tree, and the object directories it
// borrows from.
func Dirs(dir string) []string {
	gitDir, err := findGitDir(dir)
	if err != nil {
		return nil
	}
	common, err := commonDir(gitDir)
	if err != nil {
		return []string{gitDir}
	}
	dirs, _ := alternates(filepath.Join(common, "objects"))
	return append([]string{gitDir, common}, dirs...)
}

// Close closes the repository's files.
func (r *Repository) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := []error{r.objects.close()}
	for _, s := range r.submodules {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func findGitDir(dir string) (string, error) {
	dotGit := filepath.Join(dir, ".git")
	info, err := os.Stat(dotGit)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isGitDir(dir):
		return dir, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("not a git repository")
	case err != nil:
		return "", err
	case info.IsDir():
		return dotGit, nil
	}
	line, err := firstLine(dotGit)
	if err != nil {
		return "", err
	}
	to, ok := strings.CutPrefix(line, "gitdir: ")
	if !ok {
		return "", fmt.Errorf("%s: neither a directory nor a `gitdir:` file", dotGit)
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	if !isGitDir(to) {
		return "", fmt.Errorf("%s leads to %s, which is no git directory", dotGit, to)
	}
	return to, nil
}

// isGitDir reports whether a directory has the files of a git directory.
func isGitDir(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "HEAD"))
	return err == nil && info.Mode().IsRegular()
}

// commonDir returns the directory with the objects of a linked work tree's git
// directory.
func commonDir(gitDir string) (string, error) {
	line, err := firstLine(filepath.Join(gitDir, "commondir"))
	if errors.Is(err, fs.ErrNotExist) {
		return gitDir, nil
	}
	if err != nil {
		return "", err
	}
	if filepath.IsAbs(line) {
		return line, nil
	}
	return filepath.Join(gitDir, line), nil
}

// open opens a regular file. Opening a named pipe would wait for a writer.
func open(file string) (*os.File, error) {
	if info, err := os.Stat(file); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	return os.Open(file)
}

func firstLine(file string) (string, error) {
	f, err := open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 4096)).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// maxConfig limits the size of the configuration file, which is read at once.
const maxConfig = 1 << 20

// readFormat reads the extensions in the configuration and returns an error if
// objects or references are stored in an unsupported form. It ignores
// everything else in it.
func (r *Repository) readFormat(common string) error {
	f, err := open(filepath.Join(common, "config"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxConfig {
		return fmt.Errorf("the repository's configuration has more than %d MiB", maxConfig>>20)
	}
	extensions := false
	lines := bufio.NewScanner(io.LimitReader(f, maxConfig))
	for lines.Scan() {
		line := strings.ToLower(strings.TrimSpace(lines.Text()))
		if strings.HasPrefix(line, "[") {
			extensions = strings.HasPrefix(line, "[extensions]")
			line = strings.TrimSpace(strings.TrimPrefix(line, "[extensions]"))
		}
		if !extensions {
			r.partial = r.partial || strings.HasPrefix(line, "partialclonefilter") || strings.HasPrefix(line, "promisor")
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		switch key = strings.TrimSpace(key); {
		case key == "objectformat" && value != "sha1":
			return fmt.Errorf("the repository's objects are named by %s: only sha1 can be read", value)
		case key == "refstorage" && value != "files":
			return fmt.Errorf("the repository keeps its references as %s: only files can be read", value)
		case key == "partialclone":
			r.partial = true
		}
	}
	return nil // a line over 64 KiB ends the search: no extension is that long
}

// object reads an object. If it is missing, the error explains which kind of clone may be the
// reason.
func (r *Repository) object(t plumbing.ObjectType, h plumbing.Hash) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.objects.loose(h); ok {
		if data, ok := l.content(t); ok && plumbing.ComputeHash(t, data) == h {
			return data, nil
		}
	}
	if size, err := r.objects.size(h); err == nil && size > maxFile {
		return nil, fmt.Errorf("%d bytes: %w", size, errTooLarge)
	}
	data, err := r.objects.content(t, h)
	if err != nil && !errors.Is(err, errTooLarge) {
		return nil, r.missing(h, err)
	}
	return data, err
}

// maxFile limits the size of an object, in bytes. Manifests are far smaller,
// and so are trees with hundreds of thousands of files.
const maxFile = 64 << 20

var errTooLarge = fmt.Errorf("more than %d MiB", maxFile>>20)

// size returns the size of an object in bytes.
func (r *Repository) size(h plumbing.Hash) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size, err := r.objects.size(h)
	if err != nil {
		return 0, r.missing(h, err)
	}
	return size, nil
}

// submodule opens the repository of a submodule, by its directory in the work
// tree. It returns nil if the submodule is not checked out.
func (r *Repository) submodule(dir string) (*Repository, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	dir = filepath.Join(r.dir, filepath.FromSlash(dir))
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
		return nil, nil
	}
	sub, err := Open(dir)
	if err == nil {
		sub.Remember(r.facts)
		r.submodules = append(r.submodules, sub)
	}
	return sub, err
}
