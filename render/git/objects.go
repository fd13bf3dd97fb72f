package git

import (
	"bufio"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// An objectStore reads a repository's own objects and those of the repositories that it borrows
// from. A clone made with --shared or --reference lists their object directories in
// objects/info/alternates. go-git follows alternates too, but opens them again for every object and
// hides their errors.
type objectStore struct {
	stores []*filesystem.Storage
	dirs   []string // of objects
	gone   []string // alternates that can't be read
	sizes  map[plumbing.Hash]int64
}

// openObjects opens the objects of a repository with the given files and object
// directory.
func openObjects(files billy.Filesystem, dir string) *objectStore {
	const cached = 64 << 20
	shared := cache.NewObjectLRU(cached)
	s := &objectStore{dirs: []string{dir}, sizes: make(map[plumbing.Hash]int64)}
	add := func(files billy.Filesystem) {
		s.stores = append(s.stores, filesystem.NewStorageWithOptions(files, shared, filesystem.Options{
			ExclusiveAccess: true, KeepDescriptors: true, LargeObjectThreshold: maxFile, AlternatesFS: memfs.New(),
		}))
	}
	add(files)
	dirs, gone := alternates(dir)
	for _, d := range dirs {
		add(regularFiles(filepath.Dir(d)))
	}
	s.gone, s.dirs = gone, append(s.dirs, dirs...)
	return s
}

// maxAlternates is how many levels of alternates are followed, as in git.
const maxAlternates = 5

// alternates lists the object directories that one borrows from, directly or
// indirectly, and separately those that can't be read.
func alternates(dir string) (dirs, gone []string) {
	seen := []string{filepath.Clean(dir)}
	from := seen
	for range maxAlternates {
		var next []string
		for _, d := range from {
			for _, a := range alternatesOf(d) {
				if slices.Contains(seen, a) {
					continue
				}
				seen = append(seen, a)
				// go-git expects objects below a directory of that name.
				if info, err := os.Stat(a); err != nil || !info.IsDir() || filepath.Base(a) != "objects" {
					gone = append(gone, a)
					continue
				}
				next = append(next, a)
			}
		}
		dirs = append(dirs, next...)
		from = next
	}
	return dirs, gone
}

// alternatesOf reads objects/info/alternates: one directory in each line,
// relative to the object directory, possibly quoted.
func alternatesOf(dir string) []string {
	f, err := open(filepath.Join(dir, "info", "alternates"))
	if err != nil {
		return nil
	}
	defer f.Close()
	var dirs []string
	lines := bufio.NewScanner(io.LimitReader(f, 1<<20))
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if unquoted, err := strconv.Unquote(line); err == nil {
			line = unquoted
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(dir, line)
		}
		dirs = append(dirs, filepath.Clean(line))
	}
	return dirs
}

// content reads an object from the first store in which its content matches its hash. git fsck and
// git clone refuse objects whose content does not match too.
func (o *objectStore) content(t plumbing.ObjectType, h plumbing.Hash) ([]byte, error) {
	return first(o, func(store *filesystem.Storage) ([]byte, error) {
		object, err := store.EncodedObject(t, h)
		if err != nil {
			return nil, err
		}
		in, err := object.Reader()
		if err != nil {
			return nil, err
		}
		defer in.Close()
		data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
		switch {
		case err != nil:
			return nil, err
		case len(data) > maxFile:
			return nil, errTooLarge
		}
		if held := plumbing.ComputeHash(t, data); held != h {
			return nil, fmt.Errorf("%w: it holds the content of %s; git fsck lists damaged objects", errMismatch, held)
		}
		return data, nil
	})
}

var errMismatch = errors.New("hash mismatch")

// size returns an object's size in bytes. It caches sizes, because go-git leaves a loose object's
// file open until the next garbage collection.
func (o *objectStore) size(h plumbing.Hash) (int64, error) {
	if n, ok := o.sizes[h]; ok {
		return n, nil
	}
	if l, ok := o.loose(h); ok {
		l.file.Close()
		o.sizes[h] = l.size
		return l.size, nil
	}
	n, err := first(o, func(store *filesystem.Storage) (int64, error) { return store.EncodedObjectSize(h) })
	if err == nil {
		o.sizes[h] = n
	}
	return n, err
}

