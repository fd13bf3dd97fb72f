package rego

import (
	"strconv"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"
)

// A guard estimates the bytes that a call may allocate at most, or its steps if these
// grow faster. A call above maxAllocated is refused.
type guard func(operands []*ast.Term) int

// Results of a guard for a call that must be refused.
const (
	tooMuch = maxAllocated + 1
	outside = -1 // it refers to another document
)

// guards lists the built-in functions whose results may be much larger than their
// operands. The evaluator can't stop them, since it checks the bound between
// expressions only.
var guards = map[string]guard{
	"abs": numbersOf, "ceil": numbersOf, "floor": numbersOf, "round": numbersOf,
	"plus": numbersOf, "minus": numbersOf, "mul": numbersOf, "div": numbersOf, "rem": numbersOf,
	"sum": numbersOf, "product": numbersOf, "format_int": numbersOf, "to_number": numbersOf,
	"bits.and": numbersOf, "bits.or": numbersOf, "bits.xor": numbersOf, "bits.negate": numbersOf,
	"bits.lsh": shift, "bits.rsh": numbersOf,
	"numbers.range": numberRange, "numbers.range_step": numberRange,
	"units.parse": unit, "units.parse_bytes": unit,
	"net.cidr_expand": expandCIDR,

	"concat": concatenation, "sprintf": formatting, "internal.template_string": templateString,
	"replace": replacing, "strings.replace_n": replacingAll,
	"split": times(64), "strings.split_n": times(64), "indexof_n": occurrences,
	"lower": times(1), "upper": times(1), "strings.reverse": times(1), "trim": times(1),
	"substring": times(1), "base64.encode": times(2), "base64url.encode": times(2),
	"base64url.encode_no_pad": times(2), "hex.encode": times(2), "urlquery.encode": times(3),
	"base64.decode": times(1), "base64url.decode": times(1), "hex.decode": times(1),
	"urlquery.decode": times(1), "urlquery.decode_object": times(64), "urlquery.encode_object": tree(4),
	"json.unmarshal": times(64), "yaml.unmarshal": yamlText, "json.is_valid": times(1), "yaml.is_valid": yamlText,
	"json.marshal": tree(2), "json.marshal_with_options": indented, "yaml.marshal": tree(4),
	"json.match_schema": schema, "json.verify_schema": schema,
	"strings.render_template": template,

	"regex.match": matching, "re_match": matching, "regex.split": finding, "regex.find_n": finding,
	"regex.find_all_string_submatch_n": finding, "regex.replace": regexReplacing,
	"regex.template_match": matching, "regex.globs_match": intersecting, "glob.match": globbing,

	"array.concat": elements, "array.flatten": flattening, "array.reverse": elements, "or": elements, "and": elements,
	"object.union": tree(8), "object.union_n": tree(8), "object.remove": elements, "object.filter": elements,
	"json.patch": patching, "json.remove": tree(8), "json.filter": tree(8), "union": flattening,
	"graph.reachable_paths": paths, "object.keys": elements, "sort": elements, "walk": tree(1),
	"graphql.parse": times(512), "graphql.parse_query": times(512), "graphql.parse_schema": times(512),
	"graphql.parse_and_verify": times(512), "graphql.is_valid": times(512), "graphql.schema_is_valid": times(512),
	"rego.parse_module": times(512),
}

// guardBuiltins wraps OPA's own functions in guards, once in a process. The evaluator
// finds its functions in OPA's global registry and can't replace them for one query,
// so this is the one global that the package changes, before anything is evaluated.
var guardBuiltins = sync.OnceFunc(func() {
	for name, g := range guards {
		topdown.RegisterBuiltinFunc(name, guarded(name, g, topdown.GetBuiltin(name)))
		ast.BuiltinMap[name].CanSkipBctx = false // a guard needs the question's bound
	}
	topdown.RegisterBuiltinFunc("graph.reachable", reachable)
	topdown.RegisterBuiltinFunc(verifyCertificates, withTime(topdown.GetBuiltin(verifyCertificates)))
	for name, asks := range timed {
		topdown.RegisterBuiltinFunc(name, byQuestion(asks, topdown.GetBuiltin(name)))
		ast.BuiltinMap[name].CanSkipBctx = false
	}
})

// guarded calls a guard before the function. A call that would allocate too much ends
// the question with an error, since an undefined result could make the policy pass.
func guarded(name string, g guard, f topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(c topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		b, ok := c.Cancel.(*bound)
		n := g(operands)
		if n == outside {
			return halt(c, name+": it refers to another document, and "+offline)
		}
		if !ok && n > maxAllocated || ok && !b.allocate(n) {
			return halt(c, name+": this would take too much memory or time, and is not evaluated")
		}
		return f(c, operands, iter)
	}
}

