package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds of quantities. resource.Quantity computes 10^exponent exactly, which
// never ends for "1e2147483647" (kubernetes/kubernetes#141203). Quantities
// within the bounds are parsed as usual.
const (
	maxDigits   = 40
	maxExponent = 27
)

// A hostileError reports a value that must not reach the libraries' parsers.
type hostileError string

func (h hostileError) Error() string { return string(h) }

// takesQuantity accepts the quantities that guardQuantity and resource.Quantity accept.
func takesQuantity(value any) error {
	switch v := value.(type) {
	case string:
		return quantityText(v)
	case int64:
		return nil
	case float64:
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return quantityText(string(data))
	default:
		return errType
	}
}

func quantityText(s string) error {
	s = strings.TrimSpace(s)
	if err := guardQuantity(s); err != nil {
		return err
	}
	_, err := resource.ParseQuantity(s)
	return err
}

// guardQuantity refuses quantities with too many digits or too large an
// exponent. It does not check the syntax otherwise.
func guardQuantity(s string) error {
	if len(s) > 3*maxDigits {
		return hostileError("the quantity is too long")
	}
	digits := 0
	for _, r := range s {
		if '0' <= r && r <= '9' {
			digits++
		}
	}
	if digits > maxDigits {
		return hostileError(fmt.Sprintf("the quantity has more than %d digits", maxDigits))
	}
	i := strings.IndexAny(s, "eE")
	if i < 0 {
		return nil
	}
	exponent, err := strconv.ParseInt(s[i+1:], 10, 32)
	if errors.Is(err, strconv.ErrRange) || err == nil && (exponent > maxExponent || exponent < -maxExponent) {
		return hostileError(fmt.Sprintf("the exponent of the quantity is not within -%d to %d", maxExponent, maxExponent))
	}
	return nil
}
