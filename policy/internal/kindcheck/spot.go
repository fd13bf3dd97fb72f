package kindcheck

import (
	"slices"
	"strconv"
	"strings"

	fielderr "k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/preadmit/preadmit/render"
)

// A Spot is a field of the object that is validated. It is cheap: its path is
// computed only for a fault.
type Spot struct {
	up   *Spot
	step any // of a pointer: a string or an int; nil at the top
	key  bool
}

// A mapKey is a step to the value of a map, which paths write in brackets.
type mapKey string

// Top is the root of the object.
var Top = &Spot{}

// In returns a place below: steps are names of fields, indexes and mapKeys.
func (s *Spot) In(steps ...any) *Spot {
	for _, step := range steps {
		next := &Spot{up: s, step: step}
		if k, ok := step.(mapKey); ok {
			next.step, next.key = string(k), true
		}
		s = next
	}
	return s
}

// Path returns the place as the API server writes it: spec.ports[0].name.
func (s *Spot) Path() string {
	var b strings.Builder
	s.write(&b)
	return b.String()
}

func (s *Spot) write(b *strings.Builder) {
	if s.up == nil {
		return
	}
	s.up.write(b)
	switch step := s.step.(type) {
	case int:
		b.WriteString("[" + strconv.Itoa(step) + "]")
	case string:
		if s.key {
			b.WriteString("[" + step + "]")
			return
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(step)
	}
}

// Pointer returns the JSON pointer of the place.
func (s *Spot) Pointer() string {
	var steps []any
	for at := s; at.up != nil; at = at.up {
		steps = append(steps, at.step)
	}
	slices.Reverse(steps)
	return render.Pointer(steps...)
}

// field returns the place for validation functions of apimachinery.
func (s *Spot) field() *fielderr.Path { return fielderr.NewPath(s.Path()) }
