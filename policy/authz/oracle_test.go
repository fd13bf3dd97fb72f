package authz

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// An oracleCluster and its checks are what the nested module oracle reads, one
// a line, and oracleAnswers what it writes.
type oracleCluster struct {
	ClusterRoles        []*rbacv1.ClusterRole
	Roles               []*rbacv1.Role
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	RoleBindings        []*rbacv1.RoleBinding
	Defaults            bool
	Checks              []oracleCheck
}

type oracleCheck struct {
	User, Verb, Namespace, APIGroup, Resource, Subresource, Name, Path string
	Groups                                                             []string
}

type oracleAnswer struct{ Decision, Reason string }

func oracleCheckOf(a authorizer.AttributesRecord) oracleCheck {
	return oracleCheck{
		User: a.User.GetName(), Groups: a.User.GetGroups(), Verb: a.Verb, Namespace: a.Namespace, APIGroup: a.APIGroup,
		Resource: a.Resource, Subresource: a.Subresource, Name: a.Name, Path: a.Path,
	}
}

// needOracle is the oracle's binary; without it the test is skipped.
func needOracle(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("PREADMIT_RBAC_ORACLE")
	if binary == "" {
		t.Skip("PREADMIT_RBAC_ORACLE does not name the oracle's binary: see oracle/README.md")
	}
	return binary
}

func askOracle(t *testing.T, clusters []oracleCluster) [][]oracleAnswer {
	t.Helper()
	binary := needOracle(t)
	var in bytes.Buffer
	for _, c := range clusters {
		rendertest.OK(t, json.NewEncoder(&in).Encode(c))
	}
	command := exec.Command(binary)
	command.Stdin, command.Stderr = &in, os.Stderr
	out, err := command.Output()
	rendertest.OK(t, err)
	var all [][]oracleAnswer
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var answers []oracleAnswer
		rendertest.OK(t, d.Decode(&answers))
		all = append(all, answers)
	}
	return all
}

func answerOf(a *Authorizer, c authorizer.AttributesRecord) oracleAnswer {
	decision, reason, err := a.Authorize(context.Background(), c)
	if err != nil {
		return oracleAnswer{"Error", err.Error()}
	}
	return oracleAnswer{decision.String(), reason}
}

// TestOracle holds decisions and their reasons over random clusters against
// the API server's own.
func TestOracle(t *testing.T) {
	t.Parallel()
	needOracle(t)
	var clusters []oracleCluster
	var checks [][]authorizer.AttributesRecord
	var authorizers []*Authorizer
	for seed := range uint64(300) {
		d := dice{rand.New(rand.NewPCG(seed, 4))}
		n := d.cluster()
		o := oracleCluster{n.clusterRoles, n.roles, n.clusterRoleBindings, n.roleBindings, seed%2 == 0, nil}
		cluster := policy.NewCluster(n.inOrder(t)...)
		var asked []authorizer.AttributesRecord
		for range 200 {
			asked = append(asked, d.check())
			o.Checks = append(o.Checks, oracleCheckOf(asked[len(asked)-1]))
		}
		authorizers = append(authorizers, mustNew(t, "rbac", Options{Cluster: cluster, KubeVersion: "1.36"}))
		clusters, checks = append(clusters, o), append(checks, asked)
	}
	for i, answers := range askOracle(t, clusters) {
		for j, want := range answers {
			if got := answerOf(authorizers[i], checks[i][j]); got != want {
				t.Fatalf("cluster %d: %+v:\n got %+v\nwant %+v", i, clusters[i].Checks[j], got, want)
			}
		}
	}
}

// people and questions of TestDefaults.
var (
	defaultPeople = []string{
		"root;system:masters", "jane;system:authenticated", "system:anonymous;system:unauthenticated",
		"system:serviceaccount:prod:web;system:serviceaccounts;system:serviceaccounts:prod;system:authenticated",
		"prometheus;system:monitoring", "admin", "editor", "viewer",
		"system:kube-scheduler", "system:kube-controller-manager", "system:kube-proxy",
		"system:serviceaccount:kube-system:kube-dns", "system:serviceaccount:kube-system:bootstrap-signer",
		"system:serviceaccount:kube-system:deployment-controller", "system:serviceaccount:kube-system:generic-garbage-collector",
		"system:serviceaccount:kube-system:leader-election-controller", "system:serviceaccount:kube-system:resource-claim-controller",
		"system:serviceaccount:kube-system:token-cleaner",
	}
	defaultVerbs     = []string{"get", "watch", "create", "update", "delete", "deletecollection", "impersonate", "bind"}
	defaultResources = []string{
		"pods", "pods/log", "pods/exec", "pods/status", "pods/binding", "pods/eviction", "pods/finalizers", "secrets", "configmaps", "nodes", "nodes/metrics", "services/proxy",
		"serviceaccounts", "serviceaccounts/token", "events", "events.events.k8s.io", "namespaces", "resourcequotas", "persistentvolumes", "persistentvolumeclaims",
		"deployments.apps", "deployments.apps/scale", "replicasets.apps/status", "replicasets.extensions", "jobs.batch", "leases.coordination.k8s.io",
		"ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io", "servicecidrs.networking.k8s.io", "poddisruptionbudgets.policy",
		"roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io",
		"selfsubjectaccessreviews.authorization.k8s.io", "selfsubjectreviews.authentication.k8s.io", "localsubjectaccessreviews.authorization.k8s.io", "tokenreviews.authentication.k8s.io",
		"resourceclaims.resource.k8s.io", "resourceclaims.resource.k8s.io/status", "deviceclasses.resource.k8s.io", "certificatesigningrequests.certificates.k8s.io/approval",
		"storageclasses.storage.k8s.io", "csinodes.storage.k8s.io", "widgets.example.com", "endpointslices.discovery.k8s.io", "horizontalpodautoscalers.autoscaling",
	}
	defaultWhere = []string{"", " -n prod", " -n kube-system", " kube-scheduler -n kube-system", " cluster-info -n kube-public", " extension-apiserver-authentication -n kube-system"}
	defaultPaths = []string{"/", "/version", "/version/", "/healthz", "/livez/ping", "/metrics", "/metrics/slis", "/api", "/apis/apps", "/openapi/v3", "/logs", "/.well-known/openid-configuration", "/openid/v1/jwks/", "/statusz", "/flagz"}
)

