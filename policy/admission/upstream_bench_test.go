package admission

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// BenchmarkUpstream is what BenchmarkValidate does, by the API server's own
// validator: the same 20 policies over the same objects, typed as it has them
// and wrapped once an object. Matching is not in it, and is in ours.
func BenchmarkUpstream(b *testing.B) {
	e, reqs := benchEngine(b, 20)
	var validators []validating.Validator
	for _, p := range e.policies {
		validators = append(validators, oracle(b, p.compiled.policy))
	}
	attributes := make([]*upstream.VersionedAttributes, len(reqs))
	for i := range reqs {
		attributes[i] = versionedAttributes(b, &reqs[i])
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", Labels: map[string]string{"kubernetes.io/metadata.name": "prod"}}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for _, v := range validators {
			r := v.Validate(context.Background(), reqs[i%len(reqs)].Resource.GroupVersionResource, attributes[i%len(reqs)], nil, ns, celconfig.RuntimeCELCostBudget, lawyer{})
			for _, d := range r.Decisions {
				if d.Action != validating.ActionAdmit {
					b.Fatal(fmt.Sprint(d))
				}
			}
		}
	}
	b.ReportMetric(float64(b.N)*60/b.Elapsed().Seconds(), "validations/s")
}
