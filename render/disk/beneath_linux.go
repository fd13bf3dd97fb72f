package disk

import (
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// openBeneath opens a regular file or a directory in one step, if no element of its
// name is a link. ok is false if that is not possible for whatever reason; the caller
// must then open it from the root, which gives the error.
func (d *dirs) openBeneath(name string) (f fs.File, info fs.FileInfo, ok bool) {
	if d.top == nil {
		return nil, nil, false
	}
	// A pipe that nobody writes to would block here for ever otherwise.
	fd, err := unix.Openat2(d.fd, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, nil, false
	}
	s := stat{name: path.Base(name)}
	if err := unix.Fstat(fd, &s.Stat_t); err == nil {
		switch s.Stat_t.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			return &plainFile{fd: fd, stat: s}, s, true
		case unix.S_IFDIR:
			return directory{os.NewFile(uintptr(fd), name), d, name}, s, true
		}
	}
	unix.Close(fd)
	return nil, nil, false
}

// listBeneath returns the entries of a directory, in no order, if no element of its name
// is a link. ok is false if that is not possible for whatever reason.
func (d *dirs) listBeneath(name string) (entries []named, ok bool) {
	if d.top == nil {
		return nil, false
	}
	fd, err := unix.Openat2(d.fd, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	buffer := make([]byte, 8<<10)
	for {
		n, err := unix.ReadDirent(fd, buffer)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, false
		case n == 0:
			return entries, true
		}
		if entries, ok = appendNamed(entries, buffer[:n]); !ok {
			return nil, false
		}
	}
}

// appendNamed appends the entries in the output of getdents64. ok is false for an entry
// of unknown type.
func appendNamed(entries []named, data []byte) (all []named, ok bool) {
	const kindAt, nameAt = 18, 19
	for len(data) > nameAt {
		size := int(binary.NativeEndian.Uint16(data[16:]))
		if size <= nameAt || size > len(data) {
			return nil, false
		}
		name, _, _ := strings.Cut(string(data[nameAt:size]), "\x00")
		kind, known := kinds[data[kindAt]]
		if !known || name == "" {
			return nil, false
		}
		if name != "." && name != ".." {
			entries = append(entries, named{name, kind})
		}
		data = data[size:]
	}
	return entries, len(data) == 0
}

// kinds are the types of directory entries.
var kinds = map[byte]fs.FileMode{
	unix.DT_REG: 0, unix.DT_DIR: fs.ModeDir, unix.DT_LNK: fs.ModeSymlink, unix.DT_FIFO: fs.ModeNamedPipe,
	unix.DT_SOCK: fs.ModeSocket, unix.DT_CHR: fs.ModeDevice | fs.ModeCharDevice, unix.DT_BLK: fs.ModeDevice,
}

// infoBeneath describes a regular file or a directory, if no element of its name is a
// link. ok is false if that is not possible for whatever reason.
func (d *dirs) infoBeneath(name string) (info fs.FileInfo, ok bool) {
	if d.top == nil {
		return nil, false
	}
	fd, err := unix.Openat2(d.fd, name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	s := stat{name: path.Base(name)}
	if err := unix.Fstat(fd, &s.Stat_t); err != nil {
		return nil, false
	}
	kind := s.Stat_t.Mode & unix.S_IFMT
	return s, kind == unix.S_IFREG || kind == unix.S_IFDIR
}

// stat describes a regular file or a directory.
type stat struct {
	name string
	unix.Stat_t
}

func (s stat) Name() string       { return s.name }
func (s stat) Size() int64        { return s.Stat_t.Size }
func (s stat) ModTime() time.Time { return time.Unix(s.Mtim.Unix()) }
func (s stat) IsDir() bool        { return s.Mode().IsDir() }
func (s stat) Sys() any           { return nil }

func (s stat) Mode() fs.FileMode {
	mode := fs.FileMode(s.Stat_t.Mode & 0o777)
	if s.Stat_t.Mode&unix.S_IFMT == unix.S_IFDIR {
		mode |= fs.ModeDir
	}
	return mode
}

// A plainFile is an open regular file. It costs fewer system calls than an [os.File],
// which tries to wait for it as for a connection.
type plainFile struct {
	fd   int
	stat stat
	read int64 // bytes so far
}

func (f *plainFile) Stat() (fs.FileInfo, error) { return f.stat, nil }

func (f *plainFile) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(f.fd, p)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, &fs.PathError{Op: "read", Path: f.stat.name, Err: err}
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		if f.read += int64(n); n > 0 && n < len(p) && f.read == f.stat.Size() {
			return n, io.EOF // saves a read that would return nothing
		}
		return n, nil
	}
}

func (f *plainFile) Close() error {
	fd := f.fd
	if f.fd = -1; fd < 0 {
		return fs.ErrClosed
	}
	return unix.Close(fd)
}

// A directory is an open directory. Its entries are described through the root, since
// an [os.File] would look them up below the current directory.
type directory struct {
	*os.File
	dirs *dirs
	name string
}

// ReadDir implements fs.ReadDirFile.
func (d directory) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := d.File.ReadDir(n)
	for i, e := range entries {
		entries[i] = entry{e, d}
	}
	return entries, err
}

type entry struct {
	fs.DirEntry
	in directory
}

// Info implements fs.DirEntry.
func (e entry) Info() (fs.FileInfo, error) {
	return Dir{e.in.dirs}.Lstat(path.Join(e.in.name, e.Name()))
}
