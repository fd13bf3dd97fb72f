package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
)

// An Edit sets, removes or renames the value at a JSON pointer.
type Edit struct {
	Pointer string `json:"pointer"` // missing parents are added; "-" or the length appends to a list
	Delete  bool   `json:"delete,omitempty"`
	Key     string `json:"key,omitempty"`   // the field gets this key and keeps its value
	Value   any    `json:"value,omitempty"` // of JSON; unused with Delete and Key
}

// Apply returns v with the edit. It shares what is the same with v, which does not change.
func (e Edit) Apply(v any) (any, error) { return edited(v, Path(e.Pointer), e) }

// edited returns a copy of a value with the edit made at a path.
func edited(v any, path []string, e Edit) (any, error) {
	if len(path) == 0 {
		return Copy(e.Value), nil
	}
	switch v := v.(type) {
	case nil:
		if e.Delete {
			return nil, errors.New("there is nothing to delete")
		}
		child, err := edited(nil, path[1:], e)
		if path[0] == "-" {
			return []any{child}, err
		}
		return map[string]any{path[0]: child}, err
	case map[string]any:
		if v == nil {
			v = map[string]any{}
		}
		copied := maps.Clone(v)
		if _, ok := v[path[0]]; e.Delete && !ok {
			return nil, errors.New("there is nothing to delete")
		}
		if e.Delete && len(path) == 1 {
			delete(copied, path[0])
			return copied, nil
		}
		if e.Key != "" && len(path) == 1 {
			return rekeyed(copied, path[0], e.Key)
		}
		child, err := edited(v[path[0]], path[1:], e)
		copied[path[0]] = child
		return copied, err
	case []any:
		i, err := index(path[0], len(v))
		if err != nil || i == len(v) && e.Delete {
			return nil, errors.New("the list has no such element")
		}
		copied := slices.Clone(v)
		if e.Delete && len(path) == 1 {
			return slices.Delete(copied, i, i+1), nil
		}
		if i == len(v) {
			copied = append(copied, nil)
		}
		copied[i], err = edited(copied[i], path[1:], e)
		return copied, err
	}
	return nil, errors.New("its parent is neither a mapping nor a list")
}

func rekeyed(m map[string]any, from, to string) (any, error) {
	v, ok := m[from]
	if _, there := m[to]; there || !ok {
		return nil, errors.New("there is no such field, or one with the new name, too")
	}
	delete(m, from)
	m[to] = v
	return m, nil
}

// index returns the index that a segment of a pointer names in a list of a length.
func index(segment string, length int) (int, error) {
	if segment == "-" {
		return length, nil
	}
	i, err := strconv.Atoi(segment)
	if err == nil && (i < 0 || i > length) {
		err = errors.New("out of range")
	}
	return i, err
}

// Limit is the largest size of a file, in bytes, that is read.
const Limit = 10 << 20

// lfsPointer is how a file begins that Git LFS has replaced by a pointer, see
// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md.
var lfsPointer = []byte("version https://git-lfs.github.com/spec/v1\n")

// gitCrypt is how a file begins that git-crypt has encrypted, see
// https://github.com/AGWA/git-crypt/blob/master/commands.cpp (check_file_header).
var gitCrypt = []byte("\x00GITCRYPT\x00")

// ReadFile returns the content of a regular file of at most [Limit] bytes. All
// files of a tree are read by it. The error is an *[Error] at the file with the
// rule "file-too-large", "not-a-regular-file", "not-found", "unreadable",
// "escapes-tree", "dangling-link", "lfs-pointer" or "encrypted"; errors.Is(err,
// fs.ErrNotExist) works.
func ReadFile(fsys fs.FS, name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, fileError(name, "escapes-tree", errors.New("path leads out of the tree"))
	}
	// Opening a named pipe waits for a writer, so look before opening.
	if info, err := fs.Stat(fsys, name); err != nil {
		return nil, openError(fsys, name, err)
	} else if !info.Mode().IsRegular() {
		return nil, notRegular(name, info.Mode())
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, openError(fsys, name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, openError(fsys, name, err)
	case !info.Mode().IsRegular():
		return nil, notRegular(name, info.Mode())
	case info.Size() > Limit:
		return nil, tooLarge(name)
	}
	return readAll(f, name, info.Size())
}

func readAll(f io.Reader, name string, size int64) ([]byte, error) {
	data := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	n, err := data.ReadFrom(io.LimitReader(f, Limit+1))
	switch {
	case err != nil:
		return nil, fileError(name, "unreadable", plain(err))
	case n > Limit:
		return nil, tooLarge(name)
	case bytes.HasPrefix(data.Bytes(), lfsPointer):
		e := fileError(name, "lfs-pointer", errors.New("content is not in the tree, only its Git LFS pointer is"))
		e.Hint, e.Missing = "check out with LFS, such as `git lfs pull`", true
		return nil, e
	case bytes.HasPrefix(data.Bytes(), gitCrypt):
		e := fileError(name, "encrypted", errors.New("content is encrypted by git-crypt, so it is not checked"))
		e.Hint, e.Missing = "decrypt it first: `git-crypt unlock`; or leave it out with --exclude", true
		return nil, e
	}
	return data.Bytes(), nil
}

func tooLarge(name string) *Error {
	return fileError(name, "file-too-large", fmt.Errorf("file is larger than %d MiB", Limit>>20))
}

func notRegular(name string, mode fs.FileMode) *Error {
	return fileError(name, "not-a-regular-file", fmt.Errorf("is %s, not a regular file", DescribeMode(mode)))
}

func fileError(name, rule string, err error) *Error {
	return &Error{Span: Span{File: name}, Rule: rule, Err: err}
}

// openError returns an *Error that says in the user's terms why name can't be
// opened.
func openError(fsys fs.FS, name string, err error) *Error {
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case escapes(err):
		return fileError(name, "escapes-tree", errors.New("symbolic link leads out of the tree"))
	case missing && isLink(fsys, name):
		return fileError(name, "dangling-link", &cause{"symbolic link leads nowhere", err})
	case missing:
		return fileError(name, "not-found", &cause{"no such file", err})
	}
	return fileError(name, "unreadable", plain(err))
}

// escapes reports whether os.Root refused a path. That error can be recognized
// only by its text (os/file.go, errPathEscapes).
func escapes(err error) bool {
	return plain(err).Error() == "path escapes from parent"
}

// A cause replaces an error's text, and keeps the error for errors.Is.
type cause struct {
	text string
	err  error
}

func (c *cause) Error() string { return c.text }
func (c *cause) Unwrap() error { return c.err }

// plain removes the operation and the path from an error of the file system,
// since the *Error has the place.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func isLink(fsys fs.FS, name string) bool {
	info, err := fs.Lstat(fsys, name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// DescribeMode returns the kind of file of a mode, such as "a named pipe".
func DescribeMode(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// Unreadable reports whether a file has text that is no YAML, such as an encrypted or
// binary file, and nothing that could be an object.
func Unreadable(fsys fs.FS, file string) bool {
	data, err := ReadFile(fsys, file)
	if err != nil {
		var e *Error
		return errors.As(err, &e) && e.Rule == "encrypted"
	}
	docs, err := Documents(file, data, YAML11)
	text := len(Failures(err)) > 0
	for _, doc := range docs {
		switch doc.Value.(type) {
		case map[string]any, []any:
			return false
		case nil:
		default:
			text = true
		}
	}
	return text
}
