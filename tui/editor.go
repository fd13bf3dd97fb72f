package tui

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/preadmit/preadmit/render"
)

// An EditorCommand starts the person's editor: Command, else $VISUAL, $EDITOR or vi. It
// is the one program that triage starts, and only when the person asks for it.
type EditorCommand struct {
	Command string   // of --editor or the settings; may be empty
	Environ []string // of the editor; its PATH is searched
}

// Open returns the editor at a place of a file.
func (e *EditorCommand) Open(file string, at render.Span) (*Editor, error) {
	words, err := e.words()
	if err != nil {
		return nil, err
	}
	program, err := lookPath(words[0], e.variable("PATH"))
	if err != nil {
		return nil, fmt.Errorf("%s: no such program: set your editor with --editor or EDITOR", words[0])
	}
	args, known := editorArgs(program, words[1:], file, max(at.Line, 1), max(at.Column, 1))
	cmd := exec.Command(program, args...)
	cmd.Env = e.Environ
	ed := &Editor{Cmd: cmd, Window: editorNamed(program).window}
	if !known && at.Line > 1 {
		ed.Note = fmt.Sprintf("; --editor '%s +{line} {file}' would open it at line %d", filepath.Base(program), at.Line)
	}
	return ed, nil
}

// variable returns the value of a variable of the environment.
func (e *EditorCommand) variable(name string) (value string) {
	for _, kv := range e.Environ {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			value = v
		}
	}
	return value
}

// editorArgs returns the arguments after the program: words with the placeholders
// {file}, {line} and {column} replaced, or those of a known editor. Other editors get
// only the file.
func editorArgs(program string, words []string, file string, line, column int) (args []string, known bool) {
	if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "{file}") }) {
		r := strings.NewReplacer("{file}", file, "{line}", strconv.Itoa(line), "{column}", strconv.Itoa(column))
		for _, w := range words {
			args = append(args, r.Replace(w))
		}
		return args, true
	}
	kind := editorNamed(program)
	if kind.at == nil {
		return append(words, file), false
	}
	return append(words, kind.at(file, line, column)...), true
}

func (e *EditorCommand) words() ([]string, error) {
	if e.Command != "" {
		return EditorWords("--editor", e.Command)
	}
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if value := e.variable(name); strings.TrimSpace(value) != "" {
			return EditorWords(name, value)
		}
	}
	return []string{"vi"}, nil
}

// EditorWords splits the command of an editor into words. from names the setting in errors.
func EditorWords(from, value string) ([]string, error) {
	words, err := shellWords(value)
	switch {
	case err != nil || len(words) == 0:
		return nil, fmt.Errorf("%s: %q is no command", from, value)
	case strings.Contains(value, "{line}") && !strings.Contains(value, "{file}"):
		return nil, fmt.Errorf("%s: %q has no {file}, so nothing would be opened", from, value)
	}
	return words, nil
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

// An editorKind describes how an editor is given a line, and whether it has a window
// of its own.
type editorKind struct {
	names  []string
	window bool
	at     func(file string, line, column int) []string
}

// editorKinds lists the known editors.
var editorKinds = []editorKind{
	{[]string{"vi", "vim", "nvim", "view", "ex", "vile", "elvis"}, false, inVim},
	{[]string{"gvim", "mvim", "neovide"}, true, inVim},
	{[]string{"nano", "pico", "ne"}, false, func(f string, l, c int) []string { return []string{fmt.Sprintf("+%d,%d", l, c), f} }},
	{[]string{"jed", "mg", "joe", "jmacs", "mcedit"}, false, func(f string, l, _ int) []string { return []string{fmt.Sprintf("+%d", l), f} }},
	{[]string{"emacs", "emacsclient", "kak", "micro"}, false, func(f string, l, c int) []string { return []string{fmt.Sprintf("+%d:%d", l, c), f} }},
	{[]string{"hx", "helix"}, false, inPath},
	{[]string{"zed", "zeditor", "subl", "lapce"}, true, inPath},
	{[]string{"code", "code-insiders", "codium", "vscodium", "cursor", "windsurf"}, true, func(f string, l, c int) []string {
		return append([]string{"--goto"}, inPath(f, l, c)...)
	}},
	{[]string{"idea", "goland", "pycharm", "webstorm", "phpstorm", "rubymine", "clion", "rider", "kate"}, true, func(f string, l, c int) []string {
		return []string{"--line", strconv.Itoa(l), "--column", strconv.Itoa(c), f}
	}},
	{[]string{"gedit", "gnome-text-editor", "xed"}, true, func(f string, l, c int) []string { return []string{fmt.Sprintf("+%d:%d", l, c), f} }},
	{[]string{"mate"}, true, func(f string, l, c int) []string { return []string{"--line", fmt.Sprintf("%d:%d", l, c), f} }},
}

func inVim(f string, l, c int) []string { return []string{fmt.Sprintf("+call cursor(%d,%d)", l, c), f} }

func inPath(f string, l, c int) []string { return []string{fmt.Sprintf("%s:%d:%d", f, l, c)} }

// editorNamed returns the kind of an editor, a zero one if it is not known.
func editorNamed(program string) editorKind {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	for _, k := range editorKinds {
		if slices.Contains(k.names, name) {
			return k
		}
	}
	return editorKind{}
}

// A lateCommand starts only when Bubble Tea's drawing loop has surely ended. A program that returns before the loop
// ends leaves the screen empty for good (github.com/charmbracelet/bubbletea/issues/1778).
type lateCommand struct{ cmd *exec.Cmd }

func (c lateCommand) Run() error {
	time.Sleep(100 * time.Millisecond)
	return c.cmd.Run()
}

func (c lateCommand) SetStdin(r io.Reader)  { c.cmd.Stdin = r }
func (c lateCommand) SetStdout(w io.Writer) { c.cmd.Stdout = w }
func (c lateCommand) SetStderr(w io.Writer) { c.cmd.Stderr = w }
