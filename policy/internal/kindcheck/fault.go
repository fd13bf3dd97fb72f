package kindcheck

import (
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	fielderr "k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// The rules that faults break.
const (
	RuleRequired    = "required"
	RuleInvalid     = "invalid"
	RuleUnsupported = "unsupported-value"
	RuleDuplicate   = "duplicate"
	RuleNotFound    = "not-found"
	RuleForbidden   = "forbidden"
	RuleTooLong     = "too-long"
	RuleImmutable   = "immutable"
)

// A Fault is an error of the API server's validation, and the pointers of the
// fields to correct, which may be more exact than the path in the error.
type Fault struct {
	Err       *fielderr.Error
	Fields    []string
	immutable bool // about a change
	Warns     bool // depends on how the API server is set up
	Assumed   []string
	Hint      string
}

// at sets the place of a fault whose path is not its place.
func (f *Fault) at(p *Spot) *Fault {
	f.Fields = []string{p.Pointer()}
	return f
}

// also adds the place of a further field that is involved.
func (f *Fault) also(p *Spot) {
	f.Fields = append(f.Fields, p.Pointer())
}

// A release is a minor version of Kubernetes 1.
type release int

// A check is the validation of one object.
type check struct {
	release release
	faults  []*Fault
}

func (c *check) add(p *Spot, err *fielderr.Error) *Fault {
	err.Field = p.Path()
	f := &Fault{Err: err, Fields: []string{p.Pointer()}}
	c.faults = append(c.faults, f)
	return f
}

func (c *check) required(p *Spot, detail string) *Fault {
	return c.add(p, fielderr.Required(nil, detail))
}

func (c *check) invalid(p *Spot, value any, detail string) *Fault {
	return c.add(p, fielderr.Invalid(nil, value, detail))
}

// omitted adds an invalid fault without the value.
func (c *check) omitted(p *Spot, detail string) {
	c.invalid(p, fielderr.OmitValueType{}, detail)
}

// invalids adds a fault for each message.
func (c *check) invalids(p *Spot, value any, messages []string) {
	for _, m := range messages {
		c.invalid(p, value, m)
	}
}

func (c *check) forbidden(p *Spot, detail string) *Fault {
	return c.add(p, fielderr.Forbidden(nil, detail))
}

func (c *check) duplicate(p *Spot, value any) *Fault {
	return c.add(p, fielderr.Duplicate(nil, value))
}

func (c *check) notFound(p *Spot, value any) *Fault {
	return c.add(p, fielderr.NotFound(nil, value))
}

func (c *check) tooLong(p *Spot, limit int) *Fault {
	return c.add(p, fielderr.TooLong(nil, "", limit))
}

func (c *check) tooMany(p *Spot, actual, limit int) {
	c.add(p, fielderr.TooMany(nil, actual, limit))
}

// oneOf adds a fault unless the value is valid. The fault lists valid as given, since
// the API server sorts only some lists.
func oneOf[T ~string](c *check, p *Spot, value T, valid ...T) bool {
	if slices.Contains(valid, value) {
		return true
	}
	c.add(p, fielderr.NotSupported(nil, value, valid))
	return false
}

// errors adds the errors that a validation function of apimachinery returned for p.field()
// or fields below.
func (c *check) errors(p *Spot, errs fielderr.ErrorList) {
	base, path := p.Pointer(), p.Path()
	for _, e := range errs {
		below := strings.TrimPrefix(e.Field, path)
		c.faults = append(c.faults, &Fault{Err: e, Fields: []string{base + pointerOf(below)}})
	}
}

// pointerOf converts a path of the API server, such as ".values[0]".
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

// faultRules maps kinds of errors to names of rules.
var faultRules = map[fielderr.ErrorType]string{
	fielderr.ErrorTypeRequired: RuleRequired, fielderr.ErrorTypeNotSupported: RuleUnsupported,
	fielderr.ErrorTypeDuplicate: RuleDuplicate, fielderr.ErrorTypeForbidden: RuleForbidden,
	fielderr.ErrorTypeNotFound: RuleNotFound, fielderr.ErrorTypeTooLong: RuleTooLong,
	fielderr.ErrorTypeTooMany: RuleTooLong,
}

// Rule returns the name of the rule that the fault breaks.
func (f *Fault) Rule() string {
	if f.Err.Detail == apivalidation.FieldImmutableErrorMsg || f.immutable {
		return RuleImmutable
	}
	if r := faultRules[f.Err.Type]; r != "" {
		return r
	}
	return RuleInvalid
}

// Action returns the action of the fault: a denial or a warning.
func (f *Fault) Action() policy.Action {
	if f.Warns {
		return policy.Warn
	}
	return policy.Deny
}
