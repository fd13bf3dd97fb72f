package triage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/report/objects"
	"github.com/preadmit/preadmit/tui"
)

// suppressionsPath returns the suppressions file to write: that of --suppressions, or the
// repository's own. It is an error if a link in the checkout leads outside the repository.
func (h *Host) suppressionsPath() (path, display string, err error) {
	if f := h.options.Suppressions; f != "" {
		return f, f, nil
	}
	dir, err := load.Root(h.args)
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(dir, filepath.FromSlash(evaluate.SuppressionsFile))
	if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		if _, ok := disk.Within(dir, real); !ok {
			return "", "", fmt.Errorf("%s: its directory is a link that leads out of the repository", evaluate.SuppressionsFile)
		}
	}
	return path, evaluate.SuppressionsFile, nil
}

// Propose returns the suppressions file with the decisions applied, and the diff.
func (h *Host) Propose(d tui.Decisions) (*tui.Change, error) {
	path, display, err := h.suppressionsPath()
	if err != nil {
		return nil, err
	}
	before, err := readIfThere(path)
	if err != nil {
		return nil, supervise.NotWritten(display, err)
	}
	after, err := decided(d, display, before)
	if err != nil {
		return nil, err
	}
	return withDiff(&tui.Change{File: display, Before: before, After: after}), nil
}

// decided applies decisions to the content of a suppressions file.
func decided(d tui.Decisions, display string, before []byte) ([]byte, error) {
	return policy.SuppressionEdit{Add: d.Add, Remove: d.Remove, Header: evaluate.SchemaLine("suppressions")}.Apply(display, before)
}

// withDiff sets the diff of a change.
func withDiff(c *tui.Change) *tui.Change {
	c.Diff = ""
	for _, x := range append([]*tui.Change{c}, c.More...) {
		c.Diff += objects.UnifiedDiff("a/"+x.File, x.Before, "b/"+x.File, x.After)
	}
	c.Diff = cmp.Or(c.Diff, "(the file says all of this already)")
	return c
}

// readIfThere returns a file's content, or nil if it does not exist.
func readIfThere(path string) ([]byte, error) {
	data, err := load.ReadRegular(path)
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
func (h *Host) Write(c *tui.Change) error {
	if h.readOnly {
		return errors.New("--readonly: nothing is written")
	}
	if c.Fix != "" {
		return writeFix(h.args, c)
	}
	path, _, err := h.suppressionsPath()
	if err != nil {
		return err
	}
	return writeChange(path, c)
}

// writeChange writes a change to the file at path.
func writeChange(path string, c *tui.Change) error {
	now, err := readIfThere(path)
	if err != nil {
		return supervise.NotWritten(c.File, err)
	}
	if !bytes.Equal(now, c.Before) || (now == nil) != (c.Before == nil) {
		return tui.ErrChanged
	}
	if bytes.Equal(now, c.After) {
		return nil
	}
	if c.After == nil {
		if err := os.Remove(path); err != nil {
			return supervise.NotWritten(c.File, err)
		}
		if dir := filepath.Dir(path); filepath.Base(dir) == filepath.Dir(evaluate.SuppressionsFile) {
			_ = os.Remove(dir) // removes the directory only if it is empty now
		}
		return nil
	}
	if err := supervise.WriteFile(path, supervise.Bytes(c.After)); err != nil {
		return supervise.NotWritten(path, err)
	}
	return nil
}

// NewHost returns a host for the saved report in args, or for an evaluation of the paths in args.
func NewHost(o *evaluate.Options, readOnly bool, args []string, stdin io.Reader) (*Host, error) {
	o.Accepts = true
	h := &Host{watcher: watcher{args: args}, options: o, readOnly: readOnly}
	if slices.Contains(args, "-") {
		data, err := io.ReadAll(io.LimitReader(stdin, load.MaxReport))
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		h.stdin = data
	}
	if len(args) != 1 {
		return h, nil
	}
	data := h.stdin
	if args[0] != "-" {
		data = reportIn(args[0])
	}
	if !isReport(data) {
		return h, nil
	}
	r, err := report.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	if s := r.Shard; s != nil {
		return nil, fmt.Errorf("%s: this is part %d of %d of a run: join the parts with preadmit convert -o json=report.json", args[0], s.Number, s.Of)
	}
	h.saved, h.args = args[0], nil
	return h, nil
}

// reportIn returns the content of a file if its name may be that of a report, or nil.
func reportIn(name string) []byte {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || !slices.Contains([]string{".json", ".sarif"}, strings.ToLower(ext(name))) || info.Size() > load.MaxReport {
		return nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return data
}

func ext(name string) string { return name[max(0, strings.LastIndexByte(name, '.')):] }

// isReport reports whether a file is a report of any version, or of SARIF, rather than
// manifests: it begins with the key schema, or has the key runs.
func isReport(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\uFEFF"))))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return key == "schema"
		}
		if key == "runs" {
			return true
		}
		if key == "schema" {
			return bytes.HasPrefix(value, []byte(`"preadmit.`))
		}
		if key == "apiVersion" || key == "results" {
			return false
		}
	}
	return false
}

// RepositoryPaths returns the paths that select the repository. It returns none, which means the
// working directory, if args is a saved report.
func RepositoryPaths(args []string) []string {
	if len(args) == 1 && isReport(reportIn(args[0])) {
		return nil
	}
	return args
}

// NewEditorHost returns a host for an editor, which shows no results before the end. configured
// reports whether the configuration file is unchanged since o was read from it.
func NewEditorHost(o *evaluate.Options, args []string, configured func() bool) *Host {
	return &Host{watcher: watcher{args: args}, options: o, quiet: true, configured: configured}
}
