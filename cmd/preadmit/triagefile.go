package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/tui"
)

// suppressionsPath is the file to write: the one that is asked for, or the
// repository's own. A link in a checkout must not lead it elsewhere.
func (h *triageHost) suppressionsPath() (path, display string, err error) {
	if f := h.options.suppressions; f != "" {
		return f, f, nil
	}
	dir, err := treeRoot(h.args)
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(dir, filepath.FromSlash(suppressionsFile))
	if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		if _, ok := disk.Within(dir, real); !ok {
			return "", "", fmt.Errorf("%s: its directory is a link that leads out of the repository", suppressionsFile)
		}
	}
	return path, suppressionsFile, nil
}

// Propose is what the file would be, made from what it is now.
func (h *triageHost) Propose(d tui.Decisions) (*tui.Change, error) {
	path, display, err := h.suppressionsPath()
	if err != nil {
		return nil, err
	}
	before, err := readIfThere(path)
	if err != nil {
		return nil, notWritten(display, err)
	}
	after, err := decided(display, before, d)
	if err != nil {
		return nil, err
	}
	return withDiff(&tui.Change{File: display, Before: before, After: after}), nil
}

// withDiff sets the diff of a change.
func withDiff(c *tui.Change) *tui.Change {
	c.Diff = cmp.Or(report.UnifiedDiff("a/"+c.File, c.Before, "b/"+c.File, c.After), "(the file says all of this already)")
	return c
}

