package policytest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A check of a test is an assertion about rule outcomes, written as an
// assertion tree of kyverno-json. The fields of a map are compared with the
// value's fields. A key in parentheses is a JMESPath on the value. With "~."
// before a key, the assertion applies to each element. Lists must have equal
// length, and leaves must be equal.

// wantAssert and wantError are the expectations of a check for its tree.
const (
	wantAssert = "assert"
	wantError  = "error"
)

// check returns the cases of one check, one for each response that it matches.
func (k *kyvernoTest) check(n node) []Case {
	f := n.folded("match", "assert", "error")
	m := f["match"].folded("resource", "policy", "rule")
	c := Case{Line: n.span().Line, Notes: []string{}}
	if f["assert"].value == nil && f["error"].value == nil {
		c.Reason = k.text(n.errorf("%s has neither assert nor error", n.name()))
		return []Case{c}
	}
	var cases []Case
	for _, s := range k.all() {
		if s.target {
			continue
		}
		for _, one := range k.evaluate(s.object, "", s.json).ones {
			cases = append(cases, k.checked(c, f, m, s, one)...)
		}
	}
	if len(cases) == 0 {
		c.Vacuous, c.OK, c.Got, c.Want = true, true, statusExcluded, wantAssert
		c.Reason = "no rule gave a response that the check matches"
		if f["assert"].value == nil {
			c.Want = wantError
		}
		return []Case{c}
	}
	return cases
}

// checked returns the cases of one policy's verdict on one object.
func (k *kyvernoTest) checked(c Case, f, m map[string]node, s subject, one *verdict) []Case {
	if one.err != nil {
		return nil
	}
	var cases []Case
	for _, r := range one.Rules {
		if !holds(m["resource"], s.object.Object) || !holds(m["policy"], one.policy.object.Object) || !holds(m["rule"], map[string]any{"name": r.Rule}) {
			continue
		}
		data := map[string]any{"name": r.Rule, "ruleType": ruleTypes[one.phase], "message": r.Message, "status": r.Status}
		c := c
		c.Policy, c.Rule = one.policy.object.GetName(), r.Rule
		c.Kind, c.Resource = tested(s.object, s.file)
		for _, want := range []string{wantAssert, wantError} {
			if f[want].value == nil {
				continue
			}
			c := c
			c.Want, c.Got, c.OK, c.Reason = want, wantAssert, want == wantAssert, r.Message
			if err := assert(f[want].value, data, ""); err != nil {
				c.Got, c.OK, c.Reason = wantError, want == wantError, err.Error()
			}
			cases = append(cases, c)
		}
	}
	return cases
}

var ruleTypes = map[Phase]string{Mutating: "Mutation", Validating: "Validation", Generating: "Generation", Deleting: "Deletion"}

// holds reports whether a tree matches a value. An absent tree matches.
func holds(n node, value any) bool { return n.value == nil || assert(n.value, value, "") == nil }

