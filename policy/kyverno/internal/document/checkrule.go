package document

import (
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/internal/pattern"
)

func (c checker) rule(r *Rule) {
	x := field{r.Source, r.Pointer}
	c.kind(r, x)
	c.blocks(r)
	c.context(r, x.at("context"))
	c.conditionsComplete(x.at("preconditions"))
	if len(r.CELPreconditions) > 0 && (r.Validate == nil || r.Validate.CEL == nil) {
		c.add(r.Pointer+"/celPreconditions", "celPreconditions are allowed only with validate.cel")
	}
	if r.Validate != nil {
		c.validate(r.Validate, x.at("validate"))
	}
	if r.Mutate != nil {
		c.mutate(r.Mutate, x.at("mutate"))
	}
	if r.Generate != nil {
		c.generate(r, x.at("generate"))
	}
	c.images(r, x)
}

// kind refuses a rule with no action or several.
func (c checker) kind(r *Rule, x field) {
	if r.Name == "" {
		c.add(r.Pointer+"/name", "a rule has a name")
	}
	var kinds []string
	for kind, some := range map[string]bool{
		"validate": r.Validate != nil, "mutate": r.Mutate != nil, "generate": r.Generate != nil, "verifyImages": len(r.VerifyImages) > 0,
	} {
		if some {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	switch len(kinds) {
	case 0:
		c.add(r.Pointer, "the rule has none of validate, mutate, generate and verifyImages")
	case 1:
	default:
		c.add(x.at(kinds[1]).pointer, "a rule has one of validate, mutate, generate and verifyImages, not %s", strings.Join(kinds, " and "))
	}
}

// conditionsComplete refuses conditions without a value.
func (c checker) conditionsComplete(block field) {
	for _, x := range conditionsIn(block) {
		if x.at("key").value == nil || x.at("value").value == nil {
			c.add(x.pointer, "a condition has key, operator and value")
		}
	}
}

// conditionsIn returns the conditions of a block in either form.
func conditionsIn(block field) []field {
	var all []field
	for _, key := range []string{"any", "all"} {
		all = append(all, block.at(key).list()...)
	}
	return append(all, block.list()...)
}

// exactlyOne refuses x unless it has exactly one of the keys in some.
func (c checker) exactlyOne(x field, some map[string]bool, keys ...string) {
	found := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !some[key] })
	switch len(found) {
	case 0:
		c.add(x.pointer, "%s has none of %s", Dotted(x.pointer), strings.Join(keys, ", "))
	case 1:
	default:
		c.add(x.at(found[1]).pointer, "%s can't be used together", strings.Join(found, " and "))
	}
}

func (c checker) validate(v *Validate, x field) {
	some := map[string]bool{
		"pattern": v.HasPattern, "anyPattern": x.at("anyPattern").isSet(), "deny": v.Deny != nil, "foreach": len(v.Foreach) > 0,
		"podSecurity": v.PodSecurity != nil, "cel": v.CEL != nil, "manifests": v.Manifests != nil,
	}
	c.exactlyOne(x, some, "pattern", "anyPattern", "deny", "foreach", "podSecurity", "cel", "manifests") // assert is none since 1.19
	c.namespacedOverrides(v, x)
	if v.HasPattern {
		c.pattern(x.at("pattern"))
	}
	if some["anyPattern"] && v.AnyPattern == nil {
		c.add(x.at("anyPattern").pointer, "anyPattern is a list of patterns")
	}
	for _, p := range x.at("anyPattern").list() {
		c.pattern(p)
	}
	c.conditionsComplete(x.at("deny", "conditions"))
	c.foreachValidate(x.at("foreach"))
	c.podSecurity(x.at("podSecurity"))
	if v.CEL != nil {
		c.cel(v.CEL, x.at("cel"))
	}
}

// cel checks validate.cel, except its expressions.
func (c checker) cel(v *CEL, x field) {
	kind, ref := x.at("paramKind"), x.at("paramRef")
	if len(v.Expressions) == 0 {
		c.add(x.pointer, "validate.cel has no expressions")
	}
	for _, e := range x.at("expressions").list() {
		if e.text("expression") == "" {
			c.add(e.pointer, "the expression is empty")
		}
	}
	switch {
	case kind.isSet() != ref.isSet():
		c.add(x.pointer, "paramKind and paramRef must be used together")
	case !kind.isSet():
	case kind.text("apiVersion") == "" || kind.text("kind") == "":
		c.add(kind.pointer, "paramKind has apiVersion and kind")
	case (ref.text("name") != "") == ref.at("selector").isSet():
		c.add(ref.pointer, "paramRef has a name or a selector")
	case ref.text("parameterNotFoundAction") == "":
		c.add(ref.pointer, "paramRef has no parameterNotFoundAction")
	}
}

func (c checker) namespacedOverrides(v *Validate, x field) {
	if c.Cluster { // Kyverno does not look at those of a Policy
		c.overrides(v.Overrides, x.at("failureActionOverrides").pointer)
	}
}

// pattern checks a pattern, which may have its labels in a pod's template.
func (c checker) pattern(x field) {
	for _, p := range pattern.Check(x.value, false) {
		c.add(x.pointer+p.Pointer, "%s", p.Message)
	}
	metadata := x.at("spec", "template", "metadata")
	for _, key := range []string{"labels", "annotations"} {
		c.areStrings(metadata.at(key))
	}
}

