package sample

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/render"
)

// An Edit changes the fields of an object at a path, in which "*" means every element
// of a list.
type Edit struct {
	path   []string
	remove bool
	merge  bool // value is a tree; each of its leaves is set
	value  any
}

// each is the element of a path that means every element of a list.
const each = "*"

// apply returns a changed copy of an object. changed is false if the edit makes no
// difference.
func (e Edit) apply(object map[string]any) (copied map[string]any, changed bool) {
	copied = runtime.DeepCopyJSON(object)
	after, _ := e.changeAt(copied, e.path).(map[string]any)
	return after, after != nil && !reflect.DeepEqual(after, object)
}

// changeAt returns v with the rest of the path changed.
func (e Edit) changeAt(v any, path []string) any {
	if len(path) == 0 {
		if e.merge {
			return mergeLeaves(v, e.value)
		}
		return runtime.DeepCopyJSONValue(e.value)
	}
	if path[0] == each {
		list, ok := v.([]any)
		if !ok && v == nil && !e.remove {
			list = []any{nil}
		}
		for i := range list {
			list[i] = e.changeAt(list[i], path[1:])
		}
		return listOr(list, v)
	}
	m, ok := v.(map[string]any)
	if !ok {
		if v != nil || e.remove {
			return v
		}
		m = map[string]any{}
	}
	if e.remove && len(path) == 1 {
		delete(m, path[0])
		return m
	}
	if below, ok := m[path[0]]; ok || !e.remove {
		m[path[0]] = e.changeAt(below, path[1:])
	}
	return m
}

// listOr returns list, or v where there is no list.
func listOr(list []any, v any) any {
	if list == nil {
		return v
	}
	return list
}

// mergeLeaves returns v with the leaves of a tree set. The first element of a list in
// the tree is merged into every element.
func mergeLeaves(v, tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		m, _ := v.(map[string]any)
		if m == nil {
			m = map[string]any{}
		}
		for k, below := range tree {
			m[k] = mergeLeaves(m[k], below)
		}
		return m
	case []any:
		list, _ := v.([]any)
		if len(tree) == 0 {
			return v
		}
		if len(list) == 0 {
			list = []any{nil}
		}
		for i := range list {
			list[i] = mergeLeaves(list[i], tree[0])
		}
		return list
	}
	return tree
}

// String describes the edit in one line.
func (e Edit) String() string {
	at := strings.TrimPrefix(strings.ReplaceAll("."+strings.Join(e.path, "."), ".*", "[*]"), ".")
	if e.remove {
		return at + " removed"
	}
	data, err := json.Marshal(e.value)
	if err != nil {
		return at + " changed"
	}
	if at == "" {
		return "set: " + string(data)
	}
	return at + ": " + string(data)
}

// OneLine returns text without line breaks and control characters, cut.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
	if r := []rune(text); len(r) > 160 {
		return string(r[:160]) + "…"
	}
	return text
}

// A vocabulary holds the fields, paths and literals in the text of a policy. Edits
// use them.
type vocabulary struct {
	words   map[string]bool
	paths   [][]string // below any mapping of an object
	strings []string
	numbers []int64
	trees   []any // that satisfy a pattern
}

// Limits of the edits that are tried.
const (
	maxLiterals = 24
	maxPaths    = 60
)

var (
	identifiers = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	chains      = regexp.MustCompile(`[A-Za-z_]\w*(?:\s*\.\s*\??\s*[A-Za-z_]\w*|\[\s*["'][^"'\]]+["']\s*\]|\[[\w\s*]*\]|\."[^"]+")+\(?`)
	links       = regexp.MustCompile(`\.\s*\??\s*"?([^.\[\]"]+)"?|\[\s*["']([^"'\]]+)["']\s*\]|\[([\w\s*]*)\]`)
	quoted      = regexp.MustCompile("\"((?:[^\"\\\\]|\\\\.)*)\"|'((?:[^'\\\\]|\\\\.)*)'|`([^`]*)`")
	wholes      = regexp.MustCompile(`(?:^|[^\w.])(\d{1,9})(?:$|[^\w.])`)
	anchors     = regexp.MustCompile(`^(?:[=^+<X]?\()(.*)\)$`)
	operators   = regexp.MustCompile(`^(?:[<>!]=?|)\s*`)
)

// prose lists the keys whose text is for people.
var prose = []string{"message", "messageExpression", "description", "failureMessage"}

