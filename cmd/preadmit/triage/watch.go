package triage

import (
	"context"
	"hash/fnv"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/render/disk"
)

// A stamp is a hash of the names, sizes and times of all files that a run reads.
type stamp uint64

const (
	watchEvery  = time.Second
	watchFiles  = 200_000 // most files that are watched
	watchSettle = 200 * time.Millisecond
)

// A watcher notices when files change.
type watcher struct {
	folder string // of an editor; "" is the working directory
	args   []string
	saved  string // the saved report that is shown instead of evaluating

	watched sync.Mutex
	stamp   stamp             // of the files when the last evaluation began
	looked  bool              // stamp is set
	open    map[string]string // texts of open files of an editor
}

// opened records the files that an editor has open. Locks and backups that it writes beside them start no evaluation.
func (w *watcher) opened(texts map[string]string) {
	w.watched.Lock()
	defer w.watched.Unlock()
	w.open = texts
}

// begun records the state of the files that an evaluation read.
func (w *watcher) begun(before stamp) {
	w.watched.Lock()
	defer w.watched.Unlock()
	w.stamp, w.looked = before, true
}

// root returns the directory of the repository.
func (w *watcher) root() (string, error) {
	if w.folder != "" {
		return disk.Root(w.folder, w.args)
	}
	return load.Root(w.args)
}

// look returns the stamp of the repository and of a saved report.
func (w *watcher) look() (stamp, error) {
	dir, err := w.root()
	if err != nil {
		return 0, err
	}
	dirs := []string{dir}
	if w.saved != "" && w.saved != "-" {
		dirs = append(dirs, w.saved)
	}
	w.watched.Lock()
	open := w.open
	w.watched.Unlock()
	hash := fnv.New64a()
	n := 0
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // it was deleted, which is a change too
			}
			if d.IsDir() && d.Name() == ".git" {
				return fs.SkipDir
			}
			if n++; n > watchFiles {
				return fs.SkipAll
			}
			if name := strings.TrimPrefix(filepath.ToSlash(strings.TrimPrefix(p, dir)), "/"); disk.IsByproduct(name, open) {
				return nil
			}
			stampFile(hash, p, d)
			return nil
		})
	}
	return stamp(hash.Sum64()), nil
}

func stampFile(hash interface{ Write([]byte) (int, error) }, p string, d fs.DirEntry) {
	if d.IsDir() {
		return
	}
	info, err := d.Info()
	if err != nil {
		return
	}
	var b []byte
	b = append(b, p...)
	b = info.ModTime().AppendFormat(b, time.RFC3339Nano)
	for s := uint64(info.Size()); s > 0; s >>= 8 {
		b = append(b, byte(s))
	}
	hash.Write(append(b, 0))
}

// Watch returns once a file differs from its state at the last evaluation and
// files have stopped changing. It checks less often if a check takes long.
func (w *watcher) Watch(ctx context.Context) error {
	for pause := watchEvery; ; {
		if err := wait(ctx, pause); err != nil {
			return err
		}
		w.watched.Lock()
		was, looked := w.stamp, w.looked
		w.watched.Unlock()
		began := time.Now()
		now, err := w.look()
		if err != nil || !looked {
			continue
		}
		pause = max(watchEvery, 20*time.Since(began))
		if now == was {
			continue
		}
		for rest := stamp(0); rest != now; {
			rest = now
			if err := wait(ctx, watchSettle); err != nil {
				return err
			}
			if now, err = w.look(); err != nil {
				return err
			}
		}
		return nil
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
