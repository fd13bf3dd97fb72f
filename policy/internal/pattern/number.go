package pattern

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

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

// Limits of what is read as a quantity. Longer ones are nothing a person
// writes, and the parser's time grows with the exponent's value.
const (
	maxQuantity = 128
	maxExponent = 3 // digits
)

// Quantity parses a quantity of Kubernetes such as 1Gi. It doesn't take those
// whose exponent alone would keep the parser busy for long, such as 1e999999.
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

// Duration parses a duration of Go such as 1h30m, and 0.
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

// quantityOf is the quantity that a number is. Kyverno writes it with six
// decimals first.
func quantityOf(f float64) (resource.Quantity, bool) {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return *resource.NewQuantity(int64(f), resource.DecimalSI), true
	}
	q, err := resource.ParseQuantity(strconv.FormatFloat(f, 'f', 6, 64))
	return q, err == nil
}
