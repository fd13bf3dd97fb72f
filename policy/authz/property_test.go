package authz

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A naive cluster decides without an index, by what Kubernetes exports for it:
// rules are resolved binding by binding, roles aggregated again and again until
// nothing changes, and a check is allowed when the rules cover it.
type naive struct {
	clusterRoles        []*rbacv1.ClusterRole
	roles               []*rbacv1.Role
	clusterRoleBindings []*rbacv1.ClusterRoleBinding
	roleBindings        []*rbacv1.RoleBinding
}

func (n *naive) aggregate(t *testing.T) {
	for _, r := range n.clusterRoles {
		if r.AggregationRule != nil {
			r.Rules = nil
		}
	}
	for changed := true; changed; {
		changed = false
		for _, r := range n.clusterRoles {
			for _, rule := range n.selected(t, r) {
				if !slices.ContainsFunc(r.Rules, func(have rbacv1.PolicyRule) bool { return have.String() == rule.String() }) {
					r.Rules = append(r.Rules, rule)
					changed = true
				}
			}
		}
	}
}

func (n *naive) selected(t *testing.T, r *rbacv1.ClusterRole) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	if r.AggregationRule == nil {
		return nil
	}
	for i := range r.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&r.AggregationRule.ClusterRoleSelectors[i])
		rendertest.OK(t, err)
		for _, other := range n.clusterRoles {
			if other != r && selector.Matches(labelSet(other.Labels)) {
				rules = append(rules, other.Rules...)
			}
		}
	}
	return rules
}

type labelSet map[string]string

func (l labelSet) Has(k string) bool              { _, ok := l[k]; return ok }
func (l labelSet) Get(k string) string            { return l[k] }
func (l labelSet) Lookup(k string) (string, bool) { v, ok := l[k]; return v, ok }

func (n *naive) rulesFor(u user.Info, namespace string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, b := range n.clusterRoleBindings {
		if applies(b.Subjects, u, "") && b.RoleRef.Kind == "ClusterRole" {
			rules = append(rules, n.clusterRole(b.RoleRef.Name)...)
		}
	}
	for _, b := range n.roleBindings {
		if b.Namespace != namespace || !applies(b.Subjects, u, namespace) {
			continue
		}
		if b.RoleRef.Kind == "ClusterRole" {
			rules = append(rules, n.clusterRole(b.RoleRef.Name)...)
		}
		for _, r := range n.roles {
			if b.RoleRef.Kind == "Role" && r.Namespace == namespace && r.Name == b.RoleRef.Name {
				rules = append(rules, r.Rules...)
			}
		}
	}
	return rules
}

func (n *naive) clusterRole(name string) []rbacv1.PolicyRule {
	for _, r := range n.clusterRoles {
		if r.Name == name {
			return r.Rules
		}
	}
	return nil
}

func applies(subjects []rbacv1.Subject, u user.Info, namespace string) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case "User":
			return s.Name == u.GetName()
		case "Group":
			return slices.Contains(u.GetGroups(), s.Name)
		case "ServiceAccount":
			where := s.Namespace
			if where == "" {
				where = namespace
			}
			return where != "" && serviceaccount.MatchesUsername(where, s.Name, u.GetName())
		}
		return false
	})
}

func (n *naive) allows(a authorizer.AttributesRecord) bool {
	want := rbacv1.PolicyRule{Verbs: []string{a.Verb}}
	if a.ResourceRequest {
		want.APIGroups, want.Resources = []string{a.APIGroup}, []string{a.Resource}
		if a.Subresource != "" {
			want.Resources[0] += "/" + a.Subresource
		}
		if a.Name != "" {
			want.ResourceNames = []string{a.Name}
		}
	} else {
		want.NonResourceURLs = []string{a.Path}
	}
	covered, _ := validation.Covers(n.rulesFor(a.User, a.Namespace), []rbacv1.PolicyRule{want})
	return covered
}

// dice makes random clusters and checks of few words, so that they often meet.
type dice struct{ *rand.Rand }

func (d dice) of(words string) string {
	all := strings.Split(words, ",")
	return all[d.IntN(len(all))]
}

func (d dice) some(words string) []string {
	var out []string
	for range 1 + d.IntN(2) {
		out = append(out, d.of(words))
	}
	return out
}

