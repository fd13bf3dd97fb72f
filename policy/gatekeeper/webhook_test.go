package gatekeeper

import (
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestWebhook holds that the configuration of Gatekeeper's webhook says what it
// is asked about, where it is in the tree.
func TestWebhook(t *testing.T) {
	t.Parallel()
	cluster := policy.NewCluster(parseAll(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: gatekeeper-validating-webhook-configuration}
webhooks:
- name: validation.gatekeeper.sh
  namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [infra]}]}
  rules:
  - {apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: [CREATE, UPDATE, DELETE]}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: infra}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other, labels: {admission.gatekeeper.sh/ignore: "yes"}}}
`)...)
	e, err := New(parseAll(t, templateOf(labelled)+plainConstraint), Options{Cluster: cluster})
	rendertest.OK(t, err)
	for object, want := range map[string]string{
		pod: "skip deny K/c: Gatekeeper's webhook is not called for a Pod in namespace shop, by its configuration at policy.yaml:3:18",
		`{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: other}}`:             "fail deny K/c: Pod web has no label app",
		`{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: gatekeeper-system}}`: "fail deny K/c: Pod web has no label app",
	} {
		rendertest.Equal(t, []string{want}, said(t, e, requestOf(t, object)))
	}
	req := requestOf(t, `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: other}}`)
	req.Operation, req.OldObject, req.OldAdmitted = policy.Delete, req.Object, req.Admitted
	req.Object, req.Admitted = nil, nil
	rendertest.Equal(t, []string{"fail deny K/c: Pod web has no label app"}, said(t, e, req))
}

// TestAskedByConfiguration holds that what the webhook's configuration does not
// name is not evaluated, and that where it depends on labels that nobody knows
// nothing is decided.
func TestAskedByConfiguration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ webhook, object, want string }{
		"another resource": {
			`rules: [{apiGroups: [apps], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]`, pod,
			"skip deny K/c: Gatekeeper's webhook is not called for a Pod in namespace shop, by its configuration at policy.yaml:3:18",
		},
		"another operation": {`rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: [UPDATE]}]`, pod, ""},
		"another object": {
			`rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"]}], objectSelector: {matchLabels: {check: "yes"}}`, pod,
			"skip deny K/c: Gatekeeper's webhook is not called for a Pod in namespace shop, by its configuration at policy.yaml:3:18",
		},
		"a label that asks": {
			`rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"]}], namespaceSelector: {matchLabels: {check: "yes"}}`, pod,
			"unknown deny K/c: needs to know namespace shop, whose labels decide whether Gatekeeper's webhook is called: give the Namespace with --with",
		},
		"a label that exempts": {
			`rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"]}], namespaceSelector: {matchExpressions: [{key: check, operator: DoesNotExist}]}`, pod,
			"fail deny K/c: Pod web has no label app",
		},
		"webhooks themselves": {
			`rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]`,
			`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}}`,
			"skip deny K/c: the API server calls no webhook for a ValidatingWebhookConfiguration",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := policy.NewCluster(parseAll(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: gatekeeper-validating-webhook-configuration}
webhooks: [{name: validation.gatekeeper.sh, `+c.webhook+"}]")...)
			e, err := New(parseAll(t, templateOf(labelled)+plainConstraint), Options{Cluster: cluster})
			rendertest.OK(t, err)
			if got := strings.Join(said(t, e, requestOf(t, c.object)), "\n"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestIgnoreLabel holds that a namespace can't be taken out of Gatekeeper's
// sight by whoever likes.
func TestIgnoreLabel(t *testing.T) {
	t.Parallel()
	const (
		refused = "fail deny ignore-label/check-ignore-label.gatekeeper.sh: Only exempt namespace can have the admission.gatekeeper.sh/ignore label"
		ignored = `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {admission.gatekeeper.sh/ignore: ""}}}`
		all     = `rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]`
		hooks   = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: gatekeeper-validating-webhook-configuration}, webhooks: "
		control = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: gatekeeper-controller-manager, namespace: gatekeeper-system}, spec: {template: {spec: {containers: [{args: "
	)
	for name, c := range map[string]struct{ cluster, object, want string }{
		"by default":            {"", ignored, refused},
		"its own":               {"", strings.Replace(ignored, "shop", "gatekeeper-system", 1), ""},
		"without the label":     {"", `{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`, ""},
		"exempt":                {control + `[--exempt-namespace=shop]}]}}}}`, ignored, ""},
		"exempt by its prefix":  {control + `[--exempt-namespace-prefix=sh]}]}}}}`, ignored, ""},
		"others are exempt":     {control + `[--port=1, --exempt-namespace=own]}]}}}}`, ignored, refused},
		"exempt by a stranger":  {strings.Replace(control, "manager", "helper", 1) + `[--exempt-namespace=shop]}]}}}}`, ignored, refused},
		"configured elsewhere":  {strings.Replace(hooks, "gatekeeper-", "my-", 1) + "[{name: validation.gatekeeper.sh, " + all + "}]}", ignored, refused},
		"configured":            {hooks + "[{name: check-ignore-label.gatekeeper.sh, " + all + "}]}", ignored, refused},
		"configured without it": {hooks + "[{name: validation.gatekeeper.sh, " + all + "}]}", ignored, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := New(parseAll(t, templateOf(labelled)+plainConstraint), Options{Cluster: policy.NewCluster(parseAll(t, c.cluster)...)})
			rendertest.OK(t, err)
			lines := slices.DeleteFunc(said(t, e, requestOf(t, c.object)), func(s string) bool { return !strings.Contains(s, "ignore-label/") })
			if got := strings.Join(lines, "\n"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