func (c checker) areStrings(labels field) {
	for _, x := range labels.fields() {
		if _, ok := x.value.(string); !ok {
			c.add(x.pointer, "labels and annotations are strings: put the value in double quotes")
		}
	}
}

func (c checker) foreachValidate(list field) {
	for _, x := range list.list() {
		if x.text("list") == "" {
			c.add(x.pointer, "foreach has no list")
		}
		c.exactlyOne(x, map[string]bool{
			"pattern": x.at("pattern").isSet(), "anyPattern": x.at("anyPattern").isSet(), "deny": x.at("deny").isSet(),
			"foreach": len(x.at("foreach").list()) > 0,
		}, "pattern", "anyPattern", "deny", "foreach")
		c.foreachValidate(x.at("foreach"))
	}
}

// Controls of the Pod Security Standards for containers are excluded by images; those
// for the pod are not.
var (
	containerControls = []string{"Capabilities", "Privileged Containers", "Host Ports", "/proc Mount Type", "Privilege Escalation"}
	podControls       = []string{"Host Namespaces", "HostPath Volumes", "Sysctls", "Volume Types"}
)

// restrictedControls are the controls of level restricted that baseline does not have.
var restrictedControls = []string{"Volume Types", "Privilege Escalation", "Running as Non-root", "Running as Non-root user"}

func (c checker) podSecurity(x field) {
	if x.isSet() && x.text("level") == "" {
		c.add(x.pointer, "podSecurity has no level")
	}
	c.excludes(x.at("exclude"), x.text("level"))
}

// excludes checks the excluded controls of a level, or of an exception.
func (f *faults) excludes(list field, level string) {
	for _, x := range list.list() {
		images, values := len(x.texts("images")) > 0, len(x.texts("values")) > 0
		switch name := x.text("controlName"); {
		case slices.Contains(containerControls, name) && !images:
			f.add(x.pointer, "control %s is excluded for images", name)
		case slices.Contains(podControls, name) && images:
			f.add(x.at("images").pointer, "control %s is about the pod, not about images", name)
		case level == "baseline" && slices.Contains(restrictedControls, name):
			f.add(x.at("controlName").pointer, "the level baseline has no control %s", name)
		}
		if (x.text("restrictedField") != "") != values {
			f.add(x.pointer, "restrictedField and values must be used together")
		}
	}
}

// reserved lists the names that a context can't define.
var reserved = []string{"images", "request", "serviceAccountName", "serviceAccountNamespace", "element", "elementIndex"}

func (c checker) context(r *Rule, list field) {
	if r.Validate != nil && r.Validate.CEL != nil && len(r.Context) > 0 {
		c.add(list.pointer, "a rule with validate.cel has no context")
	}
	for i, e := range r.Context {
		x := list.list()[i]
		if e.Name == "" {
			c.add(x.pointer, "a context entry has a name")
		}
		for _, name := range reserved {
			if e.Name == name || strings.HasPrefix(e.Name, name+".") {
				c.add(x.at("name").pointer, "%s is a name that Kyverno itself gives", name)
			}
		}
		c.exactlyOne(x, map[string]bool{
			"configMap": e.ConfigMap != nil, "apiCall": e.APICall != nil, "imageRegistry": e.ImageRegistry != nil,
			"variable": e.Variable != nil, "globalReference": e.GlobalReference != nil,
		}, "configMap", "apiCall", "imageRegistry", "variable", "globalReference")
		c.entry(e, x)
	}
}

func (c checker) entry(e *ContextEntry, x field) {
	for _, key := range []string{"apiCall", "imageRegistry", "variable", "globalReference"} {
		c.jmesPath(x.at(key, "jmesPath"))
	}
	switch {
	case e.GlobalReference != nil && c.isNamespaced():
		c.add(x.at("globalReference").pointer, "a Policy has no globalReference: use a ClusterPolicy")
	case e.ConfigMap != nil && (e.ConfigMap.Name == "" || e.ConfigMap.Namespace == ""):
		c.add(x.at("configMap").pointer, "a configMap is named by name and namespace")
	case e.APICall != nil && e.APICall.URLPath != "" && e.APICall.ServiceURL != "":
		c.add(x.at("apiCall", "urlPath").pointer, "urlPath is of the API server, service is not: they can't be used together")
	case e.ImageRegistry != nil && e.ImageRegistry.Reference == "":
		c.add(x.at("imageRegistry").pointer, "imageRegistry has no reference")
	case e.Variable != nil && !e.Variable.HasValue && e.Variable.JMESPath == "":
		c.add(x.at("variable").pointer, "a variable has a value or a jmesPath")
	case e.Variable != nil && e.Variable.HasDefault && e.Variable.JMESPath == "":
		c.add(x.at("variable", "default").pointer, "a default is for a jmesPath that finds nothing")
	}
}

// jmesPath refuses an expression that does not parse. An expression with variables
// can't be checked.
func (c checker) jmesPath(x field) {
	s, _ := x.value.(string)
	if s == "" || strings.Contains(s, "{{") {
		return
	}
	if _, err := jmespath.Compile(s); err != nil {
		c.add(x.pointer, "%s: %s", Dotted(x.pointer), err)
	}
}
