package crd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// gate adds failures for rules that the selected API server version can't
// compile although the newest one can. Upstream's validation knows only its own
// version. Rules that the definition had before are allowed.
func (d *definitionReview) gate() {
	if d.target >= cel.Newest() {
		return
	}
	before := d.expressionsBefore()
	for i, v := range versionNames(d.written) {
		s := d.structural(v)
		if s == nil || !hasRules(s) {
			continue
		}
		g := gated{schema: s, pointer: schemaPointer(d.written, i), checked: map[cel.Version][]*rule{}}
		newest := g.check(cel.Newest())
		for n, rule := range g.check(d.target) {
			d.gateRule(&g, rule, newest[n], before)
		}
	}
}

// gated is a schema whose rules are compiled as new rules by API servers of
// several versions.
type gated struct {
	schema  *schema.Structural
	pointer string
	checked map[cel.Version][]*rule
}

func (g *gated) check(v cel.Version) []*rule {
	if rules, ok := g.checked[v]; ok {
		return rules
	}
	k := &compiler{env: func(d cel.Declarations) (*celgo.Env, error) { return v.Env(d) }, check: true}
	k.root(g.schema, g.pointer)
	g.checked[v] = k.rules
	return k.rules
}

func (d *definitionReview) gateRule(g *gated, rule, newest *rule, before map[string]bool) {
	for _, x := range []struct{ key, source, fault, sooner string }{
		{"rule", rule.Rule, rule.fault, newest.fault},
		{"messageExpression", rule.MessageExpression, rule.messageBad, newest.messageBad},
	} {
		if x.fault == "" || x.sooner != "" || before[x.source] {
			continue
		}
		pointer := rule.pointer + "/" + x.key
		result := policy.Result{
			Outcome: policy.Fail, Rule: ruleName(d.written, pointer), Reason: "Invalid", Fields: []string{pointer},
			Message: fmt.Sprintf("%s: Invalid value: %q: %s", writtenPath(pointer), x.source, x.fault),
		}
		needed, ok := d.target.NeededVersion(func(v cel.Version) bool {
			now := g.check(v)[rule.index]
			return now.fault == "" && now.messageBad == ""
		})
		if ok {
			result.Hint = fmt.Sprintf("needs Kubernetes %s; --kube-version is %s", needed, d.target)
		}
		d.add(result)
	}
}

func (d *definitionReview) structural(version string) *schema.Structural {
	custom, err := apiextensions.GetSchemaForVersion(d.now, version)
	if err != nil || custom == nil || custom.OpenAPIV3Schema == nil {
		return nil
	}
	s, err := schema.NewStructural(custom.OpenAPIV3Schema)
	if err != nil {
		return nil
	}
	return s
}

func (d *definitionReview) expressionsBefore() map[string]bool {
	found := map[string]bool{}
	if d.old == nil {
		return found
	}
	crdvalidation.HasSchemaWith(&d.old.Spec, func(s *apiextensions.JSONSchemaProps) bool {
		crdvalidation.SchemaHas(s, func(s *apiextensions.JSONSchemaProps) bool {
			for _, v := range s.XValidations {
				found[v.Rule], found[v.MessageExpression] = true, true
			}
			return false
		})
		return false
	})
	return found
}

// writtenPath formats a pointer into a definition as the API server writes
// paths.
func writtenPath(pointer string) string {
	return strings.TrimPrefix(schemaPath(pointer), ".")
}

// warn adds the API server's warnings: formats that it does not know and
// therefore does not validate (WarningsOnCreate of
// k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition).
func (d *definitionReview) warn() {
	for i := range versionNames(d.written) {
		pointer := schemaPointer(d.written, i)
		root, _ := render.Lookup(d.written, pointer)
		if root, ok := root.(map[string]any); ok {
			walkSpots(spot{root, pointer}, d.warnOfFormat)
		}
	}
}

func (d *definitionReview) warnOfFormat(s spot) {
	format, _ := s.node["format"].(string)
	typ, _ := s.node["type"].(string)
	props := &spec.Schema{SchemaProps: spec.SchemaProps{Format: format, Type: []string{typ}}}
	if format == "" || d.target < numberFormats && typ != "string" || len(validation.GetUnrecognizedFormats(props, version.MajorMinor(1, uint(d.target)-1))) == 0 {
		return
	}
	pointer := s.pointer + "/format"
	d.add(policy.Result{
		Outcome: policy.Fail, Action: policy.Warn, Rule: ruleName(d.written, pointer), Fields: []string{pointer},
		Message: fmt.Sprintf("unrecognized format %q", format), Hint: "the API server does not validate it",
	})
}

// mostExpensive names the rules that make up most of a definition's estimated
// cost.
func (d *definitionReview) mostExpensive(pointer string) string {
	custom, err := apiextensions.GetSchemaForVersion(d.now, d.versionOf(pointer))
	if err != nil || custom == nil || custom.OpenAPIV3Schema == nil {
		return ""
	}
	c := costs{env: environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())}
	c.walk(custom.OpenAPIV3Schema, crdvalidation.RootCELContext(custom.OpenAPIV3Schema), "")
	slices.SortStableFunc(c.rules, func(a, b ruleCost) int { return cmp.Compare(b.cost, a.cost) })
	var names []string
	for _, x := range c.rules[:min(len(c.rules), 4)] {
		if x.cost >= crdvalidation.StaticEstimatedCRDCostLimit/100 {
			names = append(names, strings.TrimPrefix(schemaPath(x.pointer), "."))
		}
	}
	return "most of the cost is that of " + strings.Join(names, ", ")
}

// costs estimates each rule of a schema as upstream does, in stable order.
type costs struct {
	env   *environment.EnvSet
	rules []ruleCost
}

type ruleCost struct {
	pointer string
	cost    uint64
}

func (c *costs) walk(s *apiextensions.JSONSchemaProps, at *crdvalidation.CELSchemaContext, pointer string) {
	if s == nil {
		return
	}
	c.node(s, at, pointer)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		child := s.Properties[name]
		c.walk(&child, at.ChildPropertyContext(&child, name), pointer+render.Pointer("properties", name))
	}
	if s.AdditionalProperties != nil {
		child := s.AdditionalProperties.Schema
		c.walk(child, at.ChildAdditionalPropertiesContext(child), pointer+"/additionalProperties")
	}
	if s.Items != nil {
		c.walk(s.Items.Schema, at.ChildItemsContext(s.Items.Schema), pointer+"/items")
	}
}

func (c *costs) node(s *apiextensions.JSONSchemaProps, at *crdvalidation.CELSchemaContext, pointer string) {
	info, err := at.TypeInfo()
	if len(s.XValidations) == 0 || err != nil || info == nil {
		return
	}
	compiled, err := schemacel.Compile(info.Schema, info.DeclType, celconfig.PerCallLimit, c.env, schemacel.NewExpressionsEnvLoader())
	if err != nil {
		return
	}
	for i, r := range compiled {
		times := r.MaxCardinality
		if at.MaxCardinality != nil {
			times = *at.MaxCardinality
		}
		cost := r.MaxCost * times
		if times > 0 && cost/times != r.MaxCost {
			cost = ^uint64(0)
		}
		c.rules = append(c.rules, ruleCost{pointer + render.Pointer(validationsKey, i), cost})
	}
}
