package mutation

import (
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// regoChange is a change within a rule of a module.
type regoChange struct {
	change
	rule   string
	around []int // offsets of the expressions around it, the innermost first
}

// A regoExpr is an expression of a rule's body.
type regoExpr struct {
	rule     string
	from, to int
	expr     *ast.Expr
	body     int // number of expressions in its body
}

// regoChanges returns the changes of the rules of a module, except tests.
func regoChanges(source string, version ast.RegoVersion) []regoChange {
	if len(source) > maxModule {
		return nil
	}
	m, err := rego.Parse(rego.Source{Name: "module", Text: source, Version: version, NoMetadata: true})
	if err != nil {
		return nil
	}
	tokens, ok := regoLanguage.tokens(source)
	if !ok {
		return nil
	}
	exprs, defaults := regoExprs(m, source)
	var all []regoChange
	for _, c := range slices.Concat(compared(tokens), constants(tokens), functions(tokens)) {
		at := tokens[c.at]
		around, rule := enclosing(exprs, at.from)
		if i := strings.LastIndexByte(source[:at.from], '\n') + 1; rule == "" && at.kind == wordToken {
			rule = defaults[i]
		}
		if rule == "" || at.kind == stringToken && strings.ContainsAny(at.text, " %") {
			continue // a text with spaces is for people
		}
		all = append(all, regoChange{c, rule, around})
	}
	for _, x := range exprs {
		around, _ := enclosing(exprs, x.from)
		for _, c := range x.changes(source) {
			all = append(all, regoChange{c, x.rule, around})
		}
	}
	return all
}

// maxModule bounds the modules that are changed.
const maxModule = 256 << 10

// regoExprs returns the expressions in the bodies of a module's rules, and the names
// of default rules by the offset of their lines.
func regoExprs(m *ast.Module, source string) ([]regoExpr, map[int]string) {
	var all []regoExpr
	defaults := make(map[int]string)
	for _, r := range m.Rules {
		name := string(r.Head.Name)
		if name == "" {
			name = r.Head.Ref().String()
		}
		if strings.HasPrefix(name, "test_") || strings.HasPrefix(name, "todo_test_") {
			continue
		}
		if r.Default && r.Location != nil {
			defaults[strings.LastIndexByte(source[:min(r.Location.Offset, len(source))], '\n')+1] = name
			continue
		}
		for ; r != nil; r = r.Else {
			ast.WalkBodies(r, func(b ast.Body) bool {
				for _, x := range b {
					l := x.Location
					if l != nil && len(l.Text) > 0 && l.Offset+len(l.Text) <= len(source) && source[l.Offset:l.Offset+len(l.Text)] == string(l.Text) {
						all = append(all, regoExpr{name, l.Offset, l.Offset + len(l.Text), x, len(b)})
					}
				}
				return false
			})
		}
	}
	slices.SortStableFunc(all, func(a, b regoExpr) int { return (a.to - a.from) - (b.to - b.from) })
	return all, defaults
}

// enclosing returns the expressions around an offset, and their rule.
func enclosing(exprs []regoExpr, at int) (around []int, rule string) {
	for _, x := range exprs {
		if x.from <= at && at < x.to {
			around, rule = append(around, x.from), x.rule
		}
	}
	return around, rule
}

// changes negates an expression and leaves it out.
func (r *regoExpr) changes(source string) []change {
	text := strings.TrimRight(source[r.from:r.to], " \t\r\n")
	to := r.from + len(text)
	if r.expr.IsSome() || r.expr.IsAssignment() || r.expr.IsEvery() && strings.HasPrefix(text, "some") || text == "true" || text == "false" {
		return nil
	}
	var all []change
	if rest, ok := strings.CutPrefix(text, "not "); ok {
		all = append(all, change{Negation, r.from, to, strings.TrimLeft(rest, " \t"), "not left out", 0})
	} else if !r.expr.IsEquality() && !hasComparison(r.expr) && len(r.expr.With) == 0 {
		all = append(all, change{Negation, r.from, r.from, "not ", "not " + shortened(text), 0})
	}
	if r.body > 1 && !r.expr.IsEquality() {
		from, end := withoutExpr(source, r.from, to)
		all = append(all, change{Dropped, from, end, "", shortened(text) + " left out", 0})
	}
	return all
}

func hasComparison(x *ast.Expr) bool {
	return x.IsCall() && slices.Contains([]string{"equal", "neq", "lt", "lte", "gt", "gte"}, x.Operator().String())
}

// withoutExpr returns the range to remove with an expression: its whole line if it stands
// alone, otherwise also a semicolon.
func withoutExpr(source string, from, to int) (int, int) {
	line := strings.LastIndexByte(source[:from], '\n') + 1
	rest, _, _ := strings.Cut(source[to:], "\n")
	before, after := strings.TrimSpace(source[line:from]), strings.TrimSpace(rest)
	switch {
	case before == "" && (after == "" || strings.HasPrefix(after, "#")):
		return len(strings.TrimRight(source[:from], " \t\r\n")), to
	case strings.HasPrefix(after, ";"):
		return from, to + strings.IndexByte(rest, ';') + 1
	case strings.HasSuffix(before, ";"):
		return line + strings.LastIndexByte(source[line:from], ';'), to
	}
	return from, to
}

// OfModule returns the mutants of a Rego module, except its tests.
func OfModule(file string, data []byte) []Mutant {
	source := string(data)
	e := &editor{data: data, lines: lineStarts(data), file: file}
	for _, c := range regoChanges(source, ast.RegoUndefined) {
		m := Mutant{
			Policy: packageOf(source), Rule: c.rule, Mutator: c.mutator, Change: c.words, Origin: e.written(c.from, c.to), From: c.from, To: c.to, Text: c.text,
		}
		for _, at := range c.around {
			m.Reach = append(m.Reach, e.place(at))
		}
		e.all = append(e.all, m)
	}
	return sorted(e.all)
}

func packageOf(source string) string {
	for line := range strings.Lines(source) {
		if name, ok := strings.CutPrefix(line, "package "); ok {
			name, _, _ = strings.Cut(name, "#")
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// regoText makes the mutants of the Rego at a pointer.
func (e *editor) regoText(pointer string, version ast.RegoVersion) {
	source := e.text(pointer)
	for _, c := range regoChanges(source, version) {
		e.rule = c.rule
		e.inside(pointer, source, c.change, c.around)
	}
	e.rule = ""
}

// template makes the mutants of a ConstraintTemplate's code.
func (e *editor) template() {
	const target = "/spec/targets/0"
	native := false
	for i := range e.list(target + "/code") {
		code := target + render.Pointer("code", i)
		if e.text(code+"/engine") == "K8sNativeValidation" {
			native = true
			e.expressions(code + "/source")
		}
	}
	if native { // Gatekeeper prefers CEL
		return
	}
	version := ast.RegoV0
	base := target
	for i := range e.list(target + "/code") {
		if code := target + render.Pointer("code", i); e.text(target+"/rego") == "" && e.text(code+"/engine") == "Rego" {
			if base = code + "/source"; e.text(base+"/version") == "v1" {
				version = ast.RegoV1
			}
		}
	}
	e.regoText(base+"/rego", version)
	for i := range e.list(base + "/libs") {
		e.regoText(base+render.Pointer("libs", i), version)
	}
}

// constraint makes the mutants of a constraint's match and parameters.
func (e *editor) constraint() {
	e.rule = e.o.GetKind()
	const match = "/spec/match"
	e.dropItems(Match, match+"/kinds")
	for i := range e.list(match + "/kinds") {
		e.dropItems(Match, match+render.Pointer("kinds", i, "kinds"))
		e.dropItems(Match, match+render.Pointer("kinds", i, "apiGroups"))
	}
	for _, key := range []string{"namespaces", "excludedNamespaces", "scope", "name"} {
		if e.at(match+render.Pointer(key)) != nil {
			e.dropItems(Match, match+render.Pointer(key))
			e.drop(Match, match+render.Pointer(key), key+" left out")
		}
	}
	for _, key := range []string{"labelSelector", "namespaceSelector"} {
		e.selector(match + render.Pointer(key))
	}
	e.parameters("/spec/parameters")
}

// parameters changes the leaves of a constraint's parameters.
func (e *editor) parameters(at string) {
	switch v := e.at(at).(type) {
	case map[string]any:
		for _, key := range e.keys(at) {
			if key != "message" {
				e.parameters(at + render.Pointer(key))
			}
		}
	case []any:
		e.dropItems(Constant, at)
		for i := range v {
			e.parameters(at + "/" + strconv.Itoa(i))
		}
	default:
		e.leaf(at)
	}
}
