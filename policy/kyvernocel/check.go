package kyvernocel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A checker performs Kyverno's validation of a policy (the schemas of its CRDs,
// and its validating webhook), except for compiling expressions.
type checker struct {
	policy *Policy
	errs   []error
}

func (c *checker) add(pointer, rule, format string, args ...any) {
	c.errs = append(c.errs, policy.ErrorAt(c.policy.Object, pointer, rule, fmt.Errorf(format, args...)))
}

// fields checks for fields that only other kinds of policies have.
func (c *checker) fields() {
	given, _ := c.policy.Object.Object["spec"].(map[string]any)
	known := append(slices.Clone(commonFields), ownFields[c.policy.Kind]...)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, key) {
			c.add(render.KeyOf(render.Pointer("spec", key)), "policy", "unknown field %q: a %s has none", "spec."+key, c.policy.Kind)
		}
	}
}

func (c *checker) check() {
	s := c.policy.spec
	if c.policy.Name == "" {
		c.add("/metadata", "policy", "metadata.name: required")
	}
	if f := s.FailurePolicy; f != nil && *f != v1.Fail && *f != v1.Ignore {
		c.add("/spec/failurePolicy", "policy", "spec.failurePolicy: unsupported value %q: must be Fail or Ignore", *f)
	}
	c.mode()
	for _, m := range []struct {
		pointer string
		match   *v1.MatchResources
	}{{"/spec/matchConstraints", s.MatchConstraints}, {"/spec/targetMatchConstraints", s.targets()}} {
		if m.match != nil {
			c.match(m.pointer, m.match)
		}
	}
	c.names()
	c.actions()
	switch c.policy.Kind {
	case Validating:
		c.required("validations", len(s.Validations)+len(s.AuditAnnotations))
	case Mutating:
		c.mutations()
	case Generating:
		c.generations()
	case Deleting:
		c.deleting()
	case ImageValidating:
		c.images()
	}
}

func (s *spec) targets() *v1.MatchResources {
	if s.TargetMatchConstraints == nil {
		return nil
	}
	return &s.TargetMatchConstraints.MatchResources
}

// errProxy is the reason why policies about requests of a proxy are not
// evaluated.
var errProxy = errors.New("checks requests of a proxy, not objects")

func (c *checker) mode() {
	switch mode := c.policy.spec.Evaluation.Mode; mode {
	case "", modeKubernetes, modeJSON:
	case modeEnvoy, modeHTTP:
		e := policy.ErrorAt(c.policy.Object, "/spec/evaluation/mode", "policy", fmt.Errorf("spec.evaluation.mode %s: %w", mode, errProxy))
		e.Warning = true // on a cluster it evaluates no objects either
		c.errs = append(c.errs, e)
	default:
		c.add("/spec/evaluation/mode", "policy", "spec.evaluation.mode: unsupported value %q: must be Kubernetes, JSON, Envoy or HTTP", mode)
	}
}

func (c *checker) required(field string, n int) {
	if n == 0 {
		c.add("/spec", "policy", "spec.%s: required", field)
	}
}

func (c *checker) match(pointer string, m *v1.MatchResources) {
	if p := m.MatchPolicy; p != nil && *p != v1.Exact && *p != v1.Equivalent {
		c.add(pointer+"/matchPolicy", "policy", "matchPolicy: unsupported value %q: must be Exact or Equivalent", *p)
	}
	for field, selector := range map[string]*metav1.LabelSelector{"namespaceSelector": m.NamespaceSelector, "objectSelector": m.ObjectSelector} {
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			c.add(pointer+"/"+field, "policy", "%s: %w", field, err)
		}
	}
	for field, rules := range map[string][]v1.NamedRuleWithOperations{"resourceRules": m.ResourceRules, "excludeResourceRules": m.ExcludeResourceRules} {
		for i, r := range rules {
			for j, op := range r.Operations {
				if !slices.Contains([]v1.OperationType{v1.Create, v1.Update, v1.Delete, v1.Connect, v1.OperationAll}, op) {
					c.add(pointer+render.Pointer(field, i, "operations", j), "policy", "unsupported operation %q", op)
				}
			}
			if s := r.Scope; s != nil && *s != v1.AllScopes && *s != v1.ClusterScope && *s != v1.NamespacedScope {
				c.add(pointer+render.Pointer(field, i, "scope"), "policy", "unsupported scope %q: must be Cluster, Namespaced or *", *s)
			}
		}
	}
}

