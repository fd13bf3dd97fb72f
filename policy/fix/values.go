package fix

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Values are the values that policies write for fields: in Kyverno's patterns, conditions and
// overlays, in CEL expressions and their parameters, and in Gatekeeper's constraints and mutators.
type Values struct {
	byPolicy map[string][]leaf
	mutated  []leaf
}

// A leaf is a value in a policy for a field, with the keys that lead to it from the object's root,
// without indices. "-" stands for an element of a list of scalars.
type leaf struct {
	keys   []string
	value  any
	remove bool
	below  bool               // the keys begin at some field, such as a container
	kinds  []metav1.GroupKind // of the objects that a mutator is for; none means all
}

func (l leaf) with(value any) leaf {
	l.value = value
	return l
}

// NewValues collects the values in objects that are policies, with their parameters among the objects.
func NewValues(objects []*render.Object) *Values {
	v := &Values{byPolicy: make(map[string][]leaf)}
	for _, o := range objects {
		group := o.GroupVersionKind().Group
		name := o.GetName()
		add := func(more ...leaf) { v.byPolicy[name] = append(v.byPolicy[name], more...) }
		switch {
		case group == "kyverno.io":
			for at, x := range render.Fields(o.Object, "") {
				switch at[strings.LastIndexByte(at, '/')+1:] {
				case "pattern", "anyPattern":
					add(leaves(nil, x)...)
				case "conditions":
					add(denied(x)...)
				case "patchStrategicMerge":
					v.mutated = append(v.mutated, leaves(nil, x)...)
				case "expression":
					add(expressionLeaves(x, nil)...)
				}
			}
		case group == "mutations.gatekeeper.sh":
			location, _ := render.Lookup(o.Object, "/spec/location")
			value, ok := render.Lookup(o.Object, "/spec/parameters/assign/value")
			if path, isText := location.(string); isText && ok {
				v.mutated = append(v.mutated, leaf{keys: locationKeys(path), value: value, kinds: applyTo(o.Object)})
			}
		case group == "constraints.gatekeeper.sh":
			parameters, _ := render.Lookup(o.Object, "/spec/parameters")
			for _, l := range leaves(nil, parameters) {
				if n := len(l.keys); n > 0 && l.keys[n-1] != "-" {
					l.keys, l.below = l.keys[n-1:], true
					add(l)
				}
			}
		case group == "admissionregistration.k8s.io" || group == "policies.kyverno.io" || group == "apiextensions.k8s.io":
			params := paramsOf(objects, o)
			for at, x := range render.Fields(o.Object, "") {
				if strings.HasSuffix(at, "/expression") || strings.HasSuffix(at, "/rule") {
					add(expressionLeaves(x, params)...)
				}
			}
		}
	}
	return v
}

func expressionLeaves(x any, params []map[string]any) []leaf {
	if text, ok := x.(string); ok {
		return celLeaves(text, params)
	}
	return nil
}

// paramsOf returns the objects of the kind and with the names that the bindings of a policy name.
func paramsOf(objects []*render.Object, o *render.Object) (all []map[string]any) {
	kind, ok := render.Lookup(o.Object, "/spec/paramKind/kind")
	if !ok {
		return nil
	}
	for _, b := range objects {
		if name, _ := render.Lookup(b.Object, "/spec/policyName"); name != o.GetName() {
			continue
		}
		name, _ := render.Lookup(b.Object, "/spec/paramRef/name")
		for _, p := range objects {
			if p.GetKind() == kind && p.GetName() == name {
				all = append(all, p.Object)
			}
		}
	}
	return all
}

// applyTo returns the kinds that a mutator of Gatekeeper is for.
func applyTo(o map[string]any) (kinds []metav1.GroupKind) {
	entries, _, _ := unstructured.NestedSlice(o, "spec", "applyTo")
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		groups, _, _ := unstructured.NestedStringSlice(entry, "groups")
		named, _, _ := unstructured.NestedStringSlice(entry, "kinds")
		for _, g := range groups {
			for _, k := range named {
				kinds = append(kinds, metav1.GroupKind{Group: g, Kind: k})
			}
		}
	}
	return kinds
}

