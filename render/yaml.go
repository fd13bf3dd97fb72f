package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	yaml2 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render/internal/yamlproblem"
)

// A Document is one document of a YAML or JSON file.
type Document struct {
	Value     any // nil, bool, int64, float64, string, []any or map[string]any
	Positions *Positions
	Span      Span // from its first to its last line, without blank lines and comments around it
	Index     int  // index in the file, from 0; empty and broken documents count
}

// OneDocument returns an *[Error] at the second document of a file that must
// have only one, since parsers silently drop the others. It also returns one
// for a file that is not in UTF-8, which parsers read and reviews don't show.
func OneDocument(file string, data []byte) error {
	if err := wrongEncoding(file, data); err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	for i := 0; ; i++ {
		doc = yaml.Node{}
		err := dec.Decode(&doc)
		switch {
		case err == io.EOF || err != nil && i == 0:
			return nil // the caller's parser reports what is wrong with the first
		case i > 0:
			return &Error{
				Span: Span{File: file, Line: max(doc.Line, 1)}, Rule: "second-document",
				Err: errors.New("a second document begins here, which would not be read"), Hint: "write all into one document",
			}
		}
	}
}

// Documents decodes the documents of a file, cut as kubectl and Helm do, and
// keeps the place of every field. Empty documents are left out. The error joins
// *[Error] values; Documents also returns the documents that it could decode.
// An error about a returned document says how tools read it differently.
// Documents keeps data, which must not change afterwards.
func Documents(file string, data []byte, d Dialect) ([]Document, error) {
	if len(data) > Limit {
		return nil, tooLarge(file)
	}
	if err := wrongEncoding(file, data); err != nil {
		return nil, err
	}
	src := newSource(file, data)
	chunks := src.split()
	if n := len(chunks); n > maxDocuments {
		return nil, src.errorAt(chunks[maxDocuments].line-1, 1, "too-many-documents", fmt.Sprintf("more than %d documents", maxDocuments))
	}
	return src.documents(chunks, d)
}

func wrongEncoding(file string, data []byte) error {
	if err := encoding(data); err != nil {
		return &Error{Span: Span{File: file, Line: 1, Column: 1, EndLine: 1, EndColumn: 1}, Rule: "encoding", Err: err}
	}
	return nil
}

func (s *source) documents(chunks []chunk, d Dialect) ([]Document, error) {
	var docs []Document
	var errs []error
	empty := 0
	for i := range chunks {
		doc, err := s.document(&chunks[i], d, i == 0)
		if err != nil {
			errs = append(errs, err)
		}
		if doc.Positions != nil {
			doc.Index = i
			docs = append(docs, doc)
		} else if err == nil {
			empty++
		}
	}
	s.scratch = scratch{}
	s.freeBlock()
	if empty > maxEmpty {
		errs = append(errs, &Error{
			Span: Span{File: s.file}, Rule: "empty-documents", Warning: true,
			Err: fmt.Errorf("%d documents are empty", empty),
		})
	}
	return docs, errors.Join(errs...)
}

// document decodes one chunk. A document without Positions is empty or, if
// there is an error, broken.
func (s *source) document(c *chunk, d Dialect, first bool) (Document, error) {
	if c.err != nil {
		return Document{}, c.err
	}
	if c.empty() || first && c.directives() {
		return Document{}, nil
	}
	if err := s.check(c); err != nil {
		return Document{}, err
	}
	root, err := s.parse(c)
	if root == nil {
		return Document{}, err
	}
	dec := newDecoder(s, c, d)
	r, wrong := dec.value(root, 1)
	if wrong != nil {
		return Document{}, wrong
	}
	p := &Positions{src: s, tree: dec.finish(), entry: entry{node: r.node}}
	return Document{Value: r.value, Positions: p, Span: s.span(p.extent(r.node))}, errors.Join(append(dec.errs, err)...)
}

