package lsp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// request answers a request. Requests that need the host are answered concurrently.
func (s *server) request(ctx context.Context, m *message) {
	if m.Method == "initialize" {
		err := take(m, s.initialize)
		s.respond(m.ID, s.capabilities(), err)
		return
	}
	if s.repositories == nil {
		s.respond(m.ID, nil, failf(serverNotInitialized, "%.100q comes before initialize", m.Method))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	s.state.Lock()
	s.requests[string(m.ID)] = cancel
	s.state.Unlock()
	go func() {
		defer cancel()
		result, err := s.answer(ctx, m)
		if ctx.Err() != nil {
			err = failf(requestCancelled, "cancelled")
		}
		s.state.Lock()
		delete(s.requests, string(m.ID))
		s.state.Unlock()
		s.respond(m.ID, result, err)
	}()
}

// cancel ends a request.
func (s *server) cancel(p *struct{ ID json.RawMessage }) error {
	s.state.Lock()
	defer s.state.Unlock()
	if end := s.requests[string(p.ID)]; end != nil {
		end()
	}
	return nil
}

func (s *server) answer(ctx context.Context, m *message) (result any, err error) {
	at := func(of func(*repository, context.Context, *textDocumentPositionParams) any) error {
		return take(m, func(p *textDocumentPositionParams) error {
			if r := s.of(p.TextDocument.URI); r != nil {
				result = of(r, ctx, p)
			}
			return nil
		})
	}
	switch m.Method {
	case "textDocument/hover":
		err = at((*repository).hover)
	case "textDocument/definition":
		err = at((*repository).definition)
	case "textDocument/references":
		err = at((*repository).references)
	case "textDocument/completion":
		err = at((*repository).completion)
	case "textDocument/codeAction":
		err = take(m, func(p *codeActionParams) error {
			if r := s.of(p.TextDocument.URI); r != nil {
				result = r.actions(ctx, p)
			}
			return nil
		})
	case "workspace/executeCommand":
		err = take(m, func(p *executeCommandParams) (err error) { result, err = s.execute(ctx, p); return err })
	default:
		err = failf(methodNotFound, "%.100q is not supported", m.Method)
	}
	return result, err
}

const explainCommand = "preadmit.explain"

// The kinds of code actions. An editor may ask for some of them only, so that it need not wait for
// the proofs of fixes if it does not want any.
const (
	fixKind     = "quickfix.fix"
	acceptKind  = "quickfix.accept"
	explainKind = "quickfix.explain"
)

// wants reports whether the editor asks for actions of a kind.
func (p *codeActionParams) wants(kind string) bool {
	return len(p.Context.Only) == 0 || slices.ContainsFunc(p.Context.Only, func(k string) bool {
		return k == "" || k == kind || strings.HasPrefix(kind, k+".")
	})
}

func (s *server) capabilities() any {
	return map[string]any{
		"serverInfo": map[string]string{"name": "preadmit", "version": s.Version},
		"capabilities": map[string]any{
			"positionEncoding":       s.encoding,
			"textDocumentSync":       map[string]any{"openClose": true, "change": 2, "save": map[string]any{}},
			"hoverProvider":          true,
			"definitionProvider":     true,
			"referencesProvider":     true,
			"completionProvider":     map[string]any{"triggerCharacters": []string{"."}},
			"codeActionProvider":     map[string]any{"codeActionKinds": []string{fixKind, acceptKind, explainKind}},
			"executeCommandProvider": map[string]any{"commands": []string{explainCommand}},
			"workspace":              map[string]any{"workspaceFolders": map[string]any{"supported": true, "changeNotifications": true}},
		},
	}
}

// at returns the findings on the lines of a range.
func (s *repository) at(doc textDocument, r Range) []Finding {
	name, err := s.root.name(doc.URI)
	if err != nil {
		return nil
	}
	s.state.Lock()
	defer s.state.Unlock()
	var all []Finding
	for i := range s.findings {
		if f := &s.findings[i]; f.File == name && f.Range.touches(r) {
			all = append(all, *f)
		}
	}
	return all
}

func (s *repository) on(p *textDocumentPositionParams) []Finding {
	return s.at(p.TextDocument, Range{p.Position, p.Position})
}

// hover describes the findings on a line, and what the value at the position becomes.
func (s *repository) hover(ctx context.Context, p *textDocumentPositionParams) any {
	var texts []string
	found, u := s.on(p), s.uses(ctx, p)
	for i := range found {
		texts = append(texts, found[i].Hover)
	}
	at := u.Range
	if len(found) > 0 {
		at = found[0].Range
	}
	if text := u.text(); text != "" {
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return nil
	}
	return hover{markupContent{"plaintext", strings.Join(texts, "\n\n---\n\n")}, at}
}

// uses returns what the value at a position becomes. It is empty if that is not known.
func (s *repository) uses(ctx context.Context, p *textDocumentPositionParams) (u Uses) {
	if found := answerOf(ctx, s, p, s.host.Uses); found != nil {
		u = *found
	}
	return u
}

// answerOf asks the host about a position. After an error, which is logged, the answer is empty.
func answerOf[T any](ctx context.Context, s *repository, p *textDocumentPositionParams, ask func(context.Context, Place, map[string]string) (T, error)) (answer T) {
	name, err := s.root.name(p.TextDocument.URI)
	if err == nil {
		answer, err = ask(ctx, Place{File: name, Range: Range{p.Position, p.Position}}, s.texts())
	}
	if err != nil && ctx.Err() == nil {
		s.log(Warning, err.Error())
	}
	return answer
}

// text says what a value becomes.
func (u *Uses) text() string {
	var lines []string
	for _, field := range u.Fields {
		lines = append(lines, "becomes "+field)
	}
	if u.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", u.More))
	}
	if u.Note != "" {
		lines = append(lines, u.Note)
	}
	return strings.Join(lines, "\n")
}

