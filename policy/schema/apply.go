package schema

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Merge implements policy.TypedKinds. The merge by a client is that of kubectl apply
// (k8s.io/kubectl/pkg/cmd/apply, Patcher.patchSimple): strategic for built-in kinds, of JSON for all others, and
// where lists have elements with the same key, which a strategic merge would drop. The difference of two manifests
// is Helm's (createPatch in helm pkg/kube).
func (k *Kinds) Merge(by policy.Method, kind schema.GroupVersionKind, was, is, live map[string]any) (map[string]any, error) {
	if by == policy.ApplyAsData {
		was, is, by = asData(was), asData(is), policy.ApplyServerSide
	}
	if by == policy.ApplyServerSide {
		merged, err := guarded(func() ([]byte, error) { return k.mergeServerSide(kind, was, is, live) })
		if err == nil || live == nil || errors.As(err, new(*policy.FieldError)) {
			return merged, err
		}
	}
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

// complete returns the result of merge, or an error if the result lacks a part of the manifest.
func complete(manifest map[string]any, merge func() ([]byte, error)) (map[string]any, error) {
	merged, err := guarded(merge)
	if err == nil && !holds(merged, manifest) {
		err = errors.New("merging: a part of the manifest is not sent")
	}
	return merged, err
}

// guarded returns the result of merge. A panic becomes an error: the library panics if a directive has a wrong type.
func guarded(merge func() ([]byte, error)) (merged map[string]any, err error) {
	defer func() {
		if crash := recover(); crash != nil {
			err = fmt.Errorf("merging: %v", crash)
		}
	}()
	sent, err := merge()
	if err == nil && sent != nil {
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

// mergeServerSide is the merge of server-side apply (structuredMergeManager.Apply in k8s.io/apimachinery), by the
// manager that applied the manifest before.
func (k *Kinds) mergeServerSide(kind schema.GroupVersionKind, was, is, live map[string]any) ([]byte, error) {
	c, err := k.TypeConverter(kind)
	if c == nil {
		return nil, errors.Join(errors.New("no schema is known"), err)
	}
	version := kind.GroupVersion().String()
	now, err := c.ObjectToTyped(&unstructured.Unstructured{Object: is})
	custom := k.customs[kind.GroupKind()]
	switch {
	case err != nil || live == nil && custom == nil:
		return nil, refusedPatch(is, err)
	case live == nil:
		return nil, custom.refuseNulls(is, kind.Version)
	}
	first := &unstructured.Unstructured{Object: maps.Clone(was)}
	first.SetAPIVersion(version) // the conversion of custom resources changes nothing else
	before, err := c.ObjectToTyped(first)
	if err != nil {
		return nil, err
	}
	stored, err := c.ObjectToTyped(&unstructured.Unstructured{Object: live}, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	owned, err := before.ToFieldSet()
	if err != nil {
		return nil, err
	}
	managers := fieldpath.ManagedFields{"": fieldpath.NewVersionedSet(owned, fieldpath.APIVersion(version), true)}
	updater := (&merge.UpdaterBuilder{Converter: oneVersion{}, ReturnInputOnNoop: true}).BuildUpdater()
	result, _, err := updater.Apply(stored, now, fieldpath.APIVersion(version), managers, "", true)
	if err != nil {
		return nil, err
	}
	merged := result.AsValue().Unstructured()
	if object, ok := merged.(map[string]any); ok && custom != nil {
		err = custom.refuseNulls(object, kind.Version)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(merged)
}

// asData returns a Secret with its stringData in data: normalizeSecret of github.com/fluxcd/pkg/ssa/normalize.
func asData(secret map[string]any) map[string]any {
	moved, data := maps.Clone(secret), make(map[string]any)
	if own, ok := secret["data"].(map[string]any); ok {
		maps.Copy(data, own)
	}
	texts, _ := secret["stringData"].(map[string]any)
	for key, text := range texts {
		text, ok := text.(string)
		if !ok {
			return secret // its type is wrong
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	moved["data"] = data
	delete(moved, "stringData")
	return moved
}

// refusedPatch returns the errors for which the API server refuses a manifest that is applied server-side.
// Validators report unknown fields.
func refusedPatch(manifest any, err error) error {
	var faults typed.ValidationErrors
	var all refusals
	errors.As(err, &faults)
	for _, f := range faults {
		if f.ErrorMessage != "field not declared in schema" {
			text := policy.Shorten("failed to create typed patch object: "+f.Error(), policy.MaxMessage)
			all = append(all, fieldError(errors.New(text), pointerTo(manifest, f.Path+strings.TrimPrefix(f.ErrorMessage, "duplicate entries for key "))))
		}
	}
	if len(all) == 0 {
		return err
	}
	return all[:min(len(all), maxRefusals)]
}

// pointerTo converts a path of structured-merge-diff, such as .containers[name="c"].env, to the JSON pointer of a
// value in v: of several the last, and if there is none, the value that would hold it.
func pointerTo(v any, path string) (pointer string) {
	for path != "" {
		var key any
		switch x := v.(type) {
		case map[string]any:
			name := ""
			for k := range x { // keys may have dots
				if rest, ok := strings.CutPrefix(path, "."+k); ok && len(k) > len(name) && (rest == "" || strings.ContainsRune(".[", rune(rest[0]))) {
					name = k
				}
			}
			key, path = name, strings.TrimPrefix(path, "."+name)
			if v = x[name]; v == nil {
				return pointer
			}
		case []any:
			at, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
			i := lastWith(x, at)
			if !ok || i < 0 {
				return pointer
			}
			key, path, v = i, rest, x[i]
		default:
			return pointer
		}
		pointer += render.Pointer(key)
	}
	return pointer
}

// lastWith returns the index of the last element of a list that has keys, such as name="c",port=80 or ="a", or -1.
// keys may also be an index.
func lastWith(list []any, keys string) int {
	if i, err := strconv.Atoi(keys); err == nil && i >= 0 && i < len(list) {
		return i
	}
	for i, element := range slices.Backward(list) {
		fields, isObject := element.(map[string]any)
		if !isObject {
			fields = map[string]any{"": element}
		}
		same, differs := false, false
		for part := range strings.SplitSeq(keys, ",") {
			name, want, _ := strings.Cut(part, "=")
			if has, ok := fields[name]; ok { // else it has the default
				text, _ := json.Marshal(has)
				same, differs = true, differs || string(text) != want
			}
		}
		if same && !differs {
			return i
		}
	}
	return -1
}

// oneVersion is the merge.Converter of an object of one version.
type oneVersion struct{}

// Convert implements merge.Converter.
func (oneVersion) Convert(object *typed.TypedValue, _ fieldpath.APIVersion) (*typed.TypedValue, error) {
	return object, nil
}

// IsMissingVersionError implements merge.Converter.
func (oneVersion) IsMissingVersionError(error) bool { return false }

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
