package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Merge implements policy.TypedKinds. The merge by a client is that of kubectl apply
// (k8s.io/kubectl/pkg/cmd/apply, Patcher.patchSimple): strategic for built-in kinds, of JSON for all others, and
// where lists have elements with the same key, which a strategic merge would drop. The difference of two manifests
// is Helm's (createPatch in helm pkg/kube).
func (k *Kinds) Merge(by policy.Method, kind schema.GroupVersionKind, was, is, live map[string]any) (map[string]any, error) {
	var manifests [3][]byte
	for i, o := range []map[string]any{was, is, live} {
		var err error
		if manifests[i], err = json.Marshal(o); err != nil {
			return nil, err
		}
	}
	before, now, stored := manifests[0], manifests[1], manifests[2]
	if b := k.builtins[kind]; b != nil && b.goType() != nil {
		if merged, err := complete(is, func() ([]byte, error) { return mergeStrategic(b.goType(), before, now, stored) }); err == nil {
			return merged, nil
		}
	} else if by == policy.ApplyDifference {
		return guarded(func() ([]byte, error) {
			patch, err := jsonpatch.CreateMergePatch(before, now)
			if err != nil {
				return nil, err
			}
			return jsonpatch.MergePatch(stored, patch)
		})
	}
	return complete(is, func() ([]byte, error) {
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(before, now, stored)
		if err != nil {
			return nil, err
		}
		return jsonpatch.MergePatch(stored, patch)
	})
}

// complete returns what merge does. There is an error if it lacks a part of the manifest.
func complete(manifest map[string]any, merge func() ([]byte, error)) (map[string]any, error) {
	merged, err := guarded(merge)
	if err == nil && !holds(merged, manifest) {
		err = errors.New("merging: a part of the manifest is not sent")
	}
	return merged, err
}

// guarded returns what merge does, or an error if it panics, as the library does about directives of a wrong type.
func guarded(merge func() ([]byte, error)) (merged map[string]any, err error) {
	defer func() {
		if crash := recover(); crash != nil {
			err = fmt.Errorf("merging: %v", crash)
		}
	}()
	sent, err := merge()
	if err == nil {
		err = serverjson.Unmarshal(sent, &merged)
	}
	return merged, err
}

func mergeStrategic(t *goType, before, now, stored []byte) ([]byte, error) {
	typed := t.new()
	fields, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(before, now, stored, fields, true)
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatch(stored, patch, typed)
}

// holds reports whether a merged value has everything of a manifest, in order. It has not if two elements of a
// list have the same key, or if the manifest has directives.
func holds(merged, manifest any) bool {
	switch want := manifest.(type) {
	case map[string]any:
		is, _ := merged.(map[string]any)
		for key, value := range want {
			if value != nil && !holds(is[key], value) {
				return false
			}
		}
		return is != nil
	case []any:
		is, ok := merged.([]any)
		for _, element := range want {
			at := slices.IndexFunc(is, func(e any) bool { return holds(e, element) })
			if at < 0 {
				return false
			}
			is = is[at+1:]
		}
		return ok
	}
	return render.Equal(merged, manifest)
}
