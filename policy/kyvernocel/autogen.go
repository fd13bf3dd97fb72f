package kyvernocel

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"

	"github.com/preadmit/preadmit/policy/internal/match"
)

// A podController is a resource for which Kyverno copies policies about pods.
type podController struct{ group, resource string }

// A shape is a place of the pod in controllers, with the controllers that have
// it there. Kyverno makes one copy of a policy for each shape.
type shape struct {
	name        string
	prefix      string // of the pod's spec and metadata, in dots
	controllers []podController
}

var shapes = []shape{
	{"defaults", "spec.template.", []podController{
		{"apps", "daemonsets"}, {"apps", "deployments"}, {"apps", "replicasets"}, {"apps", "statefulsets"}, {"batch", "jobs"},
	}},
	{"cronjobs", "spec.jobTemplate.spec.template.", []podController{{"batch", "cronjobs"}}},
}

// autogen returns the copies that Kyverno generates from a policy about pods
// (pkg/cel/autogen of Kyverno).
func (p *Policy) autogen() ([]*spec, error) {
	if !p.copied() {
		return nil, nil
	}
	var all []*spec
	for _, shape := range shapes {
		m := p.constraints(shape)
		if m == nil {
			continue
		}
		s, err := p.rewritten(shape)
		if err != nil {
			return nil, err
		}
		s.defaults()
		s.MatchConstraints = m
		all = append(all, s)
	}
	return all, nil
}

// copied reports whether the policy is about pods as such, and nothing else.
func (p *Policy) copied() bool {
	m := p.spec.MatchConstraints
	if p.Kind != Validating && p.Kind != ImageValidating && p.Kind != Mutating ||
		m == nil || p.spec.Evaluation.Mode != modeKubernetes || len(m.ResourceRules) != 1 || len(m.ExcludeResourceRules) > 0 || !empty(m.ObjectSelector) {
		return false
	}
	r := m.ResourceRules[0]
	return slices.Equal(r.APIGroups, []string{""}) && slices.Equal(r.APIVersions, []string{"v1"}) &&
		slices.Equal(r.Resources, []string{"pods"}) && len(r.ResourceNames) == 0
}

// constraints returns the match constraints of the copy for a shape, or nil if
// there is no copy.
func (p *Policy) constraints(of shape) *v1.MatchResources {
	given := p.spec.MatchConstraints
	byGroup := map[string][]string{}
	for _, c := range of.controllers {
		if pc := p.spec.Autogen.PodControllers; pc == nil || pc.Controllers == nil || slices.Contains(pc.Controllers, c.resource) {
			byGroup[c.group] = append(byGroup[c.group], c.resource)
		}
	}
	m := &v1.MatchResources{NamespaceSelector: given.NamespaceSelector}
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		m.ResourceRules = append(m.ResourceRules, v1.NamedRuleWithOperations{RuleWithOperations: v1.RuleWithOperations{
			Operations: given.ResourceRules[0].Operations,
			Rule:       v1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: byGroup[group]},
		}})
	}
	if len(m.ResourceRules) == 0 {
		return nil
	}
	match.Default(m)
	return m
}

// rewritten returns the spec of the copy for controllers of a shape.
func (p *Policy) rewritten(of shape) (*spec, error) {
	data, err := json.Marshal(p.Object.Object["spec"])
	if err != nil {
		return nil, err
	}
	if p.Kind != Mutating {
		data = rewriteText(data, of)
	}
	s := &spec{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, err
	}
	if p.Kind == Mutating {
		s.rewriteMutations(of)
	}
	return s, nil
}

// podPart matches the paths that rewriteText rewrites, and those of the namespace, which stay.
var podPart = regexp.MustCompile(`(object|oldObject)\.(spec|metadata)(\.namespace\b)?`)

// rewriteText rewrites the text of a spec without parsing it, as Kyverno does.
// So object.metadata.name becomes the name of the pod template, which has none.
func rewriteText(data []byte, of shape) []byte {
	return podPart.ReplaceAllFunc(data, func(path []byte) []byte {
		root, part, _ := bytes.Cut(path, []byte("."))
		if bytes.HasSuffix(part, []byte(".namespace")) {
			return path
		}
		return slices.Concat(root, []byte("."+of.prefix), part)
	})
}

var (
	specOf     = regexp.MustCompile(`\b(object|oldObject|Object)\.spec`)
	metadataOf = regexp.MustCompile(`\b(object|oldObject|Object)\.metadata\.(labels|annotations)`)
)

// rewriteMutations rewrites match conditions and apply configurations only.
// Variables and JSON patches stay unchanged.
func (s *spec) rewriteMutations(of shape) {
	for i := range s.MatchConditions {
		s.MatchConditions[i].Expression = rewriteExpression(s.MatchConditions[i].Expression, of)
	}
	for i := range s.Mutations {
		if a := s.Mutations[i].ApplyConfiguration; a != nil {
			a.Expression = rewriteExpression(a.Expression, of)
		}
	}
}

func rewriteExpression(e string, of shape) string {
	e = specOf.ReplaceAllString(e, "${1}."+of.prefix+"spec")
	e = metadataOf.ReplaceAllString(e, "${1}."+of.prefix+"metadata.${2}")
	rest, ok := strings.CutPrefix(strings.TrimSpace(e), "Object")
	inner, opens := strings.CutPrefix(strings.TrimLeft(rest, " \t\r\n"), "{")
	if !ok || !opens {
		return e
	}
	end := closing(inner)
	if end <= 0 {
		return e
	}
	var b strings.Builder
	path := "Object"
	b.WriteString(path + "{")
	levels := strings.Split(strings.TrimSuffix(of.prefix, "."), ".")
	for _, level := range levels {
		path += "." + level
		b.WriteString(level + ": " + path + "{")
	}
	b.WriteString(inner[:end] + strings.Repeat("}", len(levels)+1) + inner[end+1:])
	return b.String()
}

// closing returns the index after the brace that closes the one before s, or 0
// if it is not closed.
func closing(s string) int {
	depth := 1
	for i, c := range s {
		switch c {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return 0
}