// parse returns the node tree of a chunk. If text follows the document, the error
// says so, since most tools silently drop that.
func (s *source) parse(c *chunk) (*yaml.Node, error) {
	text := bytes.TrimPrefix(c.text, bom)
	if n := parseJSON(text); n != nil {
		return n, nil
	}
	if n := s.parseBlock(text); n != nil {
		return n, nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err == io.EOF {
		return nil, nil
	} else if err != nil {
		return nil, s.syntaxError(c, text, err)
	}
	err := dec.Decode(&more)
	if err == io.EOF {
		return doc.Content[0], nil
	}
	line := more.Line
	if err != nil {
		line, _ = errorLine(err)
	}
	return doc.Content[0], s.errorAt(min(c.line+max(line, 1), s.lineCount())-1, 1, "trailing-content",
		"content follows the end of the document: kubectl, Helm and kustomize drop it")
}

// syntaxError adds the place to an error of the YAML library. yaml.v3 reports
// where the broken collection begins; yaml.v2 reports where it breaks.
func (s *source) syntaxError(c *chunk, text []byte, err error) *Error {
	if err2 := yaml2.Unmarshal(text, &struct{}{}); err2 != nil && strings.HasPrefix(err2.Error(), "yaml: ") {
		if _, wrongType := err2.(*yaml2.TypeError); !wrongType {
			err = err2
		}
	}
	if m := unknownAnchor.FindStringSubmatch(err.Error()); m != nil {
		return s.anchorError(c, m[1])
	}
	line, problem := errorLine(err)
	if p, ok := yamlproblem.Explain(text, c.line, line-1, problem); ok {
		return s.errorAt(min(c.line+p.Line, s.lineCount()-1), p.Column+1, "yaml-syntax", p.Text)
	}
	i := min(c.line+line, s.lineCount()) - 1
	from, to := s.content(i)
	indent := len(s.data[from:to]) - len(bytes.TrimLeft(s.data[from:to], " \t"))
	return s.errorAt(i, indent+1, "yaml-syntax", problem)
}

// anchorError returns an error at the first alias of an undefined anchor, since
// the library does not say where that is.
func (s *source) anchorError(c *chunk, name string) *Error {
	from := c.off
	alias := regexp.MustCompile(`(?m)(?:^|[\s\[{,])(\*` + regexp.QuoteMeta(name) + `)(?:[\s\]},]|$)`)
	if m := alias.FindSubmatchIndex(c.text); m != nil {
		from += m[2]
	}
	return s.errorAtOffset(from, "yaml-syntax", errors.New("alias of an anchor that this document does not have"))
}

var (
	yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	// The library counts lines from 0 in its parser and from 1 in its scanner.
	parserProblem = regexp.MustCompile(`^did not find expected (<document start>|node content|'-' indicator|key|',' or ']'|',' or '}')`)
	unknownAnchor = regexp.MustCompile(`^yaml: unknown anchor '(.*)' referenced$`)
	quotedName    = regexp.MustCompile(`'[^' ]{2,}'`)
)

// errorLine returns the line and the problem of a YAML library's error, without
// names that the file chose.
func errorLine(err error) (line int, problem string) {
	m := yamlError.FindStringSubmatch(err.Error())
	if m == nil {
		return 1, "not YAML"
	}
	line, _ = strconv.Atoi(m[1])
	if line == 0 || parserProblem.MatchString(m[2]) {
		line++
	}
	return line, quotedName.ReplaceAllString(m[2], "")
}

// SyntaxError explains in the user's terms, with its place, why a YAML library
// refuses a file with err.
func SyntaxError(file string, data []byte, err error) error {
	_, refused := Documents(file, data, YAML11)
	for _, e := range Errors(refused) {
		if e.Rule == "yaml-syntax" {
			return e
		}
	}
	return &Error{Span: Span{File: file}, Rule: "yaml-syntax", Err: errors.New(strings.TrimPrefix(err.Error(), "yaml: "))}
}
