package kindcheck

import (
	"slices"
	"strconv"
	"strings"

	fielderr "k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/preadmit/preadmit/render"
)

// A Spot is a field of the object that is validated. It is cheap to make: its
// path is written out only when something is wrong there.
type Spot struct {
	up   *Spot
	step any // of a pointer: a string or an int; nil at the top
	key  bool
}

// A mapKey is a step to the value of a map, which paths write in brackets.
type mapKey string

// Top is the object itself.
var Top = &Spot{}

// In returns the place below: steps are names of fields, indexes and mapKeys.
func (p *Spot) In(steps ...any) *Spot {
	for _, s := range steps {
		next := &Spot{up: p, step: s}
		if k, ok := s.(mapKey); ok {
			next.step, next.key = string(k), true
		}
		p = next
	}
	return p
}

// Path returns the place as the API server writes it: spec.ports[0].name.
func (p *Spot) Path() string {
	var b strings.Builder
	p.write(&b)
	return b.String()
}

func (p *Spot) write(b *strings.Builder) {
	if p.up == nil {
		return
	}
	p.up.write(b)
	switch s := p.step.(type) {
	case int:
		b.WriteString("[" + strconv.Itoa(s) + "]")
	case string:
		if p.key {
			b.WriteString("[" + s + "]")
			return
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s)
	}
}

// Pointer returns the JSON pointer of the place.
func (p *Spot) Pointer() string {
	var steps []any
	for at := p; at.up != nil; at = at.up {
		steps = append(steps, at.step)
	}
	slices.Reverse(steps)
	return render.Pointer(steps...)
}

// field is the place for validation functions of apimachinery.
func (p *Spot) field() *fielderr.Path { return fielderr.NewPath(p.Path()) }
