package policy

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

// decrypted returns an object that SOPS encrypted as it is deployed, as far as
// that is known: without the field "sops", and with placeholders for the
// encrypted values. It returns other objects unchanged.
func decrypted(o *render.Object) *render.Object {
	if o == nil || !render.HasSOPS(o.Object) {
		return o
	}
	fields := maps.Clone(o.Object)
	delete(fields, "sops")
	if data, ok := fields["data"].(map[string]any); ok && o.GetKind() == "Secret" {
		data = maps.Clone(data)
		for key, v := range data {
			if s, ok := v.(string); ok && render.IsEncrypted(s) {
				data[key] = base64.StdEncoding.EncodeToString([]byte(s))
			}
		}
		fields["data"] = data
	}
	copied := *o
	copied.Unstructured = &unstructured.Unstructured{Object: fields}
	return &copied
}

// undecide changes a failure to Unknown if it follows from a text that is
// replaced before it is deployed: one that SOPS encrypted, a variable that Flux
// replaces, a placeholder of a template, data that Flux Operator copies from an
// object that is not in the tree. o is the rendered object.
func (c Chain) undecide(r *Result, o *render.Object) {
	if r.Outcome != Fail || o == nil {
		return
	}
	why := ""
	copied := slices.IndexFunc(o.Assumed, func(a string) bool { return strings.HasPrefix(a, render.AssumedCopy) })
	switch {
	case copied >= 0 && concernsData(r.Fields):
		why = o.Assumed[copied]
	case render.HasSOPS(o.Object) && touches(r, o, render.IsEncrypted, true):
		why = "the value is encrypted by SOPS"
	case c.Variables && touches(r, o, render.HasVariable, false):
		why = "the value has a variable that Flux replaces"
	case (r.Engine == EngineSchema || r.Engine == EngineCRD) && touches(r, o, func(text string) bool { return render.HasPlaceholder(text) || render.HasVariable(text) }, false):
		why = "the value is a placeholder"
	default:
		return
	}
	r.Outcome = Unknown
	r.Message = why + ", so this is not decided: " + r.Message
}

// concernsData reports whether a result with these fields may follow from the data of a
// ConfigMap or Secret. One without fields may follow from any field.
func concernsData(fields []string) bool {
	return len(fields) == 0 || slices.ContainsFunc(fields, func(f string) bool {
		top, _, _ := strings.Cut(strings.TrimPrefix(f, "/"), "/")
		return slices.Contains([]string{"", "data", "stringData", "type"}, top)
	})
}

// touches reports whether the function is returns true for the text in a field of the result, or for its key. With
// within, texts anywhere below a field count too, and a result without fields concerns the whole
// object.
func touches(r *Result, o *render.Object, is func(string) bool, within bool) bool {
	fields := written(r.Fields, o)
	if len(fields) == 0 && within {
		fields = []string{""}
	}
	for _, f := range fields {
		v, ok := render.Lookup(o.Object, f)
		if _, scalar := v.(string); ok && (scalar && !r.OfKeys || within) && holdsText(v, is) {
			return true
		}
		if path := render.Path(f); len(path) > 0 && is(path[len(path)-1]) { // an error about a key
			return true
		}
	}
	return false
}

func holdsText(v any, is func(string) bool) bool {
	for _, v := range render.Values(v) {
		if text, ok := v.(string); ok && is(text) {
			return true
		}
	}
	return false
}
