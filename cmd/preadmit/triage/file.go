package triage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/disk"
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
	c.Diff = cmp.Or(objects.UnifiedDiff("a/"+c.File, c.Before, "b/"+c.File, c.After), "(the file says all of this already)")
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
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return supervise.NotWritten(c.File, err)
	}
	if err := supervise.WriteFile(path, supervise.Bytes(c.After)); err != nil {
		return supervise.NotWritten(path, err)
	}
	return nil
}
