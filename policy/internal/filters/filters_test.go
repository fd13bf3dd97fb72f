package filters

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

func request(kind, namespace, name string) *policy.Request {
	return &policy.Request{Kind: schema.GroupVersionKind{Version: "v1", Kind: kind}, Namespace: namespace, Name: name}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, namespace, name, want string }{
		{"Pod", "default", "p", ""},
		{"Pod", "kube-system", "p", "Kyverno is configured to check namespace kube-system, which it leaves out by default"},
		{"Namespace", "", "kyverno", "Kyverno is configured to check namespace kyverno, which it leaves out by default"},
		{"Namespace", "", "prod", ""},
		{"Deployment", "prod", "kyverno", ""},
		{"ReplicaSet", "prod", "r", "Kyverno is configured to check kind ReplicaSet, which it leaves out by default"},
	} {
		want := policy.Result{Outcome: policy.Fail, Action: policy.Deny}
		if c.want != "" {
			want.Action, want.Assumed = policy.Warn, []string{c.want}
		}
		got := policy.Result{Outcome: policy.Fail, Action: policy.Deny}
		New(nil).Apply(&got, request(c.kind, c.namespace, c.name))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v:\n%s", c, diff)
		}
	}
}

// configMap returns Kyverno's ConfigMap with filters, in a unit with a state.
func configMap(filters string, state render.State) *render.Object {
	return &render.Object{
		Unit: &render.Unit{State: state},
		Unstructured: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "kyverno"}, "data": map[string]any{"resourceFilters": filters},
		}},
	}
}

func TestConfigured(t *testing.T) {
	t.Parallel()
	one := []*render.Object{configMap("[Event,*,*][*/*,infra-*,*] [apps/v1/Deployment,*,k?] [ConfigMap,web]", "")}
	for _, c := range []struct {
		objects               []*render.Object
		kind, namespace, name string
		want                  bool
	}{
		{one, "Event", "a", "e", true},
		{one, "Pod", "infra-1", "p", true},
		{one, "Namespace", "", "infra-1", true},
		{one, "ConfigMap", "web", "any", true},
		{one, "ConfigMap", "webs", "any", false},
		{one, "Pod", "kube-system", "p", false},
		{one, "Deployment", "a", "kx", false}, // of another group
		{append(one, configMap("[Event,*,*]", "")), "Pod", "infra-1", "p", false},
		{[]*render.Object{configMap("[*,*,*]", render.Unreached)}, "Pod", "a", "p", false},
	} {
		if _, got := New(c.objects).Ignores(request(c.kind, c.namespace, c.name)); got != c.want {
			t.Errorf("%s %s/%s: got %v", c.kind, c.namespace, c.name, got)
		}
	}
}
