package render

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// A Dialect says how plain scalars and merge keys are read.
type Dialect int

// The dialects of those who apply manifests.
const (
	// YAML11 is how kubectl, Helm and Argo CD read: sigs.k8s.io/yaml, which
	// stands on yaml.v2. `yes` is true.
	YAML11 Dialect = iota
	// YAML12 is how kustomize and Flux read: kyaml, which stands on yaml.v3.
	// `yes` is a string, and a date is a time.
	YAML12
)

// A resolved scalar is its value with what is odd about it.
type resolved struct {
	value any
	odd   oddity
}

type oddity int

const (
	usual     oddity = iota
	ambiguous        // the dialects make different types of it
	imprecise        // JSON readers don't keep the number as it is written
)

var (
	words11 = map[string]any{
		"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true,
		"n": false, "N": false, "no": false, "No": false, "NO": false, "off": false, "Off": false, "OFF": false,
	}
	words = map[string]any{
		"true": true, "True": true, "TRUE": true, "false": false, "False": false, "FALSE": false,
		"": nil, "~": nil, "null": nil, "Null": nil, "NULL": nil,
		".nan": math.NaN(), ".NaN": math.NaN(), ".NAN": math.NaN(),
		".inf": math.Inf(1), ".Inf": math.Inf(1), ".INF": math.Inf(1),
		"+.inf": math.Inf(1), "+.Inf": math.Inf(1), "+.INF": math.Inf(1),
		"-.inf": math.Inf(-1), "-.Inf": math.Inf(-1), "-.INF": math.Inf(-1),
	}
	decimal = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

var (
	errNotJSON = errors.New("value is not representable in JSON")
	errBase64  = errors.New("!!binary value is not base64")
)

// scalar returns the value of a scalar node, its numbers not yet made JSON's.
// The tag "!", which the node can't tell from none, is not its business.
func (d Dialect) scalar(n *yaml.Node) (resolved, error) {
	tagged := n.Style&yaml.TaggedStyle != 0
	quoted := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	switch {
	case quoted && !tagged:
		return resolved{value: n.Value}, nil
	case tagged:
		return d.tagged(n)
	default:
		return d.plain(n.Value), nil
	}
}

// tagged reads a scalar that says what it is. Tags that YAML doesn't define
// are as good as none on a string.
func (d Dialect) tagged(n *yaml.Node) (resolved, error) {
	tag := n.ShortTag()
	switch tag {
	case "!!bool", "!!int", "!!float", "!!null", "!!timestamp":
	case "!!binary":
		b, err := base64.StdEncoding.DecodeString(n.Value)
		if err != nil {
			return resolved{}, errBase64
		}
		return resolved{value: validUTF8(string(b))}, nil
	default:
		return resolved{value: n.Value}, nil
	}
	r := d.plain(n.Value)
	if f, ok := r.value.(int64); ok && tag == "!!float" {
		return resolved{value: float64(f)}, nil
	}
	if !hasTag(r.value, tag, n.Value) {
		return resolved{}, fmt.Errorf("value is no %s", tag)
	}
	return r, nil
}

func hasTag(value any, tag, text string) bool {
	switch v := value.(type) {
	case nil:
		return tag == "!!null"
	case bool:
		return tag == "!!bool"
	case int64, uint64:
		return tag == "!!int"
	case float64:
		return tag == "!!float"
	case string:
		_, ok := timestamp(text)
		return tag == "!!timestamp" && ok && v != ""
	}
	return false
}

// plain resolves an unquoted, untagged scalar by the rules of yaml.v2 or
// yaml.v3, which share all but the words for booleans and what becomes of
// dates.
func (d Dialect) plain(text string) resolved {
	if text == "" {
		return resolved{}
	}
	switch c := text[0]; {
	case c >= '0' && c <= '9', c == '-', c == '+', c == '.':
		if v, ok := words[text]; ok {
			return resolved{value: v}
		}
		return d.number(text)
	case strings.IndexByte("yYnNtTfFoO~", c) >= 0 && len(text) <= 5:
		if v, ok := words[text]; ok {
			return resolved{value: v}
		}
		if v, ok := words11[text]; ok {
			return resolved{value: d.word(v, text), odd: ambiguous}
		}
	}
	return resolved{value: text}
}

func (d Dialect) word(v any, text string) any {
	if d == YAML12 {
		return text
	}
	return v
}

func (d Dialect) number(text string) resolved {
	if i, ok := shortInt(text); ok {
		return resolved{value: i}
	}
	if text[0] == '.' {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return resolved{value: f}
		}
		return resolved{value: text}
	}
	if t, ok := timestamp(text); ok {
		return resolved{value: d.time(t, text)}
	}
	bare := strings.ReplaceAll(text, "_", "")
	if i, err := strconv.ParseInt(bare, 0, 64); err == nil {
		return resolved{value: i}
	}
	if u, err := strconv.ParseUint(bare, 0, 64); err == nil {
		return resolved{value: u, odd: imprecise}
	}
	if decimal.MatchString(bare) {
		f, err := strconv.ParseFloat(bare, 64)
		if err != nil {
			return resolved{value: text, odd: imprecise}
		}
		return resolved{value: f, odd: digitsLost(bare)}
	}
	return resolved{value: text}
}

