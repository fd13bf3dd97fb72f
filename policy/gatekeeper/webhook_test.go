package gatekeeper

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
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
	if err != nil {
		t.Fatal(err)
	}
	for object, want := range map[string]string{
		pod: "skip deny K/c: namespace shop is not one that Gatekeeper's webhook is asked about, by its configuration at policy.yaml:3:18",
		`{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: other}}`:             "fail deny K/c: Pod web has no label app",
		`{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: gatekeeper-system}}`: "fail deny K/c: Pod web has no label app",
	} {
		if diff := cmp.Diff([]string{want}, said(t, e, requestOf(t, object))); diff != "" {
			t.Error(diff)
		}
	}
	req := requestOf(t, `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: other}}`)
	req.Operation, req.OldObject, req.OldAdmitted = policy.Delete, req.Object, req.Admitted
	req.Object, req.Admitted = nil, nil
	if diff := cmp.Diff([]string{"fail deny K/c: Pod web has no label app"}, said(t, e, req)); diff != "" {
		t.Error(diff)
	}
}
