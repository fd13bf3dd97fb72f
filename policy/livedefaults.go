package policy

import "github.com/preadmit/preadmit/render"

// keepDefaults copies into a new object the values that the old object has on
// the cluster for fields which neither manifest sets. A field that was
// defaulted once keeps its value when the object is applied again, by kubectl,
// Helm, Argo CD or Flux alike: a new image tag leaves imagePullPolicy as it
// was. admitted is changed; live is the object on the cluster, applied and was
// are the manifests.
func keepDefaults(admitted, live, applied, was any) {
	switch now := admitted.(type) {
	case map[string]any:
		before, ok := live.(map[string]any)
		if !ok {
			return
		}
		manifest, _ := applied.(map[string]any)
		manifestBefore, _ := was.(map[string]any)
		for key, value := range now {
			old, had := before[key]
			_, sets := manifest[key]
			_, setBefore := manifestBefore[key]
			switch {
			case !had:
			case sets:
				keepDefaults(value, old, manifest[key], manifestBefore[key])
			case !setBefore && render.IsScalar(value) && render.IsScalar(old):
				now[key] = old
			case !setBefore:
				keepDefaults(value, old, nil, nil)
			}
		}
	case []any:
		before, _ := live.([]any)
		manifest, _ := applied.([]any)
		manifestBefore, _ := was.([]any)
		if len(manifest) != len(now) {
			return
		}
		for i, element := range now {
			name, ok := nameOf(element)
			if _, object := element.(map[string]any); ok && object {
				keepDefaults(element, named(before, name), manifest[i], named(manifestBefore, name))
			}
		}
	}
}

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

// applied keeps, in the new object of an update, the defaults that the cluster has set
// in the old one: applying a manifest changes only the fields that it has.
func (r *Request) applied() {
	if was, ok := r.OldObject.Provenance.(mutated); ok && r.Object != nil {
		keepDefaults(r.Admitted, r.OldAdmitted, r.Object.Object, was.rendered.Object)
	}
}

// admitOld converts the old object to the version of the request.
func (c Chain) admitOld(req *Request) (err error) {
	if req.OldAdmitted, err = c.Kinds.Admit(req.OldObject, req.Namespace); err != nil {
		return err
	}
	from := req.OldObject.GroupVersionKind()
	if from == req.Kind || from.GroupKind() != req.Kind.GroupKind() {
		return nil
	}
	converted, err := c.Kinds.Convert(req.OldAdmitted, req.Kind)
	if err == nil {
		req.OldAdmitted = converted
	}
	return err
}
