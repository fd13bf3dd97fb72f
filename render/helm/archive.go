package helm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/gobwas/glob"
	"helm.sh/helm/v3/pkg/chart"

	"github.com/preadmit/preadmit/render"
)

// archive reads the entries of a chart archive, without the first element of
// their paths. It refuses what Helm would skip or resolve by order: links,
// duplicates and paths that lead out of the chart.
func (r *reader) archive(at place, data []byte) ([]file, error) {
	fail := func(err error) ([]file, error) { return nil, at.errorAt("helm-archive", 0, 0, err) }
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fail(errors.New("is not a chart archive"))
	}
	var files []file
	seen := map[string]bool{}
	for in := tar.NewReader(unzipped); ; {
		header, err := in.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			return fail(errors.New("archive is damaged"))
		}
		if err := r.count(at, 0); err != nil {
			return nil, err
		}
		name, err := entryName(header)
		switch {
		case err != nil:
			return fail(err)
		case name == "":
			continue
		case seen[name]:
			return fail(fmt.Errorf("archive has %q twice", name))
		}
		seen[name] = true
		content, err := r.entry(at, in)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, bytes.TrimPrefix(content, byteOrderMark), place{at.file, path.Join(at.entry, name)}})
	}
	if len(files) == 0 {
		return fail(errors.New("archive is empty"))
	}
	return files, nil
}

// entry reads one entry within the budget. It does not trust the size in the
// header.
func (r *reader) entry(at place, in io.Reader) ([]byte, error) {
	left := min(maxFile, maxTreeBytes-r.bytes)
	content, err := io.ReadAll(io.LimitReader(in, int64(left)+1))
	if err != nil {
		return nil, at.errorAt("helm-archive", 0, 0, errors.New("archive is damaged"))
	}
	r.entries-- // counted by its header
	return content, r.count(at, len(content))
}

var drive = regexp.MustCompile(`^[a-zA-Z]:`)

// entryName returns the path of an entry below the chart, or "" for an entry
// that is not one of its files.
func entryName(h *tar.Header) (string, error) {
	switch h.Typeflag {
	case tar.TypeXGlobalHeader, tar.TypeXHeader, tar.TypeDir:
		return "", nil
	case tar.TypeReg:
	default:
		return "", errors.New("archive has an entry that is neither file nor directory")
	}
	full := strings.ReplaceAll(h.Name, `\`, "/")
	if path.IsAbs(full) || drive.MatchString(full) || strings.ContainsRune(full, 0) {
		return "", errors.New("archive has an absolute path")
	}
	top, name, ok := strings.Cut(full, "/")
	for _, element := range strings.Split(full, "/") {
		if element == ".." {
			return "", errors.New("archive has a path that leads out of it")
		}
	}
	name = path.Clean(name)
	if !ok || name == "." || path.IsAbs(name) || drive.MatchString(name) {
		return "", fmt.Errorf("archive has %q outside of the chart's directory", sentence(top))
	}
	return name, nil
}

// files holds a chart's files other than templates, which templates access as
// .Files. The methods are Helm's.
type files map[string][]byte

func newFiles(list []*chart.File) files {
	f := make(files, len(list))
	for _, file := range list {
		f[file.Name] = file.Data
	}
	return f
}

// GetBytes returns the content of a file of the chart. It is empty if there is no such file.
func (f files) GetBytes(name string) []byte {
	if data, ok := f[name]; ok {
		return data
	}
	return []byte{}
}

// Get returns the content of a file as a string. The string shares the content's memory, so that
// its address identifies the file when the origin of a line is looked up. The content is never
// changed.
func (f files) Get(name string) string {
	return unsafe.String(unsafe.SliceData(f[name]), len(f[name]))
}

// Glob returns the files whose names match; an invalid pattern matches all.
func (f files) Glob(pattern string) files {
	g, err := glob.Compile(pattern, '/')
	if err != nil {
		g = glob.MustCompile("**")
	}
	found := files{}
	for name, data := range f {
		if g.Match(name) {
			found[name] = data
		}
	}
	return found
}

// AsConfig returns the files as the data of a ConfigMap, under their base
// names. If two files have the same one, the last counts.
func (f files) AsConfig() string {
	return f.as(func(data []byte) string { return string(data) })
}

// AsSecrets returns the files as the data of a Secret.
func (f files) AsSecrets() string { return f.as(base64.StdEncoding.EncodeToString) }

func (f files) as(encode func([]byte) string) string {
	if f == nil {
		return ""
	}
	m := map[string]string{}
	for _, name := range sortedKeys(f) {
		m[path.Base(name)] = encode(f[name])
	}
	return toYAML(m)
}

// Lines returns the lines of a file.
func (f files) Lines(name string) []string {
	if len(f[name]) == 0 {
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(f.Get(name), "\n"), "\n")
}

// A place is where a chart's file is: in the tree, or in an archive in the
// tree.
type place struct {
	file  string // in the tree
	entry string // in the archive; "" for a file in the tree
}

// join returns the place of a file below a directory.
func (p place) join(name string) place {
	if p.entry != "" || strings.HasSuffix(p.file, ".tgz") {
		return place{p.file, path.Join(p.entry, name)}
	}
	return place{file: path.Join(p.file, name)}
}

// span returns a position of the place. An archive has no lines to go to, so
// its span is the whole archive.
func (p place) span(line, column int) render.Span {
	if p.entry != "" {
		return render.Span{File: p.file}
	}
	s := render.Span{File: p.file, Line: line, Column: column, EndLine: line}
	if column > 0 {
		s.EndColumn = column + 1
	}
	return s
}

// errorAt returns an error at a position of the place, and names the entry of
// an archive.
func (p place) errorAt(rule string, line, column int, err error) *render.Error {
	if p.entry != "" {
		at := p.entry
		if line > 0 {
			at = fmt.Sprintf("%s:%d", at, line)
		}
		err = fmt.Errorf("%s: %w", at, err)
	}
	return &render.Error{Span: p.span(line, column), Rule: rule, Err: err}
}

// sentence makes a text from a chart safe for an error: one line without
// control characters, at most 4 KiB.
func sentence(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case r < ' ', r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return utf8.RuneError
		}
		return r
	}, strings.TrimSpace(text))
	return render.Cut(render.WithoutAddresses(text), maxMessage)
}
