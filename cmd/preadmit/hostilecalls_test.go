//go:build linux

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/render/rendertest"
)

// hostileCalls is a tree that has every engine and renderer connect to a port, run a
// program, or read a file outside of the tree.
func hostileCalls(at, secret string) map[string]string {
	url := "http://" + at
	return files(
		".git/HEAD", "ref: refs/heads/main\n",
		"good.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {hostPID: true, containers: [{name: a, image: a}]}\n",
		"chart/Chart.yaml", chartFile+"dependencies: [{name: d, version: 1.0.0, repository: "+url+"}]\n",
		"chart/templates/a.yaml", `{{ getHostByName "localhost" }}{{ .Files.Get "`+secret+`" }}{{ .Files.Get "../../../../../../..`+secret+`" }}`,
		"schema/Chart.yaml", chartFile, "schema/values.schema.json", `{"$ref": "`+url+`/s.json", "allOf": [{"$ref": "file://`+secret+`"}]}`, "schema/templates/a.yaml", fineObject,
		"kust/kustomization.yaml", "resources: ["+url+"/a.yaml, git::"+url+"/a.git, "+secret+", ../../../../../../../.."+secret+"]\ncrds: ["+url+"/crd.json]\nconfigMapGenerator: [{name: a, files: ["+secret+"]}]\nhelmCharts: [{name: c, repo: "+url+", version: 1.0.0}]\n",
		"plugin/kustomization.yaml", "generators: [g.yaml]\ntransformers: [g.yaml]\n", "plugin/g.yaml", "apiVersion: e.com/v1\nkind: G\nmetadata: {name: g, annotations: {config.kubernetes.io/function: \"exec: {path: /bin/sh}\"}}\n",
		"policies/a.rego", "package main\nimport rego.v1\ndeny contains x if { x := http.send({\"method\": \"get\", \"url\": \""+url+"\"}).status_code }\ndeny contains x if { x := net.lookup_ip_addr(\"localhost\")[_] }\ndeny contains x if { json.match_schema({}, {\"$ref\": \""+url+"\"}); x := opa.runtime().env }\n",
		"policies/k.yaml", "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: k}\nspec:\n  validationFailureAction: Enforce\n  rules:\n  - name: r\n    match: {any: [{resources: {kinds: [Pod]}}]}\n    context: [{name: a, apiCall: {service: {url: \""+url+"\"}, method: GET}}, {name: i, imageRegistry: {reference: \""+at+"/a:b\"}}]\n    validate: {message: m, deny: {conditions: [{key: \"{{ a }}{{ i }}\", operator: Equals, value: x}]}}\n",
		"app/app.yaml", strings.NewReplacer("https://github.com/example/repo", url+"/r.git", "path: apps", "path: ../../../../etc").Replace(application),
		"app/jsonnet.yaml", strings.Replace(application, "path: apps,", "path: app/jsonnet, directory: {jsonnet: {libs: [/etc]}},", 1), "app/jsonnet/a.jsonnet", "importstr \""+secret+"\"\n",
		"flux/source.yaml", strings.Replace(gitSource, "https://github.com/example/repo", url+"/r.git", 1), "flux/k.yaml", fluxKustomization,
		".preadmit/config.yaml", ownRepository,
	)
}

var (
	connects = regexp.MustCompile(`\b(?:socket|connect|sendto|sendmsg)\([^)]*(?:AF_INET|AF_UNIX)`)
	executes = regexp.MustCompile(`\bexecve\("([^"]*)", \["([^"]*)"`)
	opens    = regexp.MustCompile(`\bopen(?:at2?)?\((?:(?:AT_FDCWD|\d+)(?:<([^>]*)>)?, )?"([^"]*)"`)
)

// A tracedTree is a tree of hostile calls beside a secret, and the log of what runs over it
// call.
type tracedTree struct {
	dir, other string
	preadmit   string
	trace      []string // a command that writes to log
	log        string
	connected  *atomic.Int32
}

const canary = "canary-5d1f0a"

