package authz

import (
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

const people = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pods, labels: {team/part: "true"}}
rules:
- {apiGroups: [""], resources: [pods, pods/log, "*/scale"], verbs: [get, list]}
- {apiGroups: ["*"], resources: [jobs], resourceNames: [nightly], verbs: ["*"]}
- {nonResourceURLs: [/metrics, "/debug/**"], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: jane}
subjects: [{kind: Group, name: ops}, {kind: User, name: jane}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: secrets, namespace: prod}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: web, namespace: prod}
subjects: [{kind: ServiceAccount, name: web}, {kind: ServiceAccount, name: web, namespace: ci}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: secrets}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: anyone}
subjects: [{kind: Group, name: "system:serviceaccounts:ci"}, {kind: user, name: joe}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: no-namespace}
subjects: [{kind: ServiceAccount, name: web}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: refused}
subjects: [{kind: User, name: joe}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: secrets}
`

func TestRBAC(t *testing.T) {
	t.Parallel()
	const byJane = `allow: RBAC: allowed by ClusterRoleBinding "jane" of ClusterRole "pods" to User "jane"`
	a := mustNew(t, "rbac", cluster(t, people))
	for check, want := range map[string]string{
		// Who.
		"jane get pods":     byJane,
		"joe get pods":      "noopinion",
		"joe;ops get pods":  `allow: RBAC: allowed by ClusterRoleBinding "jane" of ClusterRole "pods" to Group "ops"`,
		"jane;ops get pods": `allow: RBAC: allowed by ClusterRoleBinding "jane" of ClusterRole "pods" to Group "ops"`,
		"system:serviceaccount:prod:web get secrets -n prod":                      `allow: RBAC: allowed by RoleBinding "web/prod" of Role "secrets" to ServiceAccount "web/prod"`,
		"system:serviceaccount:ci:web get secrets -n prod":                        `allow: RBAC: allowed by RoleBinding "web/prod" of Role "secrets" to ServiceAccount "web/ci"`,
		"system:serviceaccount:ci:web get secrets -n ci":                          "noopinion",
		"system:serviceaccount:ci:web get secrets":                                "noopinion",
		"system:serviceaccount:x:y;system:serviceaccounts:ci get pods -n default": `allow: RBAC: allowed by RoleBinding "anyone/default" of ClusterRole "pods" to Group "system:serviceaccounts:ci"`,
		"system:serviceaccount:default:web get pods -n default":                   "noopinion", // the account needs a namespace there
		"root;system:masters delete nodes":                                        "allow",
		"- get pods":                                                              `unknown: needs to know whether the user may get pods`,

		"-;ops get pods":  `allow: RBAC: allowed by ClusterRoleBinding "jane" of ClusterRole "pods" to Group "ops"`,
		"-;ops get nodes": `unknown: needs to know whether the user may get nodes`,

		// What.
		"jane get pods x -n prod":                byJane,
		"jane get pods/log":                      byJane,
		"jane get pods/exec":                     "noopinion",
		"jane get deployments/scale":             byJane,
		"jane get deployments.apps/scale":        "noopinion",
		"jane watch pods":                        "noopinion",
		"jane delete jobs.batch nightly -n prod": byJane,
		"jane delete jobs.batch daily -n prod":   "noopinion",
		"jane delete jobs.batch":                 "noopinion",
		"jane get /metrics":                      byJane,
		"jane get /metrics/x":                    "noopinion",
		"jane get /debug/pprof":                  byJane,
		"jane post /debug/pprof":                 "noopinion",
		"joe get secrets -n prod":                "noopinion", // bindings of the cluster have no Role
		"system:serviceaccount:ci:x;system:serviceaccounts:ci get /metrics": "noopinion", // paths are in no namespace
		"jane list pods -f spec.nodeName=n1":                                byJane,      // RBAC knows no selectors
	} {
		if got := ask(t, a, check); got != want {
			t.Errorf("%s:\n got %s\nwant %s", check, got, want)
		}
	}
}

// TestUnknownRBAC holds what is not known of roles and bindings: it matters
// only where nothing else allows.
func TestUnknownRBAC(t *testing.T) {
	t.Parallel()
	const open = people + `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: missing, namespace: prod}
