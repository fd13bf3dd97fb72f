package jmespath

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// A call is function(args).
type call struct {
	name     string
	function *function // nil: unknown
	args     []node
	regex    atomic.Pointer[regex] // the last one compiled here
}

// A function is called with arguments of the kinds that its parameters allow. Without
// parameters it takes any number of any kind.
type function struct {
	params   []param
	variadic bool // the last parameter may repeat; no argument is checked
	run      func(s *search, a []val) (val, error)
}

// A param lists the kinds of values that an argument may have.
type param []valueKind

type valueKind string

// The kinds of values, in the words of Kyverno's errors.
const (
	aNumber     valueKind = "number"
	aString     valueKind = "string"
	aList       valueKind = "array"
	anObject    valueKind = "object"
	someNumbers valueKind = "array[number]"
	someStrings valueKind = "array[string]"
	aReference  valueKind = "expref"
	anything    valueKind = "any"
)

func (c *call) eval(s *search, in val) (val, error) {
	base := len(s.stack)
	for _, arg := range c.args {
		v, err := s.argument(arg, in)
		if err != nil {
			s.stack = s.stack[:base]
			return v, err
		}
		s.stack = append(s.stack, v)
	}
	top := len(s.stack)
	args := s.stack[base:top:top]
	out, err := c.run(s, args)
	if s.tracing && out.at == nil {
		for _, a := range args {
			out.at = out.at.and(a.at)
		}
		if out.at != nil {
			out.at = derivedPlace(out.at)
		}
	}
	s.stack = s.stack[:base]
	return out, err
}

func (s *search) argument(arg node, in val) (val, error) {
	if ref, ok := arg.(*reference); ok {
		return val{v: ref}, nil
	}
	return s.evalOrNull(arg, in)
}

func (c *call) run(s *search, args []val) (val, error) {
	if err := s.spend(1); err != nil {
		return val{}, err
	}
	if c.function == nil {
		return val{}, c.unknown()
	}
	if err := c.check(s, args); err != nil {
		return val{}, err
	}
	s.calling = c
	return c.function.run(s, args)
}

func (c *call) unknown() error { return plainf(c.name, "unknown function: %s", clip(c.name, 64)) }

func (c *call) check(s *search, args []val) error {
	f := c.function
	if err := c.arity(len(args)); err != nil {
		return err
	}
	for i, a := range args {
		var p param
		if !f.variadic && i < len(f.params) {
			p = f.params[i]
		}
		if err := c.checkOne(s, i, a.v, p); err != nil {
			return err
		}
	}
	return nil
}

// arity checks the number of arguments.
func (c *call) arity(args int) error {
	switch f := c.function; {
	case f.variadic && args < len(f.params):
		return plainf(c.name, "Invalid arity.")
	case !f.variadic && len(f.params) > 0 && args != len(f.params):
		return plainf(c.name, "incorrect number of args")
	}
	return nil
}

// checkOne checks an argument; p is empty if any value is allowed.
func (c *call) checkOne(s *search, i int, v any, p param) error {
	if _, ok := v.(*reference); ok && (p == nil || p[0] != aReference) {
		return plainf(c.name, "Invalid type for: an expression reference, expected: a value")
	}
	if p == nil {
		return nil
	}
	ok, err := p.allows(s, v)
	if err == nil && !ok {
		err = plainf(c.name, "Invalid type for: %s, expected: %s", c.show(s, i, v), p)
	}
	return err
}