func newTracedTree(t *testing.T) *tracedTree {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace on PATH: what processes do is not seen")
	}
	preadmit, err := exec.LookPath("preadmit")
	rendertest.OK(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { listener.Close() })
	tr := &tracedTree{dir: t.TempDir(), other: t.TempDir(), preadmit: preadmit, log: filepath.Join(t.TempDir(), "log"), connected: new(atomic.Int32)}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			tr.connected.Add(1)
			c.Close()
		}
	}()
	secret := filepath.Join(tr.other, "secret.yaml")
	writeFiles(t, tr.other, files("secret.yaml", "a: "+canary+"\n", "bin/git", "#!/bin/sh\n"))
	writeFiles(t, tr.dir, hostileCalls(listener.Addr().String(), secret))
	rendertest.OK(t, os.Symlink(secret, filepath.Join(tr.dir, "link.yaml")))
	tr.trace = []string{strace, "-qq", "-f", "-y", "-s", "300", "-e", "trace=network,execve,open,openat,openat2", "-o", tr.log, preadmit}
	return tr
}

// check fails for calls that connect, run a program or open a file outside of the tree.
func (tr *tracedTree) check(t *testing.T) {
	t.Helper()
	trace, err := os.ReadFile(tr.log)
	if err != nil {
		t.Skipf("strace: %v", err)
	}
	read := 0
	for line := range strings.Lines(string(trace)) {
		checkCall(t, line, tr.preadmit)
		switch name := opened(line); {
		case name == "":
		case within(tr.dir, name):
			read++
		case within(tr.other, name), within("/etc", name) && !ofLinker(name):
			t.Errorf("opens %s", line)
		}
	}
	if read == 0 {
		t.Error("no file of the tree is opened")
	}
	if n := tr.connected.Load(); n > 0 {
		t.Errorf("%d connections", n)
	}
}

// TestHostileCalls holds that no input has a run connect, start a program or open a
// file outside of the tree, also where the kernel does not forbid it.
func TestHostileCalls(t *testing.T) {
	t.Parallel()
	tr := newTracedTree(t)
	cmd := exec.Command(tr.trace[0], append(tr.trace[1:], "check", "--sandbox=off", "--no-cache", "-p", "policies", "--pack", "pod-security-baseline")...)
	cmd.Dir = tr.dir
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), canary) {
		t.Errorf("the secret is told:\n%s", out)
	}
	tr.check(t)
	if code := cmd.ProcessState.ExitCode(); code != exitIncomplete {
		t.Errorf("exit code %d: %v\n%s", code, err, out)
	}
}

// TestHostileCallsOfEditor holds the same for lsp, also for documents that an editor names.
func TestHostileCallsOfEditor(t *testing.T) {
	t.Parallel()
	tr := newTracedTree(t)
	e := startEditor(t, tr.dir, exec.Command(tr.trace[0], append(tr.trace[1:], "lsp", "--sandbox=off", "--no-cache", "--policy", "policies", "--pack", "pod-security-baseline")...))
	for _, name := range []string{"kust/kustomization.yaml", "good.yaml"} {
		text := rendertest.ReadFile(t, filepath.Join(tr.dir, name))
		e.open(name, string(text)+"# edited\n")
	}
	for len(e.shown["good.yaml"]) == 0 {
		e.next()
	}
	for _, uri := range []string{e.uri("link.yaml"), e.uri("../secret.yaml"), "file://" + filepath.Join(tr.other, "secret.yaml"), "file:///etc/passwd", "http://" + "127.0.0.1/a.yaml"} {
		at := object{"textDocument": object{"uri": uri}, "position": object{"line": 0, "character": 1}}
		e.notify("textDocument/didOpen", object{"textDocument": object{"uri": uri, "languageId": "yaml", "version": 1, "text": "a: b\n"}})
		e.id++
		e.send(object{"id": e.id, "method": "textDocument/hover", "params": at})
		for answered := false; !answered; {
			m := e.next()
			answered = m.Method == "" && m.ID.String() == strconv.Itoa(e.id)
			if strings.Contains(string(m.Result), canary) {
				t.Errorf("the secret is told: %s", m.Result)
			}
		}
	}
	at := object{"textDocument": object{"uri": e.uri("good.yaml")}, "position": object{"line": 3, "character": 10}}
	e.ask("textDocument/hover", at)
	e.quit()
	tr.check(t)
}

