// Package mutation makes mutants of policies: their files with one small change
// that should matter, such as a comparison turned round or a condition left out.
//
// The input is a file and a policy in it ([OfPolicy]), or a Rego module ([OfModule]).
// The result is a list of [Mutant] values in the order of their places. A mutant is a
// byte range of the file with its replacement, so its line and its diff are those of
// the file that a person edits. A mutant is only returned if the changed document,
// parsed again, differs only at the intended field.
package mutation

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/preadmit/preadmit/render"
)

// A Mutator names a kind of change.
type Mutator string

// The mutators.
const (
	Comparison Mutator = "comparison" // == != < <= > >=, and Kyverno's operators
	Logic      Mutator = "logic"      // && and ||
	Negation   Mutator = "negation"   // a condition negated, or its negation left out
	Dropped    Mutator = "dropped"    // a condition, pattern or expression left out
	Quantifier Mutator = "quantifier" // all and exists, any and all
	Function   Mutator = "function"   // startsWith and endsWith, min and max
	Constant   Mutator = "constant"   // a number, string or boolean changed
	Match      Mutator = "match"      // a kind, operation, namespace or selector left out
	Anchor     Mutator = "anchor"     // an anchor of Kyverno's patterns changed
)

// A Mutant is a file with one change.
type Mutant struct {
	Policy, Rule string
	Mutator      Mutator
	Change       string      // in words, such as "== to !="
	Origin       render.Span // of the change
	From, To     int         // the bytes of the file that Text replaces
	Text         string

	// Reach holds the places of the parts of the policy around the change, the
	// innermost first. The first one at which a policy.Coverage has a branch reports
	// whether the change is evaluated.
	Reach []render.Span

	// Equivalent reports whether constant folding shows that the change never
	// makes a difference.
	Equivalent bool
}

// Apply returns the changed file.
func (m *Mutant) Apply(data []byte) []byte {
	return slices.Concat(data[:m.From], []byte(m.Text), data[m.To:])
}

// maxDiffLines bounds the lines of a diff.
const maxDiffLines = 12

// Diff returns the changed lines, before with - and after with +.
func (m *Mutant) Diff(data []byte) []string {
	if m.From == m.To && m.Text == "" {
		return nil
	}
	from := bytes.LastIndexByte(data[:m.From], '\n') + 1
	to := m.To
	if m.To == m.From || data[m.To-1] != '\n' || m.Text != "" {
		if i := bytes.IndexByte(data[to:], '\n'); i >= 0 {
			to += i
		} else {
			to = len(data)
		}
	}
	before := strings.TrimSuffix(string(data[from:to]), "\n")
	after := strings.TrimSuffix(string(data[from:m.From])+m.Text+string(data[m.To:to]), "\n")
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	for len(old) > 1 && len(now) > 0 && old[0] == now[0] {
		old, now = old[1:], now[1:]
	}
	for len(old) > 1 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	if len(now) == 1 && now[0] == "" {
		now = nil
	}
	return append(marked("-", old), marked("+", now)...)
}

func marked(mark string, lines []string) []string {
	var all []string
	for i, l := range lines {
		if i == maxDiffLines {
			return append(all, fmt.Sprintf("%s … %d more lines", mark, len(lines)-i))
		}
		all = append(all, strings.TrimRight(mark+" "+l, " \r"))
	}
	return all
}

// sorted orders mutants by place and drops those that give the same file.
func sorted(all []Mutant) []Mutant {
	slices.SortStableFunc(all, func(a, b Mutant) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), strings.Compare(a.Text, b.Text))
	})
	return slices.CompactFunc(all, func(a, b Mutant) bool { return a.From == b.From && a.To == b.To && a.Text == b.Text })
}

// MatchEvaluated is whether the tests evaluate the match of an admission policy;
// kaptest does not.
type MatchEvaluated bool

