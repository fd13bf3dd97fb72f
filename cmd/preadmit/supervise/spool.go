package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A spool stores a child's output until the child has ended successfully: in memory, or in an
// unlinked file if it is larger than inMemory.
type spool struct {
	memory bytes.Buffer
	file   *os.File
	to     *Pipe // into memory or the file
	err    error
}

const inMemory = 32 << 20

func (s *spool) add(k Kind, payload []byte) {
	if s.err != nil {
		return
	}
	if s.file == nil && s.memory.Len()+len(payload) > inMemory {
		if s.file, s.err = os.CreateTemp("", "preadmit-*"); s.err != nil {
			return
		}
		os.Remove(s.file.Name())
		if _, s.err = s.memory.WriteTo(s.file); s.err != nil {
			return
		}
		s.to = NewPipe(s.file)
	}
	if s.to == nil {
		s.to = NewPipe(&s.memory)
	}
	s.err = s.to.Send(k, payload)
}

// print writes everything to standard output and standard error, in order. It
// returns the error of standard output.
func (s *spool) print(stdout, stderr io.Writer) error {
	if s.err != nil {
		return s.err
	}
	var from io.Reader = &s.memory
	if s.file != nil {
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		from = s.file
	}
	var failed error
	var room []byte
	for r := NewReader(from); ; {
		k, payload, err := r.nextIn(room)
		room = payload
		switch {
		case err == io.EOF:
			return failed
		case err != nil:
			return err
		case k == Stderr:
			stderr.Write(payload)
		case failed == nil:
			_, failed = stdout.Write(payload)
		}
	}
}

func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
	}
}

// A file replaces another, whose permissions it keeps, completely or not at all. It does not follow
// links. It writes to a device or pipe directly.
type file struct {
	name string
	mode fs.FileMode
	temp *os.File
	at   bool // temp is the final file itself
	err  error
}

func createFile(name string) *file {
	f := &file{name: name, mode: 0o644}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		f.at = true
		f.temp, f.err = os.OpenFile(name, os.O_WRONLY|os.O_TRUNC|syscall.O_NONBLOCK, 0o644) // a pipe without a reader is an error
	} else {
		if was, err := os.Lstat(name); err == nil && was.Mode().IsRegular() {
			f.mode = was.Mode().Perm()
		}
		if f.err = os.MkdirAll(filepath.Dir(name), 0o755); f.err == nil {
			f.temp, f.err = os.CreateTemp(filepath.Dir(name), ".preadmit-*")
		}
	}
	return f
}

// Write writes to the file, unless an earlier write failed.
func (f *file) Write(data []byte) (n int, err error) {
	if f.err == nil {
		n, f.err = f.temp.Write(data)
	}
	return n, f.err
}

// commit moves the file to its name.
func (f *file) commit() error {
	switch {
	case f.temp == nil:
		return f.err
	case f.at:
		return errors.Join(f.err, f.temp.Close())
	}
	if f.err == nil {
		f.err = errors.Join(f.temp.Chmod(f.mode), f.temp.Sync())
	}
	err := errors.Join(f.err, f.temp.Close())
	if err == nil {
		err = os.Rename(f.temp.Name(), f.name)
	}
	if err != nil {
		os.Remove(f.temp.Name())
	}
	return err
}

// drop removes an uncommitted file. f may be nil.
func (f *file) drop() {
	if f != nil && f.temp != nil {
		f.temp.Close()
		if !f.at {
			os.Remove(f.temp.Name())
		}
	}
}

// WriteFile replaces a file completely or not at all, and makes its directory. It does not follow
// links. It writes to a device or pipe directly.
func WriteFile(name string, content func(io.Writer) error) error {
	f := createFile(name)
	w := bufio.NewWriterSize(f, 64<<10)
	if err := content(w); err != nil {
		f.drop()
		return err
	}
	w.Flush() // commit returns its error
	return f.commit()
}

// Bytes returns a function that writes data.
func Bytes(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// NotWritten returns the error that a file could not be written, with the
// reason.
func NotWritten(name string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &Incomplete{Err: fmt.Errorf("%s: not written: %w", name, err)}
}
