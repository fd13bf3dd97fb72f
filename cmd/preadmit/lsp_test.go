package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render/rendertest"
)

// An editor is a run of lsp that a test talks to.
type editor struct {
	t     *testing.T
	dir   string
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	id    int
	shown map[string][]string // of diagnostics, by file: RANGE SEVERITY CODE: first line of the message
	said  []string            // messages to show or to log
}

type object = map[string]any

func newEditor(t *testing.T, dir string, args ...string) *editor {
	t.Helper()
	return startEditor(t, dir, exec.Command("preadmit", append([]string{"lsp"}, args...)...))
}

// startEditor talks to a command that runs lsp, for a directory or for folders in it.
func startEditor(t *testing.T, dir string, cmd *exec.Cmd, folders ...string) *editor {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	rendertest.OK(t, err)
	e := &editor{t: t, dir: dir, cmd: cmd, shown: make(map[string][]string)}
	e.cmd.Dir, e.cmd.Stderr = t.TempDir(), os.Stderr
	e.cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
	if e.in, err = e.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	rendertest.OK(t, err)
	e.out = bufio.NewReader(out)
	rendertest.OK(t, e.cmd.Start())
	t.Cleanup(func() { e.cmd.Process.Kill(); e.cmd.Wait() })
	var workspace []object
	for _, name := range folders {
		workspace = append(workspace, object{"uri": e.uri(name), "name": name})
	}
	e.ask("initialize", object{
		"rootUri":          e.uri(""),
		"workspaceFolders": workspace,
		"capabilities":     object{"workspace": object{"workspaceEdit": object{"documentChanges": true, "resourceOperations": []string{"create"}}}, "textDocument": object{"publishDiagnostics": object{"relatedInformation": true}}},
	})
	e.notify("initialized", object{})
	return e
}

func (e *editor) uri(name string) string {
	p := filepath.ToSlash(filepath.Join(e.dir, name))
	return (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(p, "/")}).String()
}

func (e *editor) send(m object) {
	m["jsonrpc"] = "2.0"
	data, err := json.Marshal(m)
	rendertest.OK(e.t, err)
	fmt.Fprintf(e.in, "Content-Length: %d\r\n\r\n%s", len(data), data)
}

func (e *editor) notify(method string, params object) {
	e.send(object{"method": method, "params": params})
}

type lspMessage struct {
	ID     json.Number
	Method string
	Params struct {
		URI         string
		Message     string
		Diagnostics []struct {
			Range struct {
				Start, End struct{ Line, Character int }
			}
			Severity           int
			Code, Message      string
			RelatedInformation []struct{ Message string }
		}
	}
	Result json.RawMessage
	Error  *struct{ Message string }
}

// next takes a message, and keeps what it shows.
func (e *editor) next() *lspMessage {
	e.t.Helper()
	late := time.AfterFunc(time.Minute, func() { e.cmd.Process.Kill() })
	defer late.Stop()
	head, err := textproto.NewReader(e.out).ReadMIMEHeader()
	if err != nil {
		e.t.Fatalf("nothing comes: %v\n%v\n%q", err, e.shown, e.said)
	}
	n, _ := strconv.Atoi(head.Get("Content-Length"))
	data := make([]byte, n)
	if _, err := io.ReadFull(e.out, data); err != nil {
		e.t.Fatal(err)
	}
	m := new(lspMessage)
	if err := json.Unmarshal(data, m); err != nil {
		e.t.Fatalf("%v: %s", err, data)
	}
	switch m.Method {
	case "window/showMessage", "window/logMessage":
		e.said = append(e.said, m.Params.Message)
	case "textDocument/publishDiagnostics":
		name := strings.TrimPrefix(m.Params.URI, e.uri("")+"/")
		delete(e.shown, name)
		for _, d := range m.Params.Diagnostics {
			first, _, _ := strings.Cut(d.Message, "\n")
			e.shown[name] = append(e.shown[name], fmt.Sprintf("%d:%d-%d %d %s: %s", d.Range.Start.Line, d.Range.Start.Character, d.Range.End.Character, d.Severity, d.Code, first))
		}
	}
	return m
}

func (e *editor) ask(method string, params object) json.RawMessage {
	e.t.Helper()
	e.id++
	e.send(object{"id": e.id, "method": method, "params": params})
	for {
		if m := e.next(); m.Method == "" && m.ID.String() == fmt.Sprint(e.id) {
			if m.Error != nil {
				e.t.Fatalf("%s: %s", method, m.Error.Message)
			}
			return m.Result
		}
	}
}

// until waits until a file has these diagnostics.
func (e *editor) until(name string, want ...string) {
	e.t.Helper()
	for end := time.Now().Add(time.Minute); !slices.Equal(e.shown[name], want); e.next() {
		if time.Now().After(end) {
			e.t.Fatalf("%s has %q, want %q; all: %v %q", name, e.shown[name], want, e.shown, e.said)
		}
	}
}

func (e *editor) open(name, text string) {
	e.notify("textDocument/didOpen", object{"textDocument": object{"uri": e.uri(name), "languageId": "yaml", "version": 1, "text": text}})
}

func (e *editor) change(name string, version int, text string) {
	e.notify("textDocument/didChange", object{"textDocument": object{"uri": e.uri(name), "version": version}, "contentChanges": []object{{"text": text}}})
}

func (e *editor) write(name, text string) {
	e.t.Helper()
	file := filepath.Join(e.dir, name)
	rendertest.OK(e.t, os.MkdirAll(filepath.Dir(file), 0o755))
	rendertest.OK(e.t, os.WriteFile(file, []byte(text), 0o644))
}

