package mutation

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"

	internalcel "github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// An expression is an expression of a policy, with its tokens.
type expression struct {
	source string
	tokens []token
}

// celChanges are the changes of an expression in CEL.
func celChanges(source string) (*expression, []change) {
	tokens, ok := celLanguage.tokens(source)
	if !ok || len(tokens) == 0 {
		return nil, nil
	}
	x := &expression{source: source, tokens: tokens}
	return x, slices.Concat(compared(tokens), constants(tokens), x.logic(), x.conditions(), quantifiers(tokens), functions(tokens))
}

// logic swaps && and ||.
func (e *expression) logic() []change {
	var all []change
	for i, t := range e.tokens {
		if to := map[string]string{"&&": "||", "||": "&&"}[t.text]; to != "" && t.kind == operatorToken {
			all = append(all, change{Logic, t.from, t.to, to, t.text + " to " + to, i})
		}
	}
	return all
}

// quantifierNames maps macros of CEL to their replacements.
var quantifierNames = map[string]string{"all": "exists", "exists": "all", "exists_one": "exists", "existsOne": "exists"}

func quantifiers(tokens []token) []change {
	var all []change
	for i := 1; i+1 < len(tokens); i++ {
		t := tokens[i]
		if to := quantifierNames[t.text]; to != "" && tokens[i-1].text == "." && tokens[i+1].text == "(" {
			all = append(all, change{Quantifier, t.from, t.to, to, t.text + " to " + to, i})
		}
	}
	return all
}

// otherFunctions maps functions of CEL, Rego and JMESPath to ones with the same
// arguments that are easily confused with them.
var otherFunctions = map[string]string{
	"startsWith": "endsWith", "endsWith": "startsWith", "contains": "startsWith", "lowerAscii": "upperAscii", "upperAscii": "lowerAscii",
	"isGreaterThan": "isLessThan", "isLessThan": "isGreaterThan", "greatest": "least", "least": "greatest",
	"startswith": "endswith", "endswith": "startswith", "lower": "upper", "upper": "lower",
	"any_prefix_match": "any_suffix_match", "any_suffix_match": "any_prefix_match",
	"starts_with": "ends_with", "ends_with": "starts_with", "to_lower": "to_upper", "to_upper": "to_lower",
	"min": "max", "max": "min",
}

// functions replaces called functions. contains is a method of strings in CEL, but a
// function of sets with other arguments.
func functions(tokens []token) []change {
	var all []change
	for i := 0; i+1 < len(tokens); i++ {
		t := tokens[i]
		to := otherFunctions[t.text]
		if to == "" || t.kind != wordToken || tokens[i+1].text != "(" {
			continue
		}
		if t.text == "contains" && (i < 2 || tokens[i-1].text != "." || tokens[i-2].text == "sets") {
			continue
		}
		all = append(all, change{Function, t.from, t.to, to, t.text + " to " + to, i})
	}
	return all
}

// A segment is a part of an expression between logical operators, commas and
// brackets: the tokens from first to last.
type segment struct {
	first, last int
	before      string // the operator or bracket in front of it, "" at the start
	after       string
}

var segmentEnds = []string{"&&", "||", "?", ":", ","}

// segments returns the parts of an expression.
func (e *expression) segments() []segment {
	var all []segment
	var part func(first, end int, before, after string)
	part = func(first, end int, before, after string) {
		start, ahead := first, before
		for i := first; i < end; i++ {
			t := e.tokens[i]
			if t.kind == bracketToken && t.mate > i {
				part(i+1, t.mate, t.text, e.tokens[t.mate].text)
				i = t.mate
				continue
			}
			if t.kind == operatorToken && slices.Contains(segmentEnds, t.text) && !e.optional(i) {
				if i > start {
					all = append(all, segment{start, i - 1, ahead, t.text})
				}
				start, ahead = i+1, t.text
			}
		}
		if end > start {
			all = append(all, segment{start, end - 1, ahead, after})
		}
	}
	part(0, len(e.tokens), "", "")
	return all
}

// optional reports whether a question mark belongs to an optional field, a.?b or
// a[?b].
func (e *expression) optional(i int) bool {
	return e.tokens[i].text == "?" && i > 0 && (e.tokens[i-1].text == "." || e.tokens[i-1].text == "[" || e.tokens[i-1].text == "{" || e.tokens[i-1].text == ",")
}

// conditions negates each condition and leaves out each operand of && and ||.
func (e *expression) conditions() []change {
	var all []change
	for _, s := range e.segments() {
		if !e.isCondition(s) {
			continue
		}
		from, to := e.tokens[s.first].from, e.tokens[s.last].to
		if negated, words := e.negated(s); negated != "" {
			all = append(all, change{Negation, from, to, negated, words, s.first})
		}
		text := shortened(e.source[from:to])
		switch { // && binds closer
		case s.before != "&&" && (s.after == "&&" || s.after == "||" && s.before != "||"):
			if s.last+2 >= len(e.tokens) {
				continue // the other operand is missing
			}
			to = e.tokens[s.last+2].from
		case s.before == "&&" || s.before == "||":
			if s.first < 2 {
				continue
			}
			from = e.tokens[s.first-2].to
		default:
			continue
		}
		all = append(all, change{Dropped, from, to, "", text + " left out", s.first})
	}
	return all
}

