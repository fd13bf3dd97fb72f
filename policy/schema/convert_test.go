package schema

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

func TestEquivalent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ version, resource, want string }{
		{"", "apps/v1 deployments", ""},
		{"", "networking.k8s.io/v1 ingresses", ""},
		{"", "autoscaling/v1 horizontalpodautoscalers", "autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler"},
		{"", "autoscaling/v2 horizontalpodautoscalers", "autoscaling/v1 horizontalpodautoscalers HorizontalPodAutoscaler"},
		{"", "v1 events", "events.k8s.io/v1 events Event"},
		{"", "events.k8s.io/v1 events", "v1 events Event"},
		{"1.31", "flowcontrol.apiserver.k8s.io/v1 flowschemas", "flowcontrol.apiserver.k8s.io/v1beta3 flowschemas FlowSchema"},
		{"1.32", "flowcontrol.apiserver.k8s.io/v1 flowschemas", ""},
		{"1.33", "admissionregistration.k8s.io/v1 validatingadmissionpolicies", ""},
		{"1.33", "admissionregistration.k8s.io/v1beta1 validatingadmissionpolicies", "admissionregistration.k8s.io/v1 validatingadmissionpolicies ValidatingAdmissionPolicy"},
		{"", "extensions/v1beta1 deployments", ""},
		{"", "example.com/v1 widgetry", "example.com/v2 widgetry Widget"},
		{"", "example.com/v3 widgetry", ""},
	} {
		kinds := newKinds(t, c.version, widgets)
		asked := gvk(c.resource)
		var got []string
		for _, v := range kinds.Equivalent(asked.GroupVersion().WithResource(asked.Kind)) {
			got = append(got, v.Resource.GroupVersion().String()+" "+v.Resource.Resource+" "+v.Kind.Kind)
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s %s: %q, want %q", c.version, c.resource, s, c.want)
		}
	}
}

// No two groups have a resource of one name but events: the API server, which
// tells storages apart by the name alone, would hold them for one.
func TestStorageNames(t *testing.T) {
	t.Parallel()
	groups := map[string]string{}
	for _, r := range rows() {
		if g, ok := groups[r.resource]; ok && g != r.gvk.Group && r.resource != "events" && r.byDefault() {
			t.Errorf("%s is in %q and %q", r.resource, g, r.gvk.Group)
		}
		groups[r.resource] = r.gvk.Group
	}
}

func TestConvertErrors(t *testing.T) {
	t.Parallel()
	hook := strings.NewReplacer("Widget", "Hook", "widgetry", "hooks", "scope: Cluster", "conversion: {strategy: Webhook}\n  scope: Cluster").Replace(widgets)
	kinds := newKinds(t, "", widgets, hook)
	for _, c := range []struct{ from, to, want string }{
		{"example.com/v1 Widget", "example.com/v2 Widget", ""},
		{"example.com/v1 Widget", "example.com/v3 Widget", "not served in version v3"},
		{"example.com/v1 Hook", "example.com/v2 Hook", "webhook"},
		{"apps/v1 Deployment", "apps/v1 Deployment", ""},
		{"apps/v1 Deployment", "apps/v1 StatefulSet", "not another version"},
		{"apps/v1 Deployment", "extensions/v1beta1 Deployment", "not another version"},
		{"other.io/v1 Foo", "other.io/v2 Foo", "its CustomResourceDefinition is not in the tree"},
		{"resource.k8s.io/v1beta1 ResourceClaim", "resource.k8s.io/v1 ResourceClaim", ""},
		{"resource.k8s.io/v1beta2 ResourceClaim", "resource.k8s.io/v1 ResourceClaim", ""},
	} {
		from := gvk(c.from)
		o := object(from.GroupVersion().String(), from.Kind)
		got, err := kinds.Convert(o.Object, gvk(c.to))
		if c.want == "" {
			if err != nil || got["apiVersion"] != gvk(c.to).GroupVersion().String() {
				t.Errorf("%s to %s: %v, %v", c.from, c.to, got["apiVersion"], err)
			}
			got["metadata"].(map[string]any)["name"] = "changed"
			if o.GetName() != "a" {
				t.Errorf("%s to %s shares its maps", c.from, c.to)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %s: %v, want %q", c.from, c.to, err, c.want)
		}
	}
}

func TestConvertPriorityLevel(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "1.31")
	const zero = "/metadata/annotations/flowcontrol.k8s.io~1v1beta3-preserve-zero-concurrency-shares"
	v1, err := kinds.Admit(parse(t, `
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: a}
spec: {type: Limited, limited: {nominalConcurrencyShares: 0}}
`), "")
	rendertest.OK(t, err)
	beta := schema.GroupVersionKind{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta3", Kind: "PriorityLevelConfiguration"}
	v1beta3, err := kinds.Convert(v1, beta)
	rendertest.OK(t, err)
	if _, ok := render.Lookup(v1beta3, zero); !ok {
		t.Errorf("v1beta3 doesn't say that no shares are meant: %v", v1beta3)
	}
	back, err := kinds.Convert(v1beta3, gvk("flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration"))
	rendertest.OK(t, err)
	if _, ok := render.Lookup(back, zero); ok {
		t.Errorf("the annotation stays in v1: %v", back)
	}
	if shares, _ := render.Lookup(back, "/spec/limited/nominalConcurrencyShares"); shares != int64(0) {
		t.Errorf("%v shares", shares)
	}
}

func TestComponents(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1.29", "1.33", ""} {
		kinds := newKinds(t, version)
		all, err := kinds.Components()
		rendertest.OK(t, err)
		missing := 0
		for gvk, b := range kinds.builtins {
			name, err := kinds.ComponentOf(gvk)
			rendertest.OK(t, err)
			if all[name] == nil {
				missing++
				if b.served&(1<<(newest-oldest-1)) != 0 || kinds.release != newest {
					t.Errorf("%s: %v has no schema", version, gvk)
				}
			}
		}
		t.Logf("%s: %d components, %d kinds, %d of them new and without schema", kinds.release, len(all), len(kinds.builtins), missing)
	}
	if subs := newKinds(t, "").Subresources(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}); !slices.Equal(subs, []string{"scale", "status"}) {
		t.Error(subs)
	}
}
