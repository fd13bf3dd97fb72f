package schema

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// largePod returns a Pod, and largeCustom a definition, with texts of a size in all.
func largePod(t *testing.T, size int) *render.Object {
	o := parse(t, "{apiVersion: v1, kind: Pod, metadata: {name: large, namespace: default}, spec: {containers: [{name: a, image: a}]}}")
	var args []any
	for ; size > 0; size -= 1000 {
		args = append(args, strings.Repeat("x", min(size, 1000)))
	}
	o.Object["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["args"] = args
	return o
}

func largeDefinition(t *testing.T, sizes ...int) *render.Object {
	o := parse(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: larges.example.com}, spec: {group: example.com, scope: Cluster,
  names: {kind: Large, plural: larges, singular: large, listKind: LargeList}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`)
	first := o.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	var versions []any
	for i, size := range sizes {
		version := runtime.DeepCopyJSON(first)
		version["name"], version["storage"] = fmt.Sprint("v", i+1), i == 0
		version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["description"] = strings.Repeat("x", size)
		versions = append(versions, version)
	}
	o.Object["spec"].(map[string]any)["versions"] = versions
	return o
}

// sizeRequest returns the request that creates an object, and the type in which it is stored.
func sizeRequest(t *testing.T, o *render.Object) (*policy.Request, *goType, error) {
	kinds := newKinds(t, "")
	held, err := kinds.Admit(o, "default")
	var typ *goType
	if b := kinds.builtins[o.GroupVersionKind()]; b != nil && o.GetKind() == "Pod" {
		typ = b.goType()
	}
	return &policy.Request{Operation: policy.Create, Object: o, Kind: o.GroupVersionKind(), Admitted: held}, typ, err
}

// TestOversized compares the size of what is stored with what Kubernetes' own encoder writes, at random sizes, and holds
// that a denial is certain and that no size near the limit passes in silence.
func TestOversized(t *testing.T) {
	t.Parallel()
	encoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	r := rand.New(rand.NewPCG(1, 3))
	seen := map[policy.Action]int{}
	for range 60 {
		req, typ, err := sizeRequest(t, largePod(t, maxStored-20_000+r.IntN(20_000)))
		rendertest.OK(t, err)
		typed, err := typ.fromTree(req.Admitted)
		rendertest.OK(t, err)
		var b strings.Builder
		rendertest.OK(t, encoder.Encode(typed, &b))
		action := policy.Action("")
		for _, r := range oversized(req, typ) {
			action = r.Action
		}
		seen[action]++
		switch n := b.Len(); {
		case action == policy.Deny && n <= maxStored, action == "" && n > maxStored-spare/2:
			t.Errorf("%d bytes are stored, %d at most: %q", n, maxStored, action)
		}
	}
	if seen[policy.Deny] == 0 || seen[policy.Warn] == 0 || seen[""] == 0 {
		t.Errorf("not all answers were given: %v", seen)
	}
	for size, want := range map[int]policy.Action{maxStored - 10_000: "", maxStored - 1000: policy.Warn, maxStored: policy.Deny} {
		req, typ, err := sizeRequest(t, largeDefinition(t, size))
		rendertest.OK(t, err)
		got := policy.Action("")
		for _, r := range oversized(req, typ) {
			got = r.Action
		}
		if got != want {
			t.Errorf("a definition of %d bytes: %q, want %q", size, got, want)
		}
	}
	for _, second := range []int{maxStored / 2, maxStored/2 + 1} { // equal schemas are stored once
		req, typ, err := sizeRequest(t, largeDefinition(t, maxStored/2, second))
		rendertest.OK(t, err)
		if got := len(oversized(req, typ)) > 0; got != (second != maxStored/2) {
			t.Errorf("two versions, the second of %d bytes: %t", second, got)
		}
	}
	req, typ, err := sizeRequest(t, largePod(t, maxStored-spare-4000))
	rendertest.OK(t, err)
	if req.Method = policy.ApplyServerSide; len(oversized(req, typ)) != 1 {
		t.Error("managedFields do not count")
	}
}

// TestLiveTooLarge creates objects of sizes around the limits on a running server.
func TestLiveTooLarge(t *testing.T) {
	s := startLive(t)
	s.around(t, map[string]any{"kind": "Pod"}, "default")
	refused, taken := 0, 0
	definition := func(t *testing.T, size int) *render.Object { return largeDefinition(t, size) }
	for _, c := range []struct {
		path string
		make func(*testing.T, int) *render.Object
		at   int
	}{
		{"/api/v1/namespaces/default/pods", largePod, maxStored},
		{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, maxStored},
		{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, maxObject},
	} {
		for size := c.at - 12_000; size < c.at+2_000; size += 500 {
			o := c.make(t, size)
			action := policy.Deny
			if req, typ, err := sizeRequest(t, o); err == nil {
				action = ""
				for _, r := range oversized(req, typ) {
					action = r.Action
				}
			}
			status, answer := s.do(t, http.MethodPost, c.path, o.Object)
			if status < 400 {
				s.do(t, http.MethodDelete, c.path+"/"+o.GetName()+"?gracePeriodSeconds=0", nil)
				taken++
				for range 100 {
					if gone, _ := s.do(t, http.MethodGet, c.path+"/"+o.GetName(), nil); gone == http.StatusNotFound {
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
			} else {
				refused++
			}
			if status >= 400 && action == "" || status < 400 && action == policy.Deny {
				t.Errorf("%s with %d bytes: the server says %d %v, here %q", o.GetKind(), size, status, answer["message"], action)
			}
		}
	}
	if refused == 0 || taken == 0 {
		t.Errorf("%d refused, %d taken", refused, taken)
	}
}
