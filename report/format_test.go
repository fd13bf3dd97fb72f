package report

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// goldens are the sample report in each format; the first of a format is its
// default.
var goldens = []struct {
	file, format string
	options      Options
	of           func(testing.TB) *Report
}{
	{"text", "text", Options{}, sample},
	{"text-80", "text", Options{Width: 80}, sample},
	{"text-color", "text", Options{Color: true, Hyperlinks: "file:///repo/"}, sample},
	{"text-verbose", "text", Options{Verbose: true, Width: 120}, sample},
	{"text-quiet", "text", Options{Quiet: true, FailOn: policy.Warn}, sample},
	{"text-change", "text", Options{Verbose: true}, sampleChange},
	{"text-statistics", "text", Options{Statistics: true}, sample},
	{"concise", "concise", Options{}, sample},
	{"concise-change", "concise", Options{}, sampleChange},
	{"json", "json", Options{}, sample},
	{"json-change", "json", Options{}, sampleChange},
	{"sarif", "sarif", Options{}, sample},
	{"markdown", "markdown", Options{}, sample},
	{"markdown-change", "markdown", Options{}, sampleChange},
	{"github", "github", Options{}, sample},
	{"github-change", "github", Options{}, sampleChange},
	{"junit", "junit", Options{}, sample},
	{"junit-warn", "junit", Options{FailOn: policy.Warn}, sample},
	{"junit-change", "junit", Options{}, sampleChange},
	{"gitlab", "gitlab", Options{}, sample},
	{"gitlab-change", "gitlab", Options{}, sampleChange},
	{"html", "html", Options{}, sample},
	{"html-change", "html", Options{}, sampleChange},
	{"policyreport", "policyreport", Options{}, sample},
	{"policyreport-change", "policyreport", Options{}, sampleChange},
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, g := range goldens {
		t.Run(g.file, func(t *testing.T) {
			t.Parallel()
			golden(t, g.file, write(t, g.format, g.of(t), g.options))
		})
	}
}

// A format without a golden is not tested.
func TestEveryFormatHasGolden(t *testing.T) {
	t.Parallel()
	have := make(map[string]bool)
	for _, g := range goldens {
		have[g.format] = true
	}
	for _, f := range Formats {
		if !have[f.Name] {
			t.Errorf("format %s has no golden", f.Name)
		}
		if f.Doc == "" || f.Write == nil {
			t.Errorf("format %s is not whole", f.Name)
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	rendertest.Golden(t, filepath.Join("testdata", "want."+name), string(got))
}

func write(t testing.TB, format string, r *Report, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, format, r, o); err != nil {
		t.Fatalf("write %s: %v", format, err)
	}
	return b.Bytes()
}

func TestUnknownFormat(t *testing.T) {
	t.Parallel()
	err := Write(&bytes.Buffer{}, "yaml", sample(t), Options{})
	if err == nil {
		t.Fatal("no error")
	}
	for _, f := range Formats {
		if !strings.Contains(err.Error(), f.Name) {
			t.Errorf("%q does not name %s", err, f.Name)
		}
	}
}

// What was written comes back, and every format is the same before and after.
func TestFormatsAgreeAfterRead(t *testing.T) {
	t.Parallel()
	for _, g := range goldens {
		before := g.of(t)
		after, err := Read(bytes.NewReader(write(t, "json", before, Options{})))
		rendertest.OK(t, err)
		after.Tree = before.Tree
		if diff := cmp.Diff(string(write(t, g.format, before, g.options)), string(write(t, g.format, after, g.options))); diff != "" {
			t.Errorf("%s (-before +after):\n%s", g.file, diff)
		}
	}
}

// TestOrderInMemoryDoesNotMatter holds that the order of results in memory does not
// change the output, and that writing changes no results.
func TestOrderInMemoryDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, g := range goldens {
		r, turned := g.of(t), g.of(t)
		slices.Reverse(turned.Results)
		slices.Reverse(turned.Proposed)
		before := write(t, g.format, r, g.options)
		if g.format != "json" || r.Proposed == nil { // which has proposals in the order they came
			if diff := cmp.Diff(string(before), string(write(t, g.format, turned, g.options))); diff != "" {
				t.Errorf("%s (-sorted +turned):\n%s", g.file, diff)
			}
		}
		if diff := cmp.Diff(g.of(t).Results, r.Results); diff != "" {
			t.Errorf("%s changed the report:\n%s", g.file, diff)
		}
	}
}

// A full disk is an error, whatever the format.
func TestWriterError(t *testing.T) {
	t.Parallel()
	for _, f := range Formats {
		if err := Write(full0{}, f.Name, sample(t), Options{}); err == nil {
			t.Errorf("%s: no error", f.Name)
		}
	}
}

type full0 struct{}

func (full0) Write([]byte) (int, error) { return 0, os.ErrPermission }