subjects: [{kind: User, name: jane}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: elsewhere}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: joe}
subjects: [{kind: User, name: joe}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: broken}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: broken}
rules: all of them
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: unreadable, namespace: dev}
subjects: everybody
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods}
`
	a := mustNew(t, "rbac", cluster(t, open))
	for check, want := range map[string]string{
		"jane get secrets -n prod":                        `unknown: needs to know whether jane may get secrets in namespace prod: RoleBinding "prod/missing" grants Role "elsewhere", which is neither in the tree nor in --with`,
		"jane get pods -n prod":                           `allow: RBAC: allowed by ClusterRoleBinding "jane" of ClusterRole "pods" to User "jane"`,
		"jane get secrets -n ci":                          "noopinion",
		"jane get secrets":                                "noopinion",
		"joe get nodes":                                   `unknown: needs to know whether joe may get nodes: ClusterRoleBinding "joe" grants ClusterRole "broken", which can't be read`,
		"jim get nodes":                                   "noopinion",
		"jim get pods -n dev":                             `unknown: needs to know whether jim may get pods in namespace dev: RoleBinding "dev/unreadable" can't be read`,
		"system:node:n1;system:nodes get secrets x -n ci": `unknown: needs to know whether system:node:n1 may get secrets "x" in namespace ci: the Node authorizer decides as well, by what runs on the node`,
		"system:node:n1 get secrets x -n ci":              "noopinion",
		"root;system:masters get nodes -n dev":            "allow",
	} {
		if got := ask(t, a, check); got != want {
			t.Errorf("%s:\n got %s\nwant %s", check, got, want)
		}
	}
}

// TestTwins holds objects of one name that differ, such as two overlays': what
// all of them allow is allowed, what some do is unknown.
func TestTwins(t *testing.T) {
	t.Parallel()
	one := objects(t, "staging.yaml", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r}
rules: [{apiGroups: [""], resources: [pods, nodes], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: same}
subjects: [{kind: User, name: jane}]
roleRef: {kind: ClusterRole, name: r}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: b}
subjects: [{kind: User, name: joe}, {kind: User, name: jim}]
roleRef: {kind: ClusterRole, name: fixed}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: fixed}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
`)
	two := objects(t, "prod.yaml", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: same}
subjects: [{kind: User, name: jane}]
roleRef: {kind: ClusterRole, name: r}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: b}
subjects: [{kind: User, name: jim}]
roleRef: {kind: ClusterRole, name: fixed}
`)
	a := mustNew(t, "rbac", Options{Cluster: policy.NewCluster(append(one, two...)...)})
	for check, want := range map[string]string{
		"jane get pods":    `allow: RBAC: allowed by ClusterRoleBinding "same" of ClusterRole "r" to User "jane"`,
		"jane get nodes":   `unknown: needs to know whether jane may get nodes: ClusterRoleBinding "same" grants ClusterRole "r", which is defined 2 times, differently`,
		"jane list pods":   `unknown: needs to know whether jane may list pods: ClusterRoleBinding "same" grants ClusterRole "r", which is defined 2 times, differently`,
		"jane delete pods": "noopinion",
		"jim get pods":     `allow: RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "fixed" to User "jim"`,
		"joe get pods":     `unknown: needs to know whether joe may get pods: ClusterRoleBinding "b" is defined 2 times, differently`,
		"joe list pods":    "noopinion",
	} {
		if got := ask(t, a, check); got != want {
			t.Errorf("%s:\n got %s\nwant %s", check, got, want)
		}
	}
}

// TestWhichObjectCounts holds which of several objects of one name counts: the
// tree's before the cluster's, and that before the API server's own.
func TestWhichObjectCounts(t *testing.T) {
	t.Parallel()
	tree := objects(t, "tree.yaml", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
`)
	live := objects(t, "live.yaml", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: jane}
subjects: [{kind: User, name: jane}]
roleRef: {kind: ClusterRole, name: r}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:public-info-viewer"}
subjects: []
roleRef: {kind: ClusterRole, name: "system:public-info-viewer"}
`)
	isLive := func(o *render.Object) bool { return o.Unit.Path == "live.yaml" }
	a := mustNew(t, "rbac", Options{Cluster: policy.NewCluster(append(tree, live...)...), Given: isLive})
	for check, want := range map[string]string{
		"jane get pods":                            `allow: RBAC: allowed by ClusterRoleBinding "jane" of ClusterRole "r" to User "jane"`,
		"jane get nodes":                           "noopinion",
		"jane;system:authenticated get /version":   `allow: RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated"`,
		"jane;system:unauthenticated get /version": "noopinion",
	} {
		if got := ask(t, a, check); got != want {
			t.Errorf("%s:\n got %s\nwant %s", check, got, want)
		}
	}
}

// TestAggregation holds roles that are made of others, in several steps and in
// circles. Their own rules do not count.
func TestAggregation(t *testing.T) {
	t.Parallel()
	a := mustNew(t, "rbac", cluster(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all, labels: {to: ring}}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {to: all}}, {matchExpressions: [{key: extra, operator: Exists}]}]}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ring, labels: {to: all}}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {to: ring}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pods, labels: {to: ring}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: jobs, labels: {extra: ""}}