// definition returns the policies of the findings on a line, and the other lines that determine the same
// fields as the value at the position.
func (s *repository) definition(ctx context.Context, p *textDocumentPositionParams) any {
	var all []Place
	for _, f := range s.on(p) {
		if f.Policy != nil {
			all = append(all, *f.Policy)
		}
	}
	return s.locations(append(all, s.uses(ctx, p).Places...))
}

// references returns the places of what the policy or rule on a line matches, or else of the fields that
// the value at the position determines.
func (s *repository) references(ctx context.Context, p *textDocumentPositionParams) any {
	matched := answerOf(ctx, s, p, s.host.Matches)
	if len(matched) == 0 {
		matched = s.uses(ctx, p).Places
	}
	return s.locations(matched)
}

// itemKinds are the numbers of the specification for what names stand for.
var itemKinds = map[policy.NameKind]int{
	policy.NameField: 5, policy.NameVariable: 6, policy.NameFunction: 3, policy.NameMacro: 14, policy.NameLibrary: 9,
}

// completion returns the names that may be written in an expression of a policy, instead of the part of a name
// before the position.
func (s *repository) completion(ctx context.Context, p *textDocumentPositionParams) any {
	name, _ := s.root.name(p.TextDocument.URI)
	text := s.texts()[name]
	to := s.encoding.offsetIn(text, p.Position)
	from := to - len(wordBefore.FindString(text[max(0, to-200):to]))
	at := Range{s.encoding.positionAt(text, from), s.encoding.positionAt(text, to)}
	items := []completionItem{}
	for _, c := range answerOf(ctx, s, p, s.host.Complete) {
		signature, more, _ := strings.Cut(c.Type, "\n")
		var kinds []string
		for _, k := range c.Kinds {
			kinds = append(kinds, strings.TrimPrefix(k.GroupVersion().String()+" "+k.Kind, "/"))
		}
		if len(kinds) > 0 {
			more += "\n\nonly for " + strings.Join(kinds, ", ")
		}
		items = append(items, completionItem{
			Label: c.Name, Kind: itemKinds[c.Kind], Detail: signature, TextEdit: textEdit{at, c.Name},
			Documentation: strings.TrimSpace(c.Doc + "\n\n" + strings.TrimSpace(more)),
		})
	}
	return items
}

