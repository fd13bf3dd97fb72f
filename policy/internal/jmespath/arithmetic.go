package jmespath

import (
	"fmt"
	"math"
	"strings"
	"time"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

// An operand is a number, or a text that is a quantity or a duration. Results other
// than numbers are written as text.
type operand interface {
	plus(operand) (any, error)
	minus(operand) (any, error)
	times(operand) (any, error)
	over(operand) (any, error)
	modulo(operand) (any, error)
}

type (
	scalar   float64
	quantity resource.Quantity
	duration time.Duration
)

// operandError is an error without a function, which the caller adds.
type operandError string

func (o operandError) Error() string { return string(o) }

const (
	mismatch    operandError = "Types mismatch"
	byZero      operandError = "Zero divisor passed"
	noIntegers  operandError = "Non-integer argument(s) passed for modulo"
	noOperand   operandError = "invalid operand"
	outOfBounds operandError = "the result is out of the bounds of a duration"
)

// binary returns the named function, which computes with two operands.
func binary(name string, compute func(a, b operand) (any, error)) func(*search, []val) (val, error) {
	return func(_ *search, a []val) (val, error) {
		v, err := calculate(a[0].v, a[1].v, compute)
		if err != nil {
			return val{}, errorf(name, "%s", err)
		}
		if x, ok := v.(float64); ok {
			return finite(name, x)
		}
		return val{v: v}, nil
	}
}

func calculate(a, b any, compute func(a, b operand) (any, error)) (any, error) {
	x, y := operandOf(a), operandOf(b)
	if x == nil || y == nil {
		return nil, noOperand
	}
	return compute(x, y)
}

func operandOf(v any) operand {
	switch v := v.(type) {
	case float64:
		return scalar(v)
	case string:
		if q, ok := parseQuantity(v); ok {
			return quantity(q)
		}
		if d, err := time.ParseDuration(v); err == nil {
			return duration(d)
		}
	}
	return nil
}

// parseQuantity refuses quantities that take long to compute with: exponents and
// lengths that no resource has.
func parseQuantity(text string) (resource.Quantity, bool) {
	e := strings.LastIndexAny(text, "eE")
	if len(text) > 128 || e >= 0 && len(strings.TrimLeft(text[e+1:], "+-0")) > 3 {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil
}

// withSame calls compute if the operand is of the type T, otherwise it fails.
func withSame[T operand](b operand, compute func(T) any) (any, error) {
	if b, ok := b.(T); ok {
		return compute(b), nil
	}
	return nil, mismatch
}

func (s scalar) plus(b operand) (any, error) {
	return withSame(b, func(b scalar) any { return float64(s + b) })
}

func (s scalar) minus(b operand) (any, error) {
	return withSame(b, func(b scalar) any { return float64(s - b) })
}

func (s scalar) times(b operand) (any, error) {
	if b, ok := b.(scalar); ok {
		return float64(s * b), nil
	}
	return b.times(s)
}

func (s scalar) over(b operand) (any, error) {
	switch b, ok := b.(scalar); {
	case !ok:
		return nil, mismatch
	case b == 0:
		return nil, byZero
	default:
		return float64(s / b), nil
	}
}

func (s scalar) modulo(b operand) (any, error) {
	divisor, ok := b.(scalar)
	if !ok {
		return nil, mismatch
	}
	x, y, err := integers(float64(s), float64(divisor))
	if err != nil {
		return nil, err
	}
	return float64(x % y), nil
}

// integers converts a dividend and a divisor to whole numbers.
func integers(a, b float64) (int64, int64, error) {
	const most = 1 << 63
	if a != math.Trunc(a) || b != math.Trunc(b) || math.Abs(a) >= most || math.Abs(b) >= most {
		return 0, 0, noIntegers
	}
	if b == 0 {
		return 0, 0, byZero
	}
	return int64(a), int64(b), nil
}

func (q quantity) plus(b operand) (any, error) {
	return withSame(b, func(b quantity) any {
		total := resource.Quantity(q).DeepCopy()
		total.Add(resource.Quantity(b))
		return total.String()
	})
}

func (q quantity) minus(b operand) (any, error) {
	return withSame(b, func(b quantity) any {
		total := resource.Quantity(q).DeepCopy()
		total.Sub(resource.Quantity(b))
		return total.String()
	})
}

// decimals converts a quantity and a number for exact computation.
func (q quantity) decimals(b scalar) (qd, n *inf.Dec, err error) {
	number, ok := parseQuantity(fmt.Sprint(float64(b)))
	if !ok {
		return nil, nil, noOperand
	}
	x := resource.Quantity(q).DeepCopy()
	return x.AsDec(), number.AsDec(), nil
}

func (q quantity) written(d *inf.Dec) string {
	return resource.NewDecimalQuantity(*d, q.Format).String()
}

func (q quantity) times(b operand) (any, error) {
	factor, ok := b.(scalar)
	if !ok {
		return nil, mismatch
	}
	qd, n, err := q.decimals(factor)
	if err != nil {
		return nil, err
	}
	return q.written(new(inf.Dec).Mul(qd, n)), nil
}

func (q quantity) over(b operand) (any, error) {
	switch b := b.(type) {
	case quantity:
		x, y := resource.Quantity(q), resource.Quantity(b)
		if y.AsApproximateFloat64() == 0 {
			return nil, byZero
		}
		return x.AsApproximateFloat64() / y.AsApproximateFloat64(), nil
	case scalar:
		if b == 0 {
			return nil, byZero
		}
		qd, n, err := q.decimals(b)
		if err != nil {
			return nil, err
		}
		scale := max(qd.Scale(), n.Scale())
		return q.written(new(inf.Dec).QuoRound(qd, n, scale, inf.RoundDown)), nil
	}
	return nil, mismatch
}

func (q quantity) modulo(b operand) (any, error) {
	divisor, ok := b.(quantity)
	if !ok {
		return nil, mismatch
	}
	p, qd := resource.Quantity(q), resource.Quantity(divisor)
	x, y, err := integers(p.AsApproximateFloat64(), qd.AsApproximateFloat64())
	if err != nil {
		return nil, err
	}
	return resource.NewQuantity(x%y, q.Format).String(), nil
}

func (d duration) plus(b operand) (any, error) {
	return withSame(b, func(b duration) any { return time.Duration(d + b).String() })
}

func (d duration) minus(b operand) (any, error) {
	return withSame(b, func(b duration) any { return time.Duration(d - b).String() })
}

// seconds converts seconds to a duration, or fails if it is out of range.
func seconds(n float64) (any, error) {
	nanoseconds := n * float64(time.Second)
	if math.IsNaN(nanoseconds) || math.Abs(nanoseconds) >= 1<<63 {
		return nil, outOfBounds
	}
	return time.Duration(nanoseconds).String(), nil
}

func (d duration) times(b operand) (any, error) {
	if b, ok := b.(scalar); ok {
		return seconds(time.Duration(d).Seconds() * float64(b))
	}
	return nil, mismatch
}

func (d duration) over(b operand) (any, error) {
	switch b := b.(type) {
	case duration:
		if b == 0 {
			return nil, byZero
		}
		return time.Duration(d).Seconds() / time.Duration(b).Seconds(), nil
	case scalar:
		if b == 0 {
			return nil, byZero
		}
		return seconds(time.Duration(d).Seconds() / float64(b))
	}
	return nil, mismatch
}

func (d duration) modulo(b operand) (any, error) {
	switch b, ok := b.(duration); {
	case !ok:
		return nil, mismatch
	case b == 0:
		return nil, byZero
	default:
		return time.Duration(d % b).String(), nil
	}
}

// sum adds from left to right; of one element it is that element.
func sum(s *search, a []val) (val, error) {
	list := a[0].v.([]any)
	if len(list) == 0 {
		return val{}, errorf("sum", "at least one element in the array is required")
	}
	if err := s.spend(8 * len(list)); err != nil {
		return val{}, err
	}
	total := list[0]
	for _, x := range list[1:] {
		var err error
		if total, err = calculate(total, x, operand.plus); err != nil {
			return val{}, errorf("sum", "%s", err)
		}
	}
	if x, ok := total.(float64); ok {
		return finite("sum", x)
	}
	return val{v: total}, nil
}

// round rounds half away from zero.
func round(_ *search, a []val) (val, error) {
	x, digits := a[0].v.(float64), a[1].v.(float64)
	if digits != math.Trunc(digits) || math.Abs(digits) >= 1<<63 {
		return val{}, errorf("round", "Non-integer argument(s) passed for round off")
	}
	if digits < 0 {
		// Kyverno forgets to format the arguments of this message.
		return val{}, errorf("round", "%%!d(MISSING) argument is out of bounds (%%!d(MISSING))")
	}
	shift := math.Pow(10, digits)
	if shifted := x * shift; !math.IsInf(shifted, 0) {
		return val{v: math.Round(shifted) / shift}, nil
	}
	return val{v: x}, nil
}