// denied returns the values with which Kyverno's conditions do not deny: those that they compare one
// field with.
// https://kyverno.io/docs/policy-types/cluster-policy/preconditions/
func denied(v any) (all []leaf) {
	for _, x := range render.Fields(v, "") {
		m, _ := x.(map[string]any)
		key, isText := m["key"].(string)
		operator, _ := m["operator"].(string)
		if !isText {
			continue
		}
		path, _, _ := strings.Cut(strings.Trim(strings.TrimSpace(key), "{}"), "||")
		path = strings.TrimSpace(path)
		rest, rooted := strings.CutPrefix(path, "request.object.")
		if !rooted {
			_, rest, _ = strings.Cut(path, ".")
		}
		if rest == "" || strings.ContainsAny(rest, "()|&`?@ ") {
			continue
		}
		l := leaf{below: !rooted}
		for _, k := range locationKeys(rest) {
			if k != "" {
				l.keys = append(l.keys, k)
			}
		}
		value := m["value"]
		if list, ok := value.([]any); ok && len(list) == 1 {
			value = list[0]
		}
		switch {
		case operator == "Equals" && render.IsScalar(value):
			if yes, isBool := value.(bool); isBool {
				all = append(all, l.with(!yes))
			}
			l.remove = true
			all = append(all, l)
		case operator == "NotEquals" || operator == "GreaterThan" || operator == "LessThan" || strings.HasSuffix(operator, "NotIn"):
			if render.IsScalar(value) {
				for _, x := range determined(value) {
					all = append(all, l.with(x))
				}
			}
		}
	}
	return all
}

// leaves returns the leaves of a pattern or overlay with determined values.
func leaves(keys []string, v any) (all []leaf) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			name, anchor := anchored(k)
			below := append(slices.Clip(keys), name)
			if anchor == "X" {
				all = append(all, leaf{keys: below, remove: true})
				continue
			}
			if anchor != "" && anchor != "=" && anchor != "+" {
				continue // a condition
			}
			all = append(all, leaves(below, v[k])...)
		}
	case []any:
		for _, x := range v {
			below := keys
			if render.IsScalar(x) {
				below = append(slices.Clip(keys), "-")
			}
			all = append(all, leaves(below, x)...)
		}
	default:
		for _, x := range determined(v) {
			all = append(all, leaf{keys: keys, value: x, remove: x == nil})
		}
	}
	return all
}

// anchored returns a key of a pattern without its anchor, and the anchor: "" or "(" or the character
// before it. https://kyverno.io/docs/policy-types/cluster-policy/validate/#anchors
func anchored(key string) (name, anchor string) {
	open := strings.IndexByte(key, '(')
	if open < 0 || open > 1 || !strings.HasSuffix(key, ")") {
		return key, ""
	}
	if name = key[open+1 : len(key)-1]; open == 0 {
		return name, "("
	}
	return name, key[:1]
}

// determined returns the values that a leaf of a pattern allows, as far as it names them. An operator
// before a number allows the number itself if it includes it.
func determined(v any) []any {
	text, ok := v.(string)
	if !ok {
		return []any{v}
	}
	var all []any
	for part := range strings.SplitSeq(text, "|") {
		part = strings.TrimSpace(part)
		for _, op := range []string{">=", "<="} {
			part = strings.TrimSpace(strings.TrimPrefix(part, op))
		}
		switch {
		case part == "null", len(part) > 1 && part[0] == '!' && !strings.ContainsAny(part[1:], "*?!"):
			all = append(all, nil) // the field has a default
		case part == "" || strings.ContainsAny(part, "*?!<>&{}$"):
		case part == "true" || part == "false":
			all = append(all, part == "true", part)
		default:
			if n, err := strconv.ParseInt(part, 10, 64); err == nil {
				all = append(all, n)
			}
			all = append(all, part)
		}
	}
	return all
}

