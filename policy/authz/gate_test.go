package authz

import (
	"context"
	"math/rand/v2"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// gateRequest returns a request by a service account that the tree names.
func gateRequest(t *testing.T, resource, kind string, who user.Info, object any) *policy.Request {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	rendertest.OK(t, err)
	tree["apiVersion"], tree["kind"] = rbacv1.SchemeGroupVersion.String(), kind
	o := rendertest.Parse(t, "o.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: o}}")[0]
	o.Object, o.Unit = tree, &render.Unit{User: who.GetName(), Impersonates: true}
	return &policy.Request{
		Operation: policy.Create, Object: o, Admitted: tree, UserInfo: policy.UserInfo{Username: who.GetName(), Groups: who.GetGroups()},
		Kind: rbacv1.SchemeGroupVersion.WithKind(kind), Name: o.GetName(), Namespace: o.GetNamespace(),
		Resource: policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: resource}, Namespaced: o.GetNamespace() != "", Known: true},
	}
}

// TestGate holds which roles and bindings a user may create, over random clusters, against the API server's own code.
func TestGate(t *testing.T) {
	t.Parallel()
	counts := make(map[policy.Outcome]int)
	for seed := range uint64(300) {
		d := dice{rand.New(rand.NewPCG(seed, 5))}
		n := d.cluster()
		gate := NewGate(mustNew(t, "rbac", Options{Cluster: policy.NewCluster(n.inOrder(t)...), KubeVersion: newest}), nil)
		o := oracleCluster{n.clusterRoles, n.roles, n.clusterRoleBindings, n.roleBindings}
		server := o.authorizer()
		resolver, _ := validation.NewTestRuleResolver(o.roles, o.roleBindings, o.clusterRoles, o.clusterRoleBindings)
		other := d.cluster()
		for range 40 {
			who := d.check().User
			var req *policy.Request
			var rules []rbacv1.PolicyRule
			var ref *rbacv1.RoleRef
			switch d.IntN(4) {
			case 0:
				r := *other.clusterRoles[d.IntN(5)]
				r.AggregationRule, rules = nil, r.Rules
				req = gateRequest(t, "clusterroles", "ClusterRole", who, &r)
			case 1:
				r := other.roles[d.IntN(6)]
				rules = r.Rules
				req = gateRequest(t, "roles", "Role", who, r)
			case 2:
				b := other.clusterRoleBindings[d.IntN(5)]
				ref = &b.RoleRef
				req = gateRequest(t, "clusterrolebindings", "ClusterRoleBinding", who, b)
			case 3:
				b := other.roleBindings[d.IntN(6)]
				ref = &b.RoleRef
				req = gateRequest(t, "rolebindings", "RoleBinding", who, b)
			}
			results, err := gate.Validate(t.Context(), req)
			rendertest.OK(t, err)
			create := gate.attributes(req, "create")
			get := gate.attributes(req, "get")
			want := allows(server, get) && allows(server, create)
			if got := results[0].Outcome == policy.Pass; got != want {
				t.Fatalf("seed %d: %s: %v, the server: %v", seed, text(create), results[0], want)
			}
			over := gate.attributes(req, "escalate")
			if ref != nil {
				over.Verb, over.Resource, over.Name = "bind", map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[ref.Kind], ref.Name
				rules, err = resolver.GetRoleReferenceRules(t.Context(), *ref, req.Namespace)
				rendertest.OK(t, err)
			}
			ctx := genericapirequest.WithNamespace(genericapirequest.WithUser(context.Background(), who), req.Namespace)
			want = allows(server, over) || validation.ConfirmNoEscalation(ctx, resolver, rules) == nil
			if got := results[1].Outcome == policy.Pass; got != want {
				t.Fatalf("seed %d: %s by %s: %v, the server: %v\n%v", seed, req.Kind.Kind, who.GetName(), results[1], want, rules)
			}
			counts[results[0].Outcome]++
			counts[results[1].Outcome+" to escalate"]++
		}
	}
	t.Log(counts)
	if len(counts) != 4 {
		t.Errorf("not all outcomes: %v", counts)
	}
}

func allows(a decider, c authorizer.AttributesRecord) bool {
	decision, _, err := a.Authorize(context.Background(), c)
	return err == nil && decision == authorizer.DecisionAllow
}

func text(a authorizer.AttributesRecord) string {
	return a.User.GetName() + " " + a.Verb + " " + a.Resource + " " + a.Namespace
}

// TestGateAsks holds whose requests are asked about, and by which verbs.
func TestGateAsks(t *testing.T) {
	t.Parallel()
	who := &user.DefaultInfo{Name: "system:serviceaccount:team:deployer"}
	gate := NewGate(mustNew(t, "rbac", Options{}), nil)
	req := gateRequest(t, "roles", "Role", who, &rbacv1.Role{})
	results, err := gate.Validate(t.Context(), req)
	rendertest.OK(t, err)
	if len(results) != 2 || results[0].Outcome != policy.Fail {
		t.Errorf("%v", results)
	}
	for name, f := range map[string]func(r *policy.Request){
		"its own account":  func(r *policy.Request) { r.Object.Unit = &render.Unit{User: who.Name} },
		"another user":     func(r *policy.Request) { r.UserInfo.Username = "jane" },
		"no unit":          func(r *policy.Request) { r.Object.Unit = nil },
		"of a subresource": func(r *policy.Request) { r.SubResource = "scale" },
	} {
		req := gateRequest(t, "roles", "Role", who, &rbacv1.Role{})
		if f(req); req.Object != nil {
			if results, err := gate.Validate(t.Context(), req); err != nil || len(results) > 0 {
				t.Errorf("%s: %v %v", name, results, err)
			}
		}
	}
}