// assert returns an error with the first place at which a value does not match
// a tree.
func assert(tree, value any, at string) error {
	switch tree := tree.(type) {
	case map[string]any:
		if value == nil {
			return fmt.Errorf("%s: is null", where(at))
		}
		for _, k := range slices.Sorted(maps.Keys(tree)) {
			if err := assertKey(k, tree[k], value, at); err != nil {
				return err
			}
		}
		return nil
	case []any:
		list, ok := value.([]any)
		if !ok || len(list) != len(tree) {
			return fmt.Errorf("%s: want a list of %d, got %s", where(at), len(tree), (&differ{}).text(at, value))
		}
		for i := range tree {
			if err := assert(tree[i], list[i], fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		return nil
	}
	want := tree
	if expr, ok := inParentheses(tree); ok {
		var err error
		if want, err = search(expr, value); err != nil {
			return fmt.Errorf("%s: %w", where(at), err)
		}
	}
	if !reflect.DeepEqual(tidyNumber(want), tidyNumber(value)) {
		return fmt.Errorf("%s: want %s, got %s", where(at), (&differ{}).text(at, want), (&differ{}).text(at, value))
	}
	return nil
}

func where(at string) string {
	if at == "" {
		return "the response"
	}
	return at
}

func tidyNumber(v any) any {
	if i, ok := v.(int64); ok {
		return float64(i)
	}
	return v
}

var bindingSuffix = regexp.MustCompile(`\s*->\s*\w+$`)

// assertKey compares the value that a key selects with the tree below the key.
func assertKey(key string, tree, value any, at string) error {
	if bindingSuffix.MatchString(key) {
		return fmt.Errorf("%s: bindings, such as %s, are not evaluated", where(at), key)
	}
	name, each := key, false
	if strings.HasPrefix(key, "~") {
		if _, rest, ok := strings.Cut(key, "."); ok {
			name, each = rest, true
		}
	}
	below, err := project(name, value)
	if err != nil {
		return fmt.Errorf("%s: %w", where(at), err)
	}
	path := strings.TrimPrefix(at+"."+name, ".")
	if !each {
		return assert(tree, below, path)
	}
	switch list := below.(type) {
	case []any:
		for i, v := range list {
			if err := assert(tree, v, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(list)) {
			if err := assert(tree, list[k], path+"."+k); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%s: want a list or a map, got %s", path, (&differ{}).text(path, below))
	}
	return nil
}

// project returns the value that a key selects: a field, or a JMESPath in
// parentheses. Parentheses with backslashes are literal.
func project(key string, value any) (any, error) {
	if expr, ok := inParentheses(key); ok {
		return search(expr, value)
	}
	if strings.HasPrefix(key, `\(`) && strings.HasSuffix(key, `)\`) {
		key = key[1 : len(key)-1]
	}
	m, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("has no field %s: it is not a map", key)
	}
	return m[key], nil
}

// inParentheses returns the expression of a string in parentheses.
func inParentheses(v any) (string, bool) {
	s, ok := v.(string)
	if !ok || !strings.HasPrefix(s, "(") || !strings.HasSuffix(s, ")") {
		return "", false
	}
	return s[1 : len(s)-1], true
}

// tidied returns a tree as Kyverno compares it: without empty values and the marks of
// generated objects, and with all numbers of one type.
func tidied(tree map[string]any) map[string]any {
	t, _ := tidy(tree).(map[string]any)
	meta, _ := t["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	for k, v := range labels {
		if strings.HasPrefix(k, "generate.kyverno.io/") || k == "app.kubernetes.io/managed-by" && v == "kyverno" {
			delete(labels, k)
		}
	}
	if labels != nil && len(labels) == 0 {
		delete(meta, "labels")
	}
	return t
}

// tidy returns a copy without nulls and empty maps and lists, or nil if nothing
// is left.
func tidy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, x := range v {
			if x = tidy(x); x != nil {
				m[k] = x
			}
		}
		if len(m) > 0 {
			return m
		}
	case []any:
		var list []any
		for _, x := range v {
			if x = tidy(x); x != nil {
				list = append(list, x)
			}
		}
		if len(list) > 0 {
			return list
		}
	case int64:
		return float64(v)
	case int:
		return float64(v)
	default:
		return v
	}
	return nil
}

// difference describes the first difference between want and got, in the order of keys; ""
// if there is none. It does not show values of Secrets.
func difference(want, got map[string]any) string {
	secret := want["kind"] == "Secret" || got["kind"] == "Secret"
	return (&differ{hide: secret}).at("", want, got)
}

type differ struct{ hide bool }

func (d *differ) at(pointer string, want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	if w, ok := want.(map[string]any); ok {
		if g, ok := got.(map[string]any); ok {
			return d.maps(pointer, w, g)
		}
	}
	if w, ok := want.([]any); ok {
		if g, ok := got.([]any); ok {
			for i := range min(len(w), len(g)) {
				if s := d.at(pointer+render.Pointer(i), w[i], g[i]); s != "" {
					return s
				}
			}
			return fmt.Sprintf("%s: want %d elements, got %d", pointer, len(w), len(g))
		}
	}
	return fmt.Sprintf("%s: want %s, got %s", cmp.Or(pointer, "/"), d.text(pointer, want), d.text(pointer, got))
}

func (d *differ) maps(pointer string, want, got map[string]any) string {
	for _, k := range render.Keys(want, got) {
		if s := d.at(pointer+render.Pointer(k), want[k], got[k]); s != "" {
			return s
		}
	}
	return ""
}

// text formats a value in one line, cut to a limit.
func (d *differ) text(pointer string, v any) string {
	const most = 200
	if v == nil {
		return "nothing"
	}
	if d.hide && (strings.HasPrefix(pointer, "/data") || strings.HasPrefix(pointer, "/stringData")) {
		return "a hidden value"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "a value"
	}
	return render.Cut(string(data), most)
}
