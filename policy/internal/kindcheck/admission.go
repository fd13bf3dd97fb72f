package kindcheck

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	fielderr "k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// A hook has the fields that validating and mutating webhooks share.
type hook struct {
	name                              string
	client                            *admissionv1.WebhookClientConfig
	rules                             []admissionv1.RuleWithOperations
	failure                           *admissionv1.FailurePolicyType
	match                             *admissionv1.MatchPolicyType
	sideEffects                       *admissionv1.SideEffectClass
	timeout                           *int32
	namespaceSelector, objectSelector *metav1.LabelSelector
	versions                          []string
}

func (c *check) validatingWebhooks(list, old []admissionv1.ValidatingWebhook) {
	conditions := func(h *admissionv1.ValidatingWebhook) []admissionv1.MatchCondition { return h.MatchConditions }
	now, was := each(list, conditions), each(old, conditions)
	names := map[string]bool{}
	for i := range list {
		h, p := &list[i], Top.In("webhooks", i)
		c.hook(&hook{h.Name, &h.ClientConfig, h.Rules, h.FailurePolicy, h.MatchPolicy, h.SideEffects, h.TimeoutSeconds, h.NamespaceSelector, h.ObjectSelector, h.AdmissionReviewVersions}, p, names)
		c.matchConditions(i, now, was, p.In("matchConditions"))
	}
}

func (c *check) mutatingWebhooks(list, old []admissionv1.MutatingWebhook) {
	conditions := func(h *admissionv1.MutatingWebhook) []admissionv1.MatchCondition { return h.MatchConditions }
	now, was := each(list, conditions), each(old, conditions)
	names := map[string]bool{}
	for i := range list {
		h, p := &list[i], Top.In("webhooks", i)
		c.hook(&hook{h.Name, &h.ClientConfig, h.Rules, h.FailurePolicy, h.MatchPolicy, h.SideEffects, h.TimeoutSeconds, h.NamespaceSelector, h.ObjectSelector, h.AdmissionReviewVersions}, p, names)
		c.matchConditions(i, now, was, p.In("matchConditions"))
		if r := h.ReinvocationPolicy; r != nil {
			oneOf(c, p.In("reinvocationPolicy"), *r, admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
		}
	}
}

// each returns the match conditions of each webhook of a configuration.
func each[T any](hooks []T, of func(*T) []admissionv1.MatchCondition) [][]admissionv1.MatchCondition {
	var all [][]admissionv1.MatchCondition
	for i := range hooks {
		all = append(all, of(&hooks[i]))
	}
	return all
}

func (c *check) hook(h *hook, p *Spot, names map[string]bool) {
	at := p.In("name")
	c.errors(at, validation.IsFullyQualifiedName(at.field(), h.name))
	if names[h.name] && h.name != "" {
		c.duplicate(at, h.name)
	}
	names[h.name] = true
	for i := range h.rules {
		c.admissionRule(&h.rules[i], p.In("rules", i))
	}
	c.failurePolicy(h.failure, p)
	if h.match != nil {
		oneOf(c, p.In("matchPolicy"), *h.match, admissionv1.Equivalent, admissionv1.Exact)
	}
	if h.sideEffects == nil {
		c.required(p.In("sideEffects"), "must specify one of None, NoneOnDryRun")
	} else {
		oneOf(c, p.In("sideEffects"), *h.sideEffects, admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun)
	}
	if t := h.timeout; t != nil && (*t < 1 || *t > 30) {
		c.invalid(p.In("timeoutSeconds"), *t, "the timeout value must be between 1 and 30 seconds")
	}
	c.selector(h.namespaceSelector, p.In("namespaceSelector"))
	c.selector(h.objectSelector, p.In("objectSelector"))
	c.hookClient(h.client, p.In("clientConfig"))
	c.reviewVersions(h.versions, p.In("admissionReviewVersions"))
}

// matchConditions validates the conditions of webhook i, unless an update leaves
// those of all webhooks unchanged. An unchanged expression is not compiled again: the
// server compiles it as a stored one.
func (c *check) matchConditions(i int, now, was [][]admissionv1.MatchCondition, p *Spot) {
	list := now[i]
	if len(list) == 0 || len(was) > 0 && equality.Semantic.DeepEqual(now, was) {
		return
	}
	if n := len(list); n > 64 {
		c.tooMany(p, n, 64)
	}
	stored := map[string]bool{}
	for _, m := range slices.Concat(was...) {
		stored[m.Expression] = true
	}
	env, err := cel.Version(c.release).Env(cel.PolicyDeclarations(false, true))
	if err != nil {
		c.invalid(p, fielderr.OmitValueType{}, err.Error())
		return
	}
	seen := map[string]bool{}
	for i, m := range list {
		at := p.In(i, "name")
		switch text := strings.TrimSpace(m.Expression); {
		case text == "":
			c.required(p.In(i, "expression"), "")
		case !stored[m.Expression]:
			if _, err := cel.Compile(env, text, celgo.BoolType); err != nil {
				c.invalid(p.In(i, "expression"), text, err.Error())
			}
		}
		if m.Name == "" {
			c.required(at, "")
			continue
		}
		c.invalids(at, m.Name, qualifiedName(m.Name))
		if seen[m.Name] {
			c.duplicate(at, m.Name)
		}
		seen[m.Name] = true
	}
}

func (c *check) failurePolicy(f *admissionv1.FailurePolicyType, p *Spot) {
	if f != nil {
		oneOf(c, p.In("failurePolicy"), *f, admissionv1.Fail, admissionv1.Ignore)
	}
}

func (c *check) reviewVersions(versions []string, p *Spot) {
	if len(versions) == 0 {
		c.required(p, "must specify one of v1, v1beta1")
		return
	}
	for i, v := range versions {
		if slices.Contains(versions[:i], v) {
			c.invalid(p.In(i), v, "duplicate version")
			continue
		}
		c.invalids(p.In(i), v, validation.IsDNS1035Label(v))
	}
	if !slices.Contains(versions, "v1") && !slices.Contains(versions, "v1beta1") {
		c.invalid(p, versions, "must include at least one of v1, v1beta1")
	}
}

func (c *check) hookClient(o *admissionv1.WebhookClientConfig, p *Spot) {
	switch {
	case (o.URL == nil) == (o.Service == nil):
		c.required(p, "exactly one of url or service is required")
	case o.URL != nil:
		c.hookURL(*o.URL, p.In("url"))
	default:
		at := p.In("service")
		// The server swaps the name and the namespace.
		if o.Service.Name == "" {
			c.required(at.In("namespace"), "").at(at.In("name"))
		}
		if o.Service.Namespace == "" {
			c.required(at.In("name"), "").at(at.In("namespace"))
		}
		if port := o.Service.Port; port != nil && (*port < 1 || *port > 65535) {
			c.invalid(at.In("port"), *port, "port is not valid: "+strings.Join(validation.IsValidPortNum(int(*port)), ", "))
		}
		if o.Service.Path != nil {
			c.hookPath(*o.Service.Path, at.In("path"))
		}
	}
}

func (c *check) hookURL(text string, p *Spot) {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		c.required(p, "url must be a valid URL: "+err.Error()+form)
		return
	}
	for _, part := range []struct {
		wrong       bool
		value, text string
	}{
		{u.Scheme != "https", u.Scheme, "'https' is the only allowed URL scheme" + form},
		{u.Host == "", u.Host, "host must be specified" + form},
		{u.Fragment != "", u.Fragment, "fragments are not permitted in the URL"},
		{u.RawQuery != "", u.RawQuery, "query parameters are not permitted in the URL"},
	} {
		if part.wrong {
			c.invalid(p, part.value, part.text)
		}
	}
	if u.User != nil {
		c.omitted(p, "user information is not permitted in the URL") // which may be a password
	}
}

