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
