package rego

import (
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// hidden stands for what quotes a Secret's values.
const hidden = "not shown, since it may quote a Secret"

// secrets are those of the objects whose values must not be told.
func secrets(objects ...*render.Object) []map[string]any {
	var found []map[string]any
	for _, o := range objects {
		if o.GetKind() == "Secret" && o.GetAPIVersion() == "v1" {
			found = append(found, o.Object)
		}
	}
	return found
}

// reveals says whether a text holds a piece of a Secret's values.
func reveals(text string, secrets []map[string]any) bool {
	return len(secrets) > 0 && cel.Reveals(text, secrets...)
}

// telling is a text that tells no Secret's values.
func telling(text string, secrets []map[string]any) string {
	if reveals(text, secrets) {
		return hidden
	}
	return text
}
