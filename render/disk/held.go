package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// dirs keeps directories of a root open, so that files in them are opened in one step instead of
// from the root. If that fails, or the name leads out of its directory, the name is looked up from
// the root.
type dirs struct {
	root *os.Root
	top  *os.File // the root's directory; nil if it can't be opened
	fd   int      // of top

	mu    sync.Mutex
	held  map[string]*os.Root
	order []string // in which they were opened

	listMu  sync.RWMutex
	lists   map[string]listing
	entries int // of all lists

	left atomic.Int64 // bytes that may still be read
}

// maxRead limits the bytes that a run reads of a tree; a file that is read twice counts twice. No
// real repository needs more.
const maxRead = 2 << 30

var errReadEnough = fmt.Errorf("not read: the run has read %d GiB already", maxRead>>30)

const maxHeld = 128

// of returns an open directory that contains name, and the rest of the name in it.
func (d *dirs) of(name string) (*os.Root, string) {
	dir, base := path.Split(name)
	if dir == "" {
		return d.root, name
	}
	if r := d.open(strings.TrimSuffix(dir, "/")); r != nil {
		return r, base
	}
	return d.root, filepath.FromSlash(name)
}

// open opens a directory below its nearest open parent. It returns nil on failure, also if a link
// is in between.
func (d *dirs) open(dir string) *os.Root {
	d.mu.Lock()
	r := d.held[dir]
	d.mu.Unlock()
	if r != nil {
		return r
	}
	parent, rest := d.of(dir)
	// To open a named pipe as a directory waits for a writer.
	if info, err := parent.Lstat(rest); err != nil || !info.IsDir() {
		return nil
	}
	r, err := parent.OpenRoot(rest)
	if err != nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if other := d.held[dir]; other != nil {
		r.Close()
		return other
	}
	if len(d.order) == maxHeld {
		d.held[d.order[0]].Close() // a concurrent reader of it fails and looks from the root
		delete(d.held, d.order[0])
		d.order = d.order[1:]
	}
	d.held[dir], d.order = r, append(d.order, dir)
	return r
}

// in calls do with the open directory that holds name, and if that fails with
// the root. On Windows a name with a backslash or a device's name is an error.
func in[T any](d *dirs, name string, do func(r *os.Root, name string) (T, error)) (v T, err error) {
	local, err := filepath.Localize(name)
	if err != nil {
		return v, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	r, base := d.of(name)
	if r != d.root {
		v, err = do(r, base)
		var pe *fs.PathError
		switch {
		case err == nil:
			return v, nil
		case errors.Is(err, fs.ErrNotExist) && errors.As(err, &pe):
			return v, &fs.PathError{Op: pe.Op, Path: name, Err: pe.Err}
		}
	}
	return do(d.root, local)
}