func (c *check) hookPath(path string, p *Spot) {
	if path == "" || path == "/" {
		return
	}
	if path == "//" {
		c.invalid(p, path, "segment[0] may not be empty")
		return
	}
	if !strings.HasPrefix(path, "/") {
		c.invalid(p, path, "must start with a '/'")
	}
	for i, step := range strings.Split(strings.TrimSuffix(path[1:], "/"), "/") {
		if step == "" {
			c.invalid(p, path, fmt.Sprintf("segment[%d] may not be empty", i))
			continue
		}
		for _, text := range dnsSubdomain(step) {
			c.invalid(p, path, fmt.Sprintf("segment[%d]: %s", i, text))
		}
	}
}

// admissionRule validates the rule that selects requests for a webhook or policy.
func (c *check) admissionRule(r *admissionv1.RuleWithOperations, p *Spot) {
	operations := p.In("operations")
	if len(r.Operations) == 0 {
		c.required(operations, "")
	}
	if len(r.Operations) > 1 && slices.Contains(r.Operations, admissionv1.OperationAll) {
		c.invalid(operations, r.Operations, "if '*' is present, must not specify other operations")
	}
	for i, o := range r.Operations {
		oneOf(c, operations.In(i), o, admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update)
	}
	c.wild(r.APIGroups, p.In("apiGroups"), "API groups")
	c.wild(r.APIVersions, p.In("apiVersions"), "API versions")
	for i, v := range r.APIVersions {
		if v == "" {
			c.required(p.In("apiVersions", i), "")
		}
	}
	resources := p.In("resources")
	if len(r.Resources) == 0 {
		c.required(resources, "")
	}
	if len(r.Resources) > 1 && slices.Contains(r.Resources, "*/*") {
		c.invalid(resources, r.Resources, "if '*/*' is present, must not specify other resources")
	}
	for i, v := range r.Resources {
		if v == "" {
			c.required(resources.In(i), "")
		}
	}
	if r.Scope != nil {
		oneOf(c, p.In("scope"), *r.Scope, admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope)
	}
}

