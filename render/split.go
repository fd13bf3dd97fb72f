package render

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Limits of one file, see section 7 of the security study. Libraries stop at
// ten thousand levels at best; nobody writes more than thirty.
const (
	maxDocuments = 100_000
	maxDepth     = 500
	maxEmpty     = 1_000 // documents without content, before each counts
)

// A chunk is the text of one document, from its first line to the line before
// the next separator.
type chunk struct {
	text []byte
	line int // its first line in the file, from 0
	off  int // offset of text in the file
	err  *Error
}

var (
	separator = []byte("---")
	bom       = []byte("\xef\xbb\xbf")
)

// split cuts a file into documents as kubectl does: at lines that begin with
// "---" (k8s.io/apimachinery/pkg/util/yaml.YAMLReader). A chunk that deployers
// read differently has an err: kubectl refuses text after the separator, Helm
// reads it as the document's first line.
func (s *source) split() []chunk {
	chunks := []chunk{{}}
	cur := &chunks[0]
	start := 0
	for i := 0; i < s.lineCount(); i++ {
		from, to := s.lineAt(i)
		line := s.data[from:to]
		if i > 0 && bytes.HasPrefix(line, bom) && bytes.HasPrefix(line[len(bom):], separator) {
			cur.err = s.errorAt(i, 1, "document-separator", "a byte order mark stands before the document separator")
		}
		if !bytes.HasPrefix(line, separator) {
			continue
		}
		cur.text = s.data[start:from]
		chunks = append(chunks, chunk{line: i + 1, off: to})
		cur, start = &chunks[len(chunks)-1], to
		if rest := bytes.TrimSpace(line[len(separator):]); len(rest) > 0 && rest[0] != '#' {
			cur.err = s.errorAt(i, 4, "document-separator",
				"text follows the document separator: kubectl refuses it, Helm reads it as the first line of the document")
		}
	}
	cur.text = s.data[start:]
	return chunks
}

// directives reports whether a chunk has only the %YAML directive and comments
// before the first separator.
func (c *chunk) directives() bool {
	found := false
	for line := range bytes.Lines(c.text) {
		line = bytes.TrimSpace(line)
		switch {
		case bytes.HasPrefix(line, []byte("%YAML ")):
			found = true
		case len(line) > 0 && line[0] != '#':
			return false
		}
	}
	return found
}

// empty reports whether a chunk has only blanks and comments.
func (c *chunk) empty() bool {
	for rest := c.text; len(rest) > 0; {
		rest = bytes.TrimLeft(rest, " \t\r\n")
		if len(rest) == 0 {
			return true
		}
		if rest[0] != '#' {
			return false
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return true
		}
		rest = rest[end:]
	}
	return true
}

// encoding returns an error for a file in UTF-16 or UTF-32. Parsers read such
// files, but split can't.
func encoding(data []byte) error {
	names := []struct{ prefix, name string }{
		{"\xff\xfe\x00\x00", "UTF-32LE"},
		{"\x00\x00\xfe\xff", "UTF-32BE"},
		{"\xff\xfe", "UTF-16LE"},
		{"\xfe\xff", "UTF-16BE"},
	}
	for _, n := range names {
		if bytes.HasPrefix(data, []byte(n.prefix)) {
			return fmt.Errorf("file is in %s, only UTF-8 is read", n.name)
		}
	}
	if name := wideText(data); name != "" {
		return fmt.Errorf("file is in %s without a byte order mark, only UTF-8 is read", name)
	}
	return nil
}

// wideText returns the encoding of a file that begins with an ASCII character
// of two or four bytes, as any YAML in UTF-16 or UTF-32 does.
func wideText(data []byte) string {
	if len(data) < 4 {
		return ""
	}
	zero := [4]bool{data[0] == 0, data[1] == 0, data[2] == 0, data[3] == 0}
	switch zero {
	case [4]bool{false, true, true, true}:
		return "UTF-32LE"
	case [4]bool{true, true, true, false}:
		return "UTF-32BE"
	case [4]bool{false, true, false, true}:
		return "UTF-16LE"
	case [4]bool{true, false, true, false}:
		return "UTF-16BE"
	}
	return ""
}

// check refuses characters that parsers and splitters read in different ways:
// invalid UTF-8, control characters, and line breaks that only some of them
// recognize.
func (s *source) check(c *chunk) *Error {
	text := c.text
	for i := 0; i < len(text); {
		b := text[i]
		if b >= 0x20 && b < 0x7f || b == '\n' || b == '\t' {
			i++
			continue
		}
		if b == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if err := refused(r, size, b, i == 0); err != nil {
			e := s.errorAtOffset(c.off+i, "invalid-character", err)
			if lineBreak(r) {
				e.Rule = "line-break"
			}
			return e
		}
		i += size
	}
	return nil
}

func lineBreak(r rune) bool {
	return r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}

// refused returns an error for a character that is not printable by YAML 1.1,
// section 5.1.
func refused(r rune, size int, b byte, first bool) error {
	switch {
	case r == utf8.RuneError && size <= 1:
		return fmt.Errorf("byte 0x%02X is not UTF-8", b)
	case r == '\r':
		return errors.New("carriage return without line feed: some tools take it for the end of the line")
	case lineBreak(r):
		return fmt.Errorf("line break U+%04X is not ASCII: some tools take it for the end of the line", r)
	case r == '\ufeff' && first:
		return nil
	case r < 0x20, r >= 0x7f && r < 0xa0, r == '\ufeff', r == '\ufffe', r == '\uffff':
		return fmt.Errorf("character U+%04X is not allowed in YAML", r)
	}
	return nil
}
