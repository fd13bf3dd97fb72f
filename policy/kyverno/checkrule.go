package kyverno

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/render"
)

func itoa(i int) string { return strconv.Itoa(i) }

func (c checker) rule(r *Rule) {
	x := field{r.Source, r.Pointer}
	c.kind(r, x)
	c.blocks(r)
	c.context(r, x.at("context"))
	c.complete(x.at("preconditions"))
	if len(r.CELPreconditions) > 0 && (r.Validate == nil || r.Validate.CEL == nil) {
		c.add(r.Pointer+"/celPreconditions", "celPreconditions go with validate.cel alone")
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

// kind refuses a rule that does nothing, or several things.
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

// complete refuses conditions of a rule that compare with nothing.
func (c checker) complete(block field) {
	for _, x := range conditionsIn(block) {
		if x.at("key").value == nil || x.at("value").value == nil {
			c.add(x.pointer, "a condition has key, operator and value")
		}
	}
}

// conditionsIn are the conditions of a block in any form.
func conditionsIn(block field) []field {
	var all []field
	for _, key := range []string{"any", "all"} {
		all = append(all, block.at(key).list()...)
	}
	for _, x := range block.list() {
		if x.at("any").there() || x.at("all").there() {
			all = append(all, conditionsIn(x)...)
		} else {
			all = append(all, x)
		}
	}
	return all
}

// exactlyOne names what stands in x of some keys, and refuses none or several.
func (c checker) exactlyOne(x field, some map[string]bool, keys ...string) {
	var found []string
	for _, key := range keys {
		if some[key] {
			found = append(found, key)
		}
	}
	switch len(found) {
	case 0:
		c.add(x.pointer, "%s has none of %s", dotted(x.pointer), strings.Join(keys, ", "))
	case 1:
	default:
		c.add(x.at(found[1]).pointer, "%s can't stand together", strings.Join(found, " and "))
	}
}

func (c checker) validate(v *Validate, x field) {
	some := map[string]bool{
		"pattern": v.HasPattern, "anyPattern": x.at("anyPattern").there(), "deny": v.Deny != nil, "foreach": len(v.Foreach) > 0,
		"podSecurity": v.PodSecurity != nil, "cel": v.CEL != nil, "manifests": v.Manifests, "assert": v.Assert,
	}
	c.exactlyOne(x, some, "pattern", "anyPattern", "deny", "foreach", "podSecurity", "cel", "manifests", "assert")
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
	c.complete(x.at("deny", "conditions"))
	c.foreachValidate(x.at("foreach"))
	c.podSecurity(x.at("podSecurity"))
	if v.CEL != nil && len(v.CEL.Expressions) == 0 {
		c.add(x.at("cel").pointer, "validate.cel has no expressions")
	}
}

func (c checker) namespacedOverrides(v *Validate, x field) {
	at := x.at("failureActionOverrides").pointer
	if !c.Cluster && len(v.Overrides) > 0 {
		c.add(at, "only a ClusterPolicy has failureActionOverrides")
	}
	c.overrides(v.Overrides, at)
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
			"pattern": x.at("pattern").there(), "anyPattern": x.at("anyPattern").there(), "deny": x.at("deny").there(),
			"foreach": len(x.at("foreach").list()) > 0,
		}, "pattern", "anyPattern", "deny", "foreach")
		c.foreachValidate(x.at("foreach"))
	}
}

// Controls of the Pod Security Standards that are about containers are
// excluded for images; those that are about the pod are not.
var (
	containerControls = []string{"Capabilities", "Privileged Containers", "Host Ports", "/proc Mount Type", "Privilege Escalation"}
	podControls       = []string{"Host Namespaces", "HostPath Volumes", "Sysctls", "AppArmor", "Volume Types"}
)

// restrictedControls are those that the baseline does not have at all.
var restrictedControls = []string{"Volume Types", "Privilege Escalation", "Running as Non-root", "Running as Non-root user"}

func (c checker) podSecurity(x field) {
	if x.there() && x.text("level") == "" {
		c.add(x.pointer, "podSecurity has no level")
	}
	level := x.text("level")
	for _, x := range x.at("exclude").list() {
		images, values := len(x.texts("images")) > 0, len(x.texts("values")) > 0
		switch name := x.text("controlName"); {
		case slices.Contains(containerControls, name) && !images:
			c.add(x.pointer, "control %s is excluded for images", name)
		case slices.Contains(podControls, name) && images:
			c.add(x.at("images").pointer, "control %s is about the pod, not about images", name)
		case level == "baseline" && slices.Contains(restrictedControls, name):
			c.add(x.at("controlName").pointer, "the level baseline has no control %s", name)
		}
		if (x.text("restrictedField") != "") != values {
			c.add(x.pointer, "restrictedField and values stand together")
		}
	}
}

