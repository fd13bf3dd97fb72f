package pattern

import (
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Leaf compares a value with a pattern that is not a list: a scalar, or a map,
// which any map matches. A nil value is a missing one.
func Leaf(value, pattern any) bool {
	if _, ok := pattern.(map[string]any); ok {
		_, ok = value.(map[string]any)
		return ok
	}
	l, ok := compileLeaf(pattern)
	return ok && l.matches(value)
}

// A leaf is a scalar of a pattern.
type leaf struct {
	pattern any  // nil, bool, float64 or string
	whole   bool // the pattern is a number written without a fraction
	any     [][]term
}

// A term is an operator with its operand, parsed once into all types that
// values may be compared with.
type term struct {
	op       operator
	text     string
	duration time.Duration
	quantity resource.Quantity

	isDuration, isQuantity bool
	isWild                 bool

	both   []term // for a range, instead of all else
	either []term // for values outside of a range
}

type operator uint8

const (
	equal operator = iota
	notEqual
	more
	less
	moreEqual
	lessEqual
)

// compileLeaf compiles a scalar; ok is false for other values.
func compileLeaf(p any) (leaf, bool) {
	if f, ok := Number(p); ok {
		_, fraction := p.(float64)
		return leaf{pattern: f, whole: !fraction}, true
	}
	switch p := p.(type) {
	case nil, bool:
		return leaf{pattern: p}, true
	case string:
		return leaf{pattern: p, any: alternatives(p)}, true
	}
	return leaf{}, false
}

// alternatives parses | and &.
func alternatives(p string) [][]term {
	var found [][]term
	for alternative := range strings.SplitSeq(p, "|") {
		var all []term
		for s := range strings.SplitSeq(strings.Trim(alternative, " "), "&") {
			all = append(all, compileTerm(strings.Trim(s, " ")))
		}
		found = append(found, all)
	}
	return found
}

// The ranges, as Kyverno's operator package has them.
var (
	inRange    = regexp.MustCompile(`^([-|\+]?\d+(?:\.\d+)?[A-Za-z]*)-([-|\+]?\d+(?:\.\d+)?[A-Za-z]*)$`)
	notInRange = regexp.MustCompile(`^([-|\+]?\d+(?:\.\d+)?[A-Za-z]*)!-([-|\+]?\d+(?:\.\d+)?[A-Za-z]*)$`)
)

// Range reports whether a text is a range such as 1-10 or 1Mi-1Gi. Outside a
// range is written 1!-10.
func Range(s string) bool { return operatorOf(s) == "" && inRange.MatchString(s) }

func compileTerm(s string) term {
	op := operatorOf(s)
	if op == "" {
		if m := notInRange.FindStringSubmatch(s); m != nil {
			return term{either: []term{newTerm(less, m[1]), newTerm(more, m[2])}}
		}
		if m := inRange.FindStringSubmatch(s); m != nil {
			return term{both: []term{newTerm(moreEqual, m[1]), newTerm(lessEqual, m[2])}}
		}
	}
	return newTerm(operators[op], strings.TrimSpace(s[len(op):]))
}

var operators = map[string]operator{"": equal, "!": notEqual, ">": more, "<": less, ">=": moreEqual, "<=": lessEqual}

// operatorOf returns the operator that a term starts with. A term of one
// character has none.
func operatorOf(s string) string {
	if len(s) < 2 {
		return ""
	}
	switch {
	case s[0] == '>' && s[1] == '=', s[0] == '<' && s[1] == '=':
		return s[:2]
	case s[0] == '>', s[0] == '<', s[0] == '!':
		return s[:1]
	}
	return ""
}

func newTerm(op operator, text string) term {
	t := term{op: op, text: text, isWild: HasWildcard(text)}
	t.duration, t.isDuration = Duration(text)
	t.quantity, t.isQuantity = Quantity(text)
	return t
}

func (l *leaf) matches(value any) bool {
	switch p := l.pattern.(type) {
	case nil:
		return isZero(value)
	case bool:
		b, ok := value.(bool)
		return ok && b == p
	case float64:
		return equalsNumber(value, p, l.whole)
	case string:
		if s, ok := value.(string); ok && s == p {
			return true
		}
	}
	for _, all := range l.any {
		if matchesAll(value, all) {
			return true
		}
	}
	return false
}

func isZero(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	}
	f, ok := Number(value)
	return ok && f == 0
}

