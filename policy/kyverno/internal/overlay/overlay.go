// Package overlay patches JSON objects as Kyverno's mutate rules do:
// patchStrategicMerge, with anchors, and patchesJson6902.
//
// The functions take an object, and a patch whose variables are substituted.
// They return a new object ([Result]) that shares nothing with their arguments.
//
// Kyverno merges with kustomize, whose schema is global to the process, and a
// kustomization may replace it. To be independent of that, the schema here is
// derived from the Go types of the built-in kinds.
package overlay

import (
	"errors"
	"fmt"

	"github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/render"
)

// A Result is the object after a patch.
type Result struct {
	Object   map[string]any
	Applied  bool     // its anchors did not skip the patch, which may still change nothing
	Pointers []string // changed and removed fields
}

// StrategicMerge applies a patchStrategicMerge. It fails if the patch does not
// fit the object.
func StrategicMerge(object map[string]any, patch any) (Result, error) {
	p, err := clone(patch, 0)
	if err != nil {
		return Result{}, err
	}
	overlay, ok := p.(map[string]any)
	if !ok {
		return Result{}, fmt.Errorf("the patch is %s, and an object is a map", render.TypeName(p))
	}
	switch overlay, err = preprocess(overlay, object); {
	case errors.As(err, new(*unmet)):
		return Result{Object: object}, nil
	case err != nil:
		return Result{}, err
	}
	after, err := cloneObject(object)
	if err != nil {
		return Result{}, err
	}
	var m merger
	merged, err := m.merge(after, overlay, shape{}, "")
	if err != nil {
		return Result{}, err
	}
	after, ok = merged.(map[string]any)
	if !ok {
		return Result{}, errors.New("the patch deletes the whole object")
	}
	return Result{Object: after, Applied: true, Pointers: m.pointers}, nil
}

// differences returns the pointers at which the object changed.
func differences(before, after map[string]any) []string { return patch.Differences(before, after) }

// maxDepth bounds the depth of objects and patches.
const maxDepth = 256

func cloneObject(object map[string]any) (map[string]any, error) {
	c, err := clone(object, 0)
	if err != nil {
		return nil, err
	}
	return c.(map[string]any), nil
}

// clone copies a JSON value.
func clone(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it nests deeper than %d levels", maxDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			c, err := clone(e, depth+1)
			if err != nil {
				return nil, err
			}
			m[k] = c
		}
		return m, nil
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			c, err := clone(e, depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = c
		}
		return list, nil
	}
	return v, nil
}
