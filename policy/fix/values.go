package fix

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Values are the values that policies write for fields: in Kyverno's patterns and overlays, and in
// Gatekeeper's mutators.
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
}

// NewValues collects the values in objects that are policies; others are ignored.
func NewValues(objects []*render.Object) *Values {
	v := &Values{byPolicy: make(map[string][]leaf)}
	for _, o := range objects {
		switch {
		case strings.HasPrefix(o.GetAPIVersion(), "kyverno.io/"):
			for key, x := range render.Values(o.Object) {
				switch key {
				case "pattern", "anyPattern":
					v.byPolicy[o.GetName()] = append(v.byPolicy[o.GetName()], leaves(nil, x)...)
				case "patchStrategicMerge":
					v.mutated = append(v.mutated, leaves(nil, x)...)
				}
			}
		case strings.HasPrefix(o.GetAPIVersion(), "mutations.gatekeeper.sh/"):
			location, _ := render.Lookup(o.Object, "/spec/location")
			value, ok := render.Lookup(o.Object, "/spec/parameters/assign/value")
			if path, isText := location.(string); isText && ok {
				v.mutated = append(v.mutated, leaf{keys: locationKeys(path), value: value})
			}
		}
	}
	return v
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
		case part == "null":
			all = append(all, nil)
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
			for _, pointer := range l.pointers(object, render.Path(field)) {
				if _, there := render.Lookup(object, pointer); l.remove && !there {
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
	if spec := podSpec(object); len(spec) > 1 {
		prefixes = append(prefixes, spec[:len(spec)-1])
	}
	for _, prefix := range prefixes {
		for _, p := range expand(object, slices.Concat(prefix, l.keys), nil) {
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