func (e *editor) quit() {
	e.t.Helper()
	e.ask("shutdown", nil)
	e.notify("exit", nil)
	if err := e.cmd.Wait(); err != nil {
		e.t.Error(err)
	}
}

func shopCopy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	rendertest.OK(t, os.CopyFS(dir, os.DirFS("../../testdata/repos/shop")))
	rendertest.OK(t, os.Mkdir(filepath.Join(dir, ".git"), 0o755))
	return dir
}

const (
	lspPatch   = "apps/api/overlays/prod/kustomization.yaml"
	lspBackup  = "infra/backup.yaml"
	lspDenied  = "13:9-11 1 max-replicas/validations[0]: at most 10 replicas are allowed"
	lspAccepts = ".preadmit/suppressions.yaml"
)

// lspOfBackup are the diagnostics of lspBackup: those of its namespace's labels, and the warning of a policy.
var lspOfBackup = []string{
	`36:12-20 1 baseline/hostPathVolumes: violates PodSecurity "baseline:latest": hostPath volumes (volume "backups"); its pods would be rejected`,
	`36:12-20 2 restricted/restrictedVolumes: would violate PodSecurity "restricted:latest": restricted volume types (volume "backups" uses restricted volume type "hostPath")`,
	"5:2-8 2 team-label/validations[0]: workloads need a label team",
}

// TestLSP is a person who opens a kustomization, mends it without saving, breaks it,
// and accepts what is left.
func TestLSP(t *testing.T) {
	t.Parallel()
	e := newEditor(t, shopCopy(t))
	e.until(lspPatch, lspDenied)
	e.until(lspBackup, lspOfBackup...)
	text := rendertest.ReadFile(t, filepath.Join(e.dir, filepath.FromSlash(lspPatch)))
	e.open(lspPatch, string(text))
	e.notify("textDocument/didChange", object{
		"textDocument":   object{"uri": e.uri(lspPatch), "version": 2},
		"contentChanges": []object{{"range": object{"start": object{"line": 13, "character": 9}, "end": object{"line": 13, "character": 11}}, "text": "9"}},
	})
	e.until(lspPatch)
	e.change(lspPatch, 3, "# 😀\n"+strings.Replace(string(text), "count: 12", `"😀": {`, 1))
	e.until(lspPatch, "14:8-9 1 kustomize/yaml-syntax: the { that opens here is never closed")
	e.until(lspBackup, lspOfBackup...)
	if found := e.shown["apps/api/overlays/prod/ports.yaml"]; len(found) != 1 {
		t.Errorf("the patch is no object by itself, and keeps its finding: %q", found)
	}
	e.change(lspPatch, 4, string(text))
	e.until(lspPatch, lspDenied)

	at := object{"textDocument": object{"uri": e.uri(lspPatch)}, "position": object{"line": 13, "character": 10}}
	if got := string(e.ask("textDocument/hover", at)); !strings.Contains(got, `spec.replicas as rendered:\n12\n`) {
		t.Errorf("hover: %s", got)
	}
	if got := string(e.ask("textDocument/definition", at)); !strings.Contains(got, "policies/replicas.yaml") || !strings.Contains(got, `"line":17`) || !strings.Contains(got, "apps/api/base/deployment.yaml") {
		t.Errorf("definition: %s", got)
	}
	if got := string(e.ask("workspace/executeCommand", object{"command": "preadmit.explain", "arguments": []object{at}})); !strings.Contains(got, "verdict of validations[0]: fail, action deny") {
		t.Errorf("explanation: %s", got)
	}
	var actions []struct {
		Title string
		Edit  struct {
			DocumentChanges []struct {
				Kind  string
				Edits []struct{ NewText string }
			}
		}
	}
	data := e.ask("textDocument/codeAction", object{"textDocument": at["textDocument"], "range": object{"start": at["position"], "end": at["position"]}, "context": object{}})
	if err := json.Unmarshal(data, &actions); err != nil || len(actions) != 3 || actions[0].Title != "Accept max-replicas/validations[0] for Deployment shop/api" {
		t.Fatalf("%v: %s", err, data)
	}
	changes := actions[0].Edit.DocumentChanges
	if len(changes) != 2 || changes[0].Kind != "create" || len(changes[1].Edits) != 1 {
		t.Fatalf("%s", data)
	}
	accepting := changes[1].Edits[0].NewText
	e.open(lspAccepts, accepting)
	e.until(lspAccepts, "2:0-0 1 configuration: reason is required")
	e.until(lspPatch, lspDenied)
	e.change(lspAccepts, 2, strings.Replace(accepting, "# why is this accepted?", "sized by the platform", 1))
	e.until(lspPatch)
	e.until(lspAccepts)

	e.write(".preadmit/config.yaml", "pack: [best-practices]\nnonsense: true\n")
	e.until(".preadmit/config.yaml", "1:0-0 1 configuration: "+strings.TrimPrefix(e.untilSaid(`unknown key "nonsense"`), "preadmit: .preadmit/config.yaml:2: "))
	e.until(lspBackup, lspOfBackup...)
	e.write(".preadmit/config.yaml", "pack: [pod-security-restricted]\n")
	e.until(".preadmit/config.yaml")
	for len(e.shown["charts/web/values.yaml"]) < 2 { // what the pack finds, too
		e.next()
	}
	e.quit()
}

// untilSaid waits for a message that holds a text.
func (e *editor) untilSaid(text string) string {
	e.t.Helper()
	for {
		for _, s := range e.said {
			if strings.Contains(s, text) {
				return s
			}
		}
		e.next()
	}
}