// equalsNumber compares a value with a number. A text must be written without a
// fraction and exponent if the number is.
func equalsNumber(value any, p float64, whole bool) bool {
	if s, ok := value.(string); ok {
		if s == "" || len(s) > maxQuantity || whole && strings.ContainsAny(s, ".eE") {
			return false
		}
		f, err := strconv.ParseFloat(s, 64)
		return err == nil && f == p
	}
	f, ok := Number(value)
	return ok && f == p
}

func matchesAll(value any, all []term) bool {
	for i := range all {
		if !all[i].matches(value) {
			return false
		}
	}
	return true
}

// matches compares durations, else quantities, else texts.
func (t *term) matches(value any) bool {
	switch {
	case t.both != nil:
		return matchesAll(value, t.both)
	case t.either != nil:
		return t.either[0].matches(value) || t.either[1].matches(value)
	}
	if t.isDuration {
		if d, ok := durationValue(value); ok {
			return t.op.holds(cmp.Compare(d, t.duration))
		}
	}
	if t.isQuantity {
		if q, ok := quantityValue(value); ok {
			return t.op.holds(q.Cmp(t.quantity))
		}
	}
	return t.matchesText(value)
}

// durationValue parses a value as a duration. A missing value is 0; numbers
// without a unit are not durations.
func durationValue(value any) (time.Duration, bool) {
	if value == nil {
		return 0, true
	}
	s, ok := value.(string)
	if !ok {
		return 0, false
	}
	return Duration(s)
}

func quantityValue(value any) (resource.Quantity, bool) {
	if value == nil {
		return resource.Quantity{}, true
	}
	if s, ok := value.(string); ok {
		return Quantity(s)
	}
	f, ok := Number(value)
	if !ok {
		return resource.Quantity{}, false
	}
	return quantityOf(f)
}

func (o operator) holds(order int) bool {
	switch o {
	case equal:
		return order == 0
	case notEqual:
		return order != 0
	case more:
		return order > 0
	case less:
		return order < 0
	case moreEqual:
		return order >= 0
	default:
		return order <= 0
	}
}

// matchesText compares wildcards. Only = and ! do so, and only with scalars.
// Numbers are compared in the form 8.08E+03.
func (t *term) matchesText(value any) bool {
	if t.op != equal && t.op != notEqual {
		return false
	}
	switch v := value.(type) {
	case string:
		return t.matchesString(v)
	case bool:
		return t.matchesString(strconv.FormatBool(v))
	}
	f, ok := Number(value)
	if !ok {
		return false
	}
	var room [32]byte
	return t.matchesString(string(strconv.AppendFloat(room[:0], f, 'E', -1, 64)))
}

func (t *term) matchesString(s string) bool {
	same := s == t.text
	if t.isWild {
		same = Wildcard(t.text, s)
	}
	return same == (t.op == equal)
}

// Number converts a JSON number of any Go type to the type Kyverno uses.
func Number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case int32:
		return float64(v), true
	case uint64:
		return float64(v), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// Limits of quantities. Parsing takes longer the larger the exponent is.
const (
	maxQuantity = 128
	maxExponent = 3 // digits
)

// Quantity parses a Kubernetes quantity such as 1Gi. It refuses exponents that
// would keep the parser busy for long, such as 1e999999.
func Quantity(s string) (resource.Quantity, bool) {
	if s == "" || len(s) > maxQuantity || !startsNumber(s[0]) {
		return resource.Quantity{}, false
	}
	for i := range len(s) {
		if (s[i] == 'e' || s[i] == 'E') && len(s)-i-1 > maxExponent+1 {
			return resource.Quantity{}, false
		}
	}
	q, err := resource.ParseQuantity(s)
	return q, err == nil
}

// Duration parses a Go duration such as 1h30m, or 0.
func Duration(s string) (time.Duration, bool) {
	if s == "" || len(s) > maxQuantity || !startsNumber(s[0]) {
		return 0, false
	}
	if last := s[len(s)-1]; last != 's' && last != 'm' && last != 'h' && last != '0' {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}

func startsNumber(c byte) bool {
	return '0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'
}

// quantityOf converts a number to a quantity. Kyverno first formats it with six
// decimals.
func quantityOf(f float64) (resource.Quantity, bool) {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return *resource.NewQuantity(int64(f), resource.DecimalSI), true
	}
	q, err := resource.ParseQuantity(strconv.FormatFloat(f, 'f', 6, 64))
	return q, err == nil
}