// allows reports whether the parameter allows a value's kind.
func (p param) allows(s *search, v any) (bool, error) {
	for _, k := range p {
		if ok, err := s.is(v, k); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (s *search) is(v any, k valueKind) (ok bool, err error) {
	switch k {
	case aNumber:
		_, ok = v.(float64)
	case aString:
		_, ok = v.(string)
	case aList:
		_, ok = v.([]any)
	case anObject:
		_, ok = v.(map[string]any)
	case aReference:
		_, ok = v.(*reference)
	case someNumbers:
		return allOf[float64](s, v)
	case someStrings:
		return allOf[string](s, v)
	case anything:
		ok = true
	}
	return ok, nil
}

func allOf[T any](s *search, v any) (bool, error) {
	list, ok := v.([]any)
	if !ok {
		return false, nil
	}
	if err := s.spend(len(list)); err != nil {
		return false, err
	}
	for _, e := range list {
		if _, ok := e.(T); !ok {
			return false, nil
		}
	}
	return true, nil
}

// String returns the kinds as Kyverno prints them.
func (p param) String() string {
	var b strings.Builder
	for i, k := range p {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", string(k))
	}
	return "[]jmespath.JpType{" + b.String() + "}"
}

// show returns an argument for an error. Kyverno prints it whole; since data may be a
// Secret's, this prints only whether it is text, a list or a map.
func (c *call) show(s *search, i int, v any) string {
	if !readsData(c.args[i]) && s.spendValues(v) == nil {
		return clip(fmt.Sprint(v), 256)
	}
	switch v := v.(type) {
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	default:
		return fmt.Sprint(v)
	}
}

// apply evaluates an expression reference (&expr) for an element.
func (s *search) apply(ref *reference, e val) (val, error) {
	if err := s.spend(ref.cost); err != nil {
		return val{}, err
	}
	return s.evalOrNull(ref.of, e)
}

// Parameters of several functions.
var (
	text         = param{aString}
	amount       = param{aNumber}
	list         = param{aList}
	object       = param{anObject}
	value        = param{anything}
	ref          = param{aReference}
	textOrAmount = param{aString, aNumber}
	listOrText   = param{aList, aString}
	sortable     = param{someNumbers, someStrings}
)

// functions lists those of jmespath.org, where Kyverno replaces sum, and Kyverno's
// own.
var functions = map[string]*function{
	"abs":         {params: []param{amount}, run: abs},
	"avg":         {params: []param{{someNumbers}}, run: average},
	"ceil":        {params: []param{amount}, run: ceil},
	"contains":    {params: []param{listOrText, value}, run: contains},
	"ends_with":   {params: []param{text, text}, run: endsWith},
	"floor":       {params: []param{amount}, run: floor},
	"join":        {params: []param{text, {someStrings}}, run: join},
	"keys":        {params: []param{object}, run: keys},
	"length":      {params: []param{{aString, aList, anObject}}, run: length},
	"map":         {params: []param{ref, list}, run: mapped},
	"max":         {params: []param{sortable}, run: largest},
	"max_by":      {params: []param{list, ref}, run: largestBy},
	"merge":       {params: []param{object}, variadic: true, run: merge},
	"min":         {params: []param{sortable}, run: smallest},
	"min_by":      {params: []param{list, ref}, run: smallestBy},
	"not_null":    {params: []param{value}, variadic: true, run: notNull},
	"reverse":     {params: []param{listOrText}, run: reverse},
	"sort":        {params: []param{{someStrings, someNumbers}}, run: sorted},
	"sort_by":     {params: []param{list, ref}, run: sortedBy},
	"starts_with": {params: []param{text, text}, run: startsWith},
	"sum":         {params: []param{list}, run: sum},
	"to_array":    {params: []param{value}, run: toList},
	"to_number":   {params: []param{value}, run: toNumber},
	"to_string":   {params: []param{value}, run: toString},
	"type":        {params: []param{value}, run: typeOf},
	"values":      {params: []param{object}, run: fieldValues},

	"compare":                   {params: []param{text, text}, run: compare},
	"equal_fold":                {params: []param{text, text}, run: equalFold},
	"replace":                   {params: []param{text, text, text, amount}, run: replace},
	"replace_all":               {params: []param{text, text, text}, run: replaceAll},
	"to_upper":                  {params: []param{text}, run: toUpper},
	"to_lower":                  {params: []param{text}, run: toLower},
	"trim":                      {params: []param{text, text}, run: trim},
	"trim_prefix":               {params: []param{text, text}, run: trimPrefix},
	"split":                     {params: []param{text, text}, run: split},
	"truncate":                  {params: []param{text, amount}, run: truncate},
	"path_canonicalize":         {params: []param{text}, run: canonicalPath},
	"regex_match":               {params: []param{text, textOrAmount}, run: regexMatch},
	"regex_replace_all":         {params: []param{text, textOrAmount, textOrAmount}, run: regexReplace},
	"regex_replace_all_literal": {params: []param{text, textOrAmount, textOrAmount}, run: regexReplaceLiteral},
	"pattern_match":             {params: []param{text, textOrAmount}, run: patternMatch},
	"label_match":               {params: []param{object, object}, run: labelMatch},
	"to_boolean":                {params: []param{text}, run: toBoolean},
	"semver_compare":            {params: []param{text, text}, run: semverCompare},
	"random":                    {params: []param{text}, run: random},

	"add":      {params: []param{value, value}, run: binary("add", operand.plus)},
	"subtract": {params: []param{value, value}, run: binary("subtract", operand.minus)},
	"multiply": {params: []param{value, value}, run: binary("multiply", operand.times)},
	"divide":   {params: []param{value, value}, run: binary("divide", operand.over)},
	"modulo":   {params: []param{value, value}, run: binary("modulo", operand.modulo)},
	"round":    {params: []param{amount, amount}, run: round},

	"base64_decode": {params: []param{text}, run: base64Decode},
	"base64_encode": {params: []param{text}, run: base64Encode},
	"md5":           {params: []param{text}, run: md5Sum},
	"sha1":          {params: []param{text}, run: sha1Sum},
	"sha256":        {params: []param{text}, run: sha256Sum},
	"parse_json":    {params: []param{text}, run: parseJSON},
	"parse_yaml":    {params: []param{text}, run: parseYAML},
	"x509_decode":   {params: []param{text}, run: x509Decode},

	"lookup":            {params: []param{{anObject, aList}, textOrAmount}, run: lookup},
	"items":             {params: []param{{anObject, aList}, text, text}, run: items},
	"object_from_lists": {params: []param{list, list}, run: objectFromLists},

	"time_since":    {params: []param{text, text, text}, run: timeSince},
	"time_now":      {run: timeNow},
	"time_now_utc":  {run: timeNowUTC},
	"time_add":      {params: []param{text, text}, run: timeAdd},
	"time_parse":    {params: []param{text, text}, run: timeParse},
	"time_to_cron":  {params: []param{text}, run: timeToCron},
	"time_utc":      {params: []param{text}, run: timeUTC},
	"time_diff":     {params: []param{text, text}, run: timeDiff},
	"time_before":   {params: []param{text, text}, run: timeBefore},
	"time_after":    {params: []param{text, text}, run: timeAfter},
	"time_between":  {params: []param{text, text, text}, run: timeBetween},
	"time_truncate": {params: []param{text, text}, run: timeTruncate},

	"image_normalize": {params: []param{text}, run: imageNormalize},
	"is_external_url": {params: []param{text}, run: isExternalURL},
}