rules: [{apiGroups: [batch], resources: [jobs], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: widgets, labels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}}
rules: [{apiGroups: [example.com], resources: [widgets], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bad, labels: {rbac.authorization.k8s.io/aggregate-to-admin: "true"}}
rules: {}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: jane}
subjects: [{kind: User, name: jane}]
roleRef: {kind: ClusterRole, name: all}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewer}
subjects: [{kind: User, name: viewer}]
roleRef: {kind: ClusterRole, name: view}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: editor}
subjects: [{kind: User, name: editor}]
roleRef: {kind: ClusterRole, name: edit}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: admin, namespace: prod}
subjects: [{kind: User, name: admin}]
roleRef: {kind: ClusterRole, name: admin}
`))
	for check, want := range map[string]string{
		"jane get nodes":                 "noopinion",
		"jane get pods":                  `allow: RBAC: allowed by ClusterRoleBinding "jane" of ClusterRole "all" to User "jane"`,
		"jane get jobs.batch":            `allow: RBAC: allowed by ClusterRoleBinding "jane" of ClusterRole "all" to User "jane"`,
		"viewer get widgets.example.com": `allow: RBAC: allowed by ClusterRoleBinding "viewer" of ClusterRole "view" to User "viewer"`,
		"viewer get pods/log":            `allow: RBAC: allowed by ClusterRoleBinding "viewer" of ClusterRole "view" to User "viewer"`,
		"viewer get secrets":             "noopinion",
		"editor get widgets.example.com": `allow: RBAC: allowed by ClusterRoleBinding "editor" of ClusterRole "edit" to User "editor"`,
		"editor get secrets":             `allow: RBAC: allowed by ClusterRoleBinding "editor" of ClusterRole "edit" to User "editor"`,
		"editor create rolebindings.rbac.authorization.k8s.io":        "noopinion",
		"admin create rolebindings.rbac.authorization.k8s.io -n prod": `allow: RBAC: allowed by RoleBinding "admin/prod" of ClusterRole "admin" to User "admin"`,
		"admin get secrets -n prod":                                   `allow: RBAC: allowed by RoleBinding "admin/prod" of ClusterRole "admin" to User "admin"`,
		"admin get nodes -n prod":                                     `unknown: needs to know whether admin may get nodes in namespace prod: RoleBinding "prod/admin" grants ClusterRole "admin", which aggregates ClusterRole "bad", which can't be read`,
		"admin get secrets -n dev":                                    "noopinion",
	} {
		if got := ask(t, a, check); got != want {
			t.Errorf("%s:\n got %s\nwant %s", check, got, want)
		}
	}
}

// TestOddRoles holds decisions about roles that hardly anybody writes.
func TestOddRoles(t *testing.T) {
	t.Parallel()
	all := objects(t, "tree.yaml", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: slash, labels: {part: of}}
rules: [{apiGroups: [""], resources: ["*/"], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: slash}
subjects: [{kind: User, name: jane}]
roleRef: {kind: ClusterRole, name: slash}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nameless}
subjects: [{kind: User, name: ""}, {kind: ServiceAccount, name: web}]
roleRef: {kind: ClusterRole, name: cluster-admin}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: no-aggregation}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
aggregationRule: {clusterRoleSelectors: [{matchLabels: {part: of}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: no-aggregation}
subjects: [{kind: User, name: joe}]
roleRef: {kind: Role, name: no-aggregation}
`)
	for _, o := range all {
		o.Unit.Namespace = "team"
	}
	a := mustNew(t, "rbac", Options{Cluster: policy.NewCluster(all...)})
	for check, want := range map[string]string{
		"jane get pods":                       "noopinion",
		"- get pods":                          `unknown: needs to know whether the user may get pods`,
		"system:serviceaccount::web get pods": "noopinion",
		"joe get pods -n team":                `allow: RBAC: allowed by RoleBinding "no-aggregation/team" of Role "no-aggregation" to User "joe"`,
		"joe get pods -n default":             "noopinion",
	} {
		if got := ask(t, a, check); got != want {
			t.Errorf("%s:\n got %s\nwant %s", check, got, want)
		}
	}
}

// TestAggregatedTwins holds that what comes by a role of which there are two
// is in doubt, all the way, and that an aggregated role's own rules make none.
func TestAggregatedTwins(t *testing.T) {
	t.Parallel()
	const common = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: jane}
subjects: [{kind: User, name: jane}]
roleRef: {kind: ClusterRole, name: top}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: leaf, labels: {to: middle}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
`
	one := objects(t, "one.yaml", common+`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: top}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {to: top}}]}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: middle, labels: {to: top}}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {to: middle}}]}
`)
	two := objects(t, "two.yaml", common+`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: top}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {to: top}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: middle}
`)
	a := mustNew(t, "rbac", Options{Cluster: policy.NewCluster(append(one, two...)...)})
	for check, want := range map[string]string{
		"jane get pods": `unknown: needs to know whether jane may get pods: ClusterRoleBinding "jane" grants ClusterRole "top", ` +
			`which aggregates ClusterRole "middle", which is defined 2 times, differently`,
		"jane get nodes": "noopinion",
	} {
		if got := ask(t, a, check); got != want {
			t.Errorf("%s:\n got %s\nwant %s", check, got, want)
		}
	}
}
