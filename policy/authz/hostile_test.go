package authz

import (
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
)

// TestManyAggregated holds that aggregation has an end where every role
// aggregates every other, and that what is beyond it is unknown.
func TestManyAggregated(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	const n = 3000
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r%d, labels: {a: b}}\n", i)
		if i%2 == 0 {
			b.WriteString("aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}\n")
		} else {
			b.WriteString("rules: [{apiGroups: [a], resources: [x], verbs: [get]}]\n")
		}
		fmt.Fprintf(&b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: b%[1]d}\n"+
			"subjects: [{kind: User, name: jane}]\nroleRef: {kind: ClusterRole, name: r%[1]d}\n", i)
	}
	a := mustNew(t, "rbac", cluster(t, b.String()))
	for check, want := range map[string]string{
		"jane get x.a":  `allow: RBAC: allowed by ClusterRoleBinding "b0" of ClusterRole "r0" to User "jane"`,
		"jane list x.a": "which aggregates more roles than can be followed",
	} {
		if got := ask(t, a, check); !strings.HasSuffix(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", check, got, want)
		}
	}
}

// TestManyTwins holds that objects of one name have an end, beyond which they
// may grant anything.
func TestManyTwins(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r, labels: {a: l%[1]d}}\nrules: [{apiGroups: [a], resources: [x%[1]d, z], verbs: [get]}]\n", i)
	}
	b.WriteString(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: l2999}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: jane}
subjects: [{kind: User, name: jane}]
roleRef: {kind: ClusterRole, name: r}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: joe}
subjects: [{kind: User, name: joe}]
roleRef: {kind: ClusterRole, name: all}
`)
	a := mustNew(t, "rbac", cluster(t, b.String()))
	for check, want := range map[string]string{
		"jane get z.a":     `ClusterRoleBinding "jane" grants ClusterRole "r", which can't be read`,
		"jane get x2999.a": `ClusterRoleBinding "jane" grants ClusterRole "r", which can't be read`,
		"joe get x2999.a":  `ClusterRoleBinding "joe" grants ClusterRole "all", which aggregates ClusterRole "r", which can't be read`,
		"jim get z.a":      "noopinion",
	} {
		if got := ask(t, a, check); !strings.HasSuffix(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", check, got, want)
		}
	}
}

// TestManyBindings holds that each role is asked once, however often it is
// bound or aggregated.
func TestManyBindings(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: leaf, labels: {a: b}}\nrules:\n")
	b.WriteString(strings.Repeat("- {apiGroups: [a], resources: [x], verbs: [get]}\n", 20000))
	for i := range 1000 {
		fmt.Fprintf(&b, `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r%[1]d}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: b%[1]d}
subjects: [{kind: User, name: jane}, {kind: Group, name: ops}]
roleRef: {kind: ClusterRole, name: r%[1]d}
`, i)
	}
	a := mustNew(t, "rbac", cluster(t, b.String()))
	for range 50 { // without a memory these are 1e9 rules
		if got := ask(t, a, "jane;ops list x.a"); got != "noopinion" {
			t.Fatal(got)
		}
	}
}

// TestOddObjects holds objects that no API server would take: they allow
// nothing for certain, and nothing panics.
func TestOddObjects(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"kind: ClusterRoleBinding\nmetadata: {generateName: x-} # cluster-admin\nsubjects: [{kind: User, name: jane}]\nroleRef: {kind: ClusterRole, name: cluster-admin}",
		"kind: ClusterRoleBinding\nmetadata: {name: a}\nsubjects: [null, {}, 7]\nroleRef: []",
		"kind: ClusterRoleBinding\nmetadata: {name: a}",
		"kind: ClusterRoleBinding\nmetadata: {name: a}\nsubjects: [{kind: User, name: jane}]",
		"kind: ClusterRoleBinding\nmetadata: {name: a}\nsubjects: [{kind: User, name: jane}]\nroleRef: {kind: Deployment, name: x}",
		"kind: RoleBinding\nmetadata: {name: a, namespace: [prod]}\nsubjects: [{kind: User, name: jane}]\nroleRef: {kind: ClusterRole, name: view}",
		"kind: ClusterRole\nmetadata: {name: view, labels: {a: 1}}\naggregationRule: {clusterRoleSelectors: [{matchExpressions: [{key: a, operator: Near}]}]}",
		"kind: ClusterRole\nmetadata: null\nrules: [null, {verbs: null}]",
	} {
		all := objects(t, "odd.yaml", "apiVersion: rbac.authorization.k8s.io/v1\n"+text)
		a := mustNew(t, "rbac", Options{Cluster: policy.NewCluster(all...)})
		got := ask(t, a, "jane delete nodes -n prod")
		if strings.HasPrefix(got, "allow") && !strings.Contains(text, "cluster-admin") {
			t.Errorf("%s:\n%s", text, got)
		}
		t.Log(got)
	}
}
