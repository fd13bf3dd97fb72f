package lsp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A fakeHost finds the word bad in texts.
type fakeHost struct {
	mu       sync.Mutex
	err      error
	block    chan struct{} // if set, an evaluation waits until it is closed or the evaluation is ended
	blocked  chan struct{} // if set, receives a value when an evaluation begins to wait
	stopped  int           // evaluations that were ended
	accepts  []Acceptance  // of each finding
	closed   atomic.Bool
	settings chan string // what Configure gets
}

func (h *fakeHost) Evaluate(ctx context.Context, texts map[string]string, tell func(Progress)) ([]Finding, error) {
	h.mu.Lock()
	block, blocked, err := h.block, h.blocked, h.err
	h.mu.Unlock()
	if block != nil {
		tell(Progress{"rendering", 1})
		if blocked != nil {
			blocked <- struct{}{}
		}
		select {
		case <-block:
		case <-ctx.Done():
			h.mu.Lock()
			h.stopped++
			h.mu.Unlock()
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	var found []Finding
	for name, text := range texts {
		if i := strings.Index(text, "bad"); i >= 0 {
			at := Range{UTF16.positionAt(text, i), UTF16.positionAt(text, i+3)}
			found = append(found, Finding{Place: Place{File: name, Range: at}, Severity: Error, Rule: "no/bad", Message: "this is bad", Hover: "all about bad", Result: &policy.Result{}, Accept: h.accepts})
		}
	}
	return found, nil
}

func (h *fakeHost) Watch(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (h *fakeHost) Explain(ctx context.Context, f *Finding, _ map[string]string) (string, error) {
	if strings.Contains(f.File, "slow") {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return "since it is " + f.Rule, nil
}

func (h *fakeHost) Accept(context.Context, policy.Suppression, map[string]string) (*Change, error) {
	if h.accepts == nil {
		return nil, errors.New("no")
	}
	return &Change{File: "accepted.yaml", After: "it\n"}, nil
}

// Uses says that good becomes better, and Matches that something on its line matches.
func (h *fakeHost) Uses(_ context.Context, at Place, texts map[string]string) (*Uses, error) {
	i := strings.Index(texts[at.File], "good")
	if i < 0 {
		return nil, nil
	}
	r := Range{UTF16.positionAt(texts[at.File], i), UTF16.positionAt(texts[at.File], i+4)}
	return &Uses{Range: r, Fields: []string{"better"}, More: 2, Places: []Place{{File: at.File, Range: r}, {File: at.File, Range: r}, {File: "../b"}}}, nil
}

func (h *fakeHost) Matches(_ context.Context, at Place, texts map[string]string) ([]Place, error) {
	if strings.Contains(texts[at.File], "policy") {
		return []Place{{File: "c.yaml"}}, nil
	}
	return nil, nil
}

// Complete offers what may follow x.
func (h *fakeHost) Complete(context.Context, Place, map[string]string) ([]policy.Completion, error) {
	return []policy.Completion{
		{Name: "name", Kind: policy.NameField, Type: "string", Kinds: []schema.GroupVersionKind{{Version: "v1", Kind: "Pod"}}},
		{Name: "size", Kind: policy.NameFunction, Type: "list.size() -> int\nmap.size() -> int", Doc: "its size"},
	}, nil
}

// Inspect finds the word poor in texts.
func (h *fakeHost) Inspect(_ context.Context, texts map[string]string) (found []Finding, err error) {
	for name, text := range texts {
		if strings.Contains(text, "poor") {
			found = append(found, Finding{Place: Place{File: name}, Severity: Warning, Message: "this is poor"}, Finding{Place: Place{File: "closed.yaml"}, Message: "not open"})
		}
	}
	return found, nil
}

func (h *fakeHost) Close() { h.closed.Store(true) }

func (h *fakeHost) Configure(settings string) { h.settings <- settings }

func (h *fakeHost) Fix(_ context.Context, f *Finding, texts map[string]string) ([]Fix, error) {
	text := texts[f.File]
	return []Fix{
		{"Set x: good (safe)", true, []Change{{File: f.File, Before: text, After: strings.ReplaceAll(text, "bad", "good")}, {File: "b.yaml", Before: "bad\r\n", After: "good\r\n"}}},
		{"Lead outside", false, []Change{{File: "../b.yaml", Before: "bad", After: "good"}}},
	}, nil
}

// A client is an editor.
type client struct {
	t   *testing.T
	in  io.WriteCloser
	out *reader
	end chan int
	id  int
}

func newClient(t *testing.T, h Host) *client {
	t.Helper()
	fromEditor, in := io.Pipe()
	out, toEditor := io.Pipe()
	c := &client{t: t, in: in, out: newReader(out), end: make(chan int, 1)}
	go func() {
		c.end <- Serve(context.Background(), fromEditor, toEditor, Options{Open: func(string, Encoding, func(string)) (Host, string, error) { return h, "/repo", nil }})
		toEditor.Close()
	}()
	return c
}

func (c *client) raw(text string) { fmt.Fprintf(c.in, "Content-Length: %d\r\n\r\n%s", len(text), text) }

func (c *client) notify(method, params string) {
	c.raw(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
}

// until returns the next message for which a condition holds.
func (c *client) until(holds func(*message) bool) *message {
	c.t.Helper()
	late := time.AfterFunc(20*time.Second, func() { c.in.Close() })
	defer late.Stop()
	for {
		m, err := c.out.next()
		if err != nil {
			c.t.Fatal("it does not come: ", err)
		}
		if holds(m) {
			return m
		}
	}
}

func (c *client) ask(method, params string) *message {
	c.t.Helper()
	c.id++
	c.raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.id, method, params))
	return c.until(func(m *message) bool { return string(m.ID) == fmt.Sprint(c.id) && m.Method == "" })
}

func (c *client) published() publishDiagnosticsParams {
	c.t.Helper()
	m := c.until(func(m *message) bool { return m.Method == "textDocument/publishDiagnostics" })
	var p publishDiagnosticsParams
	rendertest.OK(c.t, json.Unmarshal(m.Params, &p))
	return p
}

func (c *client) open(name, text string) {
	c.notify("textDocument/didOpen", fmt.Sprintf(`{"textDocument":{"uri":"file:///repo/%s","version":1,"text":%q}}`, name, text))
}

func (c *client) change(name string, version int, text string) {
	c.notify("textDocument/didChange", fmt.Sprintf(`{"textDocument":{"uri":"file:///repo/%s","version":%d},"contentChanges":[{"text":%q}]}`, name, version, text))
}

const initialize = `{"rootUri":"file:///repo","capabilities":{"window":{"workDoneProgress":true}}}`

func started(t *testing.T, h Host) *client {
	t.Helper()
	c := newClient(t, h)
	if m := c.ask("initialize", initialize); m.Error != nil {
		t.Fatal(m.Error)
	}
	c.notify("initialized", "{}")
	return c
}

// TestConversation is a person who opens a file, mends it and leaves.
func TestConversation(t *testing.T) {
	t.Parallel()
	c := started(t, &fakeHost{})
	c.open("a.yaml", "x: 😀 bad\n")
	p := c.published()
	if len(p.Diagnostics) != 1 || p.Diagnostics[0].Range != (Range{Position{0, 6}, Position{0, 9}}) || p.URI != "file:///repo/a.yaml" || *p.Version != 1 {
		t.Errorf("%+v", p)
	}
	const at = `{"textDocument":{"uri":"file:///repo/a.yaml"},"position":{"line":0,"character":7}}`
	if m := c.ask("textDocument/hover", at); !strings.Contains(string(m.Result), "all about bad") {
		t.Errorf("hover: %s", m.Result)
	}
	if m := c.ask("textDocument/hover", strings.Replace(at, `"line":0`, `"line":1`, 1)); string(m.Result) != "null" {
		t.Errorf("hover elsewhere: %s", m.Result)
	}
	if m := c.ask("workspace/executeCommand", `{"command":"preadmit.explain","arguments":[`+at+`]}`); string(m.Result) != `"since it is no/bad"` {
		t.Errorf("explain: %s", m.Result)
	}
	if m := c.ask("textDocument/codeAction", `{"textDocument":{"uri":"file:///repo/a.yaml"},"range":{},"context":{}}`); !strings.Contains(string(m.Result), "Explain no/bad") {
		t.Errorf("actions: %s %v", m.Result, m.Error)
	}
	const fix = `{"title":"Set x: good (safe)","kind":"quickfix.fix","diagnostics":[`
	const edit = `"isPreferred":true,"edit":{"changes":{"file:///repo/a.yaml":[{"range":{"start":{"line":0,"character":0},"end":{"line":1,"character":0}},"newText":"x: 😀 good\n"}],"file:///repo/b.yaml":[{"range":{"start":{"line":0,"character":0},"end":{"line":1,"character":0}},"newText":"good\r\n"}]}}`
	if m := c.ask("textDocument/codeAction", `{"textDocument":{"uri":"file:///repo/a.yaml"},"range":{},"context":{}}`); !strings.HasPrefix(string(m.Result), "["+fix) || !strings.Contains(string(m.Result), edit) || strings.Contains(string(m.Result), "outside") {
		t.Errorf("fixes: %s", m.Result)
	}
	c.change("a.yaml", 2, "x: good\n")
	if p := c.published(); len(p.Diagnostics) != 0 || *p.Version != 2 {
		t.Errorf("%+v", p)
	}
	if m := c.ask("shutdown", "null"); string(m.Result) != "null" {
		t.Errorf("shutdown: %+v", m)
	}
	c.notify("exit", "null")
	if code := <-c.end; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestPlacesOfValues holds what hover, definition and references answer about a value and a policy, and
// that problems of policies are shown as long as their file is open.
func TestPlacesOfValues(t *testing.T) {
	t.Parallel()
	c := started(t, &fakeHost{})
	c.open("a.yaml", "bad\n😀: good, poor\n")
	c.published() // bad
	if p := c.published(); len(p.Diagnostics) != 2 || p.Diagnostics[1].Message != "this is poor" || p.Diagnostics[1].Severity != Warning {
		t.Errorf("%+v", p)
	}
	const at = `{"textDocument":{"uri":"file:///repo/%s"},"position":{"line":%d,"character":5},"context":{}}`
	ask := func(method, file string, line int) string {
		return string(c.ask("textDocument/"+method, fmt.Sprintf(at, file, line)).Result)
	}
	const good = `{"start":{"line":1,"character":4},"end":{"line":1,"character":8}}`
	if got := ask("hover", "a.yaml", 1); got != `{"contents":{"kind":"plaintext","value":"becomes better\nand 2 more"},"range":`+good+`}` {
		t.Error(got)
	}
	if got := ask("hover", "a.yaml", 0); !strings.Contains(got, `all about bad\n\n---\n\nbecomes better`) {
		t.Error(got)
	}
	for _, method := range []string{"definition", "references"} {
		if got := ask(method, "a.yaml", 1); got != `[{"uri":"file:///repo/a.yaml","range":`+good+`}]` {
			t.Error(got)
		}
	}
	c.open("d.yaml", "x\r\n😀😀 x.na\n")
	const edit = `"textEdit":{"range":{"start":{"line":1,"character":7},"end":{"line":1,"character":9}},"newText":`
	if got := string(c.ask("textDocument/completion", `{"textDocument":{"uri":"file:///repo/d.yaml"},"position":{"line":1,"character":9}}`).Result); got !=
		`[{"label":"name","kind":5,"detail":"string","documentation":"only for v1 Pod",`+edit+`"name"}},`+
			`{"label":"size","kind":3,"detail":"list.size() -\u003e int","documentation":"its size\n\nmap.size() -\u003e int",`+edit+`"size"}}]` {
		t.Error(got)
	}
	c.open("b.yaml", "policy\n")
	if got := ask("references", "b.yaml", 0); !strings.Contains(got, "c.yaml") {
		t.Error(got)
	}
	if got := ask("definition", "b.yaml", 0); got != "[]" {
		t.Error(got)
	}
	c.notify("textDocument/didClose", `{"textDocument":{"uri":"file:///repo/a.yaml"}}`)
	if p := c.published(); p.URI != "file:///repo/a.yaml" || len(p.Diagnostics) != 0 {
		t.Errorf("%+v", p)
	}
}

// TestFolders holds that each repository among the editor's folders has a host, which ends with its last
// folder, that a repository in another one is a part of that, and that documents move with folders.
func TestFolders(t *testing.T) {
	t.Parallel()
	fromEditor, in := io.Pipe()
	out, toEditor, err := os.Pipe() // has a buffer, so that neither side waits for the other
	rendertest.OK(t, err)
	var mu sync.Mutex
	opened := make(map[string][]*fakeHost)
	live := func(dir string) (h *fakeHost) {
		mu.Lock()
		defer mu.Unlock()
		for _, x := range opened[dir] {
			if !x.closed.Load() {
				if h != nil {
					t.Errorf("%s has two hosts", dir)
				}
				h = x
			}
		}
		return h
	}
	c := &client{t: t, in: in, out: newReader(out), end: make(chan int, 1)}
	go func() {
		c.end <- Serve(context.Background(), fromEditor, toEditor, Options{Open: func(folder string, _ Encoding, _ func(string)) (Host, string, error) {
			if strings.Contains(folder, "gone") {
				return nil, "", errors.New("there is no such folder")
			}
			mu.Lock()
			defer mu.Unlock()
			dir := strings.TrimSuffix(folder, "/sub")
			h := &fakeHost{settings: make(chan string, 9)}
			opened[dir] = append(opened[dir], h)
			return h, dir, nil
		}})
		toEditor.Close()
	}()
	folders := func(names ...string) string {
		all := []string{}
		for _, name := range names {
			all = append(all, fmt.Sprintf(`{"uri":"file:///%s","name":""}`, name))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	open := func(name, text string) {
		c.notify("textDocument/didOpen", fmt.Sprintf(`{"textDocument":{"uri":"file:///%s","version":1,"text":%q}}`, name, text))
	}
	move := func(added, removed string) {
		c.notify("workspace/didChangeWorkspaceFolders", `{"event":{"added":`+added+`,"removed":`+removed+`}}`)
	}
	published := func(uri string, n int) {
		t.Helper()
		if p := c.published(); p.URI != "file:///"+uri || len(p.Diagnostics) != n {
			t.Errorf("%+v, want %d in %s", p, n, uri)
		}
	}
	c.raw(`{"id":"x","method":"initialize","params":{"workspaceFolders":` + folders("a", "b", "b/sub", "b/c", "gone") + `}}`)
	if m := c.until(func(m *message) bool { return m.Method == "window/showMessage" }); !strings.Contains(string(m.Params), "/gone: there is no such folder") {
		t.Errorf("%s", m.Params)
	}
	if m := c.until(func(m *message) bool { return string(m.ID) == `"x"` }); m.Error != nil {
		t.Fatal(m.Error)
	}
	c.notify("initialized", "{}")
	open("a/x.yaml", "bad\n")
	published("a/x.yaml", 1)
	open("b/c/x.yaml", "bad\n")
	published("b/c/x.yaml", 1)
	open("d/x.yaml", "bad\n")
	c.until(func(m *message) bool { return strings.Contains(string(m.Params), "is in no folder of the editor") })
	c.notify("workspace/didChangeConfiguration", `{"settings":{"preadmit":{"pack":[]}}}`)
	b := live("/b")
	if live("/b/c") != nil || live("/a") == nil || b == nil {
		t.Fatal("the repository in another one has a host, or the others have none")
	}
	for _, h := range []*fakeHost{live("/a"), b} {
		if got := <-h.settings; got != `{"pack":[]}` {
			t.Error(got)
		}
	}

	move("[]", folders("b")) // its other folder stays
	move(folders("d"), folders("a"))
	published("a/x.yaml", 0)
	open("d/y.yaml", "bad\n")
	published("d/y.yaml", 1)
	c.notify("textDocument/didChange", `{"textDocument":{"uri":"file:///d/x.yaml","version":2},"contentChanges":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":0}},"text":"bad "}]}`)
	if live("/a") != nil || live("/b") != b || live("/d") == nil {
		t.Fatal("the wrong hosts are closed")
	}
	if got := <-live("/d").settings; got != `{"pack":[]}` {
		t.Error(got)
	}
	move(folders("b/c"), folders("b/sub", "b/c")) // now by itself, with its document
	published("b/c/x.yaml", 0)
	published("b/c/x.yaml", 1)
	if got := c.ask("textDocument/hover", `{"textDocument":{"uri":"file:///b/c/x.yaml"},"position":{}}`); !strings.Contains(string(got.Result), "all about bad") {
		t.Errorf("%s", got.Result)
	}
	if live("/b") != nil {
		t.Error("a repository without a folder has a host")
	}
	c.ask("shutdown", "null")
	c.notify("exit", "null")
	if code := <-c.end; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestSettings holds which settings the host gets, and which ones are a message.
func TestSettings(t *testing.T) {
	t.Parallel()
	h := &fakeHost{settings: make(chan string, 1)}
	c := newClient(t, h)
	c.ask("initialize", `{"rootUri":"file:///repo","initializationOptions":{"preadmit": {"a": 1.30}}}`)
	if got := <-h.settings; got != `{"a":1.30}` {
		t.Error(got)
	}
	for given, want := range map[string]string{
		`{"preadmit": {"pack": ["x"]}}`: `{"pack":["x"]}`, `{"gopls": {}}`: "", `{"preadmit": {}, "yaml": {"a": 1}}`: "{}",
		`null`: "", `{}`: "", `{"preadmit": null}`: "",
		`[]`: "!", `"x"`: "!", `{"preadmit": 3}`: "!", `{"preadmit": {"a": "` + strings.Repeat("x", maxSettings) + `"}}`: "!",
	} {
		c.notify("workspace/didChangeConfiguration", `{"settings":`+given+`}`)
		if want == "!" {
			c.until(func(m *message) bool { return strings.Contains(string(m.Params), "settings are an object") })
			continue
		}
		c.ask("textDocument/hover", `{"textDocument":{"uri":"file:///repo/a.yaml"}}`)
		got := ""
		select {
		case got = <-h.settings:
		default:
		}
		if got != want {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
	}
	c = newClient(t, h)
	c.raw(`{"id":"0","method":"initialize","params":{"rootUri":"file:///repo","initializationOptions":[]}}`)
	c.until(func(m *message) bool {
		return m.Method == "window/showMessage" && strings.Contains(string(m.Params), "initializationOptions: settings are an object")
	})
}

// TestKindsOfActions holds that an editor can ask for some actions of a line only.
func TestKindsOfActions(t *testing.T) {
	t.Parallel()
	c := started(t, &fakeHost{accepts: []Acceptance{{Title: "Accept no/bad"}}})
	c.open("a.yaml", "bad\n")
	c.published()
	all := []string{"quickfix.fix", "quickfix.accept", "quickfix.explain"}
	for only, want := range map[string][]string{
		`[]`: all, `["quickfix"]`: all,
		`["quickfix.explain"]`: {"quickfix.explain"}, `["source","quickfix.fix"]`: {"quickfix.fix"},
		`["quickfix.accept"]`: {"quickfix.accept"}, `["quickfix.fi"]`: nil, `["source"]`: nil,
	} {
		m := c.ask("textDocument/codeAction", `{"textDocument":{"uri":"file:///repo/a.yaml"},"range":{},"context":{"only":`+only+`}}`)
		var actions []codeAction
		rendertest.OK(t, json.Unmarshal(m.Result, &actions))
		var got []string
		for _, a := range actions {
			got = append(got, a.Kind)
		}
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("only %s: %q, want %q", only, got, want)
		}
	}
}

// TestExplanationIsShown holds that a chosen explanation is a document, if the editor can open one,
// and else a message. The document is removed at the end.
func TestExplanationIsShown(t *testing.T) {
	t.Parallel()
	const text = "since it is no/bad"
	explain := func(c *client) {
		c.open("a.yaml", "bad\n")
		c.published()
		c.raw(`{"id":"explain","method":"workspace/executeCommand","params":{"command":"preadmit.explain","arguments":[{"textDocument":{"uri":"file:///repo/a.yaml"},"position":{}},"no/bad"]}}`)
	}
	isMessage := func(m *message) bool {
		return m.Method == "window/showMessage" && strings.Contains(string(m.Params), text)
	}
	c := started(t, &fakeHost{})
	explain(c)
	c.until(isMessage)

	for _, answer := range []string{`"result":{"success":true}`, `"result":{"success":false}`, `"result":null`, `"error":{"code":-32601,"message":"no"}`} {
		c := newClient(t, &fakeHost{})
		c.ask("initialize", `{"rootUri":"file:///repo","capabilities":{"window":{"showDocument":{"support":true}}}}`)
		c.notify("initialized", "{}")
		explain(c)
		m := c.until(func(m *message) bool { return m.Method != "" })
		var p struct{ URI string }
		rendertest.OK(t, json.Unmarshal(m.Params, &p))
		file, err := pathOf(p.URI)
		rendertest.OK(t, err)
		if got := rendertest.ReadFile(t, file); m.Method != "window/showDocument" || string(got) != text {
			t.Errorf("%s: %s: %q", m.Method, p.URI, got)
		}
		c.until(func(m *message) bool { return string(m.ID) == `"explain"` && string(m.Result) == `"`+text+`"` })
		c.raw(fmt.Sprintf(`{"id":%s,%s}`, m.ID, answer))
		if !strings.Contains(answer, "true") {
			c.until(isMessage)
		}
		c.raw(`{"id":"end","method":"shutdown"}`)
		c.until(func(m *message) bool {
			if m.Method == "window/showMessage" {
				t.Errorf("%s: it is shown twice: %s", answer, m.Params)
			}
			return string(m.ID) == `"end"`
		})
		c.notify("exit", "null")
		<-c.end
		if _, err := os.Stat(filepath.Dir(file)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", filepath.Dir(file), err)
		}
	}
}

// TestChangeEndsEvaluation holds that a change ends the running evaluation, except
// for the first, and that the previous findings stay after an error.
func TestChangeEndsEvaluation(t *testing.T) {
	t.Parallel()
	h := &fakeHost{block: make(chan struct{})}
	c := started(t, h)
	m := c.until(func(m *message) bool { return m.Method == "window/workDoneProgress/create" }) // it takes long
	c.raw(fmt.Sprintf(`{"id":%s,"result":null}`, m.ID))
	c.until(func(m *message) bool { return m.Method == "$/progress" })
	c.open("a.yaml", "bad")
	time.Sleep(2 * settle)
	h.mu.Lock()
	if h.stopped != 0 {
		t.Error("the first evaluation was ended")
	}
	h.mu.Unlock()
	close(h.block)
	c.published()

	h.mu.Lock()
	h.block, h.blocked = make(chan struct{}), make(chan struct{}, 1)
	h.mu.Unlock()
	c.change("a.yaml", 2, "better")
	<-h.blocked
	h.mu.Lock()
	h.block, h.err = nil, errors.New("conf.yaml:3: what is this?")
	h.mu.Unlock()
	c.change("a.yaml", 3, "bad again")
	if p := c.published(); p.URI != "file:///repo/a.yaml" || len(p.Diagnostics) != 1 {
		t.Errorf("%+v", p)
	}
	if p := c.published(); p.URI != "file:///repo/conf.yaml" || len(p.Diagnostics) != 1 || p.Diagnostics[0].Range.Start.Line != 2 || p.Diagnostics[0].Message != "what is this?" {
		t.Errorf("%+v", p)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped != 1 {
		t.Errorf("%d evaluations were ended", h.stopped)
	}
}

// TestHostileMessages holds that no message ends the server, and each request has an answer.
func TestHostileMessages(t *testing.T) {
	t.Parallel()
	c := newClient(t, &fakeHost{})
	if m := c.ask("textDocument/hover", "{}"); m.Error == nil || m.Error.Code != serverNotInitialized {
		t.Errorf("%+v", m)
	}
	for _, params := range []string{`{"rootUri":"file://server/share"}`, `{"rootUri":"https://example.org"}`, `[]`, `{"rootUri":3}`} {
		if m := c.ask("initialize", params); m.Error == nil || m.Error.Code != invalidParams {
			t.Errorf("initialize %s: %+v", params, m)
		}
	}
	c.ask("initialize", initialize)
	c.notify("initialized", "{}")
	failed := func(code int) {
		t.Helper()
		c.until(func(m *message) bool { return m.Error != nil && m.Error.Code == code })
	}
	c.raw(`{"a":`)
	failed(parseError)
	c.raw(strings.Repeat("[", 100_000))
	failed(parseError)
	c.raw(`[{"jsonrpc":"2.0","id":1,"method":"shutdown"}]`)
	failed(parseError)
	c.raw(`{"id":{"a":1},"method":"shutdown"}`)
	failed(invalidRequest)
	io.WriteString(c.in, "Content-Length: 12345678901234567890\r\n\r\n")
	failed(invalidRequest)
	io.WriteString(c.in, "Content-Length: -1\r\n\r\n")
	failed(invalidRequest)
	io.WriteString(c.in, "no header\r\n\r\n"+strings.Repeat("x", 3*maxHeader)+"\n")
	io.WriteString(c.in, fmt.Sprintf("content-type: x\r\ncontent-length: %d\r\n\r\n", maxMessage+1))
	io.CopyN(c.in, zeros{}, maxMessage+1)
	failed(invalidRequest)
	for method, params := range map[string]string{
		"textDocument/didOpen": `[1]`, "textDocument/didChange": `{"textDocument":{"uri":"file:///etc/passwd"}}`, "textDocument/didClose": `{"textDocument":{"uri":"untitled:1"}}`,
	} {
		c.notify(method, params)
		c.until(func(m *message) bool {
			return m.Method == "window/logMessage" && strings.Contains(string(m.Params), method)
		})
	}
	c.notify("unknown/notification", "{}")
	c.raw(`{"id":77,"result":{}}`)
	for method, code := range map[string]int{"unknown/request": methodNotFound, "workspace/executeCommand": invalidParams, "initialize": invalidRequest} {
		if m := c.ask(method, "{}"); m.Error == nil || m.Error.Code != code {
			t.Errorf("%s: %+v", method, m)
		}
	}
	c.open("large.yaml", strings.Repeat("bad ", maxTexts/4+1))
	c.until(func(m *message) bool {
		return m.Method == "window/logMessage" && strings.Contains(string(m.Params), "large.yaml is checked as it was saved")
	})
	c.open("slow.yaml", "bad")
	c.published()
	c.raw(`{"id":"x","method":"workspace/executeCommand","params":{"command":"preadmit.explain","arguments":[{"textDocument":{"uri":"file:///repo/slow.yaml"},"position":{}}]}}`)
	c.notify("$/cancelRequest", `{"id":"x"}`)
	failed(requestCancelled)
	c.in.Close()
	if code := <-c.end; code != 1 {
		t.Errorf("an editor that is gone: exit code %d", code)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// locked is a buffer that goroutines may still write to.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// FuzzServe holds that no input ends the server before its end, and that all it sends
// are messages.
func FuzzServe(f *testing.F) {
	frame := func(bodies ...string) string {
		var b strings.Builder
		for _, body := range bodies {
			fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
		}
		return b.String()
	}
	begin := frame(`{"id":1,"method":"initialize","params":` + initialize + `}`)
	f.Add(begin + frame(`{"id":2,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///repo/a"},"position":{"line":1}}}`))
	f.Add(begin + frame(`{"method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///repo/a","text":"é😀\r\nx"}}}`,
		`{"method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///repo/a"},"contentChanges":[{"range":{"start":{"line":-1},"end":{"line":9,"character":9}},"text":"y"}]}}`))
	f.Add("Content-Length: 99999999999\r\n\r\n{}")
	f.Add("\r\n\r\nContent-Length:2\n\n[]")
	f.Add(frame(`{"id":"\ud800","method":"shutdown"}`, `{"method":"exit"}`))
	f.Fuzz(func(t *testing.T, input string) {
		var out locked
		code := Serve(t.Context(), strings.NewReader(input), &out, Options{Open: func(string, Encoding, func(string)) (Host, string, error) { return &fakeHost{}, "/repo", nil }})
		if code != 0 && code != 1 {
			t.Fatal(code)
		}
		out.mu.Lock()
		defer out.mu.Unlock()
		for r := (&reader{bufio.NewReader(bytes.NewReader(out.b.Bytes()))}); ; {
			m, err := r.next()
			if err == io.EOF {
				return
			}
			if err != nil || m.JSONRPC != "2.0" || m.Method == "" && len(m.Result) == 0 == (m.Error == nil) {
				t.Fatalf("%v: %+v\n%q", err, m, out.b.String())
			}
		}
	})
}
