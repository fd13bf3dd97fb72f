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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// tooLong returns the refusal of an object that kubectl apply, which Argo CD runs, sends with its own manifest as an
// annotation (CreateApplyAnnotation in k8s.io/kubectl/pkg/util), if that is too long. Who applies an object that no
// Application deploys is not known, so it is a warning.
func tooLong(req *policy.Request) []policy.Result {
	if req.Method != policy.Apply || req.Maker != nil || weigh(req.Object.Object) < maxAnnotations/8 {
		return nil
	}
	sent := runtime.DeepCopyJSON(req.Object.Object)
	place(sent, req.Resource.Namespaced, req.Namespace)
	data, err := json.Marshal(sent)
	if err != nil {
		return nil
	}
	size := len(corev1.LastAppliedConfigAnnotation) + len(data) + 1
	for key, value := range req.Object.GetAnnotations() {
		size += len(key) + len(value)
	}
	if size <= maxAnnotations {
		return nil
	}
	r := result(req.Kind, ruleTooLong, policy.Fail)
	r.Message = fmt.Sprintf("metadata.annotations: Too long: may not be more than %d bytes. The client adds the whole manifest as %s", maxAnnotations, corev1.LastAppliedConfigAnnotation)
	r.Hint, r.Fields, r.Reason = "apply it server-side: kubectl apply --server-side, in Argo CD the sync option ServerSideApply=true", []string{"/metadata"}, "Invalid"
	if unit := req.Object.Unit; unit == nil || unit.Owner == nil || unit.Owner.GetKind() != "Application" {
		r.Action, r.Assumed = policy.Warn, []string{"kubectl apply creates it, and not kubectl create"}
	}
	return []policy.Result{r}
}

// versioned returns the refusal of an object whose manifest has a resourceVersion, which a cluster chooses: no client may
// create it, and on an update it is that of another state of the object. Server-side apply creates it.
func versioned(req *policy.Request) []policy.Result {
	version, err := strconv.ParseUint(req.Object.GetResourceVersion(), 10, 64)
	creates := req.Operation == policy.Create
	if err != nil || version == 0 || req.Maker != nil || creates && (req.Method == policy.ApplyServerSide || req.Method == policy.ApplyAsData) {
		return nil
	}
	r := result(req.Kind, ruleInvalid, policy.Fail)
	r.Fields, r.Hint = []string{"/metadata/resourceVersion"}, "delete the field"
	if r.Message = "resourceVersion should not be set on objects to be created"; !creates {
		r.Message = fmt.Sprintf("Operation cannot be fulfilled on %s %q: the object has been modified; please apply your changes to the latest version and try again", req.Resource.GroupResource(), req.Name)
		r.Assumed = []string{"the object on the cluster has another resourceVersion"}
	}
	return []policy.Result{r}
}

// unnamable returns the refusal of the pods of a StatefulSet whose name is too long for their label
// controller-revision-hash (setPodRevision in pkg/controller/statefulset): it is the name with a hash of up to ten
// digits, of which nearly all have nine or ten.
func unnamable(req *policy.Request) []policy.Result {
	if req.Kind.Group != "apps" || req.Kind.Kind != "StatefulSet" {
		return nil
	}
	with := func(digits string) []string { return validation.IsValidLabelValue(req.Name + "-" + digits) }
	problems := with("2456789245")
	if len(problems) == 0 {
		return nil
	}
	r := result(req.Kind, ruleTooLong, policy.Fail)
	r.Message = fmt.Sprintf("label controller-revision-hash of its pods: %s with the name and a hash", problems[0])
	r.Fields, r.Assumed = []string{"/metadata/name"}, []string{"the hash of its revision has at least nine digits"}
	if len(with("245678924")) == 0 {
		r.Action, r.Assumed = policy.Warn, []string{"the hash of its revision has ten digits"}
	}
	r.AboutPods()
	return []policy.Result{r}
}

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