func (d dice) rules(namespaced bool) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for range d.IntN(3) {
		r := rbacv1.PolicyRule{Verbs: d.some("get,list,create,*")}
		if !namespaced && d.IntN(3) == 0 {
			r.NonResourceURLs = d.some("/a,/a/b,/a/*,/b*,*,/c/**")
		} else {
			r.APIGroups, r.Resources = d.some(",apps,*"), d.some("pods,jobs,pods/log,*/log,*/scale,*,pods/*")
			if d.IntN(3) == 0 {
				r.ResourceNames = d.some("x,y")
			}
		}
		rules = append(rules, r)
	}
	return rules
}

func (d dice) subjects() []rbacv1.Subject {
	var out []rbacv1.Subject
	for range 1 + d.IntN(2) {
		s := rbacv1.Subject{Kind: d.of("User,Group,ServiceAccount,Robot"), Name: d.of("a,b,c")}
		if s.Kind == "ServiceAccount" {
			s.Namespace = d.of(",n1,n2")
		}
		out = append(out, s)
	}
	return out
}

func (d dice) cluster() *naive {
	n := &naive{}
	for i := range 5 {
		r := &rbacv1.ClusterRole{Rules: d.rules(false)}
		r.Name, r.Labels = fmt.Sprintf("c%d", i), map[string]string{d.of("l,m"): d.of("1,2")}
		if d.IntN(3) == 0 {
			r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
				{MatchLabels: map[string]string{d.of("l,m"): d.of("1,2")}},
				{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: d.of("l,m"), Operator: metav1.LabelSelectorOpIn, Values: d.some("1,2,3")}}},
			}}
		}
		n.clusterRoles = append(n.clusterRoles, r)
		b := &rbacv1.ClusterRoleBinding{Subjects: d.subjects(), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "c" + d.of("0,1,2,3,4")}}
		b.Name = fmt.Sprintf("cb%d", i)
		n.clusterRoleBindings = append(n.clusterRoleBindings, b)
	}
	for _, namespace := range []string{"n1", "n2"} {
		for i := range 3 {
			r := &rbacv1.Role{Rules: d.rules(true)}
			r.Name, r.Namespace = fmt.Sprintf("r%d", i), namespace
			n.roles = append(n.roles, r)
			b := &rbacv1.RoleBinding{Subjects: d.subjects(), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r" + d.of("0,1,2")}}
			if d.IntN(2) == 0 {
				b.RoleRef = rbacv1.RoleRef{Kind: "ClusterRole", Name: "c" + d.of("0,1,2,3,4")}
			}
			b.Name, b.Namespace = fmt.Sprintf("b%d", i), namespace
			n.roleBindings = append(n.roleBindings, b)
		}
	}
	return n
}

func (d dice) check() authorizer.AttributesRecord {
	u := &user.DefaultInfo{Name: d.of("a,b,c,d,system:serviceaccount:n1:a,system:serviceaccount:n2:b"), Groups: d.some("a,b,c,d,e")}
	a := authorizer.AttributesRecord{User: u, Verb: d.of("get,list,create,delete,*")}
	if d.IntN(4) == 0 {
		a.Path = d.of("/,/a,/a/,/a/b,/a/b/c,/b,/bc,/c/,/c/d")
		return a
	}
	a.ResourceRequest = true
	a.APIGroup, a.Resource, a.Subresource = d.of(",apps,batch"), d.of("pods,jobs,nodes,*"), d.of(",,log,scale,exec")
	a.Namespace, a.Name = d.of(",n1,n2,n3"), d.of(",x,y,z")
	return a
}