// reserved are names that a context can't take.
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
	case e.ConfigMap != nil && (e.ConfigMap.Name == "" || e.ConfigMap.Namespace == ""):
		c.add(x.at("configMap").pointer, "a configMap is named by name and namespace")
	case e.APICall != nil && e.APICall.URLPath != "" && e.APICall.ServiceURL != "":
		c.add(x.at("apiCall", "urlPath").pointer, "urlPath is of the API server, service is not: they can't stand together")
	case e.ImageRegistry != nil && e.ImageRegistry.Reference == "":
		c.add(x.at("imageRegistry").pointer, "imageRegistry has no reference")
	case e.Variable != nil && !e.Variable.HasValue && e.Variable.JMESPath == "":
		c.add(x.at("variable").pointer, "a variable has a value or a jmesPath")
	case e.Variable != nil && e.Variable.HasDefault && e.Variable.JMESPath == "":
		c.add(x.at("variable", "default").pointer, "a default is for a jmesPath that finds nothing")
	}
}

// jmesPath refuses an expression that does not parse. One that holds variables
// is known only once they are.
func (c checker) jmesPath(x field) {
	s, _ := x.value.(string)
	if s == "" || strings.Contains(s, "{{") {
		return
	}
	if _, err := jmespath.Compile(s); err != nil {
		c.add(x.pointer, "%s: %s", dotted(x.pointer), err)
	}
}

func (c checker) mutate(m *Mutate, x field) {
	some := map[string]bool{
		"patchStrategicMerge": m.HasStrategicMerge, "patchesJson6902": m.JSON6902 != "", "foreach": len(m.Foreach) > 0,
	}
	c.exactlyOne(x, some, "patchStrategicMerge", "patchesJson6902", "foreach")
	c.labelsAreStrings(x.at("patchStrategicMerge"))
	c.patches(x.at("patchesJson6902"))
	c.foreachMutate(x.at("foreach"))
	for i, t := range m.Targets {
		at := x.at("targets").list()[i]
		if c.isNamespaced() && t.Namespace != "" && t.Namespace != c.Namespace {
			c.add(at.at("namespace").pointer, "a Policy changes what is in its own namespace alone")
		}
	}
}

func (c checker) foreachMutate(list field) {
	for _, x := range list.list() {
		c.exactlyOne(x, map[string]bool{
			"patchStrategicMerge": x.at("patchStrategicMerge").there(), "patchesJson6902": x.text("patchesJson6902") != "",
			"foreach": len(x.at("foreach").list()) > 0,
		}, "patchStrategicMerge", "patchesJson6902", "foreach")
		c.labelsAreStrings(x.at("patchStrategicMerge"))
		c.foreachMutate(x.at("foreach"))
	}
}

// labelsAreStrings checks the labels and annotations that a patch gives.
func (c checker) labelsAreStrings(patch field) {
	for _, metadata := range []field{patch.at("metadata"), patch.at("spec", "template", "metadata")} {
		for _, key := range []string{"labels", "annotations"} {
			c.areStrings(metadata.at(key))
		}
	}
}

// A patch is an operation of RFC 6902.
type patch struct {
	Op, Path string
	hasValue bool
}

func (p patch) beyondMetadata() bool { return !strings.HasPrefix(p.Path, "/metadata") }

// readPatches reads patchesJson6902, YAML or JSON, in which variables stand for
// some text.
func readPatches(s string) ([]patch, error) {
	if s == "" {
		return nil, nil
	}
	docs, err := render.Documents("", []byte(withoutVariables(s)), render.YAML11)
	if len(docs) != 1 {
		return nil, fmt.Errorf("patchesJson6902 is no list of patches: %w", cmp.Or(err, errors.New("nothing is in it")))
	}
	list, ok := docs[0].Value.([]any)
	if !ok {
		return nil, fmt.Errorf("patchesJson6902 is %s, not a list of patches", kindOf(docs[0].Value))
	}
	var all []patch
	for _, item := range list {
		x := field{value: item}
		_, hasValue := x.keys()["value"]
		all = append(all, patch{Op: x.text("op"), Path: x.text("path"), hasValue: hasValue})
	}
	return all, nil
}