const defaultBindings = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewers}
subjects: [{kind: User, name: viewer}]
roleRef: {kind: ClusterRole, name: view}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: editors}
subjects: [{kind: User, name: editor}]
roleRef: {kind: ClusterRole, name: edit}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: admins, namespace: prod}
subjects: [{kind: User, name: admin}]
roleRef: {kind: ClusterRole, name: admin}
`

func defaultChecks() []string {
	var checks []string
	for _, who := range defaultPeople {
		for _, verb := range defaultVerbs {
			for _, resource := range defaultResources {
				for _, where := range defaultWhere {
					checks = append(checks, who+" "+verb+" "+resource+where)
				}
			}
			for _, path := range defaultPaths {
				checks = append(checks, who+" "+verb+" "+path)
			}
		}
	}
	return checks
}

// TestDefaults holds what the default roles of Kubernetes 1.36 allow, over
// some 40000 checks, against what the API server's own code allowed when
// testdata/defaults.tsv was recorded. Everything else is not allowed.
func TestDefaults(t *testing.T) {
	t.Parallel()
	const golden = "testdata/defaults.tsv"
	checks := defaultChecks()
	if os.Getenv("PREADMIT_RBAC_ORACLE") != "" && os.Getenv("UPDATE_GOLDEN") != "" {
		record(t, golden, checks)
	}
	want := rendertest.ReadFile(t, golden)
	o := cluster(t, defaultBindings)
	o.KubeVersion = "1.36"
	a := mustNew(t, "rbac", o)
	var answers []oracleAnswer
	for _, c := range checks {
		answers = append(answers, answerOf(a, parseCheck(t, c)))
	}
	if diff := cmp.Diff(string(want), allowed(checks, answers)); diff != "" {
		t.Errorf("(-API server +here):\n%s", diff)
	}
}

func record(t *testing.T, golden string, checks []string) {
	o := oracleCluster{Defaults: true}
	for _, b := range objects(t, "b.yaml", defaultBindings) {
		data, err := b.MarshalJSON()
		rendertest.OK(t, err)
		if b.GetKind() == "RoleBinding" {
			o.RoleBindings = append(o.RoleBindings, decode[rbacv1.RoleBinding](t, data))
		} else {
			o.ClusterRoleBindings = append(o.ClusterRoleBindings, decode[rbacv1.ClusterRoleBinding](t, data))
		}
	}
	for _, c := range checks {
		o.Checks = append(o.Checks, oracleCheckOf(parseCheck(t, c)))
	}
	text := allowed(checks, askOracle(t, []oracleCluster{o})[0])
	rendertest.OK(t, os.WriteFile(golden, []byte(text), 0o644))
}

func decode[T any](t *testing.T, data []byte) *T {
	var v T
	rendertest.OK(t, json.Unmarshal(data, &v))
	return &v
}

// allowed tells who may do what where, by which binding, and how many checks
// are allowed.
func allowed(checks []string, answers []oracleAnswer) string {
	verbs := map[[3]string][]string{} // who, what and by which; where
	for i, c := range checks {
		if answers[i].Decision != "Allow" {
			if answers[i] != (oracleAnswer{Decision: "NoOpinion"}) {
				return fmt.Sprintf("%s: %+v", c, answers[i])
			}
			continue
		}
		words := strings.SplitN(c, " ", 4)
		who, _, _ := strings.Cut(words[0], ";")
		key := [3]string{who + "\t" + words[2], strings.TrimPrefix(answers[i].Reason, "RBAC: allowed by "), strings.Join(words[3:], "")}
		if who != "root" || words[2] == "pods" { // who may do everything
			verbs[key] = append(verbs[key], words[1])
		}
	}
	where := map[string][]string{}
	for key, allowed := range verbs {
		line := key[0] + "\t" + strings.Join(allowed, ",") + "\t" + key[1]
		where[line] = append(where[line], "["+key[2]+"]")
	}
	var b strings.Builder
	for _, line := range slices.Sorted(maps.Keys(where)) {
		slices.Sort(where[line])
		b.WriteString(line + "\t" + strings.Join(where[line], "") + "\n")
	}
	fmt.Fprintf(&b, "%d of %d allowed\n", count(answers), len(checks))
	return b.String()
}

func count(answers []oracleAnswer) int {
	n := 0
	for _, a := range answers {
		if a.Decision == "Allow" {
			n++
		}
	}
	return n
}
