package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

func newKinds(t *testing.T, version string, crds ...string) *Kinds {
	t.Helper()
	var objects []*render.Object
	for _, text := range crds {
		objects = append(objects, parse(t, text))
	}
	kinds, err := New(objects, Options{KubeVersion: version})
	rendertest.OK(t, err)
	return kinds
}

// gvk reads "apps/v1 Deployment".
func gvk(s string) schema.GroupVersionKind {
	i := strings.Index(s, " ")
	gv, err := schema.ParseGroupVersion(s[:i])
	if err != nil {
		panic(err)
	}
	return gv.WithKind(s[i+1:])
}

func object(apiVersion, kind string) *render.Object {
	return &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "a"},
	}}}
}

func TestResource(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "", widgets)
	for _, c := range []struct{ kind, want string }{
		{"v1 Pod", "/v1 pods namespaced known"},
		{"v1 Namespace", "/v1 namespaces cluster known"},
		{"v1 Endpoints", "/v1 endpoints namespaced known"},
		{"apps/v1 Deployment", "apps/v1 deployments namespaced known"},
		{"networking.k8s.io/v1 NetworkPolicy", "networking.k8s.io/v1 networkpolicies namespaced known"},
		{"rbac.authorization.k8s.io/v1 ClusterRole", "rbac.authorization.k8s.io/v1 clusterroles cluster known"},
		{"apiextensions.k8s.io/v1 CustomResourceDefinition", "apiextensions.k8s.io/v1 customresourcedefinitions cluster known"},
		{"apiregistration.k8s.io/v1 APIService", "apiregistration.k8s.io/v1 apiservices cluster known"},
		{"extensions/v1beta1 Ingress", "extensions/v1beta1 ingresses namespaced"},
		{"policy/v1beta1 PodSecurityPolicy", "policy/v1beta1 podsecuritypolicies cluster"},
		{"example.com/v1 Widget", "example.com/v1 widgetry cluster known"},
		{"example.com/v3 Widget", "example.com/v3 widgetry cluster"}, // not served,
		{"other.io/v1 FooPolicy", "other.io/v1 foopolicies namespaced"},
	} {
		r := kinds.Resource(gvk(c.kind))
		got := r.Group + "/" + r.Version + " " + r.Resource + map[bool]string{true: " namespaced", false: " cluster"}[r.Namespaced]
		if r.Known {
			got += " known"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.kind, got, c.want)
		}
	}
}

func TestUnservedKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ version, kind, field, want string }{
		{"", "v1 pod", "/kind", `no matches for kind "pod" in version "v1"; did you mean Pod?`},
		{"", "v1 Pod ", "/kind", `no matches for kind "Pod " in version "v1"; did you mean Pod?`},
		{"", "V1 Pod", "/apiVersion", `no matches for kind "Pod" in version "V1"; did you mean v1 Pod?`},
		{"", "apps/v1 deployment", "/kind", `no matches for kind "deployment" in version "apps/v1"; did you mean Deployment?`},
		{"", "apps/v1 deployments", "/kind", `no matches for kind "deployments" in version "apps/v1"; did you mean Deployment?`},
		{"", "Apps/v1 Deployment", "/apiVersion", `no matches for kind "Deployment" in version "Apps/v1"; did you mean apps/v1 Deployment?`},
		{"", "v1 Deployment", "/apiVersion", `no matches for kind "Deployment" in version "v1"; did you mean apps/v1 Deployment?`},
		{"", "apps/v2 Deployment", "/apiVersion", `no matches for kind "Deployment" in version "apps/v2"; did you mean apps/v1 Deployment?`},
		{"", "v1 Widget", "/apiVersion", `no matches for kind "Widget" in version "v1"`},
		{"", "extensions/v1beta1 Ingress", "/apiVersion", `no matches for kind "Ingress" in version "extensions/v1beta1": Kubernetes 1.22 removed it; use networking.k8s.io/v1 Ingress`},
		{"", "extensions/v1beta1 Deployment", "/apiVersion", `no matches for kind "Deployment" in version "extensions/v1beta1": Kubernetes 1.16 removed it; use apps/v1 Deployment`},
		{"", "policy/v1beta1 PodSecurityPolicy", "/apiVersion", `no matches for kind "PodSecurityPolicy" in version "policy/v1beta1": Kubernetes 1.25 removed it; use Pod Security Admission`},
		{"1.29", "batch/v1beta1 CronJob", "/apiVersion", `no matches for kind "CronJob" in version "batch/v1beta1": Kubernetes 1.25 removed it; use batch/v1 CronJob`},
		{"1.32", "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema", "/apiVersion", `no matches for kind "FlowSchema" in version "flowcontrol.apiserver.k8s.io/v1beta3": Kubernetes 1.32 removed it; use flowcontrol.apiserver.k8s.io/v1 FlowSchema`},
		{"1.29", "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy", "/apiVersion", `no matches for kind "ValidatingAdmissionPolicy" in version "admissionregistration.k8s.io/v1": it was added in Kubernetes 1.30; use admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicy`},
		{"", "example.com/v1 widget", "/kind", `no matches for kind "widget" in version "example.com/v1"; did you mean Widget?`},
		{"", "example.com/v9 Widget", "/apiVersion", `no matches for kind "Widget" in version "example.com/v9": its CustomResourceDefinition serves v1, v2`},
		{"", "other.io/v1 Foo ", "/kind", `no matches for kind "Foo " in version "other.io/v1"`},
	} {
		k := gvk(c.kind)
		_, err := newKinds(t, c.version, widgets).Admit(object(k.GroupVersion().String(), k.Kind), "")
		var fe *policy.FieldError
		if !errors.As(err, &fe) || err.Error() != c.want || len(fe.Fields) != 1 || fe.Fields[0] != c.field {
			t.Errorf("%s: %v, want %s at %s", c.kind, err, c.want, c.field)
		}
	}
}

