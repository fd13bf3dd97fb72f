// Package mutator applies Gatekeeper's mutators: Assign, AssignImage, AssignMetadata and
// ModifySet of mutations.gatekeeper.sh.
//
// [New] takes the objects that hold them and returns a [Set], which is read once.
// [Set.Mutate] applies it to one object until nothing changes.
//
//   - mutator.go and a file for each kind read a mutator, path.go its location
//   - conflict.go finds mutators that contradict each other, which are not applied
//   - apply.go applies one mutator, set.go applies all
//
// The engine gatekeeper decides which requests mutators get. It also applies them to the
// objects that it expands.
package mutator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/render"
)

// Group is the API group of mutators.
const Group = "mutations.gatekeeper.sh"

// A Mutator is an Assign, AssignImage, AssignMetadata or ModifySet, read. It is
// read-only (gatekeeper/v3/pkg/mutation/mutators).
type Mutator struct {
	object     *render.Object
	Kind, Name string
	ID         string             // name/kind
	appliesTo  []document.ApplyTo // nil for AssignMetadata, which applies to every kind
	match      *document.Match
	location   location
	tests      pathTests
	set        setter

	terminal   shape // shape of the value at the location
	terminates bool  // no other mutator may go on below the location
	conflicts  []*Mutator
}

// A shape is the type that a mutator's location implies for a value of an object.
type shape int

const (
	shapeUnknown shape = iota
	shapeObject
	shapeList // a list whose elements have a key
	shapeSet
	shapeString
)

func (s shape) String() string {
	return [...]string{"anything", "an object", "a list with keys", "a set", "a string"}[s]
}

// A setter puts a mutator's value at the end of its location.
type setter interface {
	// setField changes a field of an object, and reports whether its value changed.
	setField(x *application, object map[string]any, field string) (changed bool, err error)
	// element returns the new element of a list with keys, or nil if the setter
	// can't make one.
	element() map[string]any
}

// mutatorKinds lists the kinds of mutators with the versions that Gatekeeper's
// CRDs serve.
var mutatorKinds = map[string][]string{
	"Assign":         {"v1", "v1beta1", "v1alpha1"},
	"AssignImage":    {"v1alpha1"},
	"AssignMetadata": {"v1", "v1beta1", "v1alpha1"},
	"ModifySet":      {"v1", "v1beta1", "v1alpha1"},
}

func isMutator(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == Group && mutatorKinds[gvk.Kind] != nil
}

// newMutator reads a mutator. It returns nil if an error, a *render.Error, is more
// than a warning.
func newMutator(o *render.Object) (*Mutator, []error) {
	c := &checker{object: o}
	gvk := o.GroupVersionKind()
	m := &Mutator{object: o, Kind: gvk.Kind, Name: o.GetName(), ID: o.GetName() + "/" + gvk.Kind}
	if versions := mutatorKinds[gvk.Kind]; !slices.Contains(versions, gvk.Version) {
		c.warn("/apiVersion", fmt.Errorf("%s has no version %s in Gatekeeper: it is read as %s", gvk.Kind, gvk.Version, versions[0]))
	}
	if len(m.Name) > document.MaxName {
		c.add("/metadata/name", fmt.Errorf("the name is longer than %d characters", document.MaxName))
	}
	switch gvk.Kind {
	case "Assign":
		c.assign(m)
	case "AssignImage":
		c.assignImage(m)
	case "AssignMetadata":
		c.assignMetadata(m)
	case "ModifySet":
		c.modifySet(m)
	}
	if document.Broken(c.errs) {
		return nil, c.errs
	}
	return m, c.errs
}

// A checker validates a mutator and collects its errors.
type checker struct {
	object *render.Object
	errs   []error
}

const ruleMutator = "mutator"

func (c *checker) add(pointer string, err error) {
	c.errs = append(c.errs, policy.ErrorAt(c.object, pointer, ruleMutator, err))
}

func (c *checker) warn(pointer string, err error) {
	c.errs = append(c.errs, document.Warning(c.object, pointer, ruleMutator, err))
}

// mutatorSpec has the fields that all kinds of mutators have.
type mutatorSpec struct {
	ApplyTo    []document.ApplyTo `json:"applyTo,omitempty"`
	Match      any                `json:"match,omitempty"`
	Location   string             `json:"location,omitempty"`
	Parameters any                `json:"parameters,omitempty"`
}

// spec reads the spec, and its parameters into a struct of the kind's own. It
// reports whether it could.
func (c *checker) spec(m *Mutator, parameters any) (spec mutatorSpec, ok bool) {
	written, ok := c.object.Object["spec"].(map[string]any)
	if !ok {
		c.add("/spec", errors.New("has no spec"))
		return spec, false
	}
	errs := document.Decode(c.object, "/spec", written, &spec, ruleMutator)
	if spec.Parameters != nil {
		errs = append(errs, document.Decode(c.object, "/spec/parameters", spec.Parameters, parameters, ruleMutator)...)
	}
	c.errs = append(c.errs, errs...)
	if document.Broken(errs) {
		return spec, false
	}
	c.commonFields(m, &spec)
	return spec, true
}

// commonFields reads the fields that all kinds of mutators have.
func (c *checker) commonFields(m *Mutator, spec *mutatorSpec) {
	var errs []error
	m.match, errs = document.NewMatch(c.object, "/spec/match", spec.Match)
	c.errs = append(c.errs, errs...)
	l, ok := c.location("/spec/location", spec.Location)
	if ok && len(l) == 0 {
		c.add("/spec/location", errors.New("location is empty"))
	}
	m.location = l
}