func halt(c topdown.BuiltinContext, text string) error {
	return topdown.Halt{Err: &topdown.Error{Code: topdown.BuiltinErr, Location: c.Location, Message: text}}
}

// times returns a guard for functions whose result grows with the texts in their
// operands.
func times(n int) guard {
	return func(operands []*ast.Term) int {
		sum := 0
		for _, o := range operands {
			sum += textLen(o)
		}
		return product(sum, n)
	}
}

// tree returns a guard for functions that walk or copy all of their operands. Shared
// parts of a value count each time that they occur.
func tree(n int) guard {
	return func(operands []*ast.Term) int {
		sum := 0
		for _, o := range operands {
			sum += size(o.Value, maxTree-sum)
			if sum >= maxTree {
				return tooMuch
			}
		}
		return product(sum, n)
	}
}

// maxTree bounds the bytes that a guard counts. Nobody writes so large a value, and
// one with shared parts may be of any size.
const maxTree = 32 << 20

// size estimates the bytes of a value when written out. It stops counting at the
// limit.
func size(v ast.Value, limit int) int {
	const overhead = 8
	switch v := v.(type) {
	case ast.String:
		return overhead + len(v)
	case ast.Number:
		return overhead + len(v)
	case *ast.Array:
		n := overhead
		for i := 0; i < v.Len() && n < limit; i++ {
			n += size(v.Elem(i).Value, limit-n)
		}
		return n
	case ast.Set:
		n := overhead
		for _, e := range v.Slice() {
			if n >= limit {
				break
			}
			n += size(e.Value, limit-n)
		}
		return n
	case ast.Object:
		return overhead + objectSize(v, limit-overhead)
	}
	return overhead
}

func objectSize(o ast.Object, limit int) int {
	n := 0
	o.Until(func(k, t *ast.Term) bool {
		n += size(k.Value, limit-n)
		n += size(t.Value, limit-n)
		return n >= limit
	})
	return n
}

// elements is a guard for functions that collect the elements of their operands.
func elements(operands []*ast.Term) int {
	sum := 0
	for _, o := range operands {
		sum += length(o.Value)
	}
	return product(sum, 32)
}

// flattening is a guard for functions that collect the elements of their operand's
// collections.
func flattening(operands []*ast.Term) int {
	sum := length(operands[0].Value)
	each(operands[0].Value, func(t *ast.Term) { sum += length(t.Value) })
	return product(sum, 32)
}

// patching is a guard for JSON patches: each operation may copy the whole document as
// it is then.
func patching(operands []*ast.Term) int {
	n := tree(4)(operands)
	each(operands[1].Value, func(t *ast.Term) {
		o, ok := t.Value.(ast.Object)
		if !ok {
			return
		}
		if op := o.Get(ast.InternedTerm("op")); op != nil && ast.String("copy").Equal(op.Value) {
			n = product(n, 2)
		}
	})
	return n
}

func length(v ast.Value) int {
	switch v := v.(type) {
	case *ast.Array:
		return v.Len()
	case ast.Set:
		return v.Len()
	case ast.Object:
		return v.Len()
	}
	return 0
}

func each(v ast.Value, f func(*ast.Term)) {
	switch v := v.(type) {
	case *ast.Array:
		v.Foreach(f)
	case ast.Set:
		v.Foreach(f)
	case ast.Object:
		v.Foreach(func(_, t *ast.Term) { f(t) })
	}
}

func textLen(t *ast.Term) int {
	s, _ := t.Value.(ast.String)
	return len(s)
}

func textOf(t *ast.Term) string {
	s, _ := t.Value.(ast.String)
	return string(s)
}

// product multiplies, up to tooMuch.
func product(a, b int) int {
	if a > 0 && b > 0 && a > tooMuch/b {
		return tooMuch
	}
	return a * b
}

// maxDigits and maxExponent bound numbers: arithmetic is exact, so all digits are
// written out.
const (
	maxDigits   = 4096
	maxExponent = 4096
)

// numbersOf is a guard for functions of numbers, or of collections or texts of
// numbers.
func numbersOf(operands []*ast.Term) int {
	n := 0
	for _, o := range operands {
		switch v := o.Value.(type) {
		case ast.Number:
			n += number(string(v))
		case ast.String:
			n += number(string(v))
		default:
			each(v, func(t *ast.Term) {
				if x, ok := t.Value.(ast.Number); ok {
					n += number(string(x))
				}
			})
		}
		if n > maxAllocated {
			return tooMuch
		}
	}
	return n
}

