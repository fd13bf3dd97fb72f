package authz

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestVersions holds how the default roles changed (the changes to
// plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata).
func TestVersions(t *testing.T) {
	t.Parallel()
	cluster := policy.NewCluster(objects(t, "b.yaml", defaultBindings)...)
	for check, want := range map[string]string{ // by version, from 1.28 to 1.37
		"viewer get pods":                              "++++++++++",
		"viewer get secrets":                           "----------",
		"viewer list resourceclaims.resource.k8s.io":   "------++++",
		"editor create resourceclaims.resource.k8s.io": "------++++",
		"viewer get events.events.k8s.io":              "-------+++",
		"viewer get events":                            "++++++++++",
		"jane;system:authenticated get /version":       "++++++++++",
		"jane;system:monitoring get nodes/metrics":     "------++++",
		"system:serviceaccount:kube-system:leader-election-controller update leases.coordination.k8s.io kube-controller-manager -n kube-system":                "---+++++++",
		"system:serviceaccount:kube-system:validatingadmissionpolicy-status-controller update validatingadmissionpolicies.admissionregistration.k8s.io/status": "--++++++++",
	} {
		got := ""
		for minor := 28; minor <= 37; minor++ {
			a := mustNew(t, "rbac", Options{Cluster: cluster, KubeVersion: fmt.Sprintf("1.%d", minor)})
			if strings.HasPrefix(ask(t, a, check), "allow") {
				got += "+"
			} else {
				got += "-"
			}
		}
		if got != want {
			t.Errorf("%s: %s from 1.28 on, want %s", check, got, want)
		}
	}
}

// TestNewestDefaults holds the newest rows of defaults.tsv against the objects that the API server makes.
func TestNewestDefaults(t *testing.T) {
	t.Parallel()
	var upstream oracleCluster
	upstream.addDefaults()
	want, got := map[string]string{}, map[string]string{}
	role := func(k key, kind string, labels map[string]string, selectors []labels.Selector, rules []rbacv1.PolicyRule) string {
		var lines []string
		for _, s := range selectors {
			lines = append(lines, "selects "+s.String())
		}
		for _, r := range rules {
			lines = append(lines, r.String())
		}
		slices.Sort(lines)
		return fmt.Sprintln(kind, k, labels, slices.Compact(lines))
	}
	binding := func(k key, ref rbacv1.RoleRef, subjects []rbacv1.Subject) string {
		text := fmt.Sprintln(k, ref.Kind, ref.Name)
		for _, s := range subjects {
			text += fmt.Sprintln(s.Kind, s.Namespace, s.Name)
		}
		return text
	}
	for _, r := range upstream.clusterRoles {
		var selectors []labels.Selector
		if r.AggregationRule != nil {
			for _, s := range r.AggregationRule.ClusterRoleSelectors {
				selectors = append(selectors, labels.SelectorFromSet(s.MatchLabels))
			}
		}
		k := key{name: r.Name}
		want["ClusterRole "+k.String()] = role(k, "ClusterRole", r.Labels, selectors, r.Rules)
	}
	for _, r := range upstream.roles {
		k := key{r.Namespace, r.Name}
		want["Role "+k.String()] = role(k, "Role", r.Labels, nil, r.Rules)
	}
	for _, b := range upstream.clusterRoleBindings {
		k := key{name: b.Name}
		want["binding "+k.String()] = binding(k, b.RoleRef, b.Subjects)
	}
	for _, b := range upstream.roleBindings {
		k := key{b.Namespace, b.Name}
		want["binding "+k.String()] = binding(k, b.RoleRef, b.Subjects)
	}
	var s store
	rendertest.OK(t, s.addDefaults(newestDefaults))
	for kind, shelf := range map[string]*shelf[*roleObject]{"ClusterRole": &s.clusterRoles, "Role": &s.roles} {
		for _, n := range shelf.all {
			r := n.variants[0]
			got[kind+" "+n.key.String()] = role(n.key, kind, r.labels, r.selectors, r.rules)
		}
	}
	for _, n := range s.bindings.all {
		got["binding "+n.key.String()] = binding(n.key, n.variants[0].role, n.variants[0].subjects)
	}
	rendertest.Equal(t, want, got)
}

func TestIncludes(t *testing.T) {
	t.Parallel()
	for versions, want := range map[string]string{"29-": "+++", "29-29": "+--", "30-": "-++", "29-29,31-": "+-+", "30-30": "-+-"} {
		got := ""
		for v := 29; v <= 31; v++ {
			in, err := includes(versions, v)
			if err != nil {
				t.Error(err)
			}
			got += map[bool]string{true: "+", false: "-"}[in]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", versions, got, want)
		}
	}
	for _, bad := range []string{"", "x-", "29-x", "29-30,"} {
		if _, err := includes(bad, 33); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}
