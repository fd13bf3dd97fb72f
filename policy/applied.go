package policy

// keepDefaults gives a new object, as the API server holds it, the values that
// it had where neither the old manifest nor the new one says any: what was
// defaulted once is not defaulted again when it is applied again, by kubectl,
// Helm, Argo CD or Flux alike. So a new image tag leaves imagePullPolicy as it
// was. admitted is changed; live is the object on the cluster, applied and was
// are the manifests.
func keepDefaults(admitted, live, applied, was any) {
	switch now := admitted.(type) {
	case map[string]any:
		before, ok := live.(map[string]any)
		if !ok {
			return
		}
		said, _ := applied.(map[string]any)
		saidBefore, _ := was.(map[string]any)
		for key, value := range now {
			old, had := before[key]
			_, says := said[key]
			_, saysBefore := saidBefore[key]
			switch {
			case !had:
			case says:
				keepDefaults(value, old, said[key], saidBefore[key])
			case !saysBefore && isScalar(value) && isScalar(old):
				now[key] = old
			case !saysBefore:
				keepDefaults(value, old, nil, nil)
			}
		}
	case []any:
		before, _ := live.([]any)
		said, _ := applied.([]any)
		saidBefore, _ := was.([]any)
		if len(said) != len(now) {
			return
		}
		for i, element := range now {
			name, ok := nameOf(element)
			if _, object := element.(map[string]any); ok && object {
				keepDefaults(element, named(before, name), said[i], named(saidBefore, name))
			}
		}
	}
}

// named is the only element of a list with that name, or nil.
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

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// applied makes the new object of an update what it would be on a cluster that
// has the old one.
func (r *Request) applied() {
	if was, ok := r.OldObject.Provenance.(mutated); ok && r.Object != nil {
		keepDefaults(r.Admitted, r.OldAdmitted, r.Object.Object, was.rendered.Object)
	}
}

// admitOld holds the old object in the version of the request.
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
