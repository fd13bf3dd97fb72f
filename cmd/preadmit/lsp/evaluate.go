package lsp

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	settle       = 150 * time.Millisecond // an evaluation starts after this time without a change
	rest         = 500 * time.Millisecond // policies are inspected after this time without a change
	showProgress = 700 * time.Millisecond // progress of shorter evaluations is not shown
	watchAgain   = 5 * time.Second        // watch again after an error
)

// changed starts a new evaluation and cancels the running one, except the first: its renderings are
// cached and make the next ones fast.
func (s *repository) changed() {
	s.state.Lock()
	if s.stale != nil {
		s.stale()
	}
	s.state.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// keepEvaluating evaluates after each change.
func (s *repository) keepEvaluating(ctx context.Context) {
	go func() {
		for ctx.Err() == nil {
			if err := s.host.Watch(ctx); err != nil {
				pause(ctx, watchAgain)
				continue
			}
			s.changed()
			pause(ctx, time.Second) // for the evaluation to begin
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for resting := true; resting; {
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
			case <-time.After(settle):
				resting = false
			}
		}
		s.evaluate(ctx)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// evaluate evaluates once, and publishes the findings unless they are stale by then.
func (s *repository) evaluate(ctx context.Context) {
	ctx, stale := context.WithCancel(ctx)
	defer stale()
	s.state.Lock()
	if s.findings != nil {
		s.stale = stale
	}
	s.state.Unlock()
	tell, done := s.progress()
	found, err := s.host.Evaluate(ctx, s.texts(), tell)
	done()
	s.state.Lock()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.publish(s.failed(err))
	default:
		s.findings, s.shown, s.stale = s.settled(found), "", stale
		s.publish(s.findings)
	}
	s.state.Unlock()
	if err == nil {
		s.inspect(ctx)
	}
	s.state.Lock()
	s.stale = nil
	s.state.Unlock()
}

// inspect publishes problems of the policies in open files, unless something changes meanwhile.
func (s *repository) inspect(ctx context.Context) {
	if pause(ctx, rest); ctx.Err() != nil {
		return
	}
	texts := s.texts()
	problems, err := s.host.Inspect(ctx, texts)
	s.state.Lock()
	defer s.state.Unlock()
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		s.log(Warning, err.Error())
	}
	s.problems = problems
	s.publish(s.findings)
}

// settled returns the findings to publish. While an open document can't be parsed,
// files that are not open keep their previous findings.
func (s *repository) settled(found []Finding) []Finding {
	open := func(f Finding) bool { return s.docs[f.File] != nil }
	if s.findings == nil || !slices.ContainsFunc(found, func(f Finding) bool { return f.Broken && open(f) }) {
		return append([]Finding{}, found...)
	}
	kept := slices.DeleteFunc(slices.Clone(s.findings), open)
	return append(kept, slices.DeleteFunc(found, func(f Finding) bool { return !open(f) })...)
}

// failed returns the findings of the last evaluation and, if the error names a line, a finding for
// it. An error that is not visible in an open document is shown once as a message.
func (s *repository) failed(err error) []Finding {
	text, found := err.Error(), slices.Clone(s.findings)
	seen := text == s.shown
	if m := placed.FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[2])
		at := Range{Position{line - 1, 0}, Position{line, 0}}
		found = append(found, Finding{Place: Place{File: m[1], Range: at}, Severity: Error, Rule: "configuration", Message: m[3]})
		seen = seen || s.docs[m[1]] != nil
	}
	if !seen {
		if s.shown = text; len(s.repositories) > 1 {
			text = s.root.real + ": " + text
		}
		s.show(Error, text)
	}
	return found
}

// placed matches an error that begins with a file and line.
var placed = regexp.MustCompile(`^([^:\s]+):([1-9]\d{0,8})(?::\d+)?: (.*)`)

// publish sends the diagnostics of each file whose diagnostics have changed since they
// were last sent. Problems of policies are added for files that are open.
func (s *repository) publish(found []Finding) {
	found = append(slices.Clip(found), slices.DeleteFunc(slices.Clone(s.problems), func(f Finding) bool { return s.docs[f.File] == nil })...)
	files := make(map[string][]diagnostic)
	for uri := range s.sent {
		files[uri] = []diagnostic{}
	}
	for i := range found {
		if uri := s.uriOf(found[i].File); uri != "" {
			files[uri] = append(files[uri], s.diagnostic(&found[i]))
		} else {
			s.log(found[i].Severity, found[i].Message)
		}
	}
	versions := make(map[string]*int)
	for _, d := range s.docs {
		versions[d.uri] = d.version
	}
	for _, uri := range slices.Sorted(maps.Keys(files)) {
		p := publishDiagnosticsParams{uri, versions[uri], files[uri]}
		if now := string(encoded(p)); now != s.sent[uri] {
			s.notify("textDocument/publishDiagnostics", p)
			s.sent[uri] = now
		}
		if len(files[uri]) == 0 {
			delete(s.sent, uri)
		}
	}
}

func (s *repository) diagnostic(f *Finding) diagnostic {
	d := diagnostic{Range: f.Range, Severity: f.Severity, Code: f.Rule, Source: "preadmit", Message: f.Message}
	if f.URL != "" {
		d.CodeDescription = &codeDescription{f.URL}
	}
	if !s.client.Capabilities.TextDocument.PublishDiagnostics.RelatedInformation {
		return d
	}
	for _, p := range f.Related {
		if uri := s.uriOf(p.File); uri != "" {
			d.RelatedInformation = append(d.RelatedInformation, relatedInformation{Location{uri, p.Range}, p.Label})
		}
	}
	return d
}

// progress shows the progress of an evaluation that takes long, if the editor can.
func (s *server) progress() (tell func(Progress), done func()) {
	if !s.client.Capabilities.Window.WorkDoneProgress {
		return func(Progress) {}, func() {}
	}
	var mu sync.Mutex
	var begun, over bool
	s.state.Lock()
	s.number++
	token := fmt.Sprintf("preadmit-%d", s.number)
	s.state.Unlock()
	send := func(value map[string]any) {
		s.notify("$/progress", map[string]any{"token": token, "value": value})
	}
	late := time.AfterFunc(showProgress, func() {
		s.ask("window/workDoneProgress/create", map[string]any{"token": token}, func(m *message) {
			mu.Lock()
			defer mu.Unlock()
			if begun = m.Error == nil && !over; begun {
				send(map[string]any{"kind": "begin", "title": "preadmit", "message": "evaluating the repository"})
			}
		})
	})
	tell = func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		if begun && !over {
			send(map[string]any{"kind": "report", "message": fmt.Sprintf("%s: %d", p.Step, p.Done)})
		}
	}
	return tell, func() {
		late.Stop()
		mu.Lock()
		defer mu.Unlock()
		if over = true; begun {
			send(map[string]any{"kind": "end"})
		}
	}
}