// location reads a location at the place where it is written.
func (c *checker) location(pointer, text string) (location, bool) {
	l, err := parseLocation(text)
	if err == nil {
		return l, true
	}
	field := pointer[strings.LastIndexByte(pointer, '/')+1:]
	e := policy.ErrorAt(c.object, pointer, ruleMutator, fmt.Errorf("%s %q %w", field, policy.Shorten(text, 200), err))
	var where *locationError
	if errors.As(err, &where) {
		if s, ok := c.object.Inside(pointer, text, where.offset); ok {
			e.Span = s
		}
	}
	c.errs = append(c.errs, e)
	return nil, false
}

// kinds reads applyTo, which all but AssignMetadata must have.
func (c *checker) kinds(m *Mutator, written []document.ApplyTo) {
	if len(written) == 0 {
		c.add("/spec/applyTo", errors.New("applyTo is required: the kinds that the mutator changes"))
	}
	for i := range written {
		a, pointer := &written[i], "/spec"+render.Pointer("applyTo", i)
		if len(a.Groups) == 0 || len(a.Versions) == 0 || len(a.Kinds) == 0 {
			c.add(pointer, errors.New("groups, versions and kinds must all be given"))
		}
		c.operations(pointer+"/operations", a.Operations)
	}
	m.appliesTo = written
}

func (c *checker) operations(pointer string, ops []string) {
	for i, op := range ops {
		switch {
		case !slices.Contains([]string{"CREATE", "UPDATE", "*"}, op):
			c.add(pointer+render.Pointer(i), fmt.Errorf("operation %q is none of CREATE, UPDATE and *", op))
		case slices.Index(ops, op) < i:
			c.add(pointer+render.Pointer(i), fmt.Errorf("operation %q is listed twice", op))
		case op == "*" && len(ops) > 1:
			c.add(pointer+render.Pointer(i), errors.New("* must be the only operation"))
		}
	}
}

// notMetadata refuses locations that lead into the metadata of objects.
func (c *checker) notMetadata(m *Mutator) {
	if len(m.location) > 0 && m.location[0] == (part{name: "metadata"}) {
		c.add("/spec/location", fmt.Errorf("%s can't change metadata: use AssignMetadata", m.Kind))
	}
}

// notKey refuses locations that lead to the key of a list's elements.
func (c *checker) notKey(m *Mutator) {
	if n := len(m.location); n >= 2 && m.location[n-2].list && m.location[n-2].name == m.location[n-1].name {
		c.add("/spec/location", fmt.Errorf("location %s is the key of the elements, which must not be changed", m.location))
	}
}

// concerns reports whether the mutator applies to an object.
func (m *Mutator) concerns(x *document.Matchable, kind schema.GroupVersionKind, op policy.Operation) (bool, error) {
	if m.Kind != "AssignMetadata" && !slices.ContainsFunc(m.appliesTo, func(a document.ApplyTo) bool { return a.HasKind(kind) && a.HasOperation(op) }) {
		return false, nil
	}
	return m.match.Matches(x)
}

// compareMutators orders mutators as Gatekeeper applies them.
func compareMutators(a, b *Mutator) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// result returns a result of a mutator. Its failures and errors deny: the webhook refuses
// such a request.
func (m *Mutator) result(outcome policy.Outcome, message string) policy.Result {
	return policy.Result{
		Engine: policy.EngineGatekeeper, Policy: m.Name, Rule: m.Kind, Outcome: outcome, Action: policy.Deny,
		Message: message, PolicyOrigin: m.object.Span("/spec/location"),
	}
}

// Refused returns the error for an object that can't be admitted after the change.
func (m *Change) Refused(err error) *Error { return &Error{m.By, err} }

// Result returns the result for a refused object.
func (m *Error) Result() policy.Result {
	message := "mutation failed: " + m.err.Error()
	if errors.Is(m.err, errNotConverging) {
		message = m.err.Error()
	}
	return m.by.result(policy.Error, policy.ShortError(errors.New(message)).Error())
}

// Result returns the undecided result.
func (u *Unsettled) Result() policy.Result {
	r := u.by.result(policy.Unknown, u.question)
	r.Fields = u.pointers
	return r
}

// Skip returns a result for each mutator that matches an object which the webhook does
// not get.
func (m *Set) Skip(x *Target, outcome policy.Outcome, why string) []policy.Step {
	var steps []policy.Step
	for _, mut := range m.Applied {
		if concerned, err := mut.concerns(&x.Matchable, x.Kind, x.Operation); concerned && err == nil {
			steps = append(steps, policy.Step{Result: mut.result(outcome, why)})
		}
	}
	return steps
}

// Step returns the step of one mutator from one state of the object to the
// next.
func (m *Change) Step(object *map[string]any) policy.Step {
	result := m.By.result(policy.Pass, "changes nothing")
	if m.After == nil {
		return policy.Step{Result: result}
	}
	fields := patch.Differences(*object, m.After)
	if len(fields) == 0 {
		return policy.Step{Result: result}
	}
	*object = m.After
	result.Fields, result.Message = fields, "sets "+patch.OrList(fields)
	return policy.Step{Result: result, Admitted: m.After}
}

// Rule returns the rule of a mutator, documented by its annotations, as constraints are.
func (m *Mutator) Rule() policy.Rule {
	r := policy.Rule{
		Engine: policy.EngineGatekeeper, Policy: m.Name, Name: m.Kind, Action: policy.Deny,
		Expression: policy.Shorten(m.location.String(), document.MaxDocument), Origin: m.object.Span("/spec/location"),
	}
	document.Describe(&r, policy.Notes{m.object.GetAnnotations()})
	return r
}
