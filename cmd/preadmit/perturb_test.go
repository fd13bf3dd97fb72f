package main

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// otherValues are what fields are set to in turn.
var otherValues = []any{
	nil, "", "x", "kube-system", int64(0), int64(-1), int64(100000), 1.5, true, false, []any{}, map[string]any{}, []any{"x", int64(1)}, map[string]any{"a": "b"}, "100Mi", "2",
}

// perturbed are an object's likes that differ in one place: each field left out
// or set to other values, elements of lists doubled and others put beside them,
// names and namespaces changed.
func perturbed(object map[string]any, most int) []map[string]any {
	all := []map[string]any{object}
	seen := map[string]bool{toJSON(object): true}
	add := func(change func(map[string]any) bool) {
		c := runtime.DeepCopyJSON(object)
		if !change(c) {
			return
		}
		if key := toJSON(c); !seen[key] {
			seen[key] = true
			all = append(all, c)
		}
	}
	for _, path := range pathsOf(object, nil) {
		add(func(o map[string]any) bool { return leaveOut(o, path) })
		for _, v := range otherValues {
			add(func(o map[string]any) bool { return setAt(o, path, runtime.DeepCopyJSONValue(v)) })
		}
		add(func(o map[string]any) bool { return doubled(o, path) })
	}
	for _, ns := range []string{"default", "kube-system", "production", ""} {
		add(func(o map[string]any) bool { return setAt(o, []any{"metadata", "namespace"}, ns) })
	}
	if len(all) <= most {
		return all
	}
	return evenly(all, most)
}

// evenly keeps the first and some of the others, equally far apart.
func evenly[T any](all []T, most int) []T {
	kept := make([]T, 0, most)
	for i := range most {
		kept = append(kept, all[i*len(all)/most])
	}
	return kept
}

// pathsOf are the places in a value, but what an object is.
func pathsOf(v any, at []any) [][]any {
	var paths [][]any
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if len(at) == 0 && (k == "apiVersion" || k == "kind") {
				continue
			}
			child := append(slices.Clone(at), k)
			paths = append(append(paths, child), pathsOf(v[k], child)...)
		}
	case []any:
		for i := range v {
			child := append(slices.Clone(at), i)
			paths = append(append(paths, child), pathsOf(v[i], child)...)
		}
	}
	return paths
}

// parent is what holds the last step of a path; nil where it is not there.
func parent(o map[string]any, path []any) any {
	var v any = o
	for _, step := range path[:len(path)-1] {
		switch now := v.(type) {
		case map[string]any:
			v = now[fmt.Sprint(step)]
		case []any:
			v = now[step.(int)]
		default:
			return nil
		}
	}
	return v
}

func leaveOut(o map[string]any, path []any) bool {
	switch holder := parent(o, path).(type) {
	case map[string]any:
		delete(holder, path[len(path)-1].(string))
		return true
	case []any:
		i := path[len(path)-1].(int)
		return len(path) > 1 && setAt(o, path[:len(path)-1], slices.Delete(slices.Clone(holder), i, i+1))
	}
	return false
}

func setAt(o map[string]any, path []any, v any) bool {
	switch holder := parent(o, path).(type) {
	case map[string]any:
		holder[path[len(path)-1].(string)] = v
		return true
	case []any:
		holder[path[len(path)-1].(int)] = v
		return true
	}
	return false
}

// doubled puts another element beside one of a list: the same with a name of
// its own and nothing else, or the same again.
func doubled(o map[string]any, path []any) bool {
	holder, ok := parent(o, path).([]any)
	if !ok {
		return false
	}
	other := runtime.DeepCopyJSONValue(holder[path[len(path)-1].(int)])
	if m, ok := other.(map[string]any); ok && m["name"] != nil {
		other = map[string]any{"name": "another", "image": "example.com/other:latest"}
	}
	return setAt(o, path[:len(path)-1], append(slices.Clone(holder), other))
}

func TestPerturbed(t *testing.T) {
	t.Parallel()
	docs, err := render.Documents("o.yaml", []byte("kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: b, image: c}]}\n"), render.YAML11)
	rendertest.OK(t, err)
	object := docs[0].Value.(map[string]any)
	before := toJSON(object)
	all := perturbed(object, 1000)
	has := make(map[string]bool)
	for _, o := range all {
		has[toJSON(o)] = true
	}
	for _, want := range []string{
		before, `{"kind":"Pod","metadata":{},"spec":{"containers":[{"image":"c","name":"b"}]}}`, `{"kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[]}}`,
		`{"kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"image":"c","name":"b"},{"image":"example.com/other:latest","name":"another"}]}}`,
		`{"kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"b"}]}}`, `{"kind":"Pod","metadata":{"name":"a","namespace":"kube-system"},"spec":{"containers":[{"image":"c","name":"b"}]}}`,
	} {
		if !has[want] {
			t.Errorf("no %s", want)
		}
	}
	if len(has) != len(all) || toJSON(object) != before || len(perturbed(object, 10)) != 10 {
		t.Errorf("%d of %d differ; the object is %s", len(has), len(all), toJSON(object))
	}
}
