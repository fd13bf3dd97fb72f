package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report"
)

// A finding is a row of a table in testdata/repos/*/README.md: what is wrong
// there on purpose, and the line a person would edit.
type finding struct{ rule, action, object, place string }

// TestShop holds what check says about a repository against what its README says
// is wrong with it.
func TestShop(t *testing.T) {
	tables := findings(t, "../../testdata/repos/shop")
	if len(tables) != 4 {
		t.Fatalf("%d tables, want 4", len(tables))
	}
	all := append([]string{}, "check", ".")
	tree, prod := tables[:2:2], tables[3]
	for _, c := range []struct {
		name string
		args []string
		want [][]finding
		not  string // a rule that the values given satisfy
	}{
		{"tree", all, tree, ""},
		{"pack", append(all, "--pack", "pod-security-baseline"), append(tree, tables[2]), ""},
		{"prod", append(all, "-f", "charts/web/values-prod.yaml"), append(tree, prod), "require-limits/validations[0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := make(map[finding]bool)
			for _, table := range c.want {
				for _, f := range table {
					if f.rule != c.not {
						want[f] = true
					}
				}
			}
			got := make(map[finding]bool)
			for _, x := range checked(t, "../../testdata/repos/shop", exitDenied, c.args...).Results {
				if x.Outcome == policy.Pass || x.Outcome == policy.Skip {
					continue
				}
				got[found(x)] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("README -, check +:\n%s", diff)
			}
		})
	}
}

// TestBroken holds that each broken thing is an error at its place, and that
// none hides the others.
func TestBroken(t *testing.T) {
	table := rows(t, "../../testdata/repos/broken/README.md", 3)
	r := checked(t, "../../testdata/repos/broken", exitDenied, "check", ".", "--pack", "pod-security-baseline")
	got := make(map[string]bool)
	denied := 0
	for _, x := range r.Results {
		switch {
		case x.Outcome == policy.Error:
			got[fmt.Sprintf("%s:%d", x.Origins[0].File, x.Origins[0].Line)] = true
		case x.Outcome == policy.Fail && x.Action == policy.Deny:
			denied++
		}
	}
	want := make(map[string]bool)
	for _, f := range table {
		want[strings.Trim(f[1], "`")] = true
	}
	// A parser notices an open quote where the file ends.
	if got["manifests/syntax.yaml:7"] {
		delete(got, "manifests/syntax.yaml:7")
		got["manifests/syntax.yaml:6"] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("README -, check +:\n%s", diff)
	}
	if denied != 2 { // the API server refuses the policy that does not compile
		t.Errorf("%d denied: manifests/fine.yaml must be, whatever is broken beside it", denied)
	}
}

// checked runs a command line in a copy of a repository and returns its report.
func checked(t *testing.T, repo string, code int, args ...string) *report.Report {
	t.Helper()
	dir := t.TempDir()
	rendertest.OK(t, os.CopyFS(dir, os.DirFS(repo)))
	t.Chdir(dir)
	var stdout, stderr bytes.Buffer
	if got := run(context.Background(), append(args, "-o", "json"), strings.NewReader(""), &stdout, &stderr); got != code {
		t.Fatalf("exit code %d, want %d: %s", got, code, stderr.String())
	}
	r, err := report.Read(&stdout)
	rendertest.OK(t, err)
	return r
}

func found(x policy.Result) finding {
	f := finding{rule: x.Policy + "/" + x.Rule, action: string(x.Action)}
	group, _, ok := strings.Cut(x.Object.APIVersion, "/")
	if !ok {
		group = ""
	}
	f.object = strings.Join([]string{group, x.Object.Kind, x.Object.Namespace, x.Object.Name}, "/")
	if len(x.Origins) > 0 {
		f.place = x.Origins[0].File + ":" + strconv.Itoa(x.Origins[0].Line)
	}
	return f
}

// findings reads the tables of a repository's README, and holds that the text
// at each place is what the table says.
func findings(t *testing.T, repo string) [][]finding {
	t.Helper()
	var tables [][]finding
	last := -2
	for _, row := range rows(t, path.Join(repo, "README.md"), 5) {
		line, _ := strconv.Atoi(row[5])
		if line != last+1 {
			tables = append(tables, nil)
		}
		last = line
		f := finding{rule: unquote(row[0]), action: row[1], object: unquote(row[2]), place: unquote(row[3])}
		holds(t, repo, f.place, unquote(row[4]))
		tables[len(tables)-1] = append(tables[len(tables)-1], f)
	}
	return tables
}

func unquote(cell string) string { return strings.Trim(cell, "`") }

func holds(t *testing.T, repo, place, text string) {
	t.Helper()
	file, line, _ := strings.Cut(place, ":")
	data := rendertest.ReadFile(t, filepath.Join(repo, file))
	n, _ := strconv.Atoi(line)
	lines := strings.Split(string(data), "\n")
	if n < 1 || n > len(lines) || strings.TrimSpace(lines[n-1]) != text {
		t.Errorf("%s is not %q", place, text)
	}
}

// rows are the rows of a Markdown file's tables of so many columns, each with
// its line number added; heads and rules are left out.
func rows(t *testing.T, file string, columns int) [][]string {
	t.Helper()
	data := rendertest.ReadFile(t, file)
	var all [][]string
	for i, line := range strings.Split(string(data), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != columns || !strings.Contains(line, "`") {
			continue
		}
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		all = append(all, append(cells, strconv.Itoa(i)))
	}
	return all
}
