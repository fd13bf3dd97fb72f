package document

import (
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

func TestAction(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, spec, namespace string
		labels                map[string]string
		want                  string
	}{
		{"default", `validate: {deny: {}}`, "a", nil, "Audit"},
		{"policy", "validate: {deny: {}}\n---\nvalidationFailureAction: enforce", "a", nil, "Enforce"},
		{"rule over policy", "validate: {failureAction: Audit, deny: {}}\n---\nvalidationFailureAction: Enforce", "a", nil, "Audit"},
		{"rule over the policy's overrides", "validate: {failureAction: Audit, deny: {}}\n---\nvalidationFailureActionOverrides: [{action: Enforce, namespaces: [a]}]", "a", nil, "Audit"},
		{"override of the policy", "validate: {deny: {}}\n---\nvalidationFailureActionOverrides: [{action: enforce, namespaces: [b, \"a*\"]}]", "a1", nil, "Enforce"},
		{"override elsewhere", "validate: {deny: {}}\n---\nvalidationFailureActionOverrides: [{action: Enforce, namespaces: [b]}]", "a", nil, "Audit"},
		{"override of the rule", "validate: {failureAction: Audit, failureActionOverrides: [{action: Enforce, namespaces: [a]}], deny: {}}", "a", nil, "Enforce"},
		{"the first that fits", "validate: {failureActionOverrides: [{action: Audit, namespaces: [b]}, {action: Enforce, namespaceSelector: {matchLabels: {x: z}}}, {action: Audit}], deny: {}}", "a", map[string]string{"x": "z"}, "Enforce"},
		{"both have to fit", "validate: {failureActionOverrides: [{action: Enforce, namespaces: [b], namespaceSelector: {matchLabels: {x: z}}}], deny: {}}", "a", map[string]string{"x": "z"}, "Audit"},
		{"images", "verifyImages: [{imageReferences: [a], mutateDigest: false, failureAction: Audit}, {imageReferences: [a], failureAction: Enforce}]", "a", nil, "Enforce"},
		{"images, audited", "verifyImages: [{imageReferences: [a], mutateDigest: false, failureAction: Audit}]\n---\nvalidationFailureAction: Enforce", "a", nil, "Audit"},
		{"images, as the policy", "verifyImages: [{imageReferences: [a]}]\n---\nvalidationFailureAction: Enforce", "a", nil, "Enforce"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			rule, spec, _ := strings.Cut(row.spec, "---\n")
			text := spec + "\nrules:\n- name: a\n  match: {any: [{resources: {kinds: [Secret]}}]}\n  " + rule
			p := one(t, whole(strings.TrimSpace(text)+"\n"))
			if got := p.ActionFor(p.Rules[0], row.namespace, row.labels); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestException(t *testing.T) {
	t.Parallel()
	_, exceptions, err := Read(rendertest.Parse(t, "e.yaml", `
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: e, namespace: ns}
spec:
  exceptions:
  - {policyName: cluster, ruleNames: [a, "autogen-b*"]}
  - {policyName: ns/own, ruleNames: ["*"]}
  match: {all: [{resources: {kinds: [Pod], names: ["w*"]}}, {resources: {namespaces: [ns]}}]}
`), Options{})
	if err != nil || len(exceptions) != 1 {
		t.Fatalf("got %d: %v", len(exceptions), err)
	}
	e := exceptions[0]
	cluster, own := &Policy{Name: "cluster"}, &Policy{Name: "own", Namespace: "ns"}
	for _, row := range []struct {
		policy *Policy
		rule   string
		want   bool
	}{
		{cluster, "a", true},
		{cluster, "autogen-a", false},
		{cluster, "autogen-bc", true},
		{cluster, "b", false},
		{own, "anything", true},
		{&Policy{Name: "own"}, "anything", false},
		{&Policy{Name: "cluster", Namespace: "ns"}, "a", false},
	} {
		if got := e.Covers(row.policy, row.rule); got != row.want {
			t.Errorf("%s of %s: got %v", row.rule, row.policy.key(), got)
		}
	}
	for _, row := range []struct {
		thing thing
		want  bool
	}{
		{thing{kind: "Pod", metadata: inNamespace("web")}, true},
		{thing{kind: "Pod", metadata: inNamespace("db")}, false},
		{thing{kind: "Pod", metadata: meta{"name": "web"}}, false},
		{thing{kind: "apps/v1/Deployment", metadata: inNamespace("web")}, false},
	} {
		if got, _ := e.Concerns(row.thing.target()); got != row.want {
			t.Errorf("%+v: got %v", row.thing, got)
		}
	}
}

func TestRolesOf(t *testing.T) {
	t.Parallel()
	c := policy.NewCluster(rendertest.Parse(t, "rbac.yaml", `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: a, namespace: team}
subjects: [{kind: User, name: jane}, {kind: Group, name: devs}]
roleRef: {kind: Role, name: writer}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: b, namespace: team}
subjects: [{kind: ServiceAccount, name: robot}, {kind: ServiceAccount, name: other, namespace: ci}]
roleRef: {kind: ClusterRole, name: edit}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: c}
subjects: [{kind: User, name: "*"}, {kind: Group, name: devs}]
roleRef: {kind: Role, name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: d}
subjects: [{kind: Group, name: devs}, {kind: User, name: jane}]
roleRef: {kind: ClusterRole, name: view}
`)...)
	for _, row := range []struct {
		user      *policy.UserInfo
		namespace string
		roles     string
		wide      string
	}{
		{nil, "team", "", ""},
		{&policy.UserInfo{Username: "jane"}, "team", "team:writer", "view"},
		{&policy.UserInfo{Username: "joe", Groups: []string{"devs"}}, "", "default:reader team:writer", "view"},
		{&policy.UserInfo{Username: "system:serviceaccount:team:robot"}, "team", "", "edit"},
		{&policy.UserInfo{Username: "system:serviceaccount:team:robot"}, "other", "", ""},
		{&policy.UserInfo{Username: "system:serviceaccount:ci:other"}, "team", "", "edit"},
		{&policy.UserInfo{Username: "system:serviceaccount:ci:robot"}, "team", "", ""},
	} {
		roles, wide := RolesOf(c, row.user, row.namespace)
		if !slices.Equal(roles, strings.Fields(row.roles)) || !slices.Equal(wide, strings.Fields(row.wide)) {
			t.Errorf("%+v: got %v, %v", row.user, roles, wide)
		}
	}
	if roles, wide := RolesOf(nil, &policy.UserInfo{Username: "jane"}, ""); roles != nil || wide != nil {
		t.Errorf("without a cluster: got %v, %v", roles, wide)
	}
}