// Kinds that nobody knows are taken as they are, and share nothing.
func TestAdmitUnknown(t *testing.T) {
	t.Parallel()
	for _, apiVersion := range []string{"argoproj.io/v1alpha1", "gateway.networking.k8s.io/v1", "metrics.k8s.io/v1beta1"} {
		o := object(apiVersion, "Thing")
		o.Object["spec"] = map[string]any{"cpu": "1e2147483647", "list": []any{int64(1), 0.5}}
		held, err := newKinds(t, "").Admit(o, "team")
		rendertest.OK(t, err)
		rendertest.Equal(t, o.Object, held)
		held["spec"].(map[string]any)["cpu"] = "1"
		if o.Object["spec"].(map[string]any)["cpu"] != "1e2147483647" {
			t.Error("the admitted object shares its maps")
		}
	}
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "", widgets)
	for _, c := range []struct{ kind, own, want string }{
		{"v1 ConfigMap", "", "team"},
		{"v1 ConfigMap", "own", "own"},
		{"rbac.authorization.k8s.io/v1 ClusterRole", "own", ""},
		{"v1 Namespace", "", ""},
		{"example.com/v1 Widget", "own", ""},
	} {
		k := gvk(c.kind)
		o := object(k.GroupVersion().String(), k.Kind)
		if c.own != "" {
			o.SetNamespace(c.own)
		}
		held, err := kinds.Admit(o, "team")
		rendertest.OK(t, err)
		if got := (&unstructured.Unstructured{Object: held}).GetNamespace(); got != c.want {
			t.Errorf("%s in %q: %q, want %q", c.kind, c.own, got, c.want)
		}
	}
}

func TestKubeVersions(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"", "1.29", "v1.33.2", "1.37.0-rc.1"} {
		if _, err := New(nil, Options{KubeVersion: v}); err != nil {
			t.Errorf("%q: %v", v, err)
		}
	}
	for _, v := range []string{"1.28", "1.38", "2.0", "1", "1.x", "latest"} {
		if kinds, err := New(nil, Options{KubeVersion: v}); err == nil || kinds != nil {
			t.Errorf("%q: no error", v)
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "")
	o := object("v1", "ConfigMap")
	o.Object["data"] = map[string]any{"a": strings.Repeat("x", maxObject)}
	if _, err := kinds.Admit(o, ""); err == nil || !strings.Contains(err.Error(), "Request entity too large: limit is 3145728") {
		t.Errorf("3 MiB: %v", err)
	}
	o = object("v1", "ConfigMap")
	o.SetAnnotations(map[string]string{"a": strings.Repeat("x", maxAnnotations)})
	var fe *policy.FieldError
	if _, err := kinds.Admit(o, ""); !errors.As(err, &fe) || fe.Fields[0] != "/metadata/annotations" {
		t.Errorf("256 KiB of annotations: %v", err)
	}
}

// Servers hold what their own types have: fields that came later are dropped,
// and metadata has its null time before 1.34.
func TestOlderReleases(t *testing.T) {
	t.Parallel()
	const text = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  template:
    metadata: {labels: {a: b}}
    spec:
      hostnameOverride: x
      containers: [{name: a, livenessProbe: {grpc: {port: 1, mode: TLS}}, restartPolicyRules: [{action: Restart}]}]
`
	for version, want := range map[string][]string{
		"1.29": {"creationTimestamp"},
		"1.33": {"creationTimestamp"},
		"1.34": {"hostnameOverride", "restartPolicyRules"},
		"1.36": {"hostnameOverride", "restartPolicyRules"},
		"":     {"hostnameOverride", "restartPolicyRules", "mode"},
	} {
		held, err := newKinds(t, version).Admit(parse(t, text), "")
		rendertest.OK(t, err)
		all := fmt.Sprint(held)
		for _, name := range []string{"creationTimestamp", "hostnameOverride", "restartPolicyRules", "mode"} {
			wanted := strings.Contains(fmt.Sprint(want), name)
			if strings.Contains(all, name+":") != wanted {
				t.Errorf("%s: %s is there: %t, want %t\n%s", version, name, !wanted, wanted, all)
			}
		}
	}
}
