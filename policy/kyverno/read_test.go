package kyverno

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
)

// corpora is other people's data, beside the project where it is there at all.
const corpora = "../../../shared/corpora"

// parse reads the objects of a test, which have to be free of errors.
func parse(t testing.TB, file, text string) []*render.Object {
	t.Helper()
	objects, err := render.Parse(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestPublishedPolicies holds that what Kyverno accepts is accepted: it called
// no published policy invalid.
func TestPublishedPolicies(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(corpora); err != nil {
		t.Skip("no corpora beside the project")
	}
	for _, dir := range []string{
		"upstream/kyverno-policies", "upstream/kyverno-cli", "kyverno-policies", "kyverno-cli", "kyverno-chainsaw",
		"kyverno-policies-chainsaw", "kyverno-traps",
	} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			policies, exceptions := 0, 0
			for _, file := range yamlFiles(t, filepath.Join(corpora, dir)) {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				objects, _ := render.Parse(strings.TrimPrefix(file, corpora+"/"), data)
				p, e, err := read(objects)
				if err != nil {
					t.Errorf("%s: %v", file, err)
				}
				policies, exceptions = policies+len(p), exceptions+len(e)
			}
			t.Logf("%d policies, %d exceptions", policies, exceptions)
			if policies == 0 {
				t.Error("no policies found")
			}
		})
	}
}

func yamlFiles(t testing.TB, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if ext := filepath.Ext(path); err == nil && !d.IsDir() && (ext == ".yaml" || ext == ".yml") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
