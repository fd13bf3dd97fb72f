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

// A Dialect selects how plain scalars and merge keys are read.
type Dialect int

// The dialects of the tools that apply manifests.
const (
	// YAML11 reads as kubectl, Helm and Argo CD do, by sigs.k8s.io/yaml on top
	// of yaml.v2. `yes` is true.
	YAML11 Dialect = iota
	// YAML12 reads as kustomize and Flux do, by kyaml on top of yaml.v3. `yes`
	// is a string, and a date is a time.
	YAML12
)

// A resolved scalar is a value with its oddity, if it has one.
type resolved struct {
	value any
	odd   oddity
}

type oddity int

const (
	usual     oddity = iota
	ambiguous        // the dialects read it as different types
	imprecise        // JSON readers lose digits of the number
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

// scalar returns the value of a scalar node, with numbers not yet converted to
// JSON's. It does not handle the tag "!", which the node does not record.
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

// tagged reads a scalar with a tag. A tag that YAML does not define leaves a
// string a string.
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
// yaml.v3. They differ only in the words for booleans and in dates.
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
	if r, ok := d.signInside(bare); ok {
		return r
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

// signInside reads an integer with its sign behind the prefix, such as 0b-1, as the
// libraries do: both in base 2, and yaml.v3 alone in base 8.
func (d Dialect) signInside(bare string) (r resolved, ok bool) {
	if digits, ok := strings.CutPrefix(bare, "0b"); ok {
		i, err := strconv.ParseInt(digits, 2, 64)
		return resolved{value: i}, err == nil
	}
	if digits, ok := strings.CutPrefix(bare, "0o"); ok && d == YAML12 {
		i, err := strconv.ParseInt(digits, 8, 64)
		return resolved{value: i, odd: ambiguous}, err == nil
	}
	return resolved{}, false
}

// digitsLost returns the oddity of an integer that no float64 represents
// exactly.
func digitsLost(bare string) oddity {
	if strings.ContainsAny(bare, ".eE") || len(bare) < 19 {
		return usual
	}
	return imprecise
}

// shortInt quickly reads an integer in usual decimal form; ok is false for
// other forms.
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

// time returns the value of a date: yaml.v2 keeps the text, yaml.v3 makes a
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

// timestamp parses those forms of https://yaml.org/type/timestamp.html that the
// libraries accept.
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

// jsonValue returns a resolved value as it is after encoding to JSON and
// decoding: whole numbers that fit are int64, however they were written
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

// wholeNumber returns an int64 for a float that encoding/json writes as an
// integer: below 1e21, and without a fraction in its shortest form.
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

// keyText converts a key to a string as sigs.k8s.io/yaml does. kyaml converts none.
func (d Dialect) keyText(n *yaml.Node, v any) (string, error) {
	if s, ok := v.(string); ok && n.Style&yaml.TaggedStyle != 0 {
		return s, nil
	}
	if d == YAML12 {
		if v == any(n.Value) {
			return n.Value, nil
		}
		return "", errors.New("key is no string, and kustomize and Flux take no others")
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

// validUTF8 replaces each invalid byte by U+FFFD, as encoding/json does.
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
