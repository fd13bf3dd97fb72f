package schema

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fieldpath "k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// TestTooLong holds which manifests kubectl apply can send, against the API server's own validation of annotations.
func TestTooLong(t *testing.T) {
	t.Parallel()
	counts := make(map[bool]int)
	for _, size := range lengths() {
		o := long(t, size)
		want := len(validation.ValidateAnnotations(applied(t, o).GetAnnotations(), fieldpath.NewPath("metadata", "annotations"))) > 0
		req := policy.Request{Operation: policy.Create, Object: o, Namespace: "shop", Resource: policy.Resource{Namespaced: true}}
		for owner, action := range map[*render.Object]policy.Action{nil: policy.Warn, parse(t, "{kind: Application, metadata: {name: a}}"): policy.Deny, parse(t, "{kind: ManifestWork, metadata: {name: a}}"): policy.Warn} {
			o.Unit = &render.Unit{Source: render.Source{Owner: owner}}
			if got := tooLong(&req); len(got) > 0 != want || want && got[0].Action != action {
				t.Errorf("%d: %v, want a refusal: %v", size, got, want)
			}
		}
		if req.Method = policy.ApplyServerSide; len(tooLong(&req)) > 0 {
			t.Errorf("%d: refused although it is applied server-side", size)
		}
		counts[want]++
	}
	if counts[true] == 0 || counts[false] == 0 {
		t.Errorf("all are the same: %v", counts)
	}
}

func TestVersioned(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version   string
		operation policy.Operation
		by        policy.Method
		want      string
	}{
		{"", policy.Create, policy.Apply, ""},
		{"0", policy.Create, policy.Apply, ""},
		{"7", policy.Create, policy.Apply, "resourceVersion should not be set on objects to be created"},
		{"7", policy.Create, policy.ApplyServerSide, ""},
		{"7", policy.Update, policy.ApplyServerSide, `Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again`},
	} {
		o := parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
		o.SetResourceVersion(c.version)
		got := ""
		for _, r := range versioned(&policy.Request{Operation: c.operation, Method: c.by, Object: o, Name: "a", Resource: policy.ResourceOf(o.GroupVersionKind())}) {
			got = r.Message
		}
		if got != c.want {
			t.Errorf("%v: %q", c, got)
		}
	}
}

// TestUnnamable holds which names of StatefulSets are too long for a label of their pods.
func TestUnnamable(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]policy.Action{52: "", 53: policy.Warn, 54: policy.Deny, 63: policy.Deny} {
		got := policy.Action("")
		for _, r := range unnamable(&policy.Request{Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}, Name: strings.Repeat("a", length)}) {
			if got = r.Action; !r.Pods {
				t.Errorf("%d: not about pods", length)
			}
		}
		if got != want {
			t.Errorf("%d: %q, want %q", length, got, want)
		}
	}
}
