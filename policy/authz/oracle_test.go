package authz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	upstream "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// An oracleCluster is RBAC objects that the API server's own authorizer decides by.
type oracleCluster struct {
	clusterRoles        []*rbacv1.ClusterRole
	roles               []*rbacv1.Role
	clusterRoleBindings []*rbacv1.ClusterRoleBinding
	roleBindings        []*rbacv1.RoleBinding
}

type oracleAnswer struct{ Decision, Reason string }

// authorizer returns the API server's authorizer for the cluster. Aggregated ClusterRoles are filled in as
// their controller does.
func (c *oracleCluster) authorizer() decider {
	for _, r := range c.clusterRoles {
		if r.AggregationRule != nil {
			r.Rules = nil // the controller overwrites them
		}
	}
	for c.aggregate() {
	}
	_, static := validation.NewTestRuleResolver(c.roles, c.roleBindings, c.clusterRoles, c.clusterRoleBindings)
	return privileged{upstream.New(static, static, static, static)}
}

// privileged asks the API server's authorizer of privileged groups first.
type privileged struct{ decider }

func (p privileged) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	d, reason, err := authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup).Authorize(ctx, a)
	if d == authorizer.DecisionNoOpinion {
		return p.decider.Authorize(ctx, a)
	}
	return d, reason, err
}

// addDefaults adds what an API server makes when it starts.
func (c *oracleCluster) addDefaults() {
	for _, r := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		c.clusterRoles = append(c.clusterRoles, &r)
	}
	for _, b := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		c.clusterRoleBindings = append(c.clusterRoleBindings, &b)
	}
	for namespace, roles := range bootstrappolicy.NamespaceRoles() {
		for _, r := range roles {
			r.Namespace = namespace
			c.roles = append(c.roles, &r)
		}
	}
	for namespace, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range bindings {
			b.Namespace = namespace
			c.roleBindings = append(c.roleBindings, &b)
		}
	}
}

// aggregate adds to aggregated roles once and says whether any has grown.
func (c *oracleCluster) aggregate() bool {
	changed := false
	for _, r := range c.clusterRoles {
		if r.AggregationRule == nil {
			continue
		}
		rules := r.Rules
		for i := range r.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&r.AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				continue
			}
			for _, other := range c.clusterRoles {
				if other.Name != r.Name && selector.Matches(labels.Set(other.Labels)) {
					rules = addRules(rules, other.Rules)
				}
			}
		}
		changed = changed || len(rules) > len(r.Rules)
		r.Rules = rules
	}
	return changed
}

func addRules(rules, more []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for _, m := range more {
		known := false
		for _, r := range rules {
			known = known || apiequality.Semantic.DeepEqual(r, m)
		}
		if !known {
			rules = append(rules, m)
		}
	}
	return rules
}

func answerOf(a decider, c authorizer.AttributesRecord) oracleAnswer {
	decision, reason, err := a.Authorize(context.Background(), c)
	if err != nil {
		return oracleAnswer{"Error", errors.Join(errors.New(reason), err).Error()}
	}
	return oracleAnswer{decision.String(), reason}
}

// TestOracle holds decisions and their reasons over random clusters against
// the API server's own.
func TestOracle(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		d := dice{rand.New(rand.NewPCG(seed, 4))}
		n := d.cluster()
		here := mustNew(t, "rbac", Options{Cluster: policy.NewCluster(n.inOrder(t)...), KubeVersion: newest})
		o := oracleCluster{n.clusterRoles, n.roles, n.clusterRoleBindings, n.roleBindings}
		if seed%2 == 0 {
			o.addDefaults()
		}
		server := o.authorizer()
		for range 200 {
			check := d.check()
			if got, want := answerOf(here, check), answerOf(server, check); got != want {
				t.Fatalf("cluster %d: %+v:\n got %+v\nwant %+v", seed, check, got, want)
			}
		}
	}
}

// newest is the version of the API server's code that is compared with.
const newest = "1.37"

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

// TestDefaults holds what the default roles allow, over some 40000 checks, against the API server's own
// code. testdata/defaults.tsv shows it.
func TestDefaults(t *testing.T) {
	t.Parallel()
	checks := defaultChecks()
	o := cluster(t, defaultBindings)
	o.KubeVersion = newest
	here, server := mustNew(t, "rbac", o), defaultServer(t)
	var answers []oracleAnswer
	for _, c := range checks {
		answers = append(answers, answerOf(server, parseCheck(t, c)))
		if got, want := answerOf(here, parseCheck(t, c)), answers[len(answers)-1]; got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", c, got, want)
		}
	}
	rendertest.Golden(t, "testdata/defaults.tsv", allowed(checks, answers))
}

// defaultServer returns the API server's authorizer for defaultBindings and the default roles.
func defaultServer(t *testing.T) decider {
	var o oracleCluster
	o.addDefaults()
	for _, b := range objects(t, "b.yaml", defaultBindings) {
		data, err := b.MarshalJSON()
		rendertest.OK(t, err)
		if b.GetKind() == "RoleBinding" {
			o.roleBindings = append(o.roleBindings, decode[rbacv1.RoleBinding](t, data))
		} else {
			o.clusterRoleBindings = append(o.clusterRoleBindings, decode[rbacv1.ClusterRoleBinding](t, data))
		}
	}
	return o.authorizer()
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
