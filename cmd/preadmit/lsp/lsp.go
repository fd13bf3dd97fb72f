// Package lsp is a language server: it shows the findings of a repository in an editor,
// by version 3.17 of the Language Server Protocol.
//
// [Serve] reads the editor's messages and answers them. It does not evaluate policies itself: a
// [Host] evaluates the repository, with the unsaved text of open documents, and returns [Finding]s
// with their ranges. Serve evaluates again when a document or a file changed, and ends an
// evaluation that became stale. Each repository among the editor's folders has a Host.
//
// wire.go reads and writes messages, position.go converts positions and file names, folders.go finds
// the repositories, evaluate.go evaluates and publishes findings, and requests.go answers requests
// about a line.
package lsp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/preadmit/preadmit/policy"
)

// A Host evaluates a repository for the server.
type Host interface {
	// Evaluate returns the findings of the repository with the given texts of files, by their
	// names. The error is not nil if there is no verdict, such as for a wrong configuration.
	Evaluate(ctx context.Context, texts map[string]string, tell func(Progress)) ([]Finding, error)
	// Watch returns nil once a file has changed since the last Evaluate began.
	Watch(ctx context.Context) error
	// Explain returns a step-by-step explanation of the finding's result.
	Explain(ctx context.Context, f *Finding, texts map[string]string) (string, error)
	// Fix returns the changes of files that remove the finding, each proved by another evaluation. It
	// returns none if a file has changed since the last evaluation.
	Fix(ctx context.Context, f *Finding, texts map[string]string) ([]Fix, error)
	// Uses returns what the value at a place becomes. It returns nil if no field comes from there, or if
	// the file has changed since the last evaluation.
	Uses(ctx context.Context, at Place, texts map[string]string) (*Uses, error)
	// Matches returns the places of all that a policy or rule matches, if it begins on the line of a place.
	Matches(ctx context.Context, at Place, texts map[string]string) ([]Place, error)
	// Complete returns the names that may be written at a place in an expression of a policy.
	Complete(ctx context.Context, at Place, texts map[string]string) ([]policy.Completion, error)
	// Inspect returns problems of the policies in open files.
	Inspect(ctx context.Context, texts map[string]string) ([]Finding, error)
	// Configure replaces the settings of the editor for the next evaluation, as a JSON object.
	Configure(settings string)
	// Accept returns the suppressions file before and after a suppression is added.
	Accept(ctx context.Context, s policy.Suppression, texts map[string]string) (*Change, error)
	// Close frees the resources of the host, which is not used after that.
	Close()
}

// Progress describes the progress of an evaluation.
type Progress struct {
	Step string // such as "rendering"
	Done int    // units
}

// A Place is a range in a file of the repository.
type Place struct {
	File  string
	Range Range
	Label string // the role of the place in the finding
}

// A Finding is the result of a rule at one place, ready to show.
type Finding struct {
	Place
	Severity Severity
	Broken   bool // the file can't be parsed, so objects of other files may be missing
	Rule     string
	URL      string // of the rule's documentation; may be empty
	Message  string
	Hover    string  // plain text
	Related  []Place // other places that caused it
	Policy   *Place  // source of the rule; nil outside of the repository
	Accept   []Acceptance
	Result   *policy.Result // the first result, for Explain; nil if there is nothing to explain
}

// An Acceptance is a suppression that would accept a finding. Its reason and last day are not set.
type Acceptance struct {
	Title       string
	Suppression policy.Suppression
}

// A Fix is a change of files that removes a finding and possibly others.
type Fix struct {
	Title   string
	Best    bool // the editor may apply it without asking
	Changes []Change
}

// A Change is the text of a file before and after a change.
type Change struct {
	File          string // by its name in the repository
	Before, After string
	New           bool // there is no such file yet
}

// Uses are the fields of rendered objects that a value determines.
type Uses struct {
	Range  Range
	Fields []string // the first ones, such as "`/spec/replicas: 3` of Deployment shop/api (unit apps/api)"
	More   int      // the number of others
	Note   string   // why there may be fields that are not counted; "" if there are none
	Places []Place  // other lines that determine these fields, such as those of templates and patches
}

// Options are the settings of a server.
type Options struct {
	Version string
	// Open returns the host for a folder of the editor, "" for the working directory, and
	// the repository's directory without links.
	Open func(folder string, e Encoding, log func(string)) (h Host, dir string, err error)
}

// A server is a session with an editor.
type server struct {
	Options
	writer
	encoding     Encoding
	client       initializeParams
	folders      []string      // directories that the editor has open
	repositories []*repository // nil before initialize; none lies in another
	settings     string        // of the editor, "" for none
	started      bool          // repositories are evaluated

	state     sync.Mutex // guards the repositories too
	requests  map[string]context.CancelFunc
	asked     map[string]func(*message) // for each request to the editor, what its answer is passed to
	number    int
	temporary string // directory of documents that the editor shows; "" if there is none
	ended     bool   // no more of them are written
}

// Serve answers an editor until it sends exit or closes the input, and returns the
// exit code.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) int {
	ctx, stop := context.WithCancel(ctx)
	s := &server{
		Options: o, writer: writer{out: out},
		requests: make(map[string]context.CancelFunc), asked: make(map[string]func(*message)),
	}
	defer func() {
		stop()
		s.removeTemporary()
	}()
	ending := false
	for r := newReader(in); ; {
		m, err := r.next()
		var bad *responseError
		switch {
		case errors.As(err, &bad):
			s.respond(nil, nil, bad)
		case err != nil || m.Method == "exit":
			if ending {
				return 0
			}
			return 1
		case m.Method == "":
			s.state.Lock()
			done := s.asked[string(m.ID)]
			delete(s.asked, string(m.ID))
			s.state.Unlock()
			if done != nil {
				done(m)
			}
		case m.Method == "shutdown" && len(m.ID) > 0:
			ending = true
			s.respond(m.ID, nil, nil)
		case ending && len(m.ID) > 0:
			s.respond(m.ID, nil, failf(invalidRequest, "%.100q comes after shutdown", m.Method))
		case len(m.ID) > 0:
			s.request(ctx, m)
		default:
			s.notified(ctx, m)
		}
	}
}