// digitsLost tells integers that no float64 holds.
func digitsLost(bare string) oddity {
	if strings.ContainsAny(bare, ".eE") || len(bare) < 19 {
		return usual
	}
	return imprecise
}

// shortInt reads the usual decimal integers without trying anything else.
func shortInt(text string) (int64, bool) {
	digits := text
	if digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 18 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	var i int64
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		i = i*10 + int64(c-'0')
	}
	if text[0] == '-' {
		i = -i
	}
	return i, true
}

// time is what becomes of a date: nothing for yaml.v2, and for yaml.v3 a
// time.Time, which JSON writes in full.
func (d Dialect) time(t time.Time, text string) any {
	if d == YAML11 {
		return text
	}
	b, err := t.MarshalText()
	if err != nil {
		return text
	}
	return string(b)
}

// timestamp knows the forms of https://yaml.org/type/timestamp.html that the
// libraries know.
func timestamp(s string) (time.Time, bool) {
	if len(s) < 8 || s[4] != '-' {
		return time.Time{}, false
	}
	for _, layout := range []string{
		"2006-1-2", "2006-1-2T15:4:5.999999999Z07:00", "2006-1-2t15:4:5.999999999Z07:00", "2006-1-2 15:4:5.999999999",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// jsonValue makes of a resolved value what comes back from its JSON: whole
// numbers are int64 where they fit, however they were written
// (k8s.io/apimachinery/pkg/util/json).
func jsonValue(v any) (any, error) {
	switch v := v.(type) {
	case uint64:
		return float64(v), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errNotJSON
		}
		return wholeNumber(v), nil
	}
	return v, nil
}

// wholeNumber is an int64 where json writes a float as one: below 1e21 without
// a point, and with the fewest digits that tell it from its neighbours.
func wholeNumber(f float64) any {
	if f != math.Trunc(f) || math.Abs(f) > 1<<63 {
		return f
	}
	if math.Abs(f) < 1<<53 {
		return int64(f)
	}
	i, err := strconv.ParseInt(strconv.FormatFloat(f, 'f', -1, 64), 10, 64)
	if err != nil {
		return f
	}
	return i
}

// keyText makes a string of a key as sigs.k8s.io/yaml does.
func (d Dialect) keyText(n *yaml.Node, v any) (string, error) {
	if s, ok := v.(string); ok && n.Style&yaml.TaggedStyle != 0 {
		return s, nil
	}
	if d == YAML12 && v != nil {
		return n.Value, nil
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case bool:
		return strconv.FormatBool(v), nil
	case float64:
		return floatKey(v), nil
	case nil:
		return "", errors.New("key is null")
	}
	return "", errors.New("key is no string, integer or boolean")
}

// floatKey writes a float with the precision of a float32.
func floatKey(f float64) string {
	switch s := strconv.FormatFloat(f, 'g', -1, 32); s {
	case "+Inf":
		return ".inf"
	case "-Inf":
		return "-.inf"
	case "NaN":
		return ".nan"
	default:
		return s
	}
}

// validUTF8 puts U+FFFD for each byte that is no UTF-8, as encoding/json does.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
	}
	return b.String()
}
