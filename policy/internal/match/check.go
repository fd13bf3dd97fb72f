package match

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

// Answer converts the truth to an answer of explanations.
func (t Truth) Answer() policy.Answer {
	switch t {
	case Yes:
		return policy.Yes
	case No:
		return policy.No
	default:
		return policy.Undecided
	}
}

// Checks lists the questions of Match in their order, each with its own answer.
// o is the policy or binding, base the pointer of the criteria in it.
func (c *Criteria) Checks(s Subject, o *render.Object, base string) []policy.Check {
	if c == nil {
		return nil
	}
	l := &checkList{Criteria: c, subject: s, object: o, base: base}
	l.objects()
	l.rules("excludeResourceRules", c.exclude)
	l.rules("resourceRules", c.include)
	l.namespaces()
	return l.checks
}

// A checkList collects checks.
type checkList struct {
	*Criteria
	subject Subject
	object  *render.Object
	base    string
	checks  []policy.Check
}

func (c *checkList) add(name, pointer, text string, answer Truth, why string) {
	c.checks = append(c.checks, policy.Check{
		Name: name, Text: text, Answer: answer.Answer(), Why: why, Origin: c.object.Span(c.base + pointer),
	})
}

func (c *checkList) objects() {
	if c.Criteria.objects.Empty() {
		return
	}
	var have []string
	for _, tree := range []map[string]any{c.subject.Request().Admitted, c.subject.Request().OldAdmitted} {
		if tree != nil {
			have = append(have, set(LabelsOf(tree)))
		}
	}
	c.add("objectSelector", "/objectSelector", c.Criteria.objects.String(), truthOf(c.matchObjects(c.subject)),
		"the object has "+strings.Join(slices.Compact(have), ", and had "))
}

// set formats labels.
func set(all map[string]string) string {
	if len(all) == 0 {
		return "no labels"
	}
	return "the labels " + labels.Set(all).String()
}

func (c *checkList) rules(list string, rules []v1.NamedRuleWithOperations) {
	requested := requested(c.subject.Request())
	for i := range rules {
		as, ok := c.matchRules(rules[i:i+1], c.subject, requested, matchRule)
		why, answer := "", truthOf(ok)
		switch {
		case !ok && c.mayName(rules[i:i+1], c.subject, matchRule):
			answer = Unknown
			why = "the tree has no CustomResourceDefinition, which may serve the objects in this version, too"
			if c.subject.Request().Resource.Guessed {
				why = fmt.Sprintf("%q is a guess: the tree has no CustomResourceDefinition", requested.Resource.Resource)
			}
		case ok && as != requested:
			why = "the same objects are served as " + ResourceText(as.Resource)
		case !ok:
			why = mismatch(&rules[i], c.subject, requested.Resource)
		}
		c.add(fmt.Sprintf("%s[%d]", list, i), render.Pointer(list, i), ruleText(&rules[i]), answer, why)
	}
}

func (c *checkList) namespaces() {
	r := c.subject
	if c.Criteria.namespaces.Empty() {
		return
	}
	why := "the request is in no namespace"
	if r.In() != "" || r.Request().Resource.Resource == "namespaces" {
		set, complete := r.NamespaceLabels()
		why = fmt.Sprintf("namespace %s is labelled %s", r.In(), labels.Set(set))
		if !complete {
			why = UnknownNamespace(r.In())
		}
	}
	c.add("namespaceSelector", "/namespaceSelector", c.Criteria.namespaces.String(), c.matchNamespace(r), why)
}

// mismatch returns why a rule does not match the requested resource, or "" if
// it does. The scope comes after the resource: a rule about Secrets differs from a
// Namespace by its resources first.
func mismatch(rule *v1.NamedRuleWithOperations, r Subject, resource schema.GroupVersionResource) string {
	switch {
	case !matchOperation(rule.Operations, r.Request().Operation):
		return fmt.Sprintf("%s is not among its operations", r.Request().Operation)
	case !Wildcard(rule.APIGroups, resource.Group):
		return fmt.Sprintf("%q is not among its apiGroups", resource.Group)
	case !Wildcard(rule.APIVersions, resource.Version):
		return fmt.Sprintf("%q is not among its apiVersions", resource.Version)
	case !Resource(rule.Resources, resource.Resource, r.Request().SubResource):
		return fmt.Sprintf("%q is not among its resources", resource.Resource)
	case !matchScope(rule.Scope, r, resource):
		return fmt.Sprintf("its scope is %s", *rule.Scope)
	case len(rule.ResourceNames) > 0 && !slices.Contains(rule.ResourceNames, r.Request().Name):
		return fmt.Sprintf("%q is not among its resourceNames", r.Request().Name)
	}
	return ""
}

// ruleText formats a rule: CREATE, UPDATE of deployments in apps/v1.
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
	in := strings.Join(groups, ",") + "/" + strings.Join(rule.APIVersions, ",")
	text := fmt.Sprintf("%s of %s in %s", strings.Join(operations, ", "), strings.Join(rule.Resources, ", "), strings.TrimPrefix(in, `""/`))
	if rule.Scope != nil && *rule.Scope != v1.AllScopes {
		text += ", " + string(*rule.Scope)
	}
	if len(rule.ResourceNames) > 0 {
		text += ", named " + strings.Join(rule.ResourceNames, ", ")
	}
	return text
}

// ResourceText describes a resource in words.
func ResourceText(r schema.GroupVersionResource) string {
	return r.Resource + " in " + r.GroupVersion().String()
}

// Question returns the fact that the criteria need where Match returns Unknown, and the pointer of
// the criterion that needs it.
func (c *Criteria) Question(s Subject) (fact, pointer string) {
	if c.matchNamespace(s) == Unknown {
		return UnknownNamespace(s.In()), "/namespaceSelector"
	}
	return UnknownResource(s.Request()), "/resourceRules"
}

// UnknownResource returns the needed fact about the kind of a request: the name of its resource, or its versions.
func UnknownResource(r *policy.Request) string {
	if r.Resource.Guessed {
		return fmt.Sprintf("needs to know the resource of kind %s: give its CustomResourceDefinition with --with", r.Kind.GroupKind())
	}
	return fmt.Sprintf("needs to know the versions of kind %s: give its CustomResourceDefinition with --with", r.Kind.GroupKind())
}

// UnknownNamespace returns the needed fact about an unknown namespace.
func UnknownNamespace(name string) string {
	return fmt.Sprintf("labels of namespace %s are unknown: give the Namespace with --with", name)
}
