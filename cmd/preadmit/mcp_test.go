package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestMCP talks to the server as a client of the protocol does. Each tool's answer is what its command prints.
func TestMCP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "pod.yaml")
	rendertest.WriteFile(t, file, "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  hostNetwork: true\n  containers:\n  - name: web\n    image: nginx:1\n    securityContext: {allowPrivilegeEscalation: true}\n")
	rendertest.WriteFile(t, filepath.Join(filepath.Dir(dir), "outside.yaml"), "")
	rendertest.OK(t, os.Symlink(filepath.Dir(dir), filepath.Join(dir, ".link"))) // no run walks through it
	connect := func(flags ...string) func(tool string, arguments map[string]any) (string, float64, bool) {
		cmd := exec.Command("preadmit", append([]string{"mcp", dir}, flags...)...)
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
		rendertest.OK(t, err)
		t.Cleanup(func() { session.Close() })
		return func(tool string, arguments map[string]any) (string, float64, bool) {
			t.Helper()
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
			rendertest.OK(t, err)
			outcome, _ := r.StructuredContent.(map[string]any)
			code, _ := outcome["exitCode"].(float64)
			return r.Content[0].(*mcp.TextContent).Text, code, r.IsError
		}
	}
	ask := connect()
	restricted := map[string]any{"packs": []string{"pod-security-restricted"}}
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		code      float64
		wrong     bool
		want      string
	}{
		{"check", restricted, 1, false, "--> pod.yaml:5:16"},
		{"check", map[string]any{"paths": []string{"pod.yaml"}}, 0, false, "warning: would violate"},
		{"check", map[string]any{"paths": []string{"../outside.yaml"}}, 0, true, "is not a path within the server's directory"},
		{"render", map[string]any{"paths": []string{".link/outside.yaml"}}, 0, true, "is not a path within the server's directory"},
		{"check", map[string]any{"policies": []string{".link"}}, 0, true, "is not a path within the server's directory"},
		{"check", map[string]any{"policies": []string{file}}, 0, true, "is not a path within the server's directory"},
		{"check", map[string]any{"paths": []string{"-"}}, 2, true, "-: no such file"},
		{"check", map[string]any{"base": "main"}, 2, true, "not a git repository"},
		{"explain", map[string]any{"policy": "baseline/hostNamespaces", "object": "pod/web"}, 0, false, "pod.yaml:5:16"},
		{"fix", restricted, 1, false, "+    securityContext: {allowPrivilegeEscalation: false"},
		{"fix", map[string]any{"write": true}, 0, true, "it was not started with --write"},
		{"render", map[string]any{"origins": true}, 0, false, "pod.yaml:5"},
		{"graph", nil, 0, false, "1 unit"},
	} {
		text, code, wrong := ask(c.tool, c.arguments)
		if code != c.code || wrong != c.wrong || !strings.Contains(text, c.want) {
			t.Errorf("%s %v: code %v, error %t, want %q: %s", c.tool, c.arguments, code, wrong, c.want, text)
		}
	}
	before := rendertest.ReadFile(t, file)
	if text, code, _ := connect("--write")("fix", map[string]any{"packs": []string{"pod-security-restricted"}, "write": true}); code != 0 || string(before) == string(rendertest.ReadFile(t, file)) {
		t.Errorf("code %v, not written: %s", code, text)
	}
}

// TestShortened keeps the beginning and the end of a long answer, and says how much is missing.
func TestShortened(t *testing.T) {
	rendertest.Equal(t, "short\n", shortened("short\n"))
	var long strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&long, "line %d ü\n", i)
	}
	text := long.String()
	got := shortened(text)
	head, rest, ok := strings.Cut(got, "... ")
	var left int
	_, err := fmt.Sscanf(rest, "%d bytes are left out", &left)
	rendertest.OK(t, err)
	_, tail, _ := strings.Cut(rest, " ...\n")
	if !ok || !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) || len(head)+left+len(tail) > len(text) || len(text)-len(head)-left-len(tail) > 1 || len(got) > maxAnswer+100 {
		t.Errorf("%d bytes of %d, %d left out: %.200s", len(got), len(text), left, rest)
	}
}