func (c *checker) names() {
	s := c.policy.spec
	seen := map[string]bool{}
	named := func(list, field string, i int, name string) {
		switch key := list + "/" + name; {
		case name == "":
			c.add(render.Pointer("spec", list, i), "policy", "spec.%s[%d].%s: required", list, i, field)
		case seen[key]:
			c.add(render.Pointer("spec", list, i, field), "policy", "spec.%s[%d].%s: duplicate value %q", list, i, field, name)
		default:
			seen[key] = true
		}
	}
	for i, x := range s.MatchConditions {
		named("matchConditions", "name", i, x.Name)
	}
	for i, x := range s.TargetMatchConditions {
		named("targetMatchConditions", "name", i, x.Name)
	}
	for i, x := range s.Variables {
		named("variables", "name", i, x.Name)
	}
	for i, x := range s.AuditAnnotations {
		named("auditAnnotations", "key", i, x.Key)
	}
	for i, x := range s.Images {
		named("images", "name", i, x.Name)
	}
	for i, x := range s.Attestors {
		name, _ := x["name"].(string)
		named("attestors", "name", i, name)
	}
	for i, x := range s.Attestations {
		name, _ := x["name"].(string)
		named("attestations", "name", i, name)
	}
}

func (c *checker) actions() {
	seen := map[v1.ValidationAction]bool{}
	for i, a := range c.policy.spec.ValidationActions {
		pointer := render.Pointer("spec", "validationActions", i)
		switch {
		case a != v1.Deny && a != v1.Warn && a != v1.Audit:
			c.add(pointer, "policy", "spec.validationActions[%d]: unsupported value %q: must be Audit, Deny or Warn", i, a)
		case seen[a]:
			c.add(pointer, "policy", "spec.validationActions[%d]: duplicate value %q", i, a)
		}
		seen[a] = true
	}
}

func (c *checker) mutations() {
	s := c.policy.spec
	c.required("mutations", len(s.Mutations))
	for i, m := range s.Mutations {
		rule, pointer := fmt.Sprintf("mutations[%d]", i), render.Pointer("spec", "mutations", i)
		switch {
		case m.PatchType != v1.PatchTypeApplyConfiguration && m.PatchType != v1.PatchTypeJSONPatch:
			c.add(pointer, rule, "spec.%s.patchType: must be ApplyConfiguration or JSONPatch, not %q", rule, m.PatchType)
		case m.PatchType == v1.PatchTypeApplyConfiguration && m.ApplyConfiguration == nil:
			c.add(pointer, rule, "spec.%s.applyConfiguration: required by the patchType", rule)
		case m.PatchType == v1.PatchTypeJSONPatch && m.JSONPatch == nil:
			c.add(pointer, rule, "spec.%s.jsonPatch: required by the patchType", rule)
		}
	}
	if r := s.ReinvocationPolicy; r != "" && r != v1.NeverReinvocationPolicy && r != v1.IfNeededReinvocationPolicy {
		c.add("/spec/reinvocationPolicy", "policy", "spec.reinvocationPolicy: unsupported value %q: must be IfNeeded or Never", r)
	}
}

func (c *checker) generations() {
	c.required("generate", len(c.policy.spec.Generate))
	for i, g := range c.policy.spec.Generate {
		pointer := render.Pointer("spec", "generate", i)
		switch t := g.Template; {
		case g.Expression == "" && t == nil:
			c.add(pointer, "policy", "spec.generate[%d]: expression or template is required", i)
		case g.Expression != "" && t != nil:
			c.add(pointer, "policy", "spec.generate[%d]: expression and template are mutually exclusive", i)
		case t != nil && t.Interpolate != "" && t.Interpolate != "none" && t.Interpolate != "cel":
			c.add(pointer+"/template/interpolate", "policy", "spec.generate[%d].template.interpolate: unsupported value %q: must be none or cel", i, t.Interpolate)
		}
	}
}

func (c *checker) deleting() {
	s := c.policy.spec
	if strings.TrimSpace(s.Schedule) == "" {
		c.add("/spec", "policy", "spec.schedule: required")
	}
	if n := len(strings.Fields(s.Schedule)); n != 0 && (n < 5 || n > 7) && !strings.HasPrefix(s.Schedule, "@") {
		c.add("/spec/schedule", "policy", "spec.schedule: %q is not a schedule such as 0 * * * *", s.Schedule)
	}
	if d := s.DeletionPropagationPolicy; d != "" && d != "Foreground" && d != "Background" && d != "Orphan" {
		c.add("/spec/deletionPropagationPolicy", "policy", "spec.deletionPropagationPolicy: unsupported value %q: must be Foreground, Background or Orphan", d)
	}
	for i, x := range s.Conditions {
		if x.Name == "" {
			c.add(render.Pointer("spec", "conditions", i), "policy", "spec.conditions[%d].name: required", i)
		}
	}
}

func (c *checker) images() {
	for i, m := range c.policy.spec.MatchImageReferences {
		if (m.Glob == "") == (m.Expression == "") {
			c.add(render.Pointer("spec", "matchImageReferences", i), "policy", "spec.matchImageReferences[%d]: exactly one of glob and expression is required", i)
		}
	}
	c.required("validations", len(c.policy.spec.Validations))
}
