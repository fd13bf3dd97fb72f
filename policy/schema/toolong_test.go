package schema

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
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
		for owner, action := range map[*render.Object]policy.Action{nil: policy.Warn, {}: policy.Deny} {
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