// OfPolicy returns the mutants of the policy o, which render.Parse found in the
// file's data. A kind without mutators has none. If ctx is done, some are missing.
func OfPolicy(ctx context.Context, o *render.Object, data []byte, match MatchEvaluated) []Mutant {
	fields, ok := o.Provenance.(interface {
		Field(pointer string) (key, value render.Span, ok bool)
	})
	if !ok {
		return nil
	}
	e := &editor{ctx: ctx, o: o, fields: fields.Field, data: data, lines: lineStarts(data), file: o.Span("").File}
	e.from, e.to = e.document()
	group, kind := o.GroupVersionKind().Group, strings.TrimPrefix(o.GetKind(), "Namespaced")
	switch {
	case group == "kyverno.io" && (kind == "ClusterPolicy" || kind == "Policy"):
		e.clusterPolicy()
	case group == "kyverno.io" && strings.HasSuffix(kind, "CleanupPolicy"):
		e.cleanupPolicy()
	case group == "policies.kyverno.io", group == "admissionregistration.k8s.io":
		e.celPolicy(bool(match))
	case group == "templates.gatekeeper.sh":
		e.template()
	case group == "constraints.gatekeeper.sh":
		e.constraint()
	}
	return sorted(e.all)
}

// An editor makes mutants of one policy.
type editor struct {
	o      *render.Object
	fields func(pointer string) (key, value render.Span, ok bool)
	ctx    context.Context
	data   []byte
	from   int // of the policy's document in data
	to     int
	lines  []int // where lines begin
	file   string
	rule   string
	reach  []render.Span // of the current part
	all    []Mutant
}

