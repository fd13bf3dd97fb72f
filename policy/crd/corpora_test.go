package crd_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestPublishedDefinitions evaluates the CustomResourceDefinitions of published
// repositories, which their API servers took.
func TestPublishedDefinitions(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("reads thousands of files")
	}
	definitions := publishedDefinitions("../../../shared/repos")
	if len(definitions) == 0 {
		t.Skip("no repositories here")
	}
	for _, r := range evaluate(t, "", definitions, nil, definitions) {
		if r.Outcome != policy.Pass && r.Action == policy.Deny {
			t.Errorf("%s: %s: %s", r.Policy, r.Rule, r.Message)
		}
	}
	t.Logf("%d definitions", len(definitions))
}

// publishedDefinitions are those that are complete: others are patches.
func publishedDefinitions(root string) []*render.Object {
	var found []*render.Object
	seen := map[string]bool{}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, []byte("kind: CustomResourceDefinition")) {
			return nil
		}
		objects, _ := render.Parse(path, data)
		for _, o := range objects {
			versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
			if o.GetKind() == "CustomResourceDefinition" && len(versions) > 0 && !seen[o.GetName()] {
				seen[o.GetName()] = true
				found = append(found, o)
			}
		}
		return nil
	})
	return found
}

// TestKubectlValidate gives the published verdict on definitions, word by word.
func TestKubectlValidate(t *testing.T) {
	t.Parallel()
	dir := "../../../shared/corpora/kubectl-validate/error_crd_typo"
	var cases []struct {
		Resource struct{ File string }
		Result   string
		Status   struct {
			Details struct {
				Causes []struct{ Message, Field string }
			}
		}
	}
	data := rendertest.ReadOrSkip(t, filepath.Join(dir, "expect.json"))
	rendertest.OK(t, json.Unmarshal(data, &cases))
	for _, c := range cases {
		objects := parse(t, os.DirFS(dir), c.Resource.File)
		var got strings.Builder
		for _, r := range evaluate(t, "", objects, nil, objects) {
			got.WriteString(string(r.Outcome) + " " + r.Message + "\n")
		}
		for _, cause := range c.Status.Details.Causes {
			if want := c.Result + " " + cause.Field + ": " + cause.Message; !strings.Contains(got.String(), want) {
				t.Errorf("%s: want %s, got %s", c.Resource.File, want, got.String())
			}
		}
	}
	if !t.Failed() {
		t.Logf("table kubectl-validate definitions: %d / %d", len(cases), len(cases))
	}
}
