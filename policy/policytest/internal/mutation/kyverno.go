package mutation

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// clusterPolicy makes the mutants of a ClusterPolicy or Policy.
func (e *editor) clusterPolicy() {
	for i := range e.list("/spec/rules") {
		at := render.Pointer("spec", "rules", i)
		e.rule = e.text(at + "/name")
		e.within(at+"/match", func() {
			e.match(at + "/match")
			if e.at(at+"/exclude") != nil {
				e.match(at + "/exclude")
				e.drop(Match, at+"/exclude", "exclude left out")
			}
			e.preconditions(at)
			e.validate(at + "/validate")
			e.mutation(at + "/mutate")
			e.pattern(at+"/generate/data", mutatePattern)
			for k := range e.list(at + "/verifyImages") {
				e.dropItems(Match, at+render.Pointer("verifyImages", k, "imageReferences"))
			}
			e.jmespath(at+"/context", e.at(at+"/context"))
			for k := range e.list(at + "/celPreconditions") {
				e.celExpression(at + render.Pointer("celPreconditions", k, "expression"))
			}
		})
	}
}

// cleanupPolicy makes the mutants of a ClusterCleanupPolicy.
func (e *editor) cleanupPolicy() {
	e.match("/spec/match")
	if e.at("/spec/exclude") != nil {
		e.match("/spec/exclude")
		e.drop(Match, "/spec/exclude", "exclude left out")
	}
	e.conditions("/spec/conditions")
}

// match makes the mutants of a match or exclude.
func (e *editor) match(at string) {
	for _, key := range []string{"any", "all"} {
		list := at + "/" + key
		e.quantifier(at, key)
		e.dropItems(Match, list)
		for i := range e.list(list) {
			e.filter(list + "/" + strconv.Itoa(i))
		}
	}
	e.filter(at)
}

// quantifier swaps any and all over a list that has several items.
func (e *editor) quantifier(at, key string) {
	if len(e.list(at+"/"+key)) > 1 {
		e.rename(Quantifier, at+"/"+key, map[string]string{"any": "all", "all": "any"}[key])
	}
}

// filter makes the mutants of one filter of objects and users.
func (e *editor) filter(at string) {
	for _, key := range []string{"subjects", "roles", "clusterRoles"} {
		e.dropItems(Match, at+"/"+key)
		if e.at(at+"/"+key) != nil && len(e.keys(at)) > 1 {
			e.drop(Match, at+"/"+key, key+" left out")
		}
	}
	r := at + "/resources"
	for _, key := range []string{"kinds", "names", "namespaces", "operations"} {
		e.dropItems(Match, r+"/"+key)
		if key != "kinds" && e.at(r+"/"+key) != nil && len(e.keys(r)) > 1 {
			e.drop(Match, r+"/"+key, key+" left out")
		}
	}
	for _, key := range []string{"name", "annotations"} {
		if e.at(r+"/"+key) != nil && len(e.keys(r)) > 1 {
			e.drop(Match, r+"/"+key, key+" left out")
		}
	}
	if len(e.keys(r)) > 1 {
		e.selector(r + "/selector")
		e.selector(r + "/namespaceSelector")
	}
}

// preconditions makes the mutants of the preconditions at a pointer.
func (e *editor) preconditions(at string) {
	if e.at(at+"/preconditions") == nil {
		return
	}
	e.conditions(at + "/preconditions")
	e.drop(Dropped, at+"/preconditions", "preconditions left out")
}

// conditions makes the mutants of a block of conditions: a list, or lists below any
// and all.
func (e *editor) conditions(at string) {
	switch v := e.at(at).(type) {
	case []any:
		e.dropItems(Dropped, at)
		for i := range v {
			one := at + "/" + strconv.Itoa(i)
			if e.at(one+"/operator") != nil {
				e.within(one, func() { e.condition(one) })
			} else {
				e.conditions(one)
			}
		}
	case map[string]any:
		for _, key := range []string{"any", "all"} {
			if v[key] != nil {
				e.quantifier(at, key)
				e.conditions(at + "/" + key)
			}
		}
	}
}

