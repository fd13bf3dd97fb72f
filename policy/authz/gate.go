package authz

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-helpers/auth/rbac/validation"
	rbachelpers "k8s.io/kubernetes/pkg/apis/rbac/v1"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// A Gate refuses the requests that the API server does not authorize, and roles and bindings that would give their
// maker more rights than it has. It asks about requests by a service account that the tree names for a deployer:
// spec.serviceAccountName of Flux, spec.destinationServiceAccounts of Argo CD. What a deployer's own account may do is
// rarely in the tree. It is safe for concurrent use.
//
// A result's policy is "authorization", its rule "request" or "escalation".
type Gate struct {
	authorizer *Authorizer
	mu         sync.Mutex // guards roles
	roles      *store     // nil if the authorizer is not RBAC
	applied    []*render.Object
}

// NewGate returns the gate of an authorizer. applied are the objects whose requests it is asked about: a binding may
// give a role among them, which is judged itself.
func NewGate(a *Authorizer, applied []*render.Object) *Gate {
	g := &Gate{authorizer: a, applied: applied}
	if r, ok := a.decider.(*rbac); ok {
		g.roles = r.store
	}
	return g
}

// Validate implements policy.Validator.
func (g *Gate) Validate(ctx context.Context, req *policy.Request) (results []policy.Result, err error) {
	u := req.Subject().Unit
	if u == nil || !u.Impersonates || req.UserInfo.Username != u.User || req.SubResource != "" {
		return nil, nil
	}
	r := g.result(req, "request", func() (message string, err error) {
		for _, verb := range verbs(req) {
			a := g.attributes(req, verb)
			if ok, err := g.allows(ctx, a); err != nil || !ok {
				return forbidden(req, a), err
			}
		}
		return "", nil
	})
	results = append(results, r)
	if req.Admitted == nil || req.Operation == policy.Delete || req.Kind.Group != rbacv1.GroupName {
		return results, nil
	}
	return append(results, g.escalation(ctx, req)...), nil
}

// verbs returns the verbs that a deployer needs for a request. Each reads the object first; server-side apply also has
// to be allowed to create it.
func verbs(req *policy.Request) []string {
	switch {
	case req.Operation == policy.Delete:
		return []string{"delete"}
	case req.Operation == policy.Update && req.Method == policy.Replace:
		return []string{"get", "update"}
	case req.Operation == policy.Update:
		return []string{"get", "patch"}
	case serverSide(req):
		return []string{"get", "patch", "create"}
	}
	return []string{"get", "create"}
}

func serverSide(req *policy.Request) bool {
	return req.Method == policy.ApplyServerSide || req.Method == policy.ApplyAsData
}

// attributes returns the check of a verb, as the API server makes it of the path of a request.
func (g *Gate) attributes(req *policy.Request, verb string) authorizer.AttributesRecord {
	who := &user.DefaultInfo{Name: req.UserInfo.Username, UID: req.UserInfo.UID, Groups: req.UserInfo.Groups, Extra: req.UserInfo.Extra}
	r := req.Resource
	a := authorizer.AttributesRecord{User: who, Verb: verb, Namespace: req.Namespace, APIGroup: r.Group, APIVersion: r.Version, Resource: r.Resource, Name: req.Name, ResourceRequest: true}
	switch posts := req.Operation == policy.Create && !serverSide(req); {
	case posts && verb != "get":
		a.Name = "" // it is not in the path
	case r.Group == "" && r.Resource == "namespaces":
		a.Namespace = req.Name // as RequestInfoFactory of k8s.io/apiserver reads the path
	}
	return a
}

// forbidden returns the API server's message (forbiddenMessage of k8s.io/apiserver's package responsewriters).
func forbidden(req *policy.Request, a authorizer.AttributesRecord) string {
	where := " at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf(" in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("%s %q is forbidden: User %q cannot %s resource %q in API group %q%s", resourceOf(a), req.Name, a.User.GetName(), a.Verb, a.Resource, a.APIGroup, where)
}

func resourceOf(a authorizer.AttributesRecord) string {
	if a.APIGroup == "" {
		return a.Resource
	}
	return a.Resource + "." + a.APIGroup
}

// allows reports whether a check is allowed. The error wraps a *cel.Undecided if that is not known.
func (g *Gate) allows(ctx context.Context, a authorizer.Attributes) (bool, error) {
	decision, _, err := g.authorizer.Authorize(ctx, a)
	return decision == authorizer.DecisionAllow, err
}

// result returns the result of a rule that passes if refusal returns no message.
func (g *Gate) result(req *policy.Request, rule string, refusal func() (message string, err error)) policy.Result {
	r := policy.Result{Engine: policy.EngineAuthorization, Policy: "authorization", Rule: rule, Outcome: policy.Pass, Action: policy.Deny}
	if g.authorizer.Assumed != "" {
		r.Assumed = []string{g.authorizer.Assumed}
	}
	message, err := refusal()
	var undecided *cel.Undecided
	switch {
	case errors.As(err, &undecided):
		r.Outcome, r.Message = policy.Unknown, undecided.Question
	case message != "" && req.Resource.Guessed:
		r.Outcome, r.Message = policy.Unknown, fmt.Sprintf("needs to know the resource of kind %s: give its CustomResourceDefinition with --with", req.Kind.GroupKind())
	case message != "":
		r.Outcome, r.Message, r.Hint = policy.Fail, policy.Shorten(message, policy.MaxMessage), help
	}
	return r
}

const help = "let a role that is bound to the account allow it, or name another account in the object that deploys this one"

