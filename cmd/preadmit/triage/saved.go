package triage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/report"
)

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

// NewEditorHost returns a host for an editor, which shows no results before the end.
func NewEditorHost(o *evaluate.Options, args []string) *Host {
	return &Host{watcher: watcher{args: args}, options: o, quiet: true}
}