func (c *check) wild(list []string, p *Spot, what string) {
	if len(list) == 0 {
		c.required(p, "")
	}
	if len(list) > 1 && slices.Contains(list, "*") {
		c.invalid(p, list, "if '*' is present, must not specify other "+what)
	}
}

// admissionPolicy validates the structure of a ValidatingAdmissionPolicy; the engine
// that evaluates it compiles its expressions.
func (c *check) admissionPolicy(s *admissionv1.ValidatingAdmissionPolicySpec, p *Spot) {
	c.failurePolicy(s.FailurePolicy, p)
	if s.ParamKind != nil {
		if s.ParamKind.APIVersion == "" {
			c.required(p.In("paramKind", "apiVersion"), "")
		}
		if s.ParamKind.Kind == "" {
			c.required(p.In("paramKind", "kind"), "")
		}
	}
	constraints := p.In("matchConstraints")
	if s.MatchConstraints == nil {
		c.required(constraints, "")
	} else {
		c.matchResources(s.MatchConstraints, constraints)
		if len(s.MatchConstraints.ResourceRules) == 0 {
			c.required(constraints.In("resourceRules"), "")
		}
	}
	for i, v := range s.Variables {
		if strings.TrimSpace(v.Name) == "" {
			c.required(p.In("variables", i, "name"), "name is not specified")
		}
		if strings.TrimSpace(v.Expression) == "" {
			c.required(p.In("variables", i, "expression"), "expression is not specified")
		}
	}
	if len(s.Validations)+len(s.AuditAnnotations) == 0 {
		const text = "validations or auditAnnotations must contain at least one item"
		c.required(p.In("validations"), text)
		c.required(p.In("auditAnnotations"), text)
	}
	for i, v := range s.Validations {
		if strings.TrimSpace(v.Expression) == "" {
			c.required(p.In("validations", i, "expression"), "expression is not specified")
		}
	}
}

func (c *check) matchResources(m *admissionv1.MatchResources, p *Spot) {
	if m == nil {
		return
	}
	if m.MatchPolicy != nil {
		oneOf(c, p.In("matchPolicy"), *m.MatchPolicy, admissionv1.Equivalent, admissionv1.Exact)
	}
	c.selector(m.NamespaceSelector, p.In("namespaceSelector"))
	c.selector(m.ObjectSelector, p.In("objectSelector"))
	for i := range m.ResourceRules {
		c.admissionRule(&m.ResourceRules[i].RuleWithOperations, p.In("resourceRules", i))
	}
	for i := range m.ExcludeResourceRules {
		c.admissionRule(&m.ExcludeResourceRules[i].RuleWithOperations, p.In("excludeResourceRules", i))
	}
}

func (c *check) admissionBinding(s *admissionv1.ValidatingAdmissionPolicyBindingSpec, p *Spot) {
	if s.PolicyName == "" {
		c.required(p.In("policyName"), "")
	} else {
		c.invalids(p.In("policyName"), s.PolicyName, dnsSubdomain(s.PolicyName))
	}
	if s.ParamRef != nil {
		c.paramRef(s.ParamRef, p.In("paramRef"))
	}
	c.matchResources(s.MatchResources, p.In("matchResources"))
	at := p.In("validationActions")
	for i, a := range s.ValidationActions {
		oneOf(c, at.In(i), a, admissionv1.Audit, admissionv1.Deny, admissionv1.Warn)
		if slices.Contains(s.ValidationActions[:i], a) {
			c.duplicate(at.In(i), a)
		}
	}
	if len(s.ValidationActions) == 0 {
		c.required(at, "at least one validation action is required")
	}
	if slices.Contains(s.ValidationActions, admissionv1.Deny) && slices.Contains(s.ValidationActions, admissionv1.Warn) {
		c.invalid(at, s.ValidationActions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)")
	}
}

func (c *check) paramRef(r *admissionv1.ParamRef, p *Spot) {
	const either = "name and selector are mutually exclusive"
	if r.Name != "" {
		c.invalids(p.In("name"), r.Name, content.IsPathSegmentName(r.Name))
	}
	c.selector(r.Selector, p.In("selector"))
	switch {
	case r.Name != "" && r.Selector != nil:
		c.forbidden(p.In("name"), either)
		c.forbidden(p.In("selector"), either)
	case r.Name == "" && r.Selector == nil:
		c.required(p, "one of name or selector must be specified")
	}
	if a := r.ParameterNotFoundAction; a == nil || *a == "" {
		c.required(p.In("parameterNotFoundAction"), "")
	} else {
		oneOf(c, p.In("parameterNotFoundAction"), *a, admissionv1.DenyAction, admissionv1.AllowAction)
	}
}
