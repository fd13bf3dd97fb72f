//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestLSPSupervised holds that the server outlives its children: a unit that takes too
// much is set apart, at its place, and a child that is killed is replaced, with the text
// of open documents.
func TestLSPSupervised(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {containers: [{name: a, image: a, securityContext: {privileged: false}}]}\n"
	for name, text := range map[string]string{
		".git/HEAD":                "ref: refs/heads/main\n",
		"good.yaml":                pod,
		"large/Chart.yaml":         "apiVersion: v2\nname: large\nversion: 0.1.0\n",
		"large/templates/all.yaml": "{{- range until 100 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x{{ . }}}\ndata: {a: \"{{ repeat 550000 \"x\" }}\"}\n{{- end }}\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		rendertest.WriteFile(t, file, text)
	}
	e := newEditor(t, dir, "--no-cache", "--task-memory", "160", "--pack", "pod-security-baseline")
	e.open("good.yaml", strings.Replace(pod, "false", "true", 1))
	for len(e.shown) < 2 {
		e.next()
	}
	if got := fmt.Sprint(e.shown); !strings.Contains(got, "needs more than 160 MiB of memory: it is skipped") || !strings.Contains(got, "baseline/privileged") {
		t.Error(got)
	}
	if said := e.untilSaid("the process that evaluates ended, and is started again"); !strings.Contains(said, "memory") {
		t.Error(said)
	}
	at := object{"textDocument": object{"uri": e.uri("good.yaml")}, "position": object{"line": 3, "character": 10}}
	for range 2 {
		if !killChild(e.cmd.Process.Pid) {
			t.Fatal("there is no child")
		}
		time.Sleep(100 * time.Millisecond)
		if got := string(e.ask("workspace/executeCommand", object{"command": "preadmit.explain", "arguments": []object{at}})); !strings.Contains(got, "securityContext.privileged=true") {
			t.Errorf("explanation: %s", got)
		}
	}
	e.quit()
}