// objects are the cluster's as a tree renders them, in random order.
func (n *naive) objects(t *testing.T, d dice) []*render.Object {
	all := n.inOrder(t)
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (n *naive) inOrder(t *testing.T) []*render.Object {
	var all []*render.Object
	add := func(kind string, o any) {
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		rendertest.OK(t, err)
		tree["apiVersion"], tree["kind"] = "rbac.authorization.k8s.io/v1", kind
		all = append(all, &render.Object{Unstructured: &unstructured.Unstructured{Object: tree}})
	}
	for i := range n.clusterRoles {
		add("ClusterRole", n.clusterRoles[i])
		add("ClusterRoleBinding", n.clusterRoleBindings[i])
	}
	for i := range n.roles {
		add("Role", n.roles[i])
		add("RoleBinding", n.roleBindings[i])
	}
	return all
}

// TestCovers holds decisions over random clusters against the naive ones.
func TestCovers(t *testing.T) {
	t.Parallel()
	decisions := map[authorizer.Decision]int{}
	for seed := range uint64(150) {
		d := dice{rand.New(rand.NewPCG(seed, 1))}
		n := d.cluster()
		a := mustNew(t, "rbac", Options{Cluster: policy.NewCluster(n.objects(t, d)...)})
		n.aggregate(t)
		for range 200 {
			c := d.check()
			want := authorizer.DecisionNoOpinion
			if n.allows(c) {
				want = authorizer.DecisionAllow
			}
			got, reason, err := a.Authorize(t.Context(), c)
			decisions[got]++
			if got != want || err != nil || (reason != "") != (want == authorizer.DecisionAllow) {
				t.Fatalf("seed %d: %+v of %+v:\n got %v %q %v, want %v", seed, c, c.User, got, reason, err, want)
			}
		}
	}
	for _, d := range []authorizer.Decision{authorizer.DecisionAllow, authorizer.DecisionNoOpinion} {
		if decisions[d] < 1500 {
			t.Errorf("only %d of the random checks were %v", decisions[d], d)
		}
	}
}

// TestMoreObjectsNeverForbid holds that further objects never take a permission
// away.
func TestMoreObjectsNeverForbid(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		d := dice{rand.New(rand.NewPCG(seed, 2))}
		all := d.cluster().objects(t, d)
		some := mustNew(t, "rbac", Options{Cluster: policy.NewCluster(all[:len(all)/2]...)})
		more := mustNew(t, "rbac", Options{Cluster: policy.NewCluster(all...)})
		for range 100 {
			c := d.check()
			before, _, _ := some.Authorize(t.Context(), c)
			after, _, err := more.Authorize(t.Context(), c)
			if before == authorizer.DecisionAllow && (after != before || err != nil) {
				t.Fatalf("seed %d: %+v: allowed by some, %v (%v) by more", seed, c, after, err)
			}
		}
	}
}

// mix takes each object of n or its twin of other.
func (n *naive) mix(other *naive, d dice) *naive {
	m := &naive{}
	for i := range n.clusterRoles {
		m.clusterRoles = append(m.clusterRoles, either(d, n.clusterRoles[i], other.clusterRoles[i]).DeepCopy())
		m.clusterRoleBindings = append(m.clusterRoleBindings, either(d, n.clusterRoleBindings[i], other.clusterRoleBindings[i]))
	}
	for i := range n.roles {
		m.roles = append(m.roles, either(d, n.roles[i], other.roles[i]))
		m.roleBindings = append(m.roleBindings, either(d, n.roleBindings[i], other.roleBindings[i]))
	}
	return m
}

func either[T any](d dice, a, b T) T {
	if d.IntN(2) == 0 {
		return a
	}
	return b
}

// TestEitherOfTwoTrees holds decisions about two trees with objects of the same
// names, of which a cluster has one or the other: an allowed request is allowed with
// any mix of them, and a forbidden one with none.
func TestEitherOfTwoTrees(t *testing.T) {
	t.Parallel()
	decided, undecided := 0, 0
	for seed := range uint64(200) {
		d := dice{rand.New(rand.NewPCG(seed, 3))}
		one, two := d.cluster(), d.cluster()
		a := mustNew(t, "rbac", Options{Cluster: policy.NewCluster(append(one.objects(t, d), two.objects(t, d)...)...)})
		var mixes []*naive
		for range 10 {
			m := one.mix(two, d)
			m.aggregate(t)
			mixes = append(mixes, m)
		}
		for range 50 {
			c := d.check()
			got, _, err := a.Authorize(t.Context(), c)
			if err != nil {
				undecided++
				continue
			}
			decided++
			for _, m := range mixes {
				if m.allows(c) != (got == authorizer.DecisionAllow) {
					t.Fatalf("seed %d: %+v of %+v: %v, but not with every mix", seed, c, c.User, got)
				}
			}
		}
	}
	if decided < 2000 || undecided < 500 {
		t.Errorf("%d checks were decided, %d not", decided, undecided)
	}
}