// notified handles a notification. An invalid one is logged.
func (s *server) notified(ctx context.Context, m *message) {
	if s.repositories == nil {
		return // required by the specification
	}
	var err error
	switch m.Method {
	case "initialized":
		s.started = true
		s.evaluateAll(ctx)
	case "textDocument/didOpen":
		err = take(m, func(p *didOpenParams) error {
			return s.withDocument(p.TextDocument.URI, func(r *repository) error { return r.opened(p) })
		})
	case "textDocument/didChange":
		err = take(m, func(p *didChangeParams) error {
			return s.withDocument(p.TextDocument.URI, func(r *repository) error { return r.edited(p) })
		})
	case "textDocument/didClose":
		err = take(m, func(p *documentParams) error {
			return s.withDocument(p.TextDocument.URI, func(r *repository) error { return r.closed(p) })
		})
	case "textDocument/didSave":
		err = take(m, func(p *documentParams) error {
			if r := s.of(p.TextDocument.URI); r != nil {
				r.changed()
			}
			return nil
		})
	case "workspace/didChangeWatchedFiles":
		s.evaluateAll(ctx)
	case "workspace/didChangeConfiguration":
		if err = take(m, func(p *configurationParams) error { return s.configure(p.Settings, false) }); err == nil {
			s.evaluateAll(ctx)
		}
	case "workspace/didChangeWorkspaceFolders":
		err = take(m, s.changeFolders)
		s.evaluateAll(ctx)
	case "$/cancelRequest":
		err = take(m, s.cancel)
	}
	if err != nil {
		s.log(Warning, m.Method+": "+err.Error())
	}
}

// take decodes the parameters of a message and calls do with them.
func take[P any](m *message, do func(*P) error) error {
	p := new(P)
	if err := json.Unmarshal(m.Params, p); err != nil {
		return failf(invalidParams, "%s: wrong parameters: %v", m.Method, err)
	}
	return do(p)
}

// log makes the editor log a message, and show makes it show one.
func (s *server) log(severity Severity, text string)  { s.tell("window/logMessage", severity, text) }
func (s *server) show(severity Severity, text string) { s.tell("window/showMessage", severity, text) }

func (s *server) tell(method string, severity Severity, text string) {
	s.notify(method, map[string]any{"type": severity, "message": "preadmit: " + text})
}

// ask sends a request to the editor. It calls done with the answer.
func (s *server) ask(method string, params any, done func(*message)) {
	s.state.Lock()
	s.number++
	id := encoded(s.number)
	s.asked[string(id)] = done
	s.state.Unlock()
	s.send(&message{ID: id, Method: method, Params: encoded(params)})
}

// maxTexts limits the total size of the open documents.
const maxTexts = 8 << 20

// A document is a document that is open in the editor.
type document struct {
	uri     string // in the editor's form
	version *int
	text    string
}

func (s *repository) opened(p *didOpenParams) error {
	doc := p.TextDocument
	return s.keep(doc.textDocument, func(string) string { return doc.Text })
}

func (s *repository) edited(p *didChangeParams) error {
	name, err := s.root.name(p.TextDocument.URI)
	s.state.Lock()
	known := s.docs[name] != nil
	s.state.Unlock()
	if err == nil && !known && len(p.ContentChanges) > 0 && p.ContentChanges[0].Range != nil {
		return nil // the text was too large, or in no folder when it was opened
	}
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
func (s *repository) keep(doc textDocument, change func(string) string) error {
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

func (s *repository) closed(p *documentParams) error {
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

// maxSettings limits the size of the editor's settings, which become an argument of a process.
const maxSettings = 64 << 10

// configure takes settings of the editor: those below the key preadmit or, if bare is set, all if there is no such key.
// Without any, which some editors send at first, the settings stay.
func (s *server) configure(given json.RawMessage, bare bool) error {
	var all map[string]json.RawMessage
	err := json.Unmarshal(given, &all)
	if own, ok := all["preadmit"]; ok {
		given = own
	} else if err == nil && (len(all) == 0 || !bare) { // they are of other servers
		return nil
	}
	if string(given) == "null" {
		return nil
	}
	var settings bytes.Buffer
	if err := json.Compact(&settings, given); err != nil || settings.Bytes()[0] != '{' || settings.Len() > maxSettings {
		return fmt.Errorf("settings are an object of at most %d KiB, with the keys of .preadmit/config.yaml", maxSettings>>10)
	}
	s.settings = settings.String()
	for _, r := range s.repositories {
		r.host.Configure(s.settings)
	}
	return nil
}

// texts returns the texts of the open documents by their names.
func (s *repository) texts() map[string]string {
	s.state.Lock()
	defer s.state.Unlock()
	all := make(map[string]string, len(s.docs))
	for name, d := range s.docs {
		all[name] = d.text
	}
	return all
}

// uriOf returns the URI that the editor uses for a file.
func (s *repository) uriOf(name string) string {
	if d := s.docs[name]; d != nil {
		return d.uri
	}
	return s.root.uri(name)
}