func lineStarts(data []byte) []int {
	starts := []int{0}
	for i, b := range data {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// offset returns the offset of a line and column in the file.
func (e *editor) offset(line, column int) int {
	if line < 1 || line > len(e.lines) {
		return len(e.data)
	}
	at := e.lines[line-1]
	for ; column > 1 && at < len(e.data); column-- {
		_, size := utf8.DecodeRune(e.data[at:])
		at += size
	}
	return at
}

// place returns the line and column of an offset.
func (e *editor) place(at int) render.Span {
	line, _ := slices.BinarySearch(e.lines, at+1)
	column := utf8.RuneCount(e.data[e.lines[line-1]:at]) + 1
	return render.Span{File: e.file, Line: line, Column: column, EndLine: line, EndColumn: column}
}

// written returns the place of the text of a range, without blanks around it.
func (e *editor) written(from, to int) render.Span {
	text := e.data[from:to]
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 {
		from += bytes.Index(text, trimmed)
		to = from + len(trimmed)
	}
	s, end := e.place(from), e.place(to)
	s.EndLine, s.EndColumn = end.Line, end.Column
	return s
}

// at returns the value at a pointer.
func (e *editor) at(pointer string) any {
	v, _ := render.Lookup(e.o.Object, pointer)
	return v
}

func (e *editor) list(pointer string) []any {
	l, _ := e.at(pointer).([]any)
	return l
}

func (e *editor) keys(pointer string) []string {
	m, _ := e.at(pointer).(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

func (e *editor) text(pointer string) string {
	s, _ := e.at(pointer).(string)
	return s
}

// within calls look with the place of the value at a pointer added to Reach.
func (e *editor) within(pointer string, look func()) {
	before := e.reach
	e.reach = append([]render.Span{e.o.Span(pointer)}, before...)
	look()
	e.reach = before
}

// add adds a mutant if its document, parsed again, has the value want.
func (e *editor) add(m Mutator, from, to int, text, change string, want map[string]any) {
	if from < e.from || to > e.to || e.ctx.Err() != nil {
		return
	}
	x := Mutant{
		Policy: e.o.GetName(), Rule: e.rule, Mutator: m, Change: change, Origin: e.written(from, to),
		From: from, To: to, Text: text, Reach: slices.Clone(e.reach),
	}
	document := slices.Concat(e.data[e.from:from], []byte(text), e.data[to:e.to])
	objects, err := render.Parse(e.file, document)
	for _, p := range render.Errors(err) {
		if !p.Warning {
			return
		}
	}
	if slices.ContainsFunc(objects, func(o *render.Object) bool { return reflect.DeepEqual(o.Object, want) }) {
		e.all = append(e.all, x)
	}
}

// document returns the range of the policy's document in the file, between lines that
// begin with ---.
func (e *editor) document() (from, to int) {
	line := min(max(e.o.Span("").Line, 1), len(e.lines))
	marks := func(n int) bool { return bytes.HasPrefix(e.data[e.lines[n]:], []byte("---")) }
	first, last := line-1, line
	for first > 0 && !marks(first) {
		first--
	}
	for last < len(e.lines) && !marks(last) {
		last++
	}
	if last == len(e.lines) {
		return e.lines[first], len(e.data)
	}
	return e.lines[first], e.lines[last]
}

// spans returns the offsets of a key and a value.
func (e *editor) spans(pointer string) (key, value [2]int, ok bool) {
	k, v, ok := e.fields(pointer)
	if !ok {
		return key, value, false
	}
	if k.Line > 0 {
		key = [2]int{e.offset(k.Line, k.Column), e.offset(k.EndLine, k.EndColumn)}
	}
	return key, [2]int{e.offset(v.Line, v.Column), e.offset(v.EndLine, v.EndColumn)}, true
}

// set replaces a scalar.
func (e *editor) set(m Mutator, pointer string, value any) {
	_, at, ok := e.spans(pointer)
	if !ok || at[0] >= at[1] || e.data[at[0]] == '|' || e.data[at[0]] == '>' {
		return
	}
	was := e.at(pointer)
	text := fmt.Sprint(value)
	quote := e.data[at[0]]
	if s, ok := value.(string); ok && (quote == '"' || quote == '\'') {
		text = quoted(s, quote)
	} else if ok && (strings.ContainsAny(s, `!&*|>%@{}[],#?:"'`) || s == "" || looksTyped(s)) {
		text = quoted(s, '"')
	}
	e.add(m, at[0], at[1], text, fmt.Sprintf("%v to %v", was, value), e.changed(pointer, func(any) (any, bool) { return value, true }))
}

// looksTyped reports whether YAML would not read a plain text as a string.
func looksTyped(s string) bool {
	return strings.ContainsAny(s[:1], "0123456789-+.~") || slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s))
}

func quoted(s string, quote byte) string {
	if quote == '\'' {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// rename replaces a key.
func (e *editor) rename(m Mutator, pointer, name string) {
	at, _, ok := e.spans(pointer)
	path := render.Path(pointer)
	parent, _ := e.at(parentOf(pointer)).(map[string]any)
	if _, there := parent[name]; !ok || there || at[0] >= at[1] {
		return
	}
	was, text := path[len(path)-1], name
	if quote := e.data[at[0]]; quote == '"' || quote == '\'' {
		text = quoted(name, quote)
	}
	e.add(m, at[0], at[1], text, was+" to "+name, e.changed(parentOf(pointer), func(v any) (any, bool) {
		if now, is := v.(map[string]any); is {
			now[name] = now[was]
			delete(now, was)
		}
		return v, true
	}))
}

func parentOf(pointer string) string { return pointer[:max(strings.LastIndexByte(pointer, '/'), 0)] }

// changed returns the policy with another value at a pointer, or with none there. Everything else is shared.
func (e *editor) changed(pointer string, change func(v any) (any, bool)) map[string]any {
	now, _ := replaced(e.o.Object, render.Path(pointer), change)
	m, _ := now.(map[string]any)
	return m
}

func replaced(v any, path []string, change func(any) (any, bool)) (any, bool) {
	switch x := v.(type) {
	case map[string]any:
		now := maps.Clone(x)
		if len(path) == 0 {
			return change(now)
		}
		if below, ok := replaced(x[path[0]], path[1:], change); ok {
			now[path[0]] = below
		} else {
			delete(now, path[0])
		}
		return now, true
	case []any:
		if len(path) == 0 {
			break
		}
		i, err := strconv.Atoi(path[0])
		if err != nil || i >= len(x) {
			return v, true
		}
		now := slices.Clone(x)
		if below, ok := replaced(x[i], path[1:], change); ok {
			now[i] = below
			return now, true
		}
		return slices.Delete(now, i, i+1), true
	}
	return change(v)
}

// drop leaves out a field or an item of a list.
func (e *editor) drop(m Mutator, pointer, change string) {
	from, to, ok := e.dropRange(pointer)
	if !ok {
		return
	}
	e.add(m, from, to, "", change, e.changed(pointer, func(any) (any, bool) { return nil, false }))
}

// dropItems leaves out each item of a list that has several.
func (e *editor) dropItems(m Mutator, pointer string) {
	items := e.list(pointer)
	if len(items) < 2 {
		return
	}
	path := render.Path(pointer)
	for i, x := range items {
		what := path[len(path)-1] + fmt.Sprintf("[%d]", i)
		switch x.(type) {
		case string, int64, bool, float64:
			what = fmt.Sprintf("%v of %s", x, path[len(path)-1])
		}
		e.drop(m, pointer+render.Pointer(i), what+" left out")
	}
}

// dropRange returns the bytes to remove for a field or an item.
func (e *editor) dropRange(pointer string) (from, to int, ok bool) {
	key, value, ok := e.spans(pointer)
	_, parent, there := e.spans(parentOf(pointer))
	if !ok || !there {
		return 0, 0, false
	}
	from = value[0]
	if key[1] > 0 {
		from = key[0]
	}
	if c := e.data[parent[0]]; c == '[' || c == '{' {
		return e.dropFlow(from, max(value[1], key[1]))
	}
	line := bytes.LastIndexByte(e.data[:from], '\n') + 1
	before := string(e.data[line:from])
	switch {
	case key[1] == 0: // an item: its dash goes, too
		dash := strings.LastIndexByte(before, '-')
		if dash < 0 || strings.TrimSpace(before[:dash]) != "" || strings.TrimSpace(before[dash+1:]) != "" {
			return 0, 0, false
		}
		return line, e.blockEnd(line, dash, false), true
	case strings.TrimSpace(before) == "":
		return line, e.blockEnd(line, len(before), true), true
	default: // the first field of an item: the next one takes its place
		to = e.blockEnd(line, len(before), true)
		if to >= len(e.data) || indentOf(e.data[to:]) != len(before) {
			return 0, 0, false
		}
		return from, to + len(before), true
	}
}

// dropFlow extends the range of an entry of a flow collection by one of the commas
// around it.
func (e *editor) dropFlow(from, to int) (int, int, bool) {
	rest := e.data[to:]
	if i := len(rest) - len(bytes.TrimLeft(rest, " \t\r\n")); i < len(rest) && rest[i] == ',' {
		to += i + 1
		return from, to + len(e.data[to:]) - len(bytes.TrimLeft(e.data[to:], " \t")), true
	}
	front := bytes.TrimRight(e.data[:from], " \t\r\n")
	if len(front) > 0 && front[len(front)-1] == ',' {
		return len(front) - 1, to, true
	}
	return from, to, true
}

// blockEnd returns the start of the next line that does not belong to the entry that
// begins on a line at an indentation.
func (e *editor) blockEnd(line, indent int, field bool) int {
	n, _ := slices.BinarySearch(e.lines, line+1)
	for ; n < len(e.lines); n++ {
		at := e.lines[n]
		rest := e.data[at:]
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			rest = rest[:i]
		}
		if len(bytes.TrimSpace(rest)) == 0 {
			if n == len(e.lines)-1 {
				return at
			}
			continue
		}
		in := indentOf(rest)
		item := field && in == indent && (bytes.HasPrefix(rest[in:], []byte("- ")) || string(bytes.TrimSpace(rest)) == "-")
		if in <= indent && !item {
			return at
		}
	}
	return len(e.data)
}

func indentOf(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " ")) }