// read adds the names in a value of the policy. Mappings below pattern are overlays
// of the object.
func (v *vocabulary) read(value any, pattern bool, path []string) {
	switch x := value.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if slices.Contains(prose, k) {
				continue
			}
			v.readKey(k, x[k], pattern, path)
		}
	case []any:
		for _, e := range x {
			v.read(e, pattern, append(slices.Clone(path), each))
		}
	case string:
		v.text(x)
		v.leaf(pattern, path)
	case int64:
		v.number(x)
		v.leaf(pattern, path)
	default:
		v.leaf(pattern, path)
	}
}

func (v *vocabulary) readKey(key string, value any, pattern bool, path []string) {
	if !pattern {
		switch key {
		case "pattern":
			v.overlay(value)
		case "anyPattern":
			list, _ := value.([]any)
			for _, p := range list {
				v.overlay(p)
			}
		default:
			v.literal(key) // of parameters: the name of a label, or of a field
			v.read(value, false, nil)
		}
		return
	}
	name := unanchored(key)
	v.words[name] = true
	v.read(value, true, append(slices.Clone(path), name))
}

// overlay reads a pattern of Kyverno.
func (v *vocabulary) overlay(pattern any) {
	v.read(pattern, true, nil)
	if tree := exampleOf(pattern); tree != nil {
		v.trees = append(v.trees, tree)
	}
}

func unanchored(key string) string {
	if m := anchors.FindStringSubmatch(key); m != nil {
		return m[1]
	}
	return key
}

func (v *vocabulary) leaf(pattern bool, path []string) {
	if pattern && len(path) > 0 {
		v.path(path)
	}
}

func (v *vocabulary) path(path []string) {
	if len(v.paths) < maxPaths && !slices.ContainsFunc(v.paths, func(p []string) bool { return slices.Equal(p, path) }) {
		v.paths = append(v.paths, slices.Clone(path))
	}
}

func (v *vocabulary) literal(s string) {
	if s != "" && len(s) <= 80 && len(v.strings) < maxLiterals && !slices.Contains(v.strings, s) {
		v.strings = append(v.strings, s)
	}
}

func (v *vocabulary) number(n int64) {
	for _, x := range []int64{n, n + 1, n - 1} {
		if len(v.numbers) < maxLiterals && !slices.Contains(v.numbers, x) {
			v.numbers = append(v.numbers, x)
		}
	}
}

// text reads a string of the policy: an expression, a pattern or a value.
func (v *vocabulary) text(s string) {
	for _, w := range identifiers.FindAllString(s, -1) {
		v.words[w] = true
	}
	for _, m := range quoted.FindAllStringSubmatch(s, -1) {
		for _, x := range example(m[1] + m[2] + m[3]) {
			v.literal(x)
		}
	}
	if !strings.ContainsAny(s, " \n(") {
		for _, x := range example(s) {
			v.literal(x)
		}
	}
	for _, m := range wholes.FindAllStringSubmatch(s, -1) {
		if n, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			v.number(n)
		}
	}
	for _, chain := range chains.FindAllString(s, -1) {
		v.chain(chain)
	}
}

// chain reads a chain of fields such as object.spec.containers[_].image.
func (v *vocabulary) chain(chain string) {
	call := strings.HasSuffix(chain, "(")
	root := identifiers.FindString(chain)
	var path []string
	for _, m := range links.FindAllStringSubmatch(strings.TrimSuffix(chain[len(root):], "("), -1) {
		switch {
		case m[1] != "":
			path = append(path, strings.TrimSpace(m[1]))
		case m[2] != "":
			path = append(path, m[2])
		default:
			path = append(path, each)
		}
	}
	if call && len(path) > 0 {
		path = path[:len(path)-1] // the name of a function
	}
	for len(path) > 0 && slices.Contains([]string{"object", "oldObject", "review", "request", each}, path[0]) {
		path = path[1:]
	}
	for i, step := range path {
		if step != each {
			v.words[step] = true
			if i < len(path)-1 || !call {
				v.path(path[:i+1])
			}
		}
	}
}

// example returns values that match s: a literal, a wildcard, an operator with
// its operand, a range or a regular expression.
func example(s string) []string {
	all := []string{s}
	for part := range strings.SplitSeq(s, "|") {
		part = strings.TrimSpace(operators.ReplaceAllString(strings.TrimSpace(part), ""))
		if strings.ContainsAny(part, "*?") {
			all = append(all, strings.NewReplacer("?*", "x", "*", "x", "?", "x").Replace(part))
		} else if part != "" && part != s {
			all = append(all, part)
		}
	}
	if strings.ContainsAny(s, `^$\[(+`) && len(s) < 200 {
		if re, err := syntax.Parse(s, syntax.Perl); err == nil {
			all = append(all, matching(re.Simplify(), 0))
		}
	}
	return all
}

