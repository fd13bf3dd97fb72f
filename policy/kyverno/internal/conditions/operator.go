package conditions

import (
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/blang/semver/v4"

	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// A comparison compares a key with a value, as an operator does.
type comparison func(key, value any) bool

// operators are those of Kyverno, exactly as they must be spelled.
var operators = []struct {
	name  string
	holds comparison
}{
	{"AllIn", membership{one: in, many: allIn}.holds},
	{"AllNotIn", membership{one: notIn, many: allNotIn}.holds},
	{"AnyIn", membership{one: in, many: anyIn, scalars: true}.holds},
	{"AnyNotIn", membership{one: notIn, many: anyNotIn, scalars: true}.holds},
	{"DurationGreaterThan", byDuration(greater)},
	{"DurationGreaterThanOrEquals", byDuration(greaterOrEqual)},
	{"DurationLessThan", byDuration(less)},
	{"DurationLessThanOrEquals", byDuration(lessOrEqual)},
	{"Equal", equals},
	{"Equals", equals},
	{"GreaterThan", byOrder(greater)},
	{"GreaterThanOrEquals", byOrder(greaterOrEqual)},
	{"In", exactMembership(false)},
	{"LessThan", byOrder(less)},
	{"LessThanOrEquals", byOrder(lessOrEqual)},
	{"NotEqual", notEquals},
	{"NotEquals", notEquals},
	{"NotIn", exactMembership(true)},
}

// KnownOperator reports whether an operator is spelled as Kyverno wants it.
func KnownOperator(name string) bool { return find(name) != nil }

func find(name string) comparison {
	for i := range operators {
		if operators[i].name == name {
			return operators[i].holds
		}
	}
	return nil
}

// Compare reports whether a key and a value, after substitution, satisfy the operator.
// It is false for a key that is null or of a type that the operator does not support,
// and for an unknown operator.
//
// As in Kyverno a whole float64 and an int64 are the same number, but not the
// same text, and not the same inside of lists and maps.
func Compare(operator string, key, value any) bool {
	holds := find(operator)
	return key != nil && holds != nil && holds(key, value)
}

// A verdict is the result of a comparison, which may not support the types.
type verdict uint8

const (
	unequal verdict = iota
	same
	mismatch // types that don't compare: Equals fails, NotEquals holds
	neither  // neither Equals nor NotEquals holds
)

func equals(key, value any) bool { return compareEqual(key, value) == same }

func notEquals(key, value any) bool {
	v := compareEqual(key, value)
	return v == unequal || v == mismatch
}

func compareEqual(key, value any) verdict {
	switch k := key.(type) {
	case bool:
		v, ok := value.(bool)
		return typed(ok, k == v)
	case string:
		return equalString(k, value)
	case int:
		return equalInt(int64(k), value)
	case int64:
		return equalInt(k, value)
	case float64:
		return equalFloat(k, value)
	case map[string]any:
		v, ok := value.(map[string]any)
		return typed(ok, ok && reflect.DeepEqual(k, v))
	case []any:
		v, ok := value.([]any)
		return typed(ok, ok && reflect.DeepEqual(k, v))
	}
	return neither
}

func typed(sameType, equal bool) verdict {
	switch {
	case !sameType:
		return mismatch
	case equal:
		return same
	}
	return unequal
}

// equalString tries durations, then quantities, then wildcards in the value.
func equalString(key string, value any) verdict {
	if k, v, ok := durations(key, value); ok {
		return typed(true, k.Seconds() == v.Seconds())
	}
	v, isString := value.(string)
	if !isString {
		return mismatch
	}
	if k, ok := pattern.Quantity(key); ok {
		q, ok := pattern.Quantity(v)
		return typed(ok, k.Cmp(q) == 0)
	}
	return typed(true, pattern.Wildcard(v, key))
}

func equalInt(key int64, value any) verdict {
	switch v := value.(type) {
	case int:
		return typed(true, int64(v) == key)
	case int64:
		return typed(true, v == key)
	case float64:
		if v != math.Trunc(v) {
			return neither
		}
		return typed(true, int64(v) == key)
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return typed(err == nil, n == key)
	}
	return mismatch
}

func equalFloat(key float64, value any) verdict {
	switch v := value.(type) {
	case int:
		return typed(true, key == float64(v))
	case int64:
		return typed(true, key == math.Trunc(key) && int64(key) == v)
	case float64:
		return typed(true, v == key)
	case string:
		f, ok := float(v)
		return typed(ok, f == key)
	}
	return mismatch
}

// durations reads a key and a value as durations. At least one must be a duration
// other than "0"; the other may be a number of seconds, whose fraction is dropped.
func durations(key, value any) (k, v time.Duration, ok bool) {
	k, keyIs := durationText(key)
	v, valueIs := durationText(value)
	switch {
	case keyIs && valueIs:
		return k, v, true
	case keyIs:
		v, ok = seconds(value)
	case valueIs:
		k, ok = seconds(key)
	}
	return k, v, ok
}

func durationText(v any) (time.Duration, bool) {
	s, ok := v.(string)
	if !ok || s == "0" {
		return 0, false
	}
	return pattern.Duration(s)
}

// seconds reads a number as seconds, and returns the longest duration for larger numbers:
// Go leaves open how Kyverno's conversion overflows.
func seconds(v any) (time.Duration, bool) {
	f, ok := pattern.Number(v)
	if !ok {
		return 0, false
	}
	const most = math.MaxInt64 / int64(time.Second)
	f = math.Max(-float64(most), math.Min(float64(most), math.Trunc(f)))
	return time.Duration(f) * time.Second, true
}

// float reads a number. A text longer than any person writes is not one.
func float(s string) (float64, bool) {
	if s == "" || len(s) > 1<<10 {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// An order reports whether it accepts the result of a comparison, as of cmp.Compare.
type order func(int) bool

func greater(c int) bool        { return c > 0 }
func greaterOrEqual(c int) bool { return c >= 0 }
func less(c int) bool           { return c < 0 }
func lessOrEqual(c int) bool    { return c <= 0 }

// byOrder compares numbers, durations, quantities and versions.
func byOrder(will order) comparison {
	return func(key, value any) bool {
		if s, ok := key.(string); ok {
			return orderString(s, value, will)
		}
		k, ok := pattern.Number(key)
		return ok && orderNumber(k, key, value, will)
	}
}

func orderNumber(k float64, key, value any, will order) bool {
	if s, ok := value.(string); ok {
		if kd, vd, ok := durations(key, value); ok {
			return orderFloats(kd.Seconds(), vd.Seconds(), will)
		}
		v, ok := float(s)
		return ok && orderFloats(k, v, will)
	}
	v, ok := pattern.Number(value)
	return ok && orderFloats(k, v, will)
}

// orderFloats never holds for a value that is not a number.
func orderFloats(a, b float64, will order) bool {
	switch {
	case a < b:
		return will(-1)
	case a > b:
		return will(1)
	}
	return a == b && will(0)
}

func orderString(key string, value any, will order) bool {
	if k, v, ok := durations(key, value); ok {
		return orderFloats(k.Seconds(), v.Seconds(), will)
	}
	s, isString := value.(string)
	if k, ok := pattern.Quantity(key); ok && isString {
		if v, ok := pattern.Quantity(s); ok {
			return will(k.Cmp(v))
		}
	}
	if k, ok := float(key); ok {
		return orderNumber(k, k, value, will)
	}
	return isString && orderVersions(key, s, will)
}

func orderVersions(key, value string, will order) bool {
	k, err := semver.Parse(key)
	if err != nil {
		return false
	}
	v, err := semver.Parse(value)
	return err == nil && will(k.Compare(v))
}

// byDuration compares durations, and numbers as seconds.
func byDuration(will order) comparison {
	return func(key, value any) bool {
		k, ok := anyDuration(key)
		if !ok {
			return false
		}
		v, ok := anyDuration(value)
		return ok && orderFloats(float64(k), float64(v), will)
	}
}

func anyDuration(v any) (time.Duration, bool) {
	if s, ok := v.(string); ok {
		return pattern.Duration(s)
	}
	return seconds(v)
}
