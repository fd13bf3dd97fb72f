package render

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestShare holds that objects of a file share their equal parts, but for their
// metadata, and have the values that they had.
func TestShare(t *testing.T) {
	t.Parallel()
	const text = `
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: x}}
spec: {containers: [{name: c, ports: [{containerPort: 80}]}], list: [], none: {}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: x}}
spec: {containers: [{name: c, ports: [{containerPort: 80}]}, {name: c, ports: [{containerPort: 80.5}]}], list: {}, none: []}
`
	parse := func() []*Object {
		objects, err := Parse("a.yaml", []byte(text))
		ok(t, err)
		return objects
	}
	want, got := parse(), parse()
	share(got)
	for i := range want {
		if d := cmp.Diff(want[i].Object, got[i].Object); d != "" {
			t.Error(d)
		}
	}
	at := func(o *Object, pointer string) uintptr {
		v, _ := Lookup(o.Object, pointer)
		return reflect.ValueOf(v).Pointer()
	}
	for pointer, shared := range map[string]bool{
		"/spec/containers/0": true, "/metadata/labels": true,
		"": false, "/metadata": false, "/spec": false, "/spec/containers": false,
	} {
		if is := at(got[0], pointer) == at(got[1], pointer); is != shared {
			t.Errorf("%q is shared: %v", pointer, is)
		}
	}
	if at(got[1], "/spec/containers/0/ports") == at(got[1], "/spec/containers/1/ports") {
		t.Error("ports that differ are shared")
	}
}

// TestParts holds that units share what their objects have in common, and that no
// more than a bounded number of parts is held for that.
func TestParts(t *testing.T) {
	t.Parallel()
	parts := NewParts()
	unit := func(name string) *Unit {
		objects, err := Parse("a.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {name: "+name+"}\nlist: [{a: 1}]\n"))
		ok(t, err)
		u := &Unit{Objects: objects}
		parts.Share(u)
		return u
	}
	at := func(u *Unit, pointer string) uintptr {
		v, _ := Lookup(u.Objects[0].Object, pointer)
		return reflect.ValueOf(v).Pointer()
	}
	a, b := unit("a"), unit("b")
	if at(a, "/list") != at(b, "/list") || at(a, "/data") == at(b, "/data") || at(a, "/metadata") == at(b, "/metadata") {
		t.Error("equal parts, and those alone, are shared")
	}
	for i := range maxParts + 10 {
		parts.known[uint64(i)] = nil
	}
	if unit("c"); len(parts.known) > maxParts {
		t.Errorf("%d parts are held", len(parts.known))
	}
}
