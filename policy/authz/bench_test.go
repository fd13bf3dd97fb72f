package authz

import (
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
)

// large is a cluster of n namespaces, each with a role, and bindings of it and
// of default roles to 20 users, groups and service accounts.
func large(t testing.TB, n int) Options {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: app, namespace: n%[1]d}
rules:
- {apiGroups: [""], resources: [configmaps, secrets], verbs: [get, list, watch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: app, namespace: n%[1]d}
subjects: [{kind: ServiceAccount, name: app}]
roleRef: {kind: Role, name: app}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: team, namespace: n%[1]d}
subjects: [{kind: Group, name: team%[2]d}, {kind: User, name: user%[2]d}]
roleRef: {kind: ClusterRole, name: edit}
---
`, i, i%20)
	}
	return Options{Cluster: policy.NewCluster(objects(t, "large.yaml", b.String())...)}
}

func BenchmarkDecide(b *testing.B) {
	a := mustNew(b, "rbac", large(b, 1000))
	for _, c := range []struct{ name, check string }{
		{"role", "system:serviceaccount:n7:app;system:serviceaccounts;system:serviceaccounts:n7 get secrets x -n n7"},
		{"aggregated", "joe;team7;system:authenticated create deployments.apps -n n7"},
		{"not-allowed", "joe;team7;system:authenticated create clusterroles.rbac.authorization.k8s.io -n n7"},
		{"path", "joe;team7;system:authenticated get /version"},
		{"nobody", "joe;system:authenticated get secrets -n n7"},
	} {
		attributes := parseCheck(b, c.check)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := a.Authorize(b.Context(), attributes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRules(b *testing.B) {
	a, attributes := mustParse(b, ruleFile), parseCheck(b, "joe proxy pods -n prod")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := a.Authorize(b.Context(), attributes); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for _, n := range []int{0, 1000} {
		o := large(b, n)
		b.Run(fmt.Sprint(3*n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustNew(b, "rbac", o)
			}
		})
	}
}