var operations = []string{"add", "remove", "replace", "move", "copy", "test"}

func (c checker) patches(x field) {
	s, _ := x.value.(string)
	all, err := readPatches(s)
	if err != nil {
		c.add(x.pointer, "%s", err)
	}
	for i, p := range all {
		switch {
		case strings.Contains(p.Path, variableMark):
			c.add(x.pointer, "patch %d has a variable in its path", i)
		case !strings.HasPrefix(p.Path, "/"):
			c.add(x.pointer, "the path of patch %d does not begin with a slash", i)
		case !slices.Contains(operations, p.Op):
			c.add(x.pointer, "the op of patch %d is none of %s", i, strings.Join(operations, ", "))
		case !p.hasValue && (p.Op == "add" || p.Op == "replace" || p.Op == "test"):
			c.add(x.pointer, "patch %d has no value", i)
		}
	}
}

func (c checker) generate(r *Rule, x field) {
	c.oneSource(x, append(c.sources(x), x.at("foreach")))
	if foreach := x.at("foreach").list(); len(foreach) > 0 {
		for _, x := range foreach {
			c.oneSource(x, c.sources(x))
			c.source(x)
		}
		return
	}
	c.source(x)
	legacy := field{r.Source, r.Pointer}.at("match", "resources").texts("kinds")
	if slices.Contains(legacy, x.text("kind")) {
		c.add(x.at("kind").pointer, "the rule generates the kind that it matches")
	}
}

// sources are what may be generated from.
func (c checker) sources(x field) []field {
	return []field{x.at("data"), x.at("clone"), x.at("cloneList")}
}

func (c checker) oneSource(x field, sources []field) {
	some := slices.DeleteFunc(sources, func(s field) bool {
		m, isMap := s.value.(map[string]any)
		return !s.there() || isMap && len(m) == 0 && s.pointer != x.at("data").pointer
	})
	if len(some) > 1 {
		c.add(some[1].pointer, "%s and %s can't stand together", last(some[0].pointer), last(some[1].pointer))
	}
}

// last is the last key of a pointer without escapes.
func last(pointer string) string { return pointer[strings.LastIndexByte(pointer, '/')+1:] }

// source checks what is generated: from data, one object, or a list of them.
func (c checker) source(x field) {
	list := len(x.at("cloneList").texts("kinds")) > 0
	if list && (x.text("name") != "" || x.text("kind") != "") {
		c.add(x.pointer, "with cloneList there is no name and no kind")
	}
	for _, key := range []string{"apiVersion", "kind", "name"} {
		if !list && x.text(key) == "" {
			c.add(x.pointer, "%s has no %s", dotted(x.pointer), key)
		}
	}
	if clone := x.at("clone"); len(clone.keys()) > 0 && clone.text("name") == "" {
		c.add(clone.pointer, "clone has no name")
	}
	for _, key := range []string{"apiVersion", "kind", "clone", "cloneList"} {
		c.noVariables(x.at(key), "a variable can't stand in "+key+" of generate")
	}
	if pattern.HasAnchors(x.get("data")) {
		c.add(x.at("data").pointer, "anchors are of patterns, not of what is generated")
	}
	if s := selector(x.at("cloneList", "selector")); s != nil && s.hasWildcard() {
		c.add(x.at("cloneList", "selector").pointer, "the selector of a cloneList has no wildcards")
	}
	c.generatedNamespace(x)
	c.ownNamespace(x)
}

// generatedNamespace refuses a namespace, or none, where the kind is built in
// and is of the other sort.
func (c checker) generatedNamespace(x field) {
	kind, namespace := x.text("kind"), x.text("namespace")
	if slices.Contains(clusterKinds, kind) && namespace != "" {
		c.add(x.at("namespace").pointer, "%s is in no namespace", kind)
	}
	if slices.Contains(namespacedKinds, kind) && namespace == "" {
		c.add(x.pointer, "%s is in a namespace, which has to be named", kind)
	}
}

func (c checker) ownNamespace(x field) {
	if !c.isNamespaced() {
		return
	}
	for _, x := range []field{x.at("namespace"), x.at("clone", "namespace"), x.at("cloneList", "namespace")} {
		if s, _ := x.value.(string); s != "" && s != c.Namespace {
			c.add(x.pointer, "a Policy generates from and into its own namespace alone")
		}
	}
	if kind := x.text("kind"); slices.Contains(clusterKinds, kind) {
		c.add(x.at("kind").pointer, "%s is in no namespace: use a ClusterPolicy", kind)
	}
}
