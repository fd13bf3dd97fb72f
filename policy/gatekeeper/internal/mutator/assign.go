package mutator

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

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

// assignImage reads an AssignImage, which sets parts of the name of an image
// (gatekeeper/v3/pkg/mutation/mutators/assignimage).
func (c *checker) assignImage(m *Mutator) {
	var p struct {
		PathTests    []pathTest `json:"pathTests,omitempty"`
		AssignDomain string     `json:"assignDomain,omitempty"`
		AssignPath   string     `json:"assignPath,omitempty"`
		AssignTag    string     `json:"assignTag,omitempty"`
	}
	spec, ok := c.spec(m, &p)
	if !ok {
		return
	}
	c.kinds(m, spec.ApplyTo)
	c.notMetadata(m)
	c.notKey(m)
	if m.location.last().list {
		c.add("/spec/location", errors.New("location ends with elements of a list: it must be that of an image"))
	}
	m.tests = c.newPathTests(m.location, p.PathTests)
	image := imageSetter{p.AssignDomain, p.AssignPath, p.AssignTag}
	c.image(image)
	m.set, m.terminal, m.terminates = image, shapeString, true
}

// Patterns of the parts of an image name. Gatekeeper checks them so that
// applying a mutator twice gives the same name as applying it once.
var (
	imageDomain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\w[\w-]*\.[\w.-]*\w|localhost)(:\d+)?$`) })
	imagePath   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]+((\.|_|/|__|-*)[a-z0-9]+)*$`) })
	imageTag    = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(:\w[\w.-]{0,127}|@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,})$`)
	})
)

func (c *checker) image(s imageSetter) {
	if s == (imageSetter{}) {
		c.add("/spec/parameters", errors.New("one of assignDomain, assignPath and assignTag must be set"))
	}
	if s.domain != "" && !imageDomain().MatchString(s.domain) {
		c.add("/spec/parameters/assignDomain", fmt.Errorf("assignDomain %q must be a fully-qualified domain name or localhost", s.domain))
	}
	if s.path != "" && !imagePath().MatchString(s.path) {
		c.add("/spec/parameters/assignPath", fmt.Errorf("assignPath %q must be the path of an image", s.path))
	}
	if s.tag != "" && !imageTag().MatchString(s.tag) {
		c.add("/spec/parameters/assignTag", fmt.Errorf("assignTag %q must be a tag or a digest, with the ':' or '@' before it", s.tag))
	}
	if domain, _ := splitDomain(s.path); s.domain == "" && domain != "" {
		c.add("/spec/parameters/assignPath", fmt.Errorf("assignPath %q begins with a possible domain, so assignDomain must be set", s.path))
	}
}

// An imageSetter sets the parts of an image's name that are not empty.
type imageSetter struct{ domain, path, tag string }

func (imageSetter) element() map[string]any { return nil }

func (i imageSetter) setField(_ *application, object map[string]any, field string) (bool, error) {
	image, ok := object[field].(string)
	if old, was := object[field]; was && !ok {
		return false, fmt.Errorf("it is %s, and should be the name of an image", TypeName(old))
	}
	return put(object, field, i.apply(image)), nil
}

func (i imageSetter) apply(image string) string {
	domain, rest := splitDomain(image)
	path, tag := rest, ""
	if at := strings.IndexAny(rest, ":@"); at >= 0 {
		path, tag = rest[:at], rest[at:]
	}
	if i.domain != "" {
		domain = i.domain
	}
	if i.path != "" {
		path = i.path
	}
	if i.tag != "" {
		tag = i.tag
	}
	if domain != "" {
		domain += "/"
	}
	return domain + path + tag
}

// splitDomain splits the domain off an image name, if the text before the first
// slash can be one.
func splitDomain(image string) (domain, rest string) {
	before, after, found := strings.Cut(image, "/")
	if !found || before != "localhost" && !strings.ContainsAny(before, ".:") {
		return "", image
	}
	return before, after
}

// modifySet reads a ModifySet, which adds values to a list or removes them.
func (c *checker) modifySet(m *Mutator) {
	var p struct {
		PathTests []pathTest `json:"pathTests,omitempty"`
		Operation string     `json:"operation,omitempty"`
		Values    struct {
			FromList []any `json:"fromList,omitempty"`
		} `json:"values,omitempty"`
	}
	spec, ok := c.spec(m, &p)
	if !ok {
		return
	}
	c.kinds(m, spec.ApplyTo)
	c.notMetadata(m)
	if m.location.last().list {
		c.add("/spec/location", errors.New("location ends with elements of a list: it must be that of a list of values"))
	}
	m.tests = c.newPathTests(m.location, p.PathTests)
	if !slices.Contains([]string{"", "merge", "prune"}, p.Operation) {
		c.add("/spec/parameters/operation", fmt.Errorf("operation %q is neither merge nor prune", p.Operation))
	}
	m.terminal = shapeSet
	m.set = newSetSetter(p.Values.FromList, p.Operation == "prune")
}

// A setSetter adds missing values to a list, or removes values from it.
type setSetter struct {
	values setValues
	gator  setValues // the same, as gator reads them
	prune  bool
}

type setValues struct {
	all     []any
	keys    []string // comparison keys of values
	weights []int
	has     map[string]bool // by key
}

func newSetSetter(values []any, prune bool) *setSetter {
	floats, _ := numbers(values).([]any)
	return &setSetter{newSetValues(values), newSetValues(floats), prune}
}

func newSetValues(values []any) setValues {
	s := setValues{all: values, has: map[string]bool{}}
	for _, v := range values {
		key := exactKey(v)
		s.keys = append(s.keys, key)
		s.weights = append(s.weights, Weight(v))
		s.has[key] = true
	}
	return s
}

func (*setSetter) element() map[string]any { return nil }

func (s *setSetter) setField(x *application, object map[string]any, field string) (bool, error) {
	values := &s.values
	if x.written {
		values = &s.gator
	}
	old, was := object[field]
	list, ok := old.([]any)
	if err := x.bounds.step(len(list) + len(values.all)); err != nil {
		return false, err
	}
	switch {
	case !was && s.prune:
		return false, nil
	case !was:
		return true, values.fill(x, object, field)
	case !ok:
		return false, fmt.Errorf("it is %s, which can't be treated as a set", TypeName(old))
	case s.prune:
		rest := slices.DeleteFunc(slices.Clone(list), func(v any) bool { return values.has[exactKey(v)] })
		object[field] = rest
		return len(rest) < len(list), nil
	}
	return values.merge(x, object, field, list)
}

// fill creates the list with all values, including duplicates.
func (s *setValues) fill(x *application, object map[string]any, field string) error {
	for _, w := range s.weights {
		if err := x.bounds.add(w); err != nil {
			return err
		}
	}
	object[field] = render.Copy(append([]any{}, s.all...))
	return nil
}

func (s *setValues) merge(x *application, object map[string]any, field string, list []any) (bool, error) {
	has := make(map[string]bool, len(list)+len(s.all))
	for _, v := range list {
		has[exactKey(v)] = true
	}
	merged := slices.Clip(list)
	for i, v := range s.all {
		if has[s.keys[i]] {
			continue
		}
		if err := x.bounds.add(s.weights[i]); err != nil {
			return false, err
		}
		has[s.keys[i]] = true
		merged = append(merged, render.Copy(v))
	}
	object[field] = merged
	return len(merged) > len(list), nil
}
