package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A spot is a field of an object. It is cheap: its path is computed only for an
// unknown field.
type spot struct {
	up   *spot
	step any // of a pointer: a string or an int; nil at the top
}

// in returns the place of a field or an element below.
func (s *spot) in(step any) *spot { return &spot{up: s, step: step} }

// path returns the place as the API server writes it: spec.ports[0].name.
func (s *spot) path() string {
	var b strings.Builder
	s.write(&b)
	return b.String()
}

func (s *spot) write(b *strings.Builder) {
	if s.up == nil {
		return
	}
	s.up.write(b)
	switch step := s.step.(type) {
	case int:
		b.WriteString("[" + strconv.Itoa(step) + "]")
	case string:
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(step)
	}
}

// pointer returns the JSON pointer of the place.
func (s *spot) pointer() string {
	var steps []any
	for at := s; at.up != nil; at = at.up {
		steps = append(steps, at.step)
	}
	slices.Reverse(steps)
	return render.Pointer(steps...)
}