// isCondition reports whether a segment is a condition: an operand, the condition of
// ?:, the predicate of a macro, or the whole expression.
func (e *expression) isCondition(s segment) bool {
	for _, o := range []string{s.before, s.after} {
		if o == "&&" || o == "||" {
			return true
		}
	}
	if s.after == "?" {
		return true
	}
	return s.before == "," && s.after == ")" && e.predicate(s)
}

// predicate reports whether a segment is the last argument of a macro.
func (e *expression) predicate(s segment) bool {
	open := e.tokens[s.last+1].mate
	return open > 1 && slices.Contains([]string{"all", "exists", "exists_one", "existsOne", "filter"}, e.tokens[open-1].text) && e.tokens[open-2].text == "."
}

// negated returns the negation of a condition, or "" if another change does the same.
func (e *expression) negated(s segment) (text, words string) {
	inside := e.tokens[s.first : s.last+1]
	source := e.source[inside[0].from:inside[len(inside)-1].to]
	depth := inside[0].depth
	for i, t := range inside {
		if t.depth == depth && (t.kind == operatorToken && comparisons[t.text] != nil) {
			return "", ""
		}
		if t.depth == depth && i > 0 && t.text == "in" {
			return "!(" + source + ")", shortened(source) + " negated"
		}
	}
	first := inside[0]
	switch {
	case first.text == "!" && len(inside) > 1:
		return e.source[inside[1].from:inside[len(inside)-1].to], "! left out"
	case first.text == "(" && e.tokens[first.mate].to == inside[len(inside)-1].to:
		return "", "" // the expression in brackets is changed instead
	}
	return "!(" + source + ")", shortened(source) + " negated"
}

// around returns the offsets of the segments around a token, the innermost first,
// without opening brackets, as policy.Coverage has them.
func (e *expression) around(at int) []int {
	var all []int
	segments := e.segments()
	slices.SortStableFunc(segments, func(a, b segment) int { return (a.last - a.first) - (b.last - b.first) })
	for _, s := range segments {
		if s.first > at || at > s.last {
			continue
		}
		first := s.first
		for first < s.last && e.tokens[first].text == "(" {
			first++
		}
		all = append(all, e.tokens[first].from)
	}
	return append(all, e.tokens[0].from)
}

// expression makes the mutants of the CEL expression at a pointer.
func (e *editor) celExpression(pointer string) {
	source := e.text(pointer)
	if source == "" || len(source) > maxSource {
		return
	}
	x, changes := celChanges(source)
	if len(changes) > 0 && x.whole() {
		if negated, words := x.negated(segment{first: 0, last: len(x.tokens) - 1}); negated != "" && e.boolean(pointer) {
			changes = append(changes, change{Negation, x.tokens[0].from, x.tokens[len(x.tokens)-1].to, negated, words, 0})
		}
	}
	for _, c := range changes {
		n := len(e.all)
		e.inside(pointer, source, c, x.around(c.at))
		if len(e.all) > n && e.boolean(pointer) {
			e.all[n].Equivalent = e.same(source, source[:c.from]+c.text+source[c.to:])
		}
	}
}

// maxSource bounds the expressions that are changed.
const maxSource = 64 << 10

// whole reports whether the expression has no logical operator outside of brackets.
func (e *expression) whole() bool {
	return !slices.ContainsFunc(e.tokens, func(t token) bool {
		return t.depth == 0 && t.kind == operatorToken && slices.Contains(segmentEnds, t.text)
	})
}

// boolean reports whether the expression at a pointer must be a boolean; a variable
// or a message may have any type.
func (e *editor) boolean(pointer string) bool {
	for _, list := range []string{"validations", "matchConditions", "conditions", "celPreconditions", "expressions"} {
		if path := render.Path(pointer); slices.Contains(path, list) && path[len(path)-1] == "expression" {
			return true
		}
	}
	return false
}

