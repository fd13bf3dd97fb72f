package schema

import (
	"slices"
	"strconv"
	"strings"

	fielderr "k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/preadmit/preadmit/render"
)

// A spot is a field of the object that is validated. It is cheap to make: its
// path is written out only when something is wrong there.
type spot struct {
	up   *spot
	step any // of a pointer: a string or an int; nil at the top
	key  bool
}

// A mapKey is a step to the value of a map, which paths write in brackets.
type mapKey string

var top = &spot{}

// in is the place below, step by step: names of fields, indexes and mapKeys.
func (p *spot) in(steps ...any) *spot {
	for _, s := range steps {
		next := &spot{up: p, step: s}
		if k, ok := s.(mapKey); ok {
			next.step, next.key = string(k), true
		}
		p = next
	}
	return p
}

// path is how the API server writes the place: spec.ports[0].name.
func (p *spot) path() string {
	var b strings.Builder
	p.write(&b)
	return b.String()
}

func (p *spot) write(b *strings.Builder) {
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

// pointer is the JSON pointer of the place.
func (p *spot) pointer() string {
	var steps []any
	for at := p; at.up != nil; at = at.up {
		steps = append(steps, at.step)
	}
	slices.Reverse(steps)
	return render.Pointer(steps...)
}

// field is the place for validation functions of apimachinery.
func (p *spot) field() *fielderr.Path { return fielderr.NewPath(p.path()) }

// A fault is an error of the API server's validation, and the fields that it
// is about: for a person, where the server's path is less exact or wrong.
type fault struct {
	err       *fielderr.Error
	fields    []string
	immutable bool // about a change
	warns     bool // hangs on how the API server is set up
	assumed   []string
	hint      string
}

// at says where the fault is when its path does not.
func (f *fault) at(p *spot) *fault {
	f.fields = []string{p.pointer()}
	return f
}

// also names a further field that has to do with it.
func (f *fault) also(p *spot) *fault {
	f.fields = append(f.fields, p.pointer())
	return f
}

// A check is the validation of one object.
type check struct {
	release release
	faults  []*fault
}

func (c *check) add(p *spot, err *fielderr.Error) *fault {
	err.Field = p.path()
	f := &fault{err: err, fields: []string{p.pointer()}}
	c.faults = append(c.faults, f)
	return f
}

func (c *check) required(p *spot, detail string) *fault {
	return c.add(p, fielderr.Required(nil, detail))
}

func (c *check) invalid(p *spot, value any, detail string) *fault {
	return c.add(p, fielderr.Invalid(nil, value, detail))
}

// omitted is invalid without the value.
func (c *check) omitted(p *spot, detail string) *fault {
	return c.invalid(p, fielderr.OmitValueType{}, detail)
}

// invalids adds a fault for each message.
func (c *check) invalids(p *spot, value any, messages []string) {
	for _, m := range messages {
		c.invalid(p, value, m)
	}
}

func (c *check) forbidden(p *spot, detail string) *fault {
	return c.add(p, fielderr.Forbidden(nil, detail))
}

func (c *check) duplicate(p *spot, value any) *fault {
	return c.add(p, fielderr.Duplicate(nil, value))
}

func (c *check) notFound(p *spot, value any) *fault {
	return c.add(p, fielderr.NotFound(nil, value))
}

func (c *check) tooLong(p *spot, limit int) *fault {
	return c.add(p, fielderr.TooLong(nil, "", limit))
}

func (c *check) tooMany(p *spot, actual, limit int) *fault {
	return c.add(p, fielderr.TooMany(nil, actual, limit))
}

// oneOf wants one of the values, as a set or in the order given: the API server
// sorts some of its lists.
func oneOf[T ~string](c *check, p *spot, value T, valid ...T) bool {
	if slices.Contains(valid, value) {
		return true
	}
	c.add(p, fielderr.NotSupported(nil, value, valid))
	return false
}

// errors adds what a validation function of apimachinery found at p or below,
// having been told p.field().
func (c *check) errors(p *spot, errs fielderr.ErrorList) {
	base, path := p.pointer(), p.path()
	for _, e := range errs {
		below := strings.TrimPrefix(e.Field, path)
		c.faults = append(c.faults, &fault{err: e, fields: []string{base + pointerOf(below)}})
	}
}

// pointerOf reads a path of the API server's, such as ".values[0]".
func pointerOf(path string) string {
	var steps []any
	for path != "" {
		if path[0] == '[' {
			if end := strings.IndexByte(path, ']'); end > 0 {
				steps = append(steps, path[1:end])
				path = path[end+1:]
				continue
			}
		}
		path = strings.TrimPrefix(path, ".")
		end := strings.IndexAny(path, ".[")
		if end <= 0 {
			end = len(path)
		}
		if end > 0 {
			steps = append(steps, path[:end])
		}
		path = path[end:]
	}
	return render.Pointer(steps...)
}

// faultRules are the names of rules by what kind of error they are about.
var faultRules = map[fielderr.ErrorType]string{
	fielderr.ErrorTypeRequired: ruleRequired, fielderr.ErrorTypeNotSupported: ruleUnsupported,
	fielderr.ErrorTypeDuplicate: ruleDuplicate, fielderr.ErrorTypeForbidden: ruleForbidden,
	fielderr.ErrorTypeNotFound: ruleNotFound, fielderr.ErrorTypeTooLong: ruleTooLong,
	fielderr.ErrorTypeTooMany: ruleTooLong,
}
