package schema

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Other people's manifests are completed as the API server completes them.
func TestCorporaAsTheOracle(t *testing.T) {
	t.Parallel()
	kinds, err := New(nil, Options{KubeVersion: "1.36"})
	if err != nil {
		t.Fatal(err)
	}
	var requests []oracleRequest
	for _, o := range corpora(t) {
		if b := kinds.builtins[o.GroupVersionKind()]; b != nil && b.goType() != nil {
			requests = append(requests, oracleRequest{Object: o.Object})
		}
	}
	compareAll(t, kinds, requests)
}

// No manifest of other people is refused for its kind unless its version is
// gone.
func TestCorporaKinds(t *testing.T) {
	t.Parallel()
	kinds, err := New(nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]int{}
	for _, o := range corpora(t) {
		gvk := o.GroupVersionKind()
		if kinds.builtins[gvk] != nil {
			continue
		}
		if err := kinds.unknown(gvk); err != nil {
			refused[err.Error()]++
		}
	}
	for message, n := range refused {
		t.Logf("%d %s", n, message)
	}
}

// corpora are the objects in the YAML files beside the project, if there are
// any: each different one once.
func corpora(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	const root = "../../../shared"
	if _, err := os.Stat(root); err != nil {
		t.Skip("no corpora beside the project")
	}
	seen := map[string]bool{}
	var objects []*unstructured.Unstructured
	for _, dir := range []string{"repos", "corpora"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil || len(data) > 1<<20 {
				return err
			}
			for _, text := range strings.Split(string(data), "\n---") {
				if o := manifest(text); o != nil && !seen[text] {
					seen[text] = true
					objects = append(objects, o)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return objects
}

// manifest is the object that a text is, or nil.
func manifest(text string) *unstructured.Unstructured {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil
	}
	var object map[string]any
	if serverjson.Unmarshal(data, &object) != nil {
		return nil
	}
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	if _, err := schema.ParseGroupVersion(apiVersion); err != nil || apiVersion == "" || kind == "" || object["metadata"] == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: object}
}
