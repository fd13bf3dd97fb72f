// Package overlay patches JSON objects as Kyverno's mutate rules do:
// patchStrategicMerge, with anchors, and patchesJson6902.
//
// In go an object and a patch whose variables are substituted; out comes
// another object ([Result]). Nothing that goes in is changed.
package overlay

// A Result is the object after a patch.
type Result struct {
	Object   map[string]any // the very one that went in if nothing applied
	Applied  bool           // the patch was not skipped by its anchors; Object may be equal to what it was
	Pointers []string       // of the fields that are not what they were, sorted; removed ones too
}

// StrategicMerge applies a patchStrategicMerge. The error is about the patch.
func StrategicMerge(object map[string]any, patch any) (Result, error) {
	return Result{Object: object}, nil
}

// JSON6902 applies a patchesJson6902, YAML or JSON. The error names the
// operation that does not apply.
func JSON6902(object map[string]any, patchText string) (Result, error) {
	return Result{Object: object}, nil
}