// conditionOperators maps Kyverno's operators to their replacements.
var conditionOperators = map[string][]string{
	"Equal": {"NotEqual"}, "Equals": {"NotEquals"}, "NotEqual": {"Equal"}, "NotEquals": {"Equals"},
	"In": {"NotIn"}, "NotIn": {"In"},
	"AnyIn": {"AllIn", "AllNotIn"}, "AllIn": {"AnyIn", "AnyNotIn"}, "AnyNotIn": {"AllNotIn", "AllIn"}, "AllNotIn": {"AnyNotIn", "AnyIn"},
	"GreaterThan": {"GreaterThanOrEquals", "LessThanOrEquals"}, "GreaterThanOrEquals": {"GreaterThan", "LessThan"},
	"LessThan": {"LessThanOrEquals", "GreaterThanOrEquals"}, "LessThanOrEquals": {"LessThan", "GreaterThan"},
	"DurationGreaterThan": {"DurationGreaterThanOrEquals", "DurationLessThanOrEquals"}, "DurationGreaterThanOrEquals": {"DurationGreaterThan", "DurationLessThan"},
	"DurationLessThan": {"DurationLessThanOrEquals", "DurationGreaterThanOrEquals"}, "DurationLessThanOrEquals": {"DurationLessThan", "DurationGreaterThan"},
}

func (e *editor) condition(at string) {
	for _, to := range conditionOperators[e.text(at+"/operator")] {
		e.set(Comparison, at+"/operator", to)
	}
	e.jmespath(at+"/key", e.at(at+"/key"))
	switch v := e.at(at + "/value").(type) {
	case []any:
		e.dropItems(Constant, at+"/value")
		if len(v) == 1 {
			e.leaf(at + "/value/0")
		}
	default:
		e.leaf(at + "/value")
		e.jmespath(at+"/value", v)
	}
}

// validate makes the mutants of a rule's validation.
func (e *editor) validate(at string) {
	if e.at(at) == nil {
		return
	}
	e.within(at, func() {
		e.checks(at)
		e.conditions(at + "/deny/conditions")
		level := at + "/podSecurity/level"
		if to := map[string]string{"baseline": "restricted", "restricted": "baseline"}[e.text(level)]; to != "" {
			e.set(Constant, level, to)
		}
		e.dropItems(Match, at+"/podSecurity/exclude")
		if e.at(at+"/podSecurity/exclude") != nil {
			e.drop(Match, at+"/podSecurity/exclude", "exclude left out")
		}
		e.celRule(at + "/cel")
	})
}

// celRule makes the mutants of a rule in CEL.
func (e *editor) celRule(at string) {
	rule := e.rule
	for _, list := range []string{"variables", "expressions"} {
		for i := range e.list(at + "/" + list) {
			one := at + render.Pointer(list, i)
			e.within(one+"/expression", func() { e.celExpression(one + "/expression") })
		}
	}
	e.dropItems(Dropped, at+"/expressions")
	e.rule = rule
}

// checks makes the mutants of patterns, those of foreach included.
func (e *editor) checks(at string) {
	e.pattern(at+"/pattern", validatePattern)
	e.dropItems(Dropped, at+"/anyPattern")
	for i := range e.list(at + "/anyPattern") {
		e.pattern(at+render.Pointer("anyPattern", i), validatePattern)
	}
	for i := range e.list(at + "/foreach") {
		one := at + render.Pointer("foreach", i)
		e.jmespath(one+"/list", e.at(one+"/list"))
		e.preconditions(one)
		e.conditions(one + "/deny/conditions")
		e.checks(one)
	}
}

// mutation makes the mutants of a rule that mutates.
func (e *editor) mutation(at string) {
	e.pattern(at+"/patchStrategicMerge", mutatePattern)
	for i := range e.list(at + "/foreach") {
		one := at + render.Pointer("foreach", i)
		e.preconditions(one)
		e.mutation(one)
	}
}

// anchors matches keys of patterns with an anchor.
var anchors = regexp.MustCompile(`^([=X^+<]?)\((.+)\)$`)

// A patternUse maps an anchor to its replacement; "" is no anchor.
type patternUse map[string]string

var (
	validatePattern = patternUse{"=": "", "(": "", "X": "=", "^": "=", "+": "", "<": "(", "": "="}
	mutatePattern   = patternUse{"(": "", "+": "", "": "+", "<": "("}
)

