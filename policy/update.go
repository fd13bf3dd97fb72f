package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/render"
)

// applied merges the new object of an update into the old one on the cluster, unless the request replaces it. Applying a
// manifest changes only the fields that it or the one before sets. A field that was defaulted or mutated once keeps
// its value: a new image tag leaves imagePullPolicy as it was. Defaults that depend on other fields are set again.
func (r *Request) applied(kinds Kinds, h *history) {
	was, stored := r.OldObject.Provenance.(mutated)
	typed, ok := kinds.(TypedKinds)
	if !stored || !ok || r.Object == nil || r.Method == Replace {
		return
	}
	merged, err := typed.Merge(r.Method, r.Kind, decrypted(was.rendered).Object, r.Object.Object, r.OldAdmitted)
	if errors.As(err, new(*FieldError)) {
		r.refused = err
	}
	if err != nil {
		return
	}
	sent := &render.Object{Unstructured: &unstructured.Unstructured{Object: merged}, Unit: r.Object.Unit}
	if held, err := r.Admit(kinds, sent); err == nil && !render.Equal(held, r.Admitted) {
		kept := newChange(r.Admitted, held, Result{})
		kept.kept = true
		h.changes = append(h.changes, kept)
		r.Admitted, r.Typed = held, nil
	}
}

// admitOld sets the old object in the version of the request. If it can't be decoded or converted, it
// is taken as the base writes it, and OldUnknown is set.
func (c Chain) admitOld(req *Request, h *history) {
	if req.OldAdmitted, req.oldError = c.convertOld(req); req.oldError == nil {
		req.applied(c.Kinds, h)
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
		if c.admit(&r, newHistory()); r.OldUnknown {
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
	case req.Unseen:
		return nil, errors.New("its unit was not rendered there")
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
		if results[i].fails() && !req.Unseen {
			results[i].Assumed = append(slices.Clone(results[i].Assumed), why)
		}
	}
	return results, nil
}