// checkCall fails for a traced call that connects, or starts a program other than the
// given ones and children.
func checkCall(t *testing.T, line string, programs ...string) {
	t.Helper()
	if connects.MatchString(line) {
		t.Errorf("connects: %s", line)
	}
	if m := executes.FindStringSubmatch(line); m != nil && !slices.Contains(programs, m[1]) && m[2] != supervise.Marker {
		t.Errorf("runs %s", line)
	}
}

// opened returns the path of the file that a traced call opens, or "".
func opened(line string) string {
	m := opens.FindStringSubmatch(line)
	if m == nil || strings.Contains(line, "ENOENT") {
		return ""
	}
	if filepath.IsAbs(m[2]) {
		return m[2]
	}
	return filepath.Join(m[1], m[2])
}

// ofLinker reports whether a file of /etc is read by the dynamic linker or for the
// time zone.
func ofLinker(name string) bool {
	return filepath.Base(name) == "localtime" || strings.HasPrefix(filepath.Base(name), "ld.so")
}

// TestHostileCorpusCalls holds the same for the cases of ../shared/hostile. The cases are
// those of the areas in PREADMIT_HOSTILE, such as yaml,git, whose name has the word
// behind a colon, if there is one.
func TestHostileCorpusCalls(t *testing.T) {
	areas, word, _ := strings.Cut(os.Getenv("PREADMIT_HOSTILE"), ":")
	if areas == "" {
		t.Skip("takes long: PREADMIT_HOSTILE names the areas of hostile cases to trace")
	}
	runner, err := filepath.Abs("../../../shared/hostile/run")
	if _, statErr := os.Stat(runner); err != nil || statErr != nil {
		t.Skip("no ../shared/hostile")
	}
	preadmit, err := exec.LookPath("preadmit")
	rendertest.OK(t, err)
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace on PATH: what processes do is not seen")
	}
	scratch := t.TempDir()
	unconfined := filepath.Join(scratch, "preadmit")
	tracer := filepath.Join(scratch, "bin", "strace") // the runner's PATH is that directory alone
	writeFiles(t, scratch, files(
		"preadmit", "#!/bin/sh\ncommand=$1; shift\nexec "+preadmit+" \"$command\" --sandbox=off \"$@\"\n",
		"bin/strace", "#!/bin/sh\nexec "+strace+" --seccomp-bpf -y \"$@\"\n"))
	for _, name := range []string{unconfined, tracer} {
		rendertest.OK(t, os.Chmod(name, 0o755))
	}
	out, err := exec.Command(runner, unconfined, scratch, "-a", areas, "-k", word, "--trace", "--keep").CombinedOutput()
	t.Logf("%s%v", out, err)
	logs, _ := filepath.Glob(filepath.Join(scratch, "r", "*", "out", "strace"))
	if len(logs) == 0 {
		t.Fatal("no case was traced")
	}
	outside := filepath.Join(scratch, "outside")
	calls := 0
	for _, log := range logs {
		dir := filepath.Dir(filepath.Dir(log))
		data := rendertest.ReadFile(t, log)
		for line := range strings.Lines(string(data)) {
			calls++
			checkCall(t, line, unconfined, preadmit)
			name := opened(line)
			if name == "" || within(dir, name) || slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(d string) bool { return within(d, name) }) {
				continue
			}
			named := strings.Contains(dir, "path-argument") && within(outside, name) // on the command line
			if !named && name != unconfined && name != preadmit && !ofLinker(name) && !strings.Contains(filepath.Base(name), ".so") {
				t.Errorf("%s opens %s", filepath.Base(dir), line)
			}
		}
	}
	t.Logf("%d calls of %d runs", calls, len(logs))
}

// within reports whether a path lies in a directory.
func within(dir, name string) bool {
	rel, err := filepath.Rel(dir, name)
	return err == nil && filepath.IsLocal(rel)
}
