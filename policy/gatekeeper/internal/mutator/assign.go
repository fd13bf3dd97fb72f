package mutator

import (
	"errors"
	"fmt"
	"slices"

	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/render"
)

// assignParameters is spec.parameters of Assign.
type assignParameters struct {
	PathTests []pathTest  `json:"pathTests,omitempty"`
	Assign    assignField `json:"assign,omitempty"`
}

// An assignField holds the value to assign.
type assignField struct {
	Value        any           `json:"value,omitempty"`
	FromMetadata *fromMetadata `json:"fromMetadata,omitempty"`
	ExternalData *externalData `json:"externalData,omitempty"`
}

type fromMetadata struct {
	Field string `json:"field,omitempty"`
}

type externalData struct {
	Provider      string `json:"provider,omitempty"`
	DataSource    string `json:"dataSource,omitempty"`
	FailurePolicy string `json:"failurePolicy,omitempty"`
	Default       string `json:"default,omitempty"`
}

const assignPointer = "/spec/parameters/assign"

// assign reads an Assign.
func (c *checker) assign(m *Mutator) {
	var parameters assignParameters
	spec, ok := c.spec(m, &parameters)
	if !ok {
		return
	}
	c.kinds(m, spec.ApplyTo)
	c.notMetadata(m)
	c.notKey(m)
	field := &parameters.Assign
	m.set, m.terminates = c.value(field), field.ExternalData != nil
	m.tests = c.newPathTests(m.location, parameters.PathTests)
	if m.location.last().list {
		c.assignElement(m.location.last(), field)
	}
}

// assignElement checks a value that is assigned to an element of a list.
func (c *checker) assignElement(p part, field *assignField) {
	switch {
	case p.glob:
		c.add("/spec/location", errors.New("location ends with all elements of a list, to which nothing can be assigned"))
	case field.FromMetadata != nil:
		c.add(assignPointer+"/fromMetadata", errors.New("metadata can't be assigned to an element of a list"))
	case field.ExternalData != nil:
		c.add(assignPointer+"/externalData", errors.New("external data can't be assigned to an element of a list"))
	case field.Value == nil:
		return // reported already
	}
	if field.Value == nil || p.glob {
		return
	}
	object, ok := field.Value.(map[string]any)
	switch key := object[p.name]; {
	case !ok:
		c.add(assignPointer+"/value", errors.New("only an object can be assigned to an element of a list"))
	case key != p.key:
		c.add(assignPointer+"/value"+render.Pointer(p.name), fmt.Errorf("%s of the value does not match location", p.name))
	case isNumber(p.key): // Gatekeeper reads it as a floating-point number here, and not in location
		c.add(assignPointer+"/value"+render.Pointer(p.name), fmt.Errorf("%s is a number: Gatekeeper does not take it for that of location", p.name))
	}
}

func isNumber(v any) bool {
	_, ok := v.(int64)
	return ok
}

// assignMetadata reads an AssignMetadata, which adds a label or an annotation
// that isn't there.
func (c *checker) assignMetadata(m *Mutator) {
	var parameters struct {
		Assign assignField `json:"assign,omitempty"`
	}
	spec, ok := c.spec(m, &parameters)
	if !ok {
		return
	}
	if len(spec.ApplyTo) > 0 {
		c.warn("/spec/applyTo", errors.New("applyTo is ignored: AssignMetadata applies to every kind"))
	}
	if l := m.location; len(l) > 0 && !isMetadataLocation(l) {
		c.add("/spec/location", fmt.Errorf("location %s is neither a label, metadata.labels.NAME, nor an annotation, metadata.annotations.NAME", l))
	}
	field := &parameters.Assign
	m.set, m.terminates = c.value(field), field.ExternalData != nil
	m.tests = pathTests{2: mustNotExist}
	if _, ok := field.Value.(string); field.Value != nil && !ok {
		c.add(assignPointer+"/value", errors.New("the value must be a string"))
	}
	if e := field.ExternalData; e != nil && e.DataSource != "Username" {
		c.add(assignPointer+"/externalData", errors.New("dataSource must be Username here"))
	}
}

func isMetadataLocation(l location) bool {
	return len(l) == 3 && l[0] == (part{name: "metadata"}) && !l[2].list &&
		(l[1] == (part{name: "labels"}) || l[1] == (part{name: "annotations"}))
}

// value reads the value to assign. The setter is nil if it is ambiguous.
func (c *checker) value(f *assignField) setter {
	given := 0
	for _, is := range []bool{f.Value != nil, f.FromMetadata != nil, f.ExternalData != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		c.add(assignPointer, errors.New("assign must set one of value, fromMetadata and externalData"))
		return nil
	}
	switch {
	case f.FromMetadata != nil:
		if !slices.Contains([]string{"namespace", "name"}, f.FromMetadata.Field) {
			c.add(assignPointer+"/fromMetadata/field", fmt.Errorf("field %q is neither namespace nor name", f.FromMetadata.Field))
		}
		return metadataSetter(f.FromMetadata.Field)
	case f.ExternalData != nil:
		return c.externalData(f.ExternalData)
	}
	value := numbers(f.Value)
	return &valueSetter{value, Weight(value)}
}

func (c *checker) externalData(e *externalData) setter {
	for _, f := range []struct {
		name, value string
		allowed     []string
	}{
		{"dataSource", e.DataSource, []string{"", "ValueAtLocation", "Username"}},
		{"failurePolicy", e.FailurePolicy, []string{"", "UseDefault", "Ignore", "Fail"}},
	} {
		if !slices.Contains(f.allowed, f.value) {
			c.add(assignPointer+"/externalData/"+f.name, fmt.Errorf("%s %q is not one that Gatekeeper has", f.name, f.value))
		}
	}
	if e.FailurePolicy == "UseDefault" && e.Default == "" {
		c.add(assignPointer+"/externalData", errors.New("default must not be empty where failurePolicy is UseDefault"))
	}
	return &externalSetter{e.Provider}
}

// A valueSetter sets a value that is the same for all objects.
type valueSetter struct {
	value  any
	weight int
}

func (v *valueSetter) setField(x *application, object map[string]any, field string) (bool, error) {
	if err := x.bounds.add(v.weight); err != nil {
		return false, err
	}
	return put(object, field, x.sharedCopy(v.value)), nil
}

func (v *valueSetter) element() map[string]any {
	object, _ := v.value.(map[string]any)
	return object
}

// A metadataSetter sets the name or the namespace of the object.
type metadataSetter string

func (m metadataSetter) setField(x *application, object map[string]any, field string) (bool, error) {
	return put(object, field, document.MetaText(x.object, string(m))), nil
}

func (metadataSetter) element() map[string]any { return nil }

// put sets a field and reports whether its value changed.
func put(object map[string]any, field string, value any) bool {
	old, was := object[field]
	object[field] = value
	return !was || !sameJSON(old, value)
}

// An externalSetter sets the response of an external data provider; offline it sets
// an external instead.
type externalSetter struct{ provider string }

// An external marks the place of a provider's response in an object.
type external struct {
	provider string
	was      any // the previous value
	had      bool
}

func (e *externalSetter) setField(_ *application, object map[string]any, field string) (bool, error) {
	old, had := object[field]
	switch was := old.(type) {
	case *external:
		old, had = was.was, was.had
	case string:
	default:
		if had {
			return false, fmt.Errorf("external data is to be assigned to %s, which must be a string", TypeName(old))
		}
	}
	object[field] = &external{e.provider, old, had}
	return true, nil
}

func (*externalSetter) element() map[string]any { return nil }
