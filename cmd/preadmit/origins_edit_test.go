package main

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/preadmit/preadmit/render"
)

// A patched tree is one in which one file has other content.
type patched struct {
	fs.FS
	name string
	data []byte
}

func (p patched) Open(name string) (fs.File, error) {
	if name != p.name {
		return p.FS.Open(name)
	}
	return &patchedFile{Reader: bytes.NewReader(p.data), name: path.Base(name), size: int64(len(p.data))}, nil
}

func (p patched) Stat(name string) (fs.FileInfo, error) {
	if name != p.name {
		return fs.Stat(p.FS, name)
	}
	f, err := p.Open(name)
	if err != nil {
		return nil, err
	}
	return f.Stat()
}

func (p patched) ReadLink(name string) (string, error)   { return fs.ReadLink(p.FS, name) }
func (p patched) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(p.FS, name) }

type patchedFile struct {
	*bytes.Reader
	name string
	size int64
}

func (p *patchedFile) Close() error               { return nil }
func (p *patchedFile) Stat() (fs.FileInfo, error) { return p, nil }
func (p *patchedFile) Name() string               { return p.name }
func (p *patchedFile) Size() int64                { return p.size }
func (*patchedFile) Mode() fs.FileMode            { return 0o644 }
func (*patchedFile) ModTime() time.Time           { return time.Time{} }
func (*patchedFile) IsDir() bool                  { return false }
func (*patchedFile) Sys() any                     { return nil }

// edits are the contents that a file gets when the text at a place of it is
// changed in one way or another: no single way suits numbers, names, texts with
// a grammar and the actions of templates. None changes anything else.
func edits(data []byte, at render.Span) [][]byte {
	from, to, ok := offsets(data, at)
	if !ok {
		return nil
	}
	text := string(data[from:to])
	switch {
	case strings.HasPrefix(text, "{{"):
		return actionEdits(data, from)
	case isBlockHeader(text):
		return blockEdits(data, to)
	}
	return replaced(data, from, to, tokenEdits(text))
}

// offsets are where a place begins and ends; it ends with its line at the latest.
func offsets(data []byte, at render.Span) (from, to int, ok bool) {
	for range at.Line - 1 {
		n := bytes.IndexByte(data[from:], '\n')
		if n < 0 {
			return 0, 0, false
		}
		from += n + 1
	}
	end := len(data)
	if n := bytes.IndexByte(data[from:], '\n'); n >= 0 {
		end = from + n
	}
	line := data[from:end]
	first := columns(line, at.Column-1)
	last := len(line)
	if at.EndLine == at.Line {
		last = columns(line, at.EndColumn-1)
	}
	return from + first, from + max(first, last), at.Line > 0
}

// columns is how many bytes so many characters of a line have.
func columns(line []byte, n int) (size int) {
	for ; n > 0 && size < len(line); n-- {
		_, w := utf8.DecodeRune(line[size:])
		size += w
	}
	return size
}

func replaced(data []byte, from, to int, texts []string) (all [][]byte) {
	for _, text := range texts {
		all = append(all, slices.Concat(data[:from], []byte(text), data[to:]))
	}
	return all
}

// actionEdits take an action for something else, all of it.
func actionEdits(data []byte, from int) [][]byte {
	n := bytes.Index(data[from:], []byte("}}"))
	if n < 0 {
		return nil
	}
	return replaced(data, from, from+n+2, []string{"perturbed", "7", "", `"perturbed"`, "true", "{perturbed: perturbed}"})
}

func isBlockHeader(text string) bool {
	return len(text) > 0 && len(text) < 4 && (text[0] == '|' || text[0] == '>')
}

// blockEdits change the first line of a block scalar that has text.
func blockEdits(data []byte, header int) (all [][]byte) {
	at := header
	for {
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 || at+n+1 >= len(data) {
			return replaced(data, header, header, []string{"\n  zz"})
		}
		at += n + 1
		line, _, _ := bytes.Cut(data[at:], []byte("\n"))
		if body := bytes.TrimSpace(line); len(body) > 0 {
			begin := at + bytes.Index(line, body)
			all = append(replaced(data, begin+len(body), begin+len(body), []string{"zz"}), replaced(data, begin, begin, []string{"zz"})...)
			return append(all, replaced(data, begin, begin+len(body), []string{"7"})...)
		}
	}
}

// tokenEdits are other texts in place of one.
func tokenEdits(text string) []string {
	quote := ""
	if len(text) > 1 && (text[0] == '"' || text[0] == '\'') {
		quote = text[:1]
		text = strings.TrimSuffix(text[1:], quote)
	}
	var all []string
	switch {
	case text == "true":
		all = []string{"false", "zz"}
	case text == "false":
		all = []string{"true", "zz"}
	case text == "{}":
		all = []string{"{perturbed: zz}"}
	case text == "[]":
		all = []string{"[zz]", "[{perturbed: zz}]"}
	case strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}"), strings.HasPrefix(text, "["), strings.HasPrefix(text, "*"):
		all = []string{"perturbed", "{perturbed: zz}", "[zz]"}
	case text != "" && text[0] >= '0' && text[0] <= '9':
		all = []string{"9" + text, text + "9", "1", "7", text + "zz", "zz" + text}
	default:
		all = []string{text + "zz", "zz" + text, "zz", text + "9", " zz", "7", "true"}
		if strings.Contains(text, ",") {
			all = append(all, strings.ReplaceAll(text, ",", "zz,")) // every part of a list
		}
	}
	for i := range all {
		all[i] = quote + all[i] + quote
	}
	return all
}
