// Command oracle says what the API server's RBAC authorizer decides: it reads
// one cluster a line, with checks, and writes the decisions on them, one line
// for each cluster.
//
// It is for tests. Aggregated ClusterRoles are filled in as their controller
// does in a cluster.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// A cluster is RBAC objects and checks.
type cluster struct {
	ClusterRoles        []*rbacv1.ClusterRole
	Roles               []*rbacv1.Role
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	RoleBindings        []*rbacv1.RoleBinding
	Defaults            bool // with what an API server makes when it starts
	Checks              []check
}

type check struct {
	User, Verb, Namespace, APIGroup, Resource, Subresource, Name, Path string
	Groups                                                             []string
}

// An answer is a decision in one word, with its reason.
type answer struct{ Decision, Reason string }

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var c cluster
		err := json.Unmarshal(in.Bytes(), &c)
		if err == nil {
			err = out.Encode(c.answer())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func (c *cluster) answer() []answer {
	if c.Defaults {
		c.addDefaults()
	}
	for _, r := range c.ClusterRoles {
		if r.AggregationRule != nil {
			r.Rules = nil // the controller overwrites them
		}
	}
	for c.aggregate() {
	}
	_, static := validation.NewTestRuleResolver(c.Roles, c.RoleBindings, c.ClusterRoles, c.ClusterRoleBindings)
	all := union.New(authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup), rbac.New(static, static, static, static))
	var answers []answer
	for _, k := range c.Checks {
		d, reason, err := all.Authorize(context.Background(), k.attributes())
		if err != nil {
			reason = errors.Join(errors.New(reason), err).Error()
		}
		answers = append(answers, answer{d.String(), reason})
	}
	return answers
}

func (c *check) attributes() authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: c.User, Groups: c.Groups}, Verb: c.Verb, Namespace: c.Namespace,
		APIGroup: c.APIGroup, APIVersion: "*", Resource: c.Resource, Subresource: c.Subresource, Name: c.Name,
		ResourceRequest: c.Path == "", Path: c.Path,
	}
}

// addDefaults adds what of the defaults the cluster does not have already.
func (c *cluster) addDefaults() {
	for _, r := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		c.ClusterRoles = append(c.ClusterRoles, &r)
	}
	for _, b := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		c.ClusterRoleBindings = append(c.ClusterRoleBindings, &b)
	}
	for namespace, roles := range bootstrappolicy.NamespaceRoles() {
		for _, r := range roles {
			r.Namespace = namespace
			c.Roles = append(c.Roles, &r)
		}
	}
	for namespace, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range bindings {
			b.Namespace = namespace
			c.RoleBindings = append(c.RoleBindings, &b)
		}
	}
}

// aggregate adds to aggregated roles once and says whether any has grown.
func (c *cluster) aggregate() bool {
	changed := false
	for _, r := range c.ClusterRoles {
		if r.AggregationRule == nil {
			continue
		}
		rules := r.Rules
		for i := range r.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&r.AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				continue
			}
			for _, other := range c.ClusterRoles {
				if other.Name != r.Name && selector.Matches(labels.Set(other.Labels)) {
					rules = add(rules, other.Rules)
				}
			}
		}
		changed = changed || len(rules) > len(r.Rules)
		r.Rules = rules
	}
	return changed
}

func add(rules, more []rbacv1.PolicyRule) []rbacv1.PolicyRule {
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
