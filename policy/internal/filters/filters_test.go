package filters

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
)

func TestAssumed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, namespace, name, want string }{
		{"Pod", "default", "p", ""},
		{"Pod", "kube-system", "p", "Kyverno is configured to check namespace kube-system, which it leaves out by default"},
		{"Namespace", "", "kyverno", "Kyverno is configured to check namespace kyverno, which it leaves out by default"},
		{"Namespace", "", "prod", ""},
		{"Deployment", "prod", "kyverno", ""},
		{"ReplicaSet", "prod", "r", "Kyverno is configured to check kind ReplicaSet, which it leaves out by default"},
	} {
		req := &policy.Request{Kind: schema.GroupVersionKind{Version: "v1", Kind: c.kind}, Namespace: c.namespace, Name: c.name}
		if got := Assumed(req); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
