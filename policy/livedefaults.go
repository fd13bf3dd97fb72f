package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/render"
)

// keepDefaults copies into a new object the values that the old object has on
// the cluster for fields which neither manifest sets. A field that was
// defaulted once keeps its value when the object is applied again, by kubectl,
// Helm, Argo CD or Flux alike: a new image tag leaves imagePullPolicy as it
// was. Values that the new object has no default for stay, too, unless retain
// is set: then only the manifest's fields stay. admitted is changed; live is the
// object on the cluster, applied and was are the manifests. It reports whether
// it changed a value.
func keepDefaults(admitted, live, applied, was any, retain bool) (kept bool) {
	switch now := admitted.(type) {
	case map[string]any:
		before, ok := live.(map[string]any)
		if !ok {
			return false
		}
		manifest, _ := applied.(map[string]any)
		manifestBefore, _ := was.(map[string]any)
		for key, old := range before {
			value, has := now[key]
			_, sets := manifest[key]
			_, setBefore := manifestBefore[key]
			_, object := value.(map[string]any)
			_, oldObject := old.(map[string]any)
			switch {
			case sets && has:
				kept = keepDefaults(value, old, manifest[key], manifestBefore[key], retained[key]) || kept
			case sets || setBefore || !has && (retain || old == nil):
			case object && oldObject:
				kept = keepDefaults(value, old, nil, nil, false) || kept
			case !has || !object && !oldObject && render.IsScalar(value) == render.IsScalar(old):
				kept = kept || !has || !render.Equal(value, old)
				now[key] = runtime.DeepCopyJSONValue(old)
			}
		}
	case []any:
		before, _ := live.([]any)
		manifest, _ := applied.([]any)
		manifestBefore, _ := was.([]any)
		if len(manifest) != len(now) {
			return false
		}
		for i, element := range now {
			name, ok := nameOf(element)
			if _, object := element.(map[string]any); ok && object {
				kept = keepDefaults(element, named(before, name), manifest[i], named(manifestBefore, name), retain) || kept
			}
		}
	}
	return kept
}

// retained are the fields with the patch strategy retainKeys in k8s.io/api. Their objects and elements keep
// only the fields that a manifest sets.
var retained = map[string]bool{"strategy": true, "volumes": true, "resourceClaims": true}

// named returns the only element of a list with that name, or nil.
func named(list []any, name string) any {
	var found any
	for _, e := range list {
		if n, ok := nameOf(e); ok && n == name {
			if found != nil {
				return nil
			}
			found = e
		}
	}
	return found
}

// applied keeps, in the new object of an update, the defaults that the cluster has set in the old one, and
// the data of a Secret that stringData has written: applying a manifest changes only the fields that it
// has. Defaults that depend on other fields are set again, as the server does: serviceAccount follows
// serviceAccountName.
func (r *Request) applied(kinds Kinds) {
	was, ok := r.OldObject.Provenance.(mutated)
	if !ok || r.Object == nil {
		return
	}
	manifest := r.Object.Object
	if data := r.Admitted["data"]; data != nil && r.Kind.Kind == "Secret" {
		manifest = maps.Clone(manifest)
		manifest["data"] = data // of stringData, too
	}
	if !keepDefaults(r.Admitted, r.OldAdmitted, manifest, was.rendered.Object, false) {
		return
	}
	kept := &render.Object{Unstructured: &unstructured.Unstructured{Object: r.Admitted}, Unit: r.Object.Unit}
	if again, err := kinds.Admit(kept, r.Namespace); err == nil {
		r.Admitted = again
	}
}

// admitOld sets the old object in the version of the request. If it can't be decoded or converted, it
// is taken as the base writes it, and OldUnknown is set.
func (c Chain) admitOld(req *Request) {
	if req.OldAdmitted, req.oldError = c.convertOld(req); req.oldError == nil {
		req.applied(c.Kinds)
		return
	}
	req.OldUnknown = true
	req.OldAdmitted = map[string]any{"metadata": map[string]any{"name": req.Name}}
	if !req.oldBlank {
		req.OldAdmitted = runtime.DeepCopyJSON(req.OldObject.Object)
	}
	req.OldAdmitted["apiVersion"], req.OldAdmitted["kind"] = req.Kind.GroupVersion().String(), req.Kind.Kind
	if u := (&unstructured.Unstructured{Object: req.OldAdmitted}); u.GetNamespace() == "" && req.Resource.Namespaced {
		u.SetNamespace(req.Namespace)
	}
}

// OtherVersions returns the requests that change the version of their object.
func OtherVersions(reqs []Request) []Request {
	return slices.DeleteFunc(slices.Clone(reqs), func(r Request) bool {
		return r.Object == nil || r.OldObject == nil || r.Object.GetAPIVersion() == r.OldObject.GetAPIVersion()
	})
}

// UnreadOld returns a note about the requests whose old object can't be converted to the version of
// the new one, for each reason.
func (c Chain) UnreadOld(reqs []Request) (notes []string) {
	names := make(map[string][]string)
	for _, r := range reqs {
		if c.admit(&r); r.OldUnknown {
			why := Shorten(r.oldError.Error(), MaxMessage)
			names[why] = append(names[why], r.Kind.Kind+" "+r.Object.Key().Name)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(names)) {
		notes = append(notes, fmt.Sprintf("assumed to be on the cluster as the base writes it, in another version: %s; it is not converted, since %s", Few(names[why]), why))
	}
	return notes
}

func (c Chain) convertOld(req *Request) (map[string]any, error) {
	from := req.OldObject.GroupVersionKind()
	_, stored := req.OldObject.Provenance.(mutated)
	switch {
	case !stored && req.Object != nil && render.Equal(req.OldObject.Object, req.Object.Object):
		return req.Admitted, nil
	case stored && from == req.Kind && !c.scopeUnknown(req):
		return req.OldObject.Object, nil // it was admitted
	}
	old, err := c.Kinds.Admit(req.OldObject, req.Namespace)
	if err != nil || from == req.Kind || from.GroupKind() != req.Kind.GroupKind() {
		return old, err
	}
	return c.Kinds.Convert(old, req.Kind)
}

// decideOld returns the results of a request whose old object is unknown. Rules whose verdict is
// another if nothing but the name of the old object is given are undecided.
func (c Chain) decideOld(ctx context.Context, req *Request, results, mutations []Result) ([]Result, error) {
	why := "the object at the base can't be read in this version and is taken as it is written: " + Shorten(req.oldError.Error(), MaxMessage)
	if !req.oldBlank && req.Object != nil {
		blank := *req
		blank.oldBlank, blank.OldUnknown, blank.buffer = true, false, nil
		c.Passes = nil
		others, err := c.reviewUnguarded(ctx, &blank)
		if err != nil {
			return nil, err
		}
		results = undecideDiffering(results, mutations, slices.DeleteFunc(others, func(r Result) bool { return !r.fails() }), "depends on the object at the base, which can't be read: "+Shorten(req.oldError.Error(), MaxMessage))
	}
	for i := range results {
		if results[i].fails() {
			results[i].Assumed = append(slices.Clone(results[i].Assumed), why)
		}
	}
	return results, nil
}