// locationKeys returns the keys of a Gatekeeper location, such as
// spec.containers[name:*].securityContext.privileged.
func locationKeys(location string) (keys []string) {
	for part := range strings.SplitSeq(location, ".") {
		name, _, _ := strings.Cut(part, "[")
		keys = append(keys, strings.Trim(name, `"'`))
	}
	return keys
}

// of returns the fixes for a field at fault with the values that the failing policy, or else a
// mutating one, writes for it or for fields below it.
func (v *Values) of(name string, object map[string]any, field string) []policy.Fix {
	if v == nil {
		return nil
	}
	var fixes []policy.Fix
	for _, known := range []struct {
		leaves []leaf
		source policy.FixSource
	}{{v.byPolicy[name], policy.FixPattern}, {v.mutated, policy.FixMutation}} {
		for _, l := range known.leaves {
			if len(l.kinds) > 0 && !slices.Contains(l.kinds, groupKind(object)) {
				continue
			}
			for _, pointer := range l.pointers(object, render.Path(field)) {
				if _, there := render.Lookup(object, pointer); l.remove && !there || identity[pointer] {
					continue
				}
				fixes = append(fixes, policy.Fix{
					Edit:   render.Edit{Pointer: pointer, Delete: l.remove, Value: l.value},
					Unsafe: !harmless(l.keys), Source: known.source,
				})
			}
		}
	}
	return fixes
}

// identity has the fields that say which object it is. With others, it is another object.
var identity = map[string]bool{"/apiVersion": true, "/kind": true, "/metadata/name": true, "/metadata/namespace": true}

func groupKind(object map[string]any) metav1.GroupKind {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	gv, _ := schema.ParseGroupVersion(version)
	return metav1.GroupKind{Group: gv.Group, Kind: kind}
}

// harmless reports whether no running program notices a field: labels, annotations, and the two
// fields that are safe among the standards.
func harmless(keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		return k == "labels" || k == "annotations" || k == "allowPrivilegeEscalation" || k == "seccompProfile"
	})
}

// pointers returns the fields of the object that the leaf is about and that are at, above or below a
// path. A policy for pods is also about the pods of workloads.
func (l *leaf) pointers(object map[string]any, path []string) []string {
	var all []string
	prefixes := [][]string{nil}
	if l.below {
		for i, key := range path {
			if key == l.keys[0] {
				prefixes = append(prefixes, path[:i])
			}
		}
		prefixes = prefixes[1:]
	}
	if spec := podSpec(object); len(spec) > 1 && !l.below {
		prefixes = append(prefixes, spec[:len(spec)-1])
	}
	for _, prefix := range prefixes {
		at, _ := render.Lookup(object, render.PathPointer(prefix))
		for _, p := range expand(at, l.keys, slices.Clone(prefix)) {
			if n := min(len(p), len(path)); slices.Equal(p[:n], path[:n]) {
				all = append(all, render.PathPointer(p))
			}
		}
	}
	return all
}

// expand returns the paths that keys lead to, with the index of each element of lists on the way.
func expand(v any, keys, path []string) [][]string {
	if len(keys) == 1 && keys[0] == "-" {
		return [][]string{append(slices.Clip(path), "-")}
	}
	if list, ok := v.([]any); ok && len(keys) > 0 {
		var all [][]string
		for i, x := range list {
			all = append(all, expand(x, keys, append(slices.Clip(path), strconv.Itoa(i)))...)
		}
		return all
	}
	if len(keys) == 0 {
		return [][]string{path}
	}
	m, _ := v.(map[string]any)
	if m == nil && v != nil {
		return nil
	}
	if _, there := m[keys[0]]; !there && len(keys) > 1 && isContainers(keys[0]) {
		return nil // the pod has no such containers
	}
	return expand(m[keys[0]], keys[1:], append(slices.Clip(path), keys[0]))
}
