package git

import (
	"bufio"
	"compress/zlib"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

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