// escalation returns the result about the rights that a role has or a binding gives, as the API server's storage of
// roles does (pkg/registry/rbac in k8s.io/kubernetes): the user must have them, or may escalate or bind.
func (g *Gate) escalation(ctx context.Context, req *policy.Request) []policy.Result {
	var object struct {
		Rules           []rbacv1.PolicyRule     `json:"rules"`
		AggregationRule *rbacv1.AggregationRule `json:"aggregationRule"`
		RoleRef         rbacv1.RoleRef          `json:"roleRef"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(req.Admitted, &object); err != nil {
		return nil // the object is refused
	}
	a := g.attributes(req, "escalate")
	if object.RoleRef.Name != "" {
		a.Verb, a.Resource, a.Name = "bind", map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[object.RoleRef.Kind], object.RoleRef.Name
	}
	r := g.result(req, "escalation", func() (message string, err error) {
		if ok, err := g.allows(ctx, a); ok {
			return "", err
		}
		rules := object.Rules
		if object.AggregationRule != nil {
			rules = append(rules, rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, rbacv1.PolicyRule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}})
		}
		if a.Verb == "bind" {
			if rules, err = g.bound(object.RoleRef, req.Namespace); err != nil {
				return "", err
			}
		}
		lacks, err := g.lacking(ctx, a, rules)
		if err != nil || len(lacks) == 0 {
			return "", err
		}
		message = fmt.Sprintf("%s %q is forbidden: user %q is attempting to grant RBAC permissions not currently held: ", resourceOf(g.attributes(req, "")), req.Name, req.UserInfo.Username)
		for _, rule := range lacks {
			message += rbachelpers.CompactString(rule)
		}
		return message, nil
	})
	if r.Outcome == policy.Pass {
		return []policy.Result{r}
	}
	if r.Fields = []string{"/rules"}; a.Verb == "bind" {
		r.Fields = []string{"/roleRef/name"}
	}
	return []policy.Result{r}
}

// maxRights limits the rights of one role that are asked about.
const maxRights = 1000

// lacking returns the rights in rules that the user of a lacks, each as a rule for one verb and one resource.
func (g *Gate) lacking(ctx context.Context, a authorizer.AttributesRecord, rules []rbacv1.PolicyRule) (lacks []rbacv1.PolicyRule, err error) {
	rights := 0
	for _, rule := range rules {
		most := max(len(rule.Verbs), len(rule.NonResourceURLs), len(rule.APIGroups), len(rule.Resources), len(rule.ResourceNames))
		if most <= maxRights { // else the product could be larger than an integer
			rights += len(rule.Verbs) * (len(rule.NonResourceURLs) + len(rule.APIGroups)*len(rule.Resources)*max(len(rule.ResourceNames), 1))
		}
		if most > maxRights || rights > maxRights {
			return nil, &cel.Undecided{Question: fmt.Sprintf("needs to know whether %s has all rights of a role with more than %d", a.User.GetName(), maxRights)}
		}
		for _, one := range validation.BreakdownRule(rule) {
			check := authorizer.AttributesRecord{User: a.User, Verb: one.Verbs[0], Namespace: a.Namespace, ResourceRequest: len(one.NonResourceURLs) == 0}
			if !check.ResourceRequest {
				check.Path = one.NonResourceURLs[0] // the namespace stays: the server also counts such rights that bindings in it give
			} else {
				check.APIGroup, check.APIVersion = one.APIGroups[0], "*"
				check.Resource, check.Subresource, _ = strings.Cut(one.Resources[0], "/")
				if len(one.ResourceNames) > 0 {
					check.Name = one.ResourceNames[0]
				}
			}
			ok, err := g.allows(ctx, check)
			if err != nil {
				return nil, err
			}
			if !ok {
				lacks = append(lacks, one)
			}
		}
	}
	return lacks, nil
}

// bound returns the rules of the role that a binding refers to.
func (g *Gate) bound(ref rbacv1.RoleRef, namespace string) (rules []rbacv1.PolicyRule, err error) {
	unknown := &cel.Undecided{Question: fmt.Sprintf("needs to know the rights that %s %s has", ref.Kind, quote(ref.Name))}
	if g.roles == nil {
		return nil, unknown
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.roles.role(ref, namespace)
	if r.unknown != "" {
		for _, o := range g.applied {
			if k := keyOf(ref.Kind, o); o.GetKind() == ref.Kind && k.name == ref.Name && (k.namespace == "" || k.namespace == namespace) {
				r = &role{variants: [][]part{g.roles.parts(nil, readRole(o))}}
				break
			}
		}
	}
	if len(r.variants) != 1 {
		return nil, unknown
	}
	for _, p := range r.variants[0] {
		if p.leaf == nil || p.doubt != "" {
			return nil, unknown
		}
		rules = append(rules, p.leaf.rules...)
	}
	return rules, nil
}

// Rules implements policy.Validator.
func (g *Gate) Rules() (all []policy.Rule) {
	for _, r := range [][3]string{
		{
			"request", "The account that applies an object may do so",
			"The API server asks its authorizer before it asks any policy. Objects are applied by the service account that spec.serviceAccountName of a Kustomization or HelmRelease, or Argo CD's project, names.",
		},
		{
			"escalation", "The account that applies a role or binding has the rights that it gives",
			"The API server lets nobody give rights that they do not have, unless they may escalate roles or bind the role.",
		},
	} {
		all = append(all, policy.Rule{
			Engine: policy.EngineAuthorization, Policy: "authorization", Name: r[0], Action: policy.Deny, Title: r[1], Description: r[2], Help: help,
			URL: "https://kubernetes.io/docs/reference/access-authn-authz/rbac/",
		})
	}
	return all
}
