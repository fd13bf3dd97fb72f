package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/tui"
)

// editorPath is the variable that holds the search path of the start: PATH is
// emptied, so that nothing else runs a program.
const editorPath = "PREADMIT_EDITOR_PATH"

// editor is the person's own: $VISUAL, else $EDITOR, else vi, at a line. It is
// the one program that triage starts, and only when it is asked to.
func editor(env func(string) (string, bool), file string, at render.Span) (*tui.Editor, error) {
	words, err := editorWords(env)
	if err != nil {
		return nil, err
	}
	path, _ := env(editorPath)
	program, err := lookPath(words[0], path)
	if err != nil {
		return nil, fmt.Errorf("%s: no such program: set EDITOR to your editor", words[0])
	}
	kind := editorNamed(program)
	cmd := exec.Command(program, append(words[1:], kind.at(file, max(at.Line, 1), max(at.Column, 1))...)...)
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); name != "PATH" && name != editorPath {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "PATH="+path)
	return &tui.Editor{Cmd: cmd, Window: kind.window}, nil
}

func editorWords(env func(string) (string, bool)) ([]string, error) {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		value, _ := env(name)
		if strings.TrimSpace(value) == "" {
			continue
		}
		words, err := shellWords(value)
		if err != nil || len(words) == 0 {
			return nil, fmt.Errorf("%s: %q is no command", name, value)
		}
		return words, nil
	}
	return []string{"vi"}, nil
}

// shellWords splits a command as a shell does, without expanding anything.
func shellWords(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	in, escaped := false, false
	for _, r := range s {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				words = append(words, word.String())
				word.Reset()
			}
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("unclosed quote")
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

// lookPath finds a program in a search path. One named with a directory is
// taken as it is; the working directory is never searched.
func lookPath(name, path string) (string, error) {
	if filepath.Base(name) != name {
		return filepath.Abs(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return "", exec.ErrNotFound
}

// An editorKind is how an editor is told a line, and whether it has a window of
// its own.
type editorKind struct {
	names  []string
	window bool
	at     func(file string, line, column int) []string
}

// editorKinds are those that are known; others are given the file alone.
var editorKinds = []editorKind{
	{[]string{"vi", "vim", "nvim", "view", "ex", "vile", "elvis"}, false, func(f string, l, c int) []string {
		return []string{fmt.Sprintf("+call cursor(%d,%d)", l, c), f}
	}},
	{[]string{"nano", "pico", "ne", "jed", "mg", "joe", "jmacs", "mcedit"}, false, func(f string, l, _ int) []string {
		return []string{"+" + strconv.Itoa(l), f}
	}},
	{[]string{"emacs", "emacsclient", "kak"}, false, func(f string, l, c int) []string {
		return []string{fmt.Sprintf("+%d:%d", l, c), f}
	}},
	{[]string{"hx", "helix", "micro", "zed", "subl"}, false, func(f string, l, c int) []string {
		return []string{fmt.Sprintf("%s:%d:%d", f, l, c)}
	}},
	{[]string{"code", "code-insiders", "codium", "vscodium", "cursor", "windsurf"}, true, func(f string, l, c int) []string {
		return []string{"--goto", fmt.Sprintf("%s:%d:%d", f, l, c)}
	}},
	{[]string{"idea", "goland", "pycharm", "webstorm", "gedit", "kate", "gvim"}, true, func(f string, l, _ int) []string {
		return []string{f}
	}},
}

func editorNamed(program string) editorKind {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	for _, k := range editorKinds {
		for _, n := range k.names {
			if n == name {
				k.window = k.window || n == "zed" || n == "subl"
				return k
			}
		}
	}
	return editorKind{at: func(f string, _, _ int) []string { return []string{f} }}
}
