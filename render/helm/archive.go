package helm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
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