// readIfThere is a file's content, nil when there is none.
func readIfThere(path string) ([]byte, error) {
	data, err := readRegular(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

// Write writes the change, unless the file has changed since. A change without content
// removes the file.
func (h *triageHost) Write(c *tui.Change) error {
	if h.options.readOnly {
		return errors.New("--readonly: nothing is written")
	}
	path, _, err := h.suppressionsPath()
	if err != nil {
		return err
	}
	return writeChange(path, c)
}

// writeChange writes a change to the file of a path.
func writeChange(path string, c *tui.Change) error {
	now, err := readIfThere(path)
	if err != nil {
		return notWritten(c.File, err)
	}
	if !bytes.Equal(now, c.Before) || (now == nil) != (c.Before == nil) {
		return tui.ErrChanged
	}
	if bytes.Equal(now, c.After) {
		return nil
	}
	if c.After == nil {
		if err := os.Remove(path); err != nil {
			return notWritten(c.File, err)
		}
		if dir := filepath.Dir(path); filepath.Base(dir) == filepath.Dir(suppressionsFile) {
			_ = os.Remove(dir) // which was made for it, unless there is something else in it
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return notWritten(c.File, err)
	}
	return writeFile(nil, path, bytesOf(c.After))
}

// decided is a suppressions file after decisions: comments and order stay, what
// is added comes last, and takes the place of what said the same before. What
// is to be removed and is not there any more is no error.
func decided(file string, data []byte, d tui.Decisions) ([]byte, error) {
	old, err := policy.ParseSuppressions(file, data)
	if err != nil {
		return nil, fmt.Errorf("nothing can be added until this is mended: %w", firstOf(err))
	}
	gone := make([]bool, len(old))
	var want []policy.Suppression
	for i, s := range old {
		gone[i] = removes(d, s)
		if !gone[i] {
			want = append(want, s)
		}
	}
	if len(want) == len(old) && len(d.Add) == 0 {
		return data, nil
	}
	want = append(want, d.Add...)
	for _, make := range []func() ([]byte, error){
		func() ([]byte, error) { return editText(data, old, gone, d.Add), nil },
		func() ([]byte, error) { return editNodes(data, gone, d.Add) },
		func() ([]byte, error) { return policy.WriteSuppressions(want), nil },
	} {
		after, err := make()
		if err == nil && after != nil && says(file, after, want) {
			return after, nil
		}
	}
	return nil, errors.New("the decisions can't be written as YAML")
}

func firstOf(err error) error {
	if all := render.Errors(err); len(all) > 0 {
		return all[0]
	}
	return err
}

// removes says whether decisions take an entry out: it is to be removed, or is
// decided anew.
func removes(d tui.Decisions, s policy.Suppression) bool {
	s.Origin = render.Span{}
	return slices.ContainsFunc(d.Remove, func(r policy.Suppression) bool {
		r.Origin = render.Span{}
		return r == s
	}) || slices.ContainsFunc(d.Add, func(a policy.Suppression) bool {
		return a.Rule == s.Rule && a.Object == s.Object && a.Path == s.Path
	})
}

// says whether a file holds these suppressions, in this order.
func says(file string, data []byte, want []policy.Suppression) bool {
	got, err := policy.ParseSuppressions(file, data)
	return err == nil && slices.EqualFunc(got, want, func(a, b policy.Suppression) bool {
		a.Origin, b.Origin = render.Span{}, render.Span{}
		return a == b
	})
}

// editText takes entries out of the lines of a file and puts others after the
// last, indented as they are, and touches nothing else. Whether that was right
// is for says to tell; nil is that it can't be done so.
func editText(data []byte, old []policy.Suppression, gone []bool, add []policy.Suppression) []byte {
	if len(old) == 0 {
		if contentEnd(strings.Split("\n"+string(data), "\n"), 0, strings.Count(string(data), "\n")+2) > 1 {
			return nil
		}
		return firstSuppressions(data, add)
	}
	newline := "\n"
	if bytes.Contains(data, []byte("\r\n")) {
		newline = "\r\n"
	}
	lines := strings.SplitAfter(string(data), "\n")
	var out strings.Builder
	next := 0
	for i := range old {
		from, to := old[i].Origin.Line-1, len(lines)
		if i+1 < len(old) {
			to = old[i+1].Origin.Line - 1
		}
		if from < next || to > len(lines) || from >= to {
			return nil
		}
		to = contentEnd(lines, from, to)
		writeLines(&out, lines[next:from])
		if !gone[i] {
			writeLines(&out, lines[from:to])
		}
		next = to
	}
	if len(add) > 0 {
		if !strings.HasSuffix(out.String(), "\n") {
			out.WriteString(newline)
		}
		dash := lines[old[0].Origin.Line-1]
		indent := dash[:len(dash)-len(strings.TrimLeft(dash, " "))]
		for l := range strings.Lines(strings.TrimPrefix(string(policy.WriteSuppressions(add)), "suppressions:\n")) {
			out.WriteString(indent + strings.TrimSuffix(l, "\n") + newline)
		}
	}
	writeLines(&out, lines[next:])
	return []byte(out.String())
}

func newlineAfter(data []byte) string {
	if len(data) == 0 || bytes.HasSuffix(data, []byte("\n")) {
		return ""
	}
	return "\n"
}

// contentEnd is where an entry ends: the comments and blank lines below belong
// to what follows.
func contentEnd(lines []string, from, to int) int {
	for to > from+1 {
		l := strings.TrimSpace(lines[to-1])
		if l != "" && l[0] != '#' {
			break
		}
		to--
	}
	return to
}

func writeLines(out *strings.Builder, lines []string) {
	for _, l := range lines {
		out.WriteString(l)
	}
}

// editNodes does it to the YAML's nodes, which keeps comments and not layout.
func editNodes(data []byte, gone []bool, add []policy.Suppression) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if list := listOf(&doc); list != nil && len(list.Content) == len(gone) {
		var kept []*yaml.Node
		for i, n := range list.Content {
			if !gone[i] {
				kept = append(kept, n)
			}
		}
		list.Content = kept
		var b bytes.Buffer
		e := yaml.NewEncoder(&b)
		e.SetIndent(2)
		if err := errors.Join(e.Encode(&doc), e.Close()); err != nil {
			return nil, err
		}
		data = b.Bytes()
	}
	if len(add) == 0 {
		return data, nil
	}
	return addSuppressions(data, add)
}
