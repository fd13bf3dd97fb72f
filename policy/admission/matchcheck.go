package admission

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// answer is a truth in the words of explanations.
func (t truth) answer() policy.Answer {
	switch t {
	case yes:
		return policy.Yes
	case no:
		return policy.No
	default:
		return policy.Undecided
	}
}

// checks lists the questions that match answers, each with its own answer, in
// the order in which it asks them. o is the policy or binding, base the
// pointer of the criteria in it.
func (c *criteria) checks(r *review, o *render.Object, base string) []policy.Check {
	if c == nil {
		return nil
	}
	l := &checkList{criteria: c, review: r, object: o, base: base}
	l.objects()
	l.rules("excludeResourceRules", c.exclude)
	l.rules("resourceRules", c.include)
	l.namespaces()
	return l.checks
}

// A checkList collects checks.
type checkList struct {
	*criteria
	review *review
	object *render.Object
	base   string
	checks []policy.Check
}

func (l *checkList) add(name, pointer, text string, answer truth, why string) {
	l.checks = append(l.checks, policy.Check{
		Name: name, Text: text, Answer: answer.answer(), Why: why, Origin: span(l.object, l.base+pointer),
	})
}

func (l *checkList) objects() {
	if l.criteria.objects.Empty() {
		return
	}
	var have []string
	for _, tree := range []map[string]any{l.review.req.Admitted, l.review.req.OldAdmitted} {
		if tree != nil {
			have = append(have, set(labelsOf(tree)))
		}
	}
	l.add("objectSelector", "/objectSelector", l.criteria.objects.String(), truthOf(l.matchObjects(l.review)),
		"the object has "+strings.Join(slices.Compact(have), ", and had "))
}

// set shows labels.
func set(all map[string]string) string {
	if len(all) == 0 {
		return "no labels"
	}
	return "the labels " + labels.Set(all).String()
}

func (l *checkList) rules(list string, rules []v1.NamedRuleWithOperations) {
	requested := policy.Version{Resource: l.review.req.Resource.GroupVersionResource, Kind: l.review.req.Kind}
	for i := range rules {
		as, ok := l.matchRules(rules[i:i+1], l.review, requested)
		why := ""
		switch {
		case ok && as != requested:
			why = "the same objects are served as " + resourceText(as.Resource)
		case !ok:
			why = mismatch(&rules[i], l.review, requested.Resource)
		}
		l.add(fmt.Sprintf("%s[%d]", list, i), render.Pointer(list, i), ruleText(&rules[i]), truthOf(ok), why)
	}
}

func (l *checkList) namespaces() {
	r := l.review
	if l.criteria.namespaces.Empty() {
		return
	}
	why := "the request is in no namespace"
	if r.namespace != "" || r.req.Resource.Resource == "namespaces" {
		set, complete := r.namespaceLabels()
		why = fmt.Sprintf("namespace %s is labelled %s", r.namespace, labels.Set(set))
		if !complete {
			why = r.unknownNamespace()
		}
	}
	l.add("namespaceSelector", "/namespaceSelector", l.criteria.namespaces.String(), l.matchNamespace(r), why)
}

// mismatch says why a rule is not about the requested resource, "" when it is.
func mismatch(rule *v1.NamedRuleWithOperations, r *review, resource schema.GroupVersionResource) string {
	switch {
	case !matchScope(rule.Scope, r, resource):
		return fmt.Sprintf("its scope is %s", *rule.Scope)
	case !matchOperation(rule.Operations, r.req.Operation):
		return fmt.Sprintf("%s is not among its operations", r.req.Operation)
	case !wildcard(rule.APIGroups, resource.Group):
		return fmt.Sprintf("%q is not among its apiGroups", resource.Group)
	case !wildcard(rule.APIVersions, resource.Version):
		return fmt.Sprintf("%q is not among its apiVersions", resource.Version)
	case !matchResource(rule.Resources, resource.Resource, r.req.SubResource):
		return fmt.Sprintf("%q is not among its resources", resource.Resource)
	case len(rule.ResourceNames) > 0 && !slices.Contains(rule.ResourceNames, r.req.Name):
		return fmt.Sprintf("%q is not among its resourceNames", r.req.Name)
	}
	return ""
}

// ruleText puts a rule in a line: CREATE, UPDATE of deployments in apps/v1.
func ruleText(rule *v1.NamedRuleWithOperations) string {
	var operations []string
	for _, o := range rule.Operations {
		operations = append(operations, string(o))
	}
	groups := slices.Clone(rule.APIGroups)
	for i, g := range groups {
		if g == "" {
			groups[i] = `""`
		}
	}
	text := fmt.Sprintf("%s of %s in %s/%s", strings.Join(operations, ", "), strings.Join(rule.Resources, ", "),
		strings.Join(groups, ","), strings.Join(rule.APIVersions, ","))
	if rule.Scope != nil && *rule.Scope != v1.AllScopes {
		text += ", " + string(*rule.Scope)
	}
	if len(rule.ResourceNames) > 0 {
		text += ", named " + strings.Join(rule.ResourceNames, ", ")
	}
	return text
}

func resourceText(r schema.GroupVersionResource) string {
	return r.Resource + " in " + r.GroupVersion().String()
}