// matching returns a short text that the regular expression matches, as far as its
// parts show.
func matching(re *syntax.Regexp, depth int) string {
	if depth > 50 {
		return ""
	}
	var b strings.Builder
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			for _, r := range []rune{'a', '1', re.Rune[i]} {
				if re.Rune[i] <= r && r <= re.Rune[i+1] && unicode.IsPrint(r) {
					return string(r)
				}
			}
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpCapture, syntax.OpPlus, syntax.OpAlternate:
		return matching(re.Sub[0], depth+1)
	case syntax.OpRepeat:
		return strings.Repeat(matching(re.Sub[0], depth+1), max(re.Min, 1))
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			b.WriteString(matching(sub, depth+1))
		}
	}
	return b.String()
}

// exampleOf returns a tree that a pattern of Kyverno accepts, as far as its leaves
// show.
func exampleOf(pattern any) any {
	switch p := pattern.(type) {
	case map[string]any:
		tree := make(map[string]any, len(p))
		for k, v := range p {
			if strings.HasPrefix(k, "X(") {
				continue
			}
			if below := exampleOf(v); below != nil {
				tree[unanchored(k)] = below
			}
		}
		if len(tree) == 0 {
			return nil
		}
		return tree
	case []any:
		if len(p) == 0 {
			return nil
		}
		if below := exampleOf(p[0]); below != nil {
			return []any{below}
		}
		return nil
	case string:
		all := example(p)
		return all[len(all)-1]
	default:
		return pattern
	}
}

// quantities and images are values that many policies check.
var quantities = []string{"1m", "100", "1Ki", "100Ti"}

const someDigest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// values returns candidates for a field, given its value now.
func (v *vocabulary) values(now any) []any {
	switch now := now.(type) {
	case bool:
		return []any{!now}
	case int64:
		return v.allNumbers()
	case float64:
		return v.allNumbers()
	case string:
		return v.allStrings(now)
	case []any:
		all := []any{[]any{}}
		if len(now) == 0 || isText(now[0]) {
			all = append(all, v.lists()...)
		}
		return all
	case map[string]any:
		return append([]any{map[string]any{}}, v.mappings(now)...)
	}
	all := []any{true, false}
	all = append(all, v.allStrings("")...)
	all = append(all, v.allNumbers()...)
	all = append(all, v.lists()...)
	return append(append(all, map[string]any{}), v.mappings(nil)...)
}

func isText(v any) bool { _, ok := v.(string); return ok }

func (v *vocabulary) allNumbers() []any {
	var all []any
	for _, n := range append(slices.Clone(v.numbers), 0, 1, 100000) {
		all = append(all, n)
	}
	return all
}

func (v *vocabulary) allStrings(now string) []any {
	all := slices.Clone(v.strings)
	base, _, _ := strings.Cut(now, "@")
	if i := strings.LastIndexByte(base, ':'); i > strings.LastIndexByte(base, '/') {
		base = base[:i]
	}
	if now != "" {
		for _, s := range v.strings {
			if strings.ContainsAny(s, "/.:-") {
				all = append(all, s+now, strings.TrimSuffix(s, "/")+"/"+now[strings.LastIndexByte(now, '/')+1:], base+s, strings.TrimPrefix(now, s))
			}
		}
		all = append(all, base, base+":latest", base+":1.0.0", base+someDigest, "example.com/"+now)
	}
	all = append(all, "x", "")
	all = append(all, quantities...)
	var values []any
	for _, s := range all {
		if s != now && !slices.Contains(values, any(s)) {
			values = append(values, s)
		}
	}
	return values
}

func (v *vocabulary) lists() []any {
	var all []any
	for _, s := range append(slices.Clone(v.strings), "x") {
		all = append(all, []any{s})
	}
	return all
}

// mappings returns mappings of strings, such as labels, with more keys.
func (v *vocabulary) mappings(now map[string]any) []any {
	for _, x := range now {
		if !isText(x) {
			return nil
		}
	}
	var keys []string
	for _, s := range v.strings {
		if !strings.ContainsAny(s, " \n(){}*:,") && len(keys) < 8 {
			keys = append(keys, s)
		}
	}
	var all []any
	for _, value := range append([]string{"x", "true", "false"}, v.strings[:min(len(v.strings), 12)]...) {
		every := make(map[string]any, len(keys))
		for _, k := range keys {
			every[k] = value
			if len(all) < maxLiterals {
				one := maps.Clone(now)
				if one == nil {
					one = map[string]any{}
				}
				one[k] = value
				all = append(all, one)
			}
		}
		for k, x := range now {
			if _, ok := every[k]; !ok {
				every[k] = x
			}
		}
		all = append(all, every)
	}
	return all
}

