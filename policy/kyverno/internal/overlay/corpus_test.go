package overlay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/render/rendertest"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
)

// TestPublishedPatches applies the patches of published policies that hold no
// variables to the objects of their tests, and compares with what those expect.
func TestPublishedPatches(t *testing.T) {
	t.Parallel()
	root := "../../../../../shared/corpora/upstream"
	rendertest.SkipWithout(t, root)
	compared := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "kyverno-test.yaml" {
			compared += comparePublished(t, path)
		}
		return err
	})
	rendertest.OK(t, err)
	t.Logf("%d objects compared", compared)
	if compared < 20 {
		t.Error("too few objects were compared")
	}
}

type manifest = map[string]any

func manifests(t *testing.T, path string) []manifest {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var found []manifest
	for r := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		var d manifest
		if err := r.Decode(&d); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			return found
		}
		if d != nil {
			found = append(found, d)
		}
	}
}

func texts(v any) []string {
	var found []string
	list, _ := v.([]any)
	for _, e := range list {
		if s, ok := e.(string); ok {
			found = append(found, s)
		}
	}
	return found
}

func at(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

func comparePublished(t *testing.T, path string) int {
	compared, dir := 0, filepath.Dir(path)
	for _, test := range manifests(t, path) {
		read := func(key string) (found []manifest) {
			for _, file := range texts(test[key]) {
				found = append(found, manifests(t, filepath.Join(dir, file))...)
			}
			return found
		}
		policies, resources := read("policies"), read("resources")
		results, _ := test["results"].([]any)
		for _, r := range results {
			want, _ := at(r, "patchedResources").(string)
			if want == "" || at(r, "result") != "pass" {
				continue
			}
			for _, name := range texts(at(r, "resources")) {
				compared += compareOne(t, dir, r.(map[string]any), name, policies, resources, manifests(t, filepath.Join(dir, want)))
			}
		}
	}
	return compared
}

// compareOne applies every rule of a policy in turn, if it can be done without
// the rest of the engine.
func compareOne(t *testing.T, dir string, result manifest, name string, policies, resources, patched []manifest) int {
	i := slices.IndexFunc(policies, func(p manifest) bool { return at(p, "metadata", "name") == result["policy"] })
	name = name[strings.LastIndex(name, "/")+1:]
	kind, _ := result["kind"].(string)
	is := func(d manifest) bool {
		return at(d, "metadata", "name") == name && (kind == "" || d["kind"] == kind)
	}
	j, k := slices.IndexFunc(resources, is), slices.IndexFunc(patched, is)
	if i < 0 || j < 0 || k < 0 {
		return 0
	}
	if k := policies[i]["kind"]; k != "ClusterPolicy" && k != "Policy" {
		return 0
	}
	object := resources[j]
	if m, ok := object["metadata"].(map[string]any); ok && m["namespace"] == nil && at(patched[k], "metadata", "namespace") == "default" {
		m["namespace"] = "default" // as the command line does
	}
	rules, _ := at(policies[i], "spec", "rules").([]any)
	for _, rule := range rules {
		text, _ := json.Marshal(rule)
		if at(rule, "mutate", "targets") != nil || bytes.Contains(text, []byte("{{")) || bytes.Contains(text, []byte(`"preconditions"`)) {
			return 0
		}
		if !matchesKind(at(rule, "match"), object["kind"].(string)) {
			continue
		}
		var after Result
		var err error
		if psm := at(rule, "mutate", "patchStrategicMerge"); psm != nil {
			after, err = StrategicMerge(object, psm)
		} else if ops, ok := at(rule, "mutate", "patchesJson6902").(string); ok {
			after, err = JSON6902(object, ops)
		} else {
			return 0
		}
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			return 0
		}
		object = after.Object
	}
	if want := tidy(patched[k]); !reflect.DeepEqual(tidy(object), want) {
		t.Errorf("%s %s:\n%s", dir, name, cmp.Diff(want, tidy(object)))
	}
	return 1
}

func matchesKind(match any, kind string) bool {
	switch m := match.(type) {
	case map[string]any:
		for key, v := range m {
			if key == "kinds" {
				return slices.ContainsFunc(texts(v), func(s string) bool {
					return pattern.Wildcard(s[strings.LastIndex(s, "/")+1:], kind)
				})
			}
			if matchesKind(v, kind) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(m, func(e any) bool { return matchesKind(e, kind) })
	}
	return false
}

// tidy drops what is empty and makes numbers floats.
func tidy(v any) any {
	text, _ := json.Marshal(v)
	var x any
	_ = json.Unmarshal(text, &x)
	return tidied(x)
}

func tidied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for k, e := range v {
			if e = tidied(e); e != nil {
				m[k] = e
			}
		}
		if len(m) == 0 {
			return nil
		}
		return m
	case []any:
		var list []any
		for _, e := range v {
			list = append(list, tidied(e))
		}
		if len(list) == 0 {
			return nil
		}
		return list
	}
	return v
}
