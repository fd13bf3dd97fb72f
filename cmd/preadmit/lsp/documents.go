package lsp

import (
	"fmt"
)

// maxTexts limits the total size of the open documents.
const maxTexts = 8 << 20

// A document is a document that is open in the editor.
type document struct {
	uri     string // in the editor's form
	version *int
	text    string
}

func (s *server) opened(p *didOpenParams) error {
	doc := p.TextDocument
	return s.keep(doc.textDocument, func(string) string { return doc.Text })
}

func (s *server) edited(p *didChangeParams) error {
	return s.keep(p.TextDocument, func(text string) string {
		for _, c := range p.ContentChanges {
			if text = s.encoding.apply(text, c); len(text) > maxTexts {
				break
			}
		}
		return text
	})
}

// keep stores a document's text after a change. If the documents become too large, this one is
// evaluated as saved.
func (s *server) keep(doc textDocument, change func(string) string) error {
	name, err := s.root.name(doc.URI)
	if err != nil {
		return err
	}
	s.state.Lock()
	was, size := "", 0
	for n, d := range s.docs {
		if n == name {
			was = d.text
		} else {
			size += len(d.text)
		}
	}
	d := &document{doc.URI, doc.Version, change(was)}
	s.docs[name] = d
	if size+len(d.text) > maxTexts {
		delete(s.docs, name)
		err = fmt.Errorf("more than %d MiB are open: %s is checked as it was saved", maxTexts>>20, name)
	}
	s.state.Unlock()
	s.changed()
	return err
}

func (s *server) closed(p *struct{ TextDocument textDocument }) error {
	name, err := s.root.name(p.TextDocument.URI)
	if err != nil {
		return err
	}
	s.state.Lock()
	delete(s.docs, name)
	s.state.Unlock()
	s.changed()
	return nil
}

// texts returns the texts of the open documents by their names.
func (s *server) texts() map[string]string {
	s.state.Lock()
	defer s.state.Unlock()
	all := make(map[string]string, len(s.docs))
	for name, d := range s.docs {
		all[name] = d.text
	}
	return all
}

// uriOf returns the URI that the editor uses for a file.
func (s *server) uriOf(name string) string {
	if d := s.docs[name]; d != nil {
		return d.uri
	}
	return s.root.uri(name)
}
