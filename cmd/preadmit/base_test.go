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
	"github.com/preadmit/preadmit/render/rendertest"
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
	rendertest.OK(t, os.CopyFS(to, os.DirFS(from)))
	repo, err := gittest.Init(to)
	rendertest.OK(t, err)
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
		rendertest.OK(t, err)
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
		rendertest.OK(t, os.MkdirAll(filepath.Dir(to), 0o777))
		rendertest.OK(t, os.Rename(file, to))
	}
}

// TestChangeOfPublishedRepository makes each kind of change in a repository as
// it is published.
func TestChangeOfPublishedRepository(t *testing.T) {
	const published = "../../../shared/repos/podinfo"
	rendertest.SkipWithout(t, published)
	dir := t.TempDir()
	known := func(file string) {
		substitute(t, filepath.Join(dir, file), "    spec:\n", "    spec:\n      hostNetwork: true\n")
	}
	rendertest.OK(t, os.CopyFS(dir, os.DirFS(published)))
	known("deploy/webapp/frontend/deployment.yaml")
	known("deploy/webapp/backend/deployment.yaml")
	repo, err := gittest.Init(dir)
	rendertest.OK(t, err)
	if _, err := repo.CommitAll("base"); err != nil {
		t.Fatal(err)
	}
	known("deploy/secure/backend/deployment.yaml")                                                               // new
	known("deploy/bases/cache/deployment.yaml")                                                                  // new, in each overlay
	substitute(t, filepath.Join(dir, "deploy/webapp/frontend/deployment.yaml"), "      hostNetwork: true\n", "") // fixed
	if err := os.Remove(filepath.Join(dir, "deploy/secure/frontend/hpa.yaml")); err != nil {                     // deleted
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "kustomize"), filepath.Join(dir, "deployment")); err != nil { // renamed
		t.Fatal(err)
	}
	r := compared(t, dir, "--pack", "pod-security-baseline")

	var changes, results []string
	for _, c := range r.Changes {
		line := string(c.Operation) + " " + c.Object.Unit + " " + c.Object.Kind
		if c.From != nil {
			line += " from " + c.From.Unit
		}
		changes = append(changes, line)
	}
	for _, x := range r.Results {
		if x.Outcome == policy.Fail {
			results = append(results, string(x.Baseline)+" "+x.Rule+" "+x.Object.Unit)
		}
	}
	slices.Sort(changes)
	slices.Sort(results)
	rendertest.Equal(t, []string{
		"DELETE deploy/secure/frontend/hpa.yaml HorizontalPodAutoscaler",
		"UPDATE deploy/overlays/dev Deployment",
		"UPDATE deploy/overlays/production Deployment",
		"UPDATE deploy/overlays/staging Deployment",
		"UPDATE deploy/secure/backend/deployment.yaml Deployment",
		"UPDATE deploy/webapp/frontend/deployment.yaml Deployment",
		"UPDATE deployment Deployment from kustomize",
		"UPDATE deployment HorizontalPodAutoscaler from kustomize",
		"UPDATE deployment Service from kustomize",
	}, changes)
	rendertest.Equal(t, []string{
		"absent hostNamespaces deploy/webapp/frontend/deployment.yaml",
		"new hostNamespaces deploy/overlays/dev",
		"new hostNamespaces deploy/overlays/production",
		"new hostNamespaces deploy/overlays/staging",
		"new hostNamespaces deploy/secure/backend/deployment.yaml",
		"unchanged hostNamespaces deploy/webapp/backend/deployment.yaml",
		"unchanged hostPorts deploy/secure/frontend/deployment.yaml",
	}, results)
}

// substitute replaces the first place of a text in a file.
func substitute(t *testing.T, file, was, is string) {
	t.Helper()
	data := rendertest.ReadFile(t, file)
	text := strings.Replace(string(data), was, is, 1)
	if text == string(data) {
		t.Fatalf("%s has no %q", file, was)
	}
	rendertest.OK(t, os.Chmod(file, 0o644))
	rendertest.OK(t, os.WriteFile(file, []byte(text), 0o644))
}