// first asks the stores in order. An object that one store can't read may be
// intact in another.
func first[T any](s *objectStore, ask func(*filesystem.Storage) (T, error)) (T, error) {
	var none T
	failed := error(plumbing.ErrObjectNotFound)
	for _, store := range s.stores {
		v, err := ask(store)
		if err == nil {
			return v, nil
		}
		if !errors.Is(err, plumbing.ErrObjectNotFound) {
			failed = err
		}
	}
	return none, failed
}

// withPrefix lists the hashes that begin with prefix.
func (o *objectStore) withPrefix(prefix []byte) ([]plumbing.Hash, error) {
	var all []plumbing.Hash
	for _, store := range o.stores {
		hashes, err := store.HashesWithPrefix(prefix)
		if err != nil {
			return nil, err
		}
		for _, h := range hashes {
			if !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
	}
	return all, nil
}

func (o *objectStore) close() error {
	var errs []error
	for _, store := range o.stores {
		errs = append(errs, store.Close())
	}
	return errors.Join(errs...)
}

// missing explains why an object could not be read, and what to do about it.
func (r *Repository) missing(h plumbing.Hash, err error) error {
	switch {
	case !errors.Is(err, plumbing.ErrObjectNotFound):
		return fmt.Errorf("object %s can't be read: %w", h, err)
	case r.partial:
		return fmt.Errorf("object %s was left out of this partial clone; run git fetch --refetch --no-filter", h)
	case len(r.objects.gone) > 0:
		return fmt.Errorf("object %s is not in the repository; it borrows objects from %s, which can't be read", h, strings.Join(r.objects.gone, " and "))
	}
	return fmt.Errorf("object %s is not in the repository; %w", h, errAbsent)
}

var errAbsent = errors.New("git fsck lists missing objects")

// A looseObject is an object stored in a file of its own, opened for reading.
type looseObject struct {
	kind plumbing.ObjectType
	size int64
	io.Reader
	file *os.File
}

// loose opens an object that is stored in a file of its own. ok is false if there is no such file
// or it is damaged. go-git is not used because it lists all such files, maybe thousands, before it
// opens the first.
func (o *objectStore) loose(h plumbing.Hash) (l looseObject, ok bool) {
	for _, dir := range o.dirs {
		name := h.String()
		f, err := open(filepath.Join(dir, name[:2], name[2:]))
		if err != nil {
			continue
		}
		if l, ok := readLoose(f); ok {
			return l, true
		}
		f.Close()
	}
	return l, false
}

// readLoose reads the header of an object's file: its type and its size.
func readLoose(f *os.File) (l looseObject, ok bool) {
	z, err := zlib.NewReader(f)
	if err != nil {
		return l, false
	}
	const longest = 32 // bytes of a header
	in := bufio.NewReaderSize(z, 4096)
	start, _ := in.Peek(longest)
	header, _, ended := strings.Cut(string(start), "\x00")
	kind, digits, _ := strings.Cut(header, " ")
	l = looseObject{Reader: in, file: f}
	if l.kind, err = plumbing.ParseObjectType(kind); err != nil || !ended {
		return l, false
	}
	if l.size, err = strconv.ParseInt(digits, 10, 64); err != nil || l.size < 0 {
		return l, false
	}
	_, err = in.Discard(len(header) + 1)
	return l, err == nil
}

// content reads the object and closes it. ok is false if it is of another type or does not have the
// size in its header.
func (l looseObject) content(t plumbing.ObjectType) (data []byte, ok bool) {
	defer l.file.Close()
	if l.kind != t || l.size > maxFile {
		return nil, false
	}
	data = make([]byte, l.size)
	if _, err := io.ReadFull(l, data); err != nil {
		return nil, false
	}
	n, err := l.Read(make([]byte, 1)) // also checks the checksum
	return data, n == 0 && err == io.EOF
}