// pattern makes the mutants of a pattern of objects.
func (e *editor) pattern(at string, use patternUse) {
	switch v := e.at(at).(type) {
	case nil:
	case map[string]any:
		for _, key := range e.keys(at) {
			field := at + render.Pointer(key)
			e.within(field, func() {
				e.anchor(field, key, use)
				if len(v) > 1 {
					e.drop(Dropped, field, key+" left out")
				}
			})
			if !strings.HasPrefix(key, "X(") { // a field that must not be there has any value
				e.within(field, func() { e.pattern(field, use) })
			}
		}
	case []any:
		e.dropItems(Dropped, at)
		for i := range v {
			e.pattern(at+"/"+strconv.Itoa(i), use)
		}
	case string:
		if use[""] == "+" {
			e.leaf(at)
			return
		}
		e.patternText(at, v)
	default:
		e.leaf(at)
	}
}

func (e *editor) anchor(at, key string, use patternUse) {
	anchor, name := "", key
	if m := anchors.FindStringSubmatch(key); m != nil {
		if anchor, name = m[1], m[2]; anchor == "" {
			anchor = "("
		}
	}
	to, ok := use[anchor]
	switch {
	case !ok:
	case to == "":
		e.rename(Anchor, at, name)
	default:
		e.rename(Anchor, at, strings.TrimSuffix(to, "(")+"("+name+")")
	}
}

// patternOperators are the operators at the start of a pattern's text, with their
// replacements.
var patternOperators = []struct{ is, to string }{
	{">=", ">"}, {"<=", "<"}, {">", ">="}, {"<", "<="}, {"!", ""},
}

// patternText changes a leaf: an operator, an alternative, or the text itself.
func (e *editor) patternText(at, text string) {
	if strings.Contains(text, "{{") {
		e.jmespath(at, text)
		return
	}
	if all := strings.Split(text, "|"); len(all) > 1 {
		for i, x := range all {
			rest := strings.TrimSpace(strings.Join(slices.Delete(slices.Clone(all), i, i+1), "|"))
			n := len(e.all)
			if e.set(Constant, at, rest); len(e.all) > n {
				e.all[n].Change = strings.TrimSpace(x) + " left out"
			}
		}
		return
	}
	switch text {
	case "?*":
		e.set(Anchor, at, "*")
		return
	case "*", "":
		return
	}
	for _, o := range patternOperators {
		if rest, ok := strings.CutPrefix(text, o.is); ok {
			e.set(Comparison, at, o.to+rest)
			return
		}
	}
	e.leaf(at)
}

// leaf changes a number, string or boolean.
func (e *editor) leaf(at string) {
	switch v := e.at(at).(type) {
	case bool:
		e.set(Constant, at, !v)
	case int64:
		e.set(Constant, at, v+1)
	case string:
		if to := otherText(v); to != "" {
			e.set(Constant, at, to)
		}
	}
}

var leadingNumber = regexp.MustCompile(`^[0-9]{1,15}`)

// otherText returns a different text: the next number, or one letter more.
func otherText(s string) string {
	switch {
	case s == "" || s == "*" || strings.Contains(s, "{{"):
		return ""
	case s == "true":
		return "false"
	case s == "false":
		return "true"
	}
	if n := leadingNumber.FindString(s); n != "" {
		return nextNumber(n) + s[len(n):]
	}
	return s + "x"
}

// jmespath changes the comparisons and logic of the expressions in {{ }}, in all
// strings below a pointer.
func (e *editor) jmespath(at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range e.keys(at) {
			e.jmespath(at+render.Pointer(key), v[key])
		}
	case []any:
		for i, x := range v {
			e.jmespath(at+"/"+strconv.Itoa(i), x)
		}
	case string:
		whole := strings.HasSuffix(at, "/jmesPath") || strings.HasSuffix(at, "/list")
		for from := 0; from < len(v); {
			open := strings.Index(v[from:], "{{")
			if open < 0 && !whole {
				return
			}
			start, end := from+open+2, 0
			if whole {
				start, end = 0, len(v)
			} else if i := strings.Index(v[start:], "}}"); i >= 0 {
				end = start + i
			} else {
				return
			}
			tokens, ok := jmespathLanguage.tokens(v[start:end])
			if ok {
				x := &expression{source: v[start:end], tokens: tokens}
				for _, c := range slices.Concat(compared(tokens), x.logic(), functions(tokens)) {
					c.from, c.to = c.from+start, c.to+start
					e.inside(at, v, c, nil)
				}
			}
			from = end + 2
		}
	}
}