// number returns the size of a number when written out.
func number(s string) int {
	if len(s) <= 18 && !strings.ContainsAny(s, "eE") {
		return 0
	}
	digits, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	e, err := strconv.Atoi(exponent)
	if exponent != "" && err != nil && strings.Trim(exponent, "+-0123456789") == "" {
		return tooMuch
	}
	if len(digits) > maxDigits || e > maxExponent || e < -maxExponent {
		return tooMuch
	}
	return len(digits)
}

func shift(operands []*ast.Term) int {
	by, ok := operands[1].Value.(ast.Number)
	if n, isInt := by.Int(); ok && (!isInt || n > maxDigits) && !strings.HasPrefix(string(by), "-") {
		return tooMuch
	}
	return numbersOf(operands)
}

func numberRange(operands []*ast.Term) int {
	if numbersOf(operands) > maxAllocated {
		return tooMuch
	}
	var n [3]float64
	for i, o := range operands {
		if x, ok := o.Value.(ast.Number); ok && i < len(n) {
			n[i], _ = x.Float64()
		}
	}
	count := max(n[0]-n[1], n[1]-n[0])
	if n[2] > 1 {
		count /= n[2]
	}
	if count > maxAllocated {
		return tooMuch
	}
	return product(int(count), 64)
}

// unit is a guard for amounts such as 1e9Gi.
func unit(operands []*ast.Term) int {
	s := strings.ToLower(textOf(operands[0]))
	if len(s) > maxDigits {
		return tooMuch
	}
	_, e, ok := strings.Cut(s, "e")
	e = strings.TrimLeft(e, "+-")
	if ok && len(e) > 4 && strings.Trim(e[:5], "0123456789") == "" {
		return tooMuch
	}
	return 0
}

func expandCIDR(operands []*ast.Term) int {
	address, bits, _ := strings.Cut(textOf(operands[0]), "/")
	width := 32
	if strings.Contains(address, ":") {
		width = 128
	}
	ones, err := strconv.Atoi(bits)
	if err != nil {
		return 0
	}
	if width-ones > 24 {
		return tooMuch
	}
	return 64 << max(width-ones, 0)
}

// reachable replaces graph.reachable: it returns the initial nodes and those that
// edges lead to. OPA's own visits a node as often as it is found, which is
// exponential in a graph of layers.
func reachable(_ topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
	graph, err := builtins.ObjectOperand(operands[0].Value, 1)
	if err != nil {
		return err
	}
	switch operands[1].Value.(type) {
	case *ast.Array, ast.Set:
	default:
		return builtins.NewOperandTypeErr(2, operands[1].Value, "{array, set}")
	}
	seen := ast.NewSet()
	var queue []*ast.Term
	visit := func(t *ast.Term) {
		if graph.Get(t) != nil && !seen.Contains(t) {
			seen.Add(t)
			queue = append(queue, t)
		}
	}
	eachNode(operands[1].Value, visit)
	for ; len(queue) > 0; queue = queue[1:] {
		eachNode(graph.Get(queue[0]).Value, visit)
	}
	return iter(ast.NewTerm(seen))
}

// eachNode calls f for the nodes that edges lead to, an array or a set.
func eachNode(v ast.Value, f func(*ast.Term)) {
	switch v.(type) {
	case *ast.Array, ast.Set:
		each(v, f)
	}
}

// maxPaths bounds the steps of all paths of a graph together.
const maxPaths = 1 << 20

// paths is a guard for graph.reachable_paths, which walks all paths.
func paths(operands []*ast.Term) int {
	graph, ok := operands[0].Value.(ast.Object)
	if !ok {
		return 0
	}
	left := maxPaths
	on := ast.NewSet()
	var walk func(t *ast.Term, depth int)
	walk = func(t *ast.Term, depth int) {
		left -= depth
		edges := graph.Get(t)
		if left < 0 || edges == nil || on.Contains(t) {
			return
		}
		on.Add(t)
		eachNode(edges.Value, func(n *ast.Term) {
			if left >= 0 {
				walk(n, depth+1)
			}
		})
		on = on.Diff(ast.NewSet(t))
	}
	eachNode(operands[1].Value, func(t *ast.Term) { walk(t, 1) })
	if left < 0 {
		return tooMuch
	}
	return product(maxPaths-left, 64)
}