// inside makes a mutant of a part of the string at a pointer.
func (e *editor) inside(pointer, source string, c change, around []int) {
	start, ok := e.o.Inside(pointer, source, utf8.RuneCountInString(source[:c.from]))
	if !ok {
		return
	}
	from := e.offset(start.Line, start.Column)
	to := from
	switch {
	case c.to == c.from:
	case strings.ContainsAny(source[c.to-1:c.to], " \t\r\n"):
		end, ok := e.o.Inside(pointer, source, utf8.RuneCountInString(source[:c.to]))
		if !ok {
			return
		}
		to = e.offset(end.Line, end.Column)
	default:
		_, last := utf8.DecodeLastRuneInString(source[:c.to])
		end, ok := e.o.Inside(pointer, source, utf8.RuneCountInString(source[:c.to-last]))
		if !ok {
			return
		}
		to = e.offset(end.Line, end.Column)
		_, size := utf8.DecodeRune(e.data[to:])
		to += size
	}
	_, value, _ := e.spans(pointer)
	text := c.text
	switch e.data[value[0]] {
	case '"':
		if e.data[to-1] == '\\' { // an escaped quote
			to++
		}
		text = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text)
	case '\'':
		if e.data[to-1] == '\'' && to < len(e.data) && e.data[to] == '\'' {
			to++
		}
		text = strings.ReplaceAll(text, "'", "''")
	}
	before := e.reach
	var reach []render.Span
	for _, at := range around {
		if s, ok := e.o.Inside(pointer, source, utf8.RuneCountInString(source[:at])); ok {
			reach = append(reach, s)
		}
	}
	e.reach = append(reach, before...)
	want := source[:c.from] + c.text + source[c.to:]
	e.add(c.mutator, from, to, text, c.words, e.changed(pointer, func(any) (any, bool) { return want, true }))
	e.reach = before
}

// celEnv parses expressions with the macros of all engines.
var celEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(cel.OptionalTypes(), ext.TwoVarComprehensions(), ext.Bindings(), cel.EnableMacroCallTracking())
})

// same reports whether constant folding shows that two conditions have equal values.
func (e *editor) same(a, b string) bool {
	env, err := celEnv()
	if err != nil || len(a)+len(b) > maxFolded {
		return false
	}
	never := func(condition string) bool {
		parsed, issues := env.Parse(condition)
		if issues.Err() != nil {
			return false
		}
		v, decided := internalcel.NewFolder(func(string) *cel.Ast { return nil }).Truth(parsed)
		return decided && !v
	}
	differ := func(a, b string) bool { return !never("("+a+") && !("+b+")") && !never("!("+b+") && ("+a+")") }
	return !differ(a, b) && !differ(b, a)
}

// maxFolded bounds the expressions that are compared by folding.
const maxFolded = 4 << 10

// celPolicy makes the mutants of a policy whose rules are expressions.
func (e *editor) celPolicy(match bool) {
	e.expressions("/spec")
	if match {
		for _, key := range []string{"matchConstraints", "targetMatchConstraints"} {
			e.constraints("/spec/" + key)
		}
	}
}

// expressions makes the mutants of the lists of expressions in a spec.
func (e *editor) expressions(base string) {
	for _, list := range []string{"matchConditions", "variables", "validations", "mutations", "generate", "conditions", "celPreconditions"} {
		for i := range e.list(base + render.Pointer(list)) {
			at := base + render.Pointer(list, i)
			e.rule = list + "[" + strconv.Itoa(i) + "]"
			if name := e.text(at + "/name"); name != "" {
				e.rule = list + "[" + name + "]"
			}
			for _, key := range []string{"/expression", "/applyConfiguration/expression", "/jsonPatch/expression"} {
				if e.text(at+key) != "" {
					e.within(at+key, func() { e.celExpression(at + key) })
				}
			}
			if list != "variables" && (len(e.list(base+render.Pointer(list))) > 1 || list == "matchConditions") {
				e.within(at+"/expression", func() { e.dropOrAll(at, list, i) })
			}
		}
	}
	e.rule = ""
}

// dropOrAll leaves out an item of a list, or the list if it is the only one.
func (e *editor) dropOrAll(at, list string, i int) {
	if len(e.list(parentOf(at))) == 1 {
		at = parentOf(at)
	}
	e.drop(Dropped, at, list+"["+strconv.Itoa(i)+"] left out")
}

// constraints makes the mutants of an admission policy's matchConstraints.
func (e *editor) constraints(at string) {
	e.rule = strings.TrimPrefix(at, "/spec/")
	for _, list := range []string{"resourceRules", "excludeResourceRules"} {
		rules := e.list(at + render.Pointer(list))
		e.dropItems(Match, at+render.Pointer(list))
		for i := range rules {
			for _, key := range []string{"operations", "resources", "apiGroups", "apiVersions", "resourceNames"} {
				e.dropItems(Match, at+render.Pointer(list, i, key))
			}
		}
	}
	for _, key := range []string{"namespaceSelector", "objectSelector", "excludeResourceRules"} {
		e.selector(at + render.Pointer(key))
	}
	e.rule = ""
}

// selector leaves out a part of a match, and changes labels in it.
func (e *editor) selector(at string) {
	if e.at(at) == nil {
		return
	}
	path := render.Path(at)
	e.drop(Match, at, path[len(path)-1]+" left out")
	for _, key := range e.keys(at + "/matchLabels") {
		e.leaf(at + "/matchLabels" + render.Pointer(key))
	}
	for i := range e.list(at + "/matchExpressions") {
		one := at + render.Pointer("matchExpressions", i)
		if to := map[string]string{"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}[e.text(one+"/operator")]; to != "" {
			e.set(Comparison, one+"/operator", to)
		}
		e.dropItems(Match, one+"/values")
	}
}