var wordBefore = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*$`)

// locations returns the places in the repository, each once.
func (s *repository) locations(places []Place) []Location {
	s.state.Lock()
	defer s.state.Unlock()
	all := []Location{}
	for _, p := range places {
		if at := (Location{s.uriOf(p.File), p.Range}); at.URI != "" && !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all
}

// maxFixed limits the findings of a range whose fixes are proved, since each takes an evaluation.
const maxFixed = 10

// actions returns for each finding the edits that fix it or accept it, and a command that explains it.
func (s *repository) actions(ctx context.Context, p *codeActionParams) []codeAction {
	all := []codeAction{}
	texts := s.texts()
	found := s.at(p.TextDocument, p.Range)
	for i := range found {
		f := &found[i]
		s.state.Lock()
		about := []diagnostic{s.diagnostic(f)}
		s.state.Unlock()
		var fixes []Fix
		if i < maxFixed && p.wants(fixKind) {
			var err error
			if fixes, err = s.host.Fix(ctx, f, texts); ctx.Err() != nil {
				return nil
			} else if err != nil {
				s.log(Warning, err.Error())
			}
		}
		for _, x := range fixes {
			if edit := s.editOf(x.Changes...); edit != nil {
				all = append(all, codeAction{Title: x.Title, Kind: fixKind, Diagnostics: about, IsPreferred: x.Best, Edit: edit})
			}
		}
		for _, a := range f.Accept {
			if !p.wants(acceptKind) {
				break
			}
			change, err := s.host.Accept(ctx, a.Suppression, texts)
			if err != nil {
				s.log(Warning, err.Error())
				continue
			}
			all = append(all, codeAction{Title: a.Title, Kind: acceptKind, Diagnostics: about, Edit: s.editOf(*change)})
		}
		if f.Result != nil && p.wants(explainKind) {
			title := "Explain " + f.Rule
			at := textDocumentPositionParams{p.TextDocument, f.Range.Start}
			all = append(all, codeAction{Title: title, Kind: explainKind, Diagnostics: about, Command: &command{title, explainCommand, []any{at, f.Rule}}})
		}
	}
	return all
}

// editOf converts changes to an edit that the editor supports. An editor that can't create files
// on request creates them itself. It returns nil if a file is outside of the repository.
func (s *repository) editOf(changes ...Change) *workspaceEdit {
	s.state.Lock()
	defer s.state.Unlock()
	can := s.client.Capabilities.Workspace.WorkspaceEdit
	all := &workspaceEdit{Changes: make(map[string][]textEdit)}
	for _, c := range changes {
		doc := textDocument{URI: s.uriOf(c.File)}
		if doc.URI == "" {
			return nil
		}
		if d := s.docs[c.File]; d != nil {
			doc.Version = d.version
		}
		edits := []textEdit{s.encoding.edit(c.Before, c.After)}
		if c.New && slices.Contains(can.ResourceOperations, "create") {
			all.DocumentChanges = append(all.DocumentChanges, createFile{"create", doc.URI, createFileOptions{IgnoreIfExists: true}})
		}
		all.DocumentChanges = append(all.DocumentChanges, textDocumentEdit{doc, edits})
		all.Changes[doc.URI] = edits
	}
	if can.DocumentChanges {
		all.Changes = nil
	} else {
		all.DocumentChanges = nil
	}
	return all
}

// execute explains the findings on a line: all of them, or those of one rule, whose explanation is
// also shown.
func (s *server) execute(ctx context.Context, p *executeCommandParams) (string, error) {
	var at textDocumentPositionParams
	var rule string
	if p.Command != explainCommand || len(p.Arguments) == 0 {
		return "", failf(invalidParams, "there is the command %s, with a document and a position", explainCommand)
	}
	if err := json.Unmarshal(p.Arguments[0], &at); err != nil {
		return "", failf(invalidParams, "%s: %v", explainCommand, err)
	}
	if len(p.Arguments) > 1 {
		_ = json.Unmarshal(p.Arguments[1], &rule)
	}
	var texts []string
	r := s.of(at.TextDocument.URI)
	if r == nil {
		return "", failf(invalidParams, "%.200q is in no folder of the editor", at.TextDocument.URI)
	}
	for _, f := range r.on(&at) {
		if f.Result == nil || rule != "" && f.Rule != rule {
			continue
		}
		text, err := r.host.Explain(ctx, &f, r.texts())
		if err != nil {
			return "", err
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return "", failf(invalidParams, "there is nothing to explain on this line")
	}
	text := strings.Join(texts, "\n")
	if rule != "" {
		s.showText(text)
	}
	return text, nil
}

// showText shows a long text: in a document if the editor can open one, else in a message.
func (s *server) showText(text string) {
	if !s.client.Capabilities.Window.ShowDocument.Support {
		s.show(Information, text)
		return
	}
	uri, err := s.writeTemporary(text)
	if err != nil {
		s.log(Warning, err.Error())
		s.show(Information, text)
		return
	}
	s.ask("window/showDocument", map[string]any{"uri": uri, "takeFocus": true}, func(m *message) {
		var answer struct{ Success bool }
		if m.Error != nil || json.Unmarshal(m.Result, &answer) != nil || !answer.Success {
			s.show(Information, text)
		}
	})
}

// writeTemporary writes a text to a new temporary file, and returns its URI. A file is never written twice,
// because an editor may not notice that.
func (s *server) writeTemporary(text string) (string, error) {
	s.state.Lock()
	defer s.state.Unlock()
	if s.ended {
		return "", context.Canceled
	}
	if s.temporary == "" {
		dir, err := os.MkdirTemp("", "preadmit-")
		if err != nil {
			return "", err
		}
		s.temporary = dir
	}
	s.number++
	file := filepath.Join(s.temporary, fmt.Sprintf("explanation-%d.txt", s.number))
	return uriOf(file), os.WriteFile(file, []byte(text), 0o600)
}

// removeTemporary removes the files of writeTemporary.
func (s *server) removeTemporary() {
	s.state.Lock()
	defer s.state.Unlock()
	s.ended = true
	if s.temporary != "" {
		os.RemoveAll(s.temporary)
	}
}
