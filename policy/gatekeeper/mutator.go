package gatekeeper

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

const mutationsGroup = "mutations.gatekeeper.sh"

// A mutator is an Assign, AssignImage, AssignMetadata or ModifySet, read. It is
// read-only (gatekeeper/v3/pkg/mutation/mutators).
type mutator struct {
	object     *render.Object
	kind, name string
	appliesTo  []applyTo // nil for AssignMetadata, which applies to every kind
	match      *match
	location   location
	tests      pathTests
	set        setter

	terminal   shape // shape of the value at the location
	terminates bool  // no other mutator may go on below the location
	conflicts  []*mutator
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
	// setField changes a field of an object, and reports whether it is
	// another one now.
	setField(x *application, object map[string]any, field string) (changed bool, err error)
	// element returns the new element of a list with keys, or nil if the setter
	// can't make one.
	element() map[string]any
}

// applyTo is an entry of applyTo: kinds and operations.
type applyTo struct {
	Groups     []string `json:"groups,omitempty"`
	Kinds      []string `json:"kinds,omitempty"`
	Versions   []string `json:"versions,omitempty"`
	Operations []string `json:"operations,omitempty"` // of mutators
}

func (a *applyTo) kind(gvk schema.GroupVersionKind) bool {
	return slices.Contains(a.Kinds, gvk.Kind) && slices.Contains(a.Groups, gvk.Group) && slices.Contains(a.Versions, gvk.Version)
}

// operation reports whether an operation is among them. What an expansion template
// makes comes with none, and only a mutator for all is applied to it.
func (a *applyTo) operation(op policy.Operation) bool {
	if len(a.Operations) == 0 || slices.Contains(a.Operations, "*") {
		return true
	}
	if op == "" {
		return slices.Contains(a.Operations, string(policy.Create)) && slices.Contains(a.Operations, string(policy.Update))
	}
	return slices.Contains(a.Operations, string(op))
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
	return gvk.Group == mutationsGroup && mutatorKinds[gvk.Kind] != nil
}

// maxName is the longest name of a mutator that Gatekeeper accepts.
const maxName = 63

// newMutator reads a mutator. It is nil where the errors, *render.Error, are
// more than warnings.
func newMutator(o *render.Object) (*mutator, []error) {
	c := &checker{object: o}
	gvk := o.GroupVersionKind()
	m := &mutator{object: o, kind: gvk.Kind, name: o.GetName()}
	if versions := mutatorKinds[gvk.Kind]; !slices.Contains(versions, gvk.Version) {
		c.warn("/apiVersion", fmt.Errorf("%s has no version %s in Gatekeeper: it is read as %s", gvk.Kind, gvk.Version, versions[0]))
	}
	if len(m.name) > maxName {
		c.add("/metadata/name", fmt.Errorf("the name is longer than %d characters", maxName))
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
	if broken(c.errs) {
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
	c.errs = append(c.errs, warning(c.object, pointer, ruleMutator, err))
}

// mutatorSpec has the fields that all kinds of mutators have.
type mutatorSpec struct {
	ApplyTo    []applyTo `json:"applyTo,omitempty"`
	Match      any       `json:"match,omitempty"`
	Location   string    `json:"location,omitempty"`
	Parameters any       `json:"parameters,omitempty"`
}

// spec reads the spec, and its parameters into a struct of the kind's own. It
// reports whether it could.
func (c *checker) spec(m *mutator, parameters any) (spec mutatorSpec, ok bool) {
	written, ok := c.object.Object["spec"].(map[string]any)
	if !ok {
		c.add("/spec", errors.New("has no spec"))
		return spec, false
	}
	errs := decode(c.object, "/spec", written, &spec, ruleMutator)
	if spec.Parameters != nil {
		errs = append(errs, decode(c.object, "/spec/parameters", spec.Parameters, parameters, ruleMutator)...)
	}
	c.errs = append(c.errs, errs...)
	if broken(errs) {
		return spec, false
	}
	c.common(m, &spec)
	return spec, true
}

// common reads the fields that all kinds of mutators have.
func (c *checker) common(m *mutator, spec *mutatorSpec) {
	var errs []error
	m.match, errs = newMatch(c.object, "/spec/match", spec.Match)
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
func (c *checker) kinds(m *mutator, written []applyTo) {
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
			c.add(pointer+render.Pointer(i), fmt.Errorf("operation %q stands here twice", op))
		case op == "*" && len(ops) > 1:
			c.add(pointer+render.Pointer(i), errors.New("* must be the only operation"))
		}
	}
}

// body refuses locations that lead into the metadata of objects.
func (c *checker) body(m *mutator) {
	if len(m.location) > 0 && m.location[0] == (part{name: "metadata"}) {
		c.add("/spec/location", fmt.Errorf("%s can't change metadata: that is what AssignMetadata is for", m.kind))
	}
}

// keyKept refuses locations that lead to the key of a list's elements.
func (c *checker) keyKept(m *mutator) {
	if n := len(m.location); n >= 2 && m.location[n-2].list && m.location[n-2].name == m.location[n-1].name {
		c.add("/spec/location", fmt.Errorf("location %s is the key of the elements, which must not be changed", m.location))
	}
}

// concerns reports whether the mutator is to be applied to an object.
func (m *mutator) concerns(x *matchable, kind schema.GroupVersionKind, op policy.Operation) (bool, error) {
	if m.kind != "AssignMetadata" && !slices.ContainsFunc(m.appliesTo, func(a applyTo) bool { return a.kind(kind) && a.operation(op) }) {
		return false, nil
	}
	return m.match.matches(x)
}

// compareMutators orders mutators as Gatekeeper applies them.
func compareMutators(a, b *mutator) int {
	return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.name, b.name))
}
