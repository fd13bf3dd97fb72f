package schema

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

// Kinds of groups that are not built in may be anything.
func TestCorporaKinds(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "")
	known, foreign, refused := 0, 0, map[string]int{}
	for _, o := range corpora(t) {
		gvk := o.GroupVersionKind()
		err := kinds.unknown(gvk)
		switch {
		case kinds.builtins[gvk] != nil:
			known++
		case err == nil:
			foreign++
		case !kinds.groups[strings.ToLower(gvk.Group)]:
			t.Error(err)
		default:
			refused[err.Error()]++
		}
	}
	t.Logf("%d built in, %d foreign, refused: %v", known, foreign, refused)
}

const corporaRoot = "../../../shared"

// corpora are the objects in the YAML files beside the project, if there are
// any: each different one once.
func corpora(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	rendertest.SkipWithout(t, corporaRoot)
	objects, err := readCorpora()
	rendertest.OK(t, err)
	return objects
}

var readCorpora = sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
	return readManifests(corporaRoot+"/repos", corporaRoot+"/corpora")
})

// readManifests returns the objects in the YAML files of directories, each different one once.
func readManifests(dirs ...string) ([]*unstructured.Unstructured, error) {
	seen := map[string]bool{}
	var objects []*unstructured.Unstructured
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
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
			return nil, err
		}
	}
	return objects, nil
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