// edits yields the changes of an object that are worth trying, the likely ones first:
// those of the fields that rules named, of the fields in the policy's text, of all
// others. admits reports whether an object may have a field.
func (v *vocabulary) edits(object map[string]any, named []string, admits func(path []string) bool, yield func(Edit) bool) {
	all := patterns(object, nil, nil)
	on := func(path []string) bool {
		now, present := firstAt(object, path)
		for _, value := range v.values(now) {
			if !yield(Edit{path: path, value: value}) {
				return false
			}
		}
		return !present || yield(Edit{path: path, remove: true})
	}
	done := make(map[string]bool)
	once := func(path []string) bool {
		key := strings.Join(path, "\x00")
		if isIdentity(path) || done[key] {
			return true
		}
		done[key] = true
		return on(path)
	}
	for _, f := range named {
		path := withoutIndexes(object, render.Path(f))
		if len(path) > 0 && !once(path) {
			return
		}
	}
	for _, tree := range v.trees {
		for _, at := range [][]string{nil, {"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}} {
			if _, ok := firstAt(object, at); ok && !yield(Edit{path: at, merge: true, value: tree}) {
				return
			}
		}
	}
	for _, path := range all { // the likeliest single step: without a field
		if isIdentity(path) || !v.words[path[len(path)-1]] {
			continue
		}
		if now, _ := firstAt(object, path); isList(now) && !yield(Edit{path: path, value: []any{}}) || !yield(Edit{path: path, remove: true}) {
			return
		}
	}
	for _, path := range all {
		if now, _ := firstAt(object, path); v.words[path[len(path)-1]] && !isMapping(now) && !isList(now) && !once(path) {
			return
		}
	}
	for _, m := range append([][]string{nil}, mappingsOf(object, all)...) {
		for _, p := range v.paths {
			path := append(slices.Clone(m), p...)
			if _, present := firstAt(object, path); !present && admits(path) && !once(path) {
				return
			}
		}
	}
	for _, about := range []bool{true, false} {
		for _, path := range all {
			if v.words[path[len(path)-1]] == about && !once(path) {
				return
			}
		}
	}
}

// mappingsOf returns the paths that lead to mappings, with elements of lists.
func mappingsOf(object map[string]any, paths [][]string) [][]string {
	var all [][]string
	for _, path := range paths {
		switch now, _ := firstAt(object, path); now := now.(type) {
		case map[string]any:
			all = append(all, path)
		case []any:
			if len(now) > 0 && isMapping(now[0]) {
				all = append(all, append(slices.Clone(path), each))
			}
		}
	}
	return all
}

func isMapping(v any) bool { _, ok := v.(map[string]any); return ok }

func isList(v any) bool { _, ok := v.([]any); return ok }

// isIdentity reports whether a path is a part of the object's identity.
func isIdentity(path []string) bool {
	return len(path) == 1 && (path[0] == "apiVersion" || path[0] == "kind" || path[0] == "metadata" || path[0] == "status")
}

// patterns lists the paths of an object's fields, those nearer to the root first.
func patterns(v any, path []string, all [][]string) [][]string {
	type level struct {
		v    any
		path []string
	}
	seen := make(map[string]bool)
	for queue := []level{{v, path}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		switch x := at.v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(x)) {
				p := append(slices.Clone(at.path), k)
				if key := strings.Join(p, "\x00"); !seen[key] {
					seen[key] = true
					all = append(all, p)
				}
				queue = append(queue, level{x[k], p})
			}
		case []any:
			for _, e := range x {
				queue = append(queue, level{e, append(slices.Clone(at.path), each)})
			}
		}
	}
	return all
}

// firstAt returns the first value at a path.
func firstAt(v any, path []string) (any, bool) {
	for i, step := range path {
		switch x := v.(type) {
		case map[string]any:
			below, ok := x[step]
			if !ok {
				return nil, false
			}
			v = below
		case []any:
			for _, e := range x {
				if found, ok := firstAt(e, path[i+1:]); ok && step == each {
					return found, true
				}
			}
			return nil, false
		default:
			return nil, false
		}
	}
	return v, true
}

// withoutIndexes replaces the indexes of lists in a path.
func withoutIndexes(v any, path []string) []string {
	var all []string
	for _, step := range path {
		switch x := v.(type) {
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(x) {
				return all
			}
			v, step = x[i], each
		case map[string]any:
			v = x[step]
		}
		all = append(all, step)
	}
	return all
}
