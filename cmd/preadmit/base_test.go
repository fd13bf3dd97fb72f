package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/report"
)

// TestEditsThatChangeNothing holds that what moves lines, documents or files
// and changes no object brings nothing in, fixes nothing and asks nothing of
// the cluster, whatever is wrong with the repository.
func TestEditsThatChangeNothing(t *testing.T) {
	for _, repo := range []string{"shop", "broken"} {
		for name, edit := range map[string]func(*testing.T, string){
			"none":      func(*testing.T, string) {},
			"lines":     func(t *testing.T, dir string) { eachManifest(t, dir, blankLines) },
			"documents": func(t *testing.T, dir string) { eachManifest(t, dir, reversed) },
			"files":     moveManifests,
		} {
			t.Run(repo+"/"+name, func(t *testing.T) {
				if repo == "broken" && name != "none" && name != "lines" {
					t.Skip("errors there are about lines and files")
				}
				dir := t.TempDir()
				copyRepository(t, filepath.Join("../../testdata/repos", repo), dir)
				edit(t, dir)
				r := compared(t, dir)
				for _, c := range r.Changes {
					if !c.Unchanged {
						t.Errorf("%s %v", c.Operation, c.Object)
					}
				}
				for _, x := range slices.Concat(r.Results, r.Proposed) {
					if x.Baseline != policy.Unchanged && (repo == "shop" || x.Baseline != "") {
						t.Errorf("%s: %s %s/%s of %v: %s", x.Baseline, x.Outcome, x.Policy, x.Rule, x.Object, x.Message)
					}
				}
			})
		}
	}
}

// copyRepository copies a repository and commits it.
func copyRepository(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	repo, err := gittest.Init(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repo.CommitAll("base"); err != nil {
		t.Fatal(err)
	}
}

// compared is the report of the work tree against what was committed.
func compared(t *testing.T, dir string, args ...string) *report.Report {
	t.Helper()
	t.Chdir(dir)
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"check", "--base", "HEAD", "-o", "json"}, args...), nil, &stdout, &stderr)
	r, err := report.Read(&stdout)
	if err != nil {
		t.Fatalf("exit code %d: %v\n%s", code, err, &stderr)
	}
	return r
}

// eachManifest rewrites the plain manifests: what is neither in a chart nor
// named by a kustomization.
func eachManifest(t *testing.T, dir string, edit func(string) string) {
	t.Helper()
	for _, file := range manifests(t, dir) {
		data, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, []byte(edit(string(data))), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func manifests(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "charts" || d.Name() == ".github"):
			return fs.SkipDir
		case strings.HasSuffix(file, ".yaml") && !strings.Contains(file, "/apps/"):
			files = append(files, file)
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d manifests, %v", len(files), err)
	}
	return files
}

func blankLines(text string) string { return "# moved\n\n\n" + text }

func reversed(text string) string {
	documents := strings.Split(text, "\n---\n")
	slices.Reverse(documents)
	return strings.Join(documents, "\n---\n")
}

func moveManifests(t *testing.T, dir string) {
	t.Helper()
	for _, file := range manifests(t, dir) {
		to := filepath.Join(filepath.Dir(file), "elsewhere", "x-"+filepath.Base(file))
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file, to); err != nil {
			t.Fatal(err)
		}
	}
}
