package gatekeeper

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/preadmit/preadmit/render"
)

// alike reports whether two objects are one policy that several overlays render. Their
// labels and annotations may differ.
func alike(a, b *render.Object) bool {
	return a.GetAPIVersion() == b.GetAPIVersion() && a.GetKind() == b.GetKind() && a.GetName() == b.GetName() &&
		reflect.DeepEqual(a.Object["spec"], b.Object["spec"])
}

// otherOf returns the error of an object whose name another object already has.
func otherOf(what, name string, first *render.Object) error {
	where := cmp.Or(first.Span("").String(), "before it")
	return fmt.Errorf("%s %s is another one than that of %s, which is used", what, name, where)
}
