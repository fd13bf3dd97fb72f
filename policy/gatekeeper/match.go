package gatekeeper

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// A match is the match block of a constraint, mutator or expansion template,
// which selects objects. A nil *match selects all. It is read-only
// (gatekeeper/v3/pkg/mutation/match).
type match struct {
	block      matchBlock
	labels     labels.Selector // nil: all
	namespaces labels.Selector
}

// A matchBlock is a match as it is written.
type matchBlock struct {
	Source             source                `json:"source,omitempty"`
	Kinds              []matchKinds          `json:"kinds,omitempty"`
	Scope              string                `json:"scope,omitempty"`
	Namespaces         []wildcard            `json:"namespaces,omitempty"`
	ExcludedNamespaces []wildcard            `json:"excludedNamespaces,omitempty"`
	LabelSelector      *metav1.LabelSelector `json:"labelSelector,omitempty"`
	NamespaceSelector  *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	Name               wildcard              `json:"name,omitempty"`
}

type matchKinds struct {
	APIGroups []string `json:"apiGroups,omitempty"`
	Kinds     []string `json:"kinds,omitempty"`
}

// A source says whether a request or an expansion template created an object.
type source string

// The sources.
const (
	sourceAll       source = "All"
	sourceOriginal  source = "Original"
	sourceGenerated source = "Generated"
)

// A matchable is an object as match blocks see it.
type matchable struct {
	object    map[string]any
	namespace *namespace // that the object is in, or nil
	source    source
	// written marks objects that are used as written, for gator. An object
	// without namespace is then in none, and if its Namespace is not given,
	// gator can't evaluate a namespaceSelector.
	written bool
}

// A namespace holds the known facts of one.
type namespace struct {
	name   string
	labels map[string]string // with kubernetes.io/metadata.name
	known  bool              // the labels are all there are
	object *render.Object    // nil where it is not known
}

// newMatch reads the match block at a pointer of o; value is nil where there
// is none. It is nil then, and where the errors are more than warnings. These
// are *render.Error.
func newMatch(o *render.Object, pointer string, value any) (*match, []error) {
	if value == nil {
		return nil, nil
	}
	if _, ok := value.(map[string]any); !ok {
		return nil, []error{policy.ErrorAt(o, pointer, "match", errors.New("match must be an object"))}
	}
	m := &match{}
	errs := decode(o, pointer, value, &m.block, "match")
	if broken(errs) {
		return nil, errs
	}
	for _, f := range m.block.faults() {
		errs = append(errs, policy.ErrorAt(o, pointer+f.pointer, "match", f.err))
	}
	if broken(errs) {
		return nil, errs
	}
	m.labels, _ = selectorOf(m.block.LabelSelector)
	m.namespaces, _ = selectorOf(m.block.NamespaceSelector)
	return m, errs
}

// selectorOf returns nil if there is no selector, which selects everything.
func selectorOf(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return nil, nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// A fault is an error about a field.
type fault struct {
	pointer string
	err     error
}

// wildcardPattern is the pattern for names with wildcards in Gatekeeper's CRDs.
var wildcardPattern = regexp.MustCompile(`^\*?[-:a-z0-9]*\*?$`)

// faults returns the fields of a match that the API server or Gatekeeper would refuse.
func (m *matchBlock) faults() []fault {
	var fs []fault
	add := func(pointer string, err error) { fs = append(fs, fault{pointer, err}) }
	named := func(pointer string, w wildcard) {
		if !wildcardPattern.MatchString(string(w)) {
			add(pointer, fmt.Errorf("%q is no name, with a * at its front or end at most", w))
		}
	}
	for i, w := range m.Namespaces {
		named(render.Pointer("namespaces", i), w)
	}
	for i, w := range m.ExcludedNamespaces {
		named(render.Pointer("excludedNamespaces", i), w)
	}
	named("/name", m.Name)
	if !slices.Contains([]source{"", sourceAll, sourceGenerated, sourceOriginal}, m.Source) {
		add("/source", fmt.Errorf("source %q is none of All, Generated and Original", m.Source))
	}
	for _, s := range []struct {
		name     string
		selector *metav1.LabelSelector
	}{{"labelSelector", m.LabelSelector}, {"namespaceSelector", m.NamespaceSelector}} {
		path := field.NewPath(s.name)
		for _, err := range validation.ValidateLabelSelector(s.selector, validation.LabelSelectorValidationOptions{}, path) {
			add(render.FieldPointer(err.Field), errors.New(err.ErrorBody()))
		}
	}
	return fs
}

// concerns reports whether the match is about objects of a kind at all.
func (m *match) concerns(kind schema.GroupKind) bool {
	if m == nil || len(m.block.Kinds) == 0 {
		return true
	}
	return slices.ContainsFunc(m.block.Kinds, func(k matchKinds) bool {
		return listed(k.Kinds, kind.Kind) && listed(k.APIGroups, kind.Group)
	})
}

// listed reports whether a list contains s. An empty list contains everything.
func listed(list []string, s string) bool {
	return len(list) == 0 || slices.Contains(list, "*") || slices.Contains(list, s)
}

// matches reports whether an object matches. The error is a *cel.Undecided if that
// depends on the labels of an unknown namespace, and otherwise Gatekeeper's own.
func (m *match) matches(x *matchable) (bool, error) {
	if m == nil {
		return true, nil
	}
	b := &m.block
	switch {
	case !m.concerns(groupKindOf(x.object)),
		!inScope(b.Scope, x),
		len(b.Namespaces) > 0 && !x.inAny(b.Namespaces, true),
		x.inAny(b.ExcludedNamespaces, false),
		m.labels != nil && !m.labels.Matches(labels.Set(labelsOf(x.object))):
		return false, nil
	}
	selected, err := m.selectsNamespace(x)
	if !selected && err == nil || err != nil && x.written {
		return false, err
	}
	if !b.Name.matches(metaText(x.object, "name")) && !b.Name.generates(metaText(x.object, "generateName")) && b.Name != "" {
		return false, nil
	}
	if matched, wrong := b.Source.matches(x); !matched || wrong != nil {
		return false, wrong
	}
	return err == nil, err
}

func inScope(scope string, x *matchable) bool {
	namespaced := !isNamespace(x.object) && x.in() != ""
	switch scope {
	case "Cluster":
		return !namespaced
	case "Namespaced":
		return namespaced
	}
	return true // invalid scopes are ignored
}

// in returns the object's namespace, or for a Namespace its name. It is "" for
// other cluster-scoped objects.
func (m *matchable) in() string {
	switch {
	case isNamespace(m.object):
		return metaText(m.object, "name")
	case m.namespace != nil:
		return m.namespace.name
	}
	return metaText(m.object, "namespace")
}

// inAny reports whether the object is in one of the namespaces; otherwise is for
// objects in none.
func (m *matchable) inAny(list []wildcard, otherwise bool) bool {
	name := m.in()
	if name == "" && !isNamespace(m.object) {
		return otherwise
	}
	return slices.ContainsFunc(list, func(w wildcard) bool { return w.matches(name) })
}

// selectsNamespace reports whether the namespaceSelector holds. What is
// cluster-scoped is selected.
func (m *match) selectsNamespace(x *matchable) (bool, error) {
	switch {
	case m.namespaces == nil:
		return true, nil
	case isNamespace(x.object):
		return m.namespaces.Matches(labels.Set(labelsOf(x.object))), nil
	case x.in() == "":
		return true, nil
	case x.namespace != nil && x.namespace.known:
		return m.namespaces.Matches(labels.Set(x.namespace.labels)), nil
	case x.written:
		return false, errors.New("failed to run Match criteria: namespace selector for namespace-scoped object but missing Namespace")
	}
	return selectsByName(m.namespaces, x.in())
}

// selectsByName reports whether a selector selects a namespace. Only its name is known;
// the error is a *cel.Undecided if other labels decide.
func selectsByName(s labels.Selector, name string) (bool, error) {
	requirements, selectable := s.Requirements()
	if !selectable {
		return false, nil
	}
	var err error
	for _, r := range requirements {
		switch {
		case r.Key() != corev1.LabelMetadataName:
			err = &cel.Undecided{Question: fmt.Sprintf("labels of namespace %s are unknown: give the Namespace with --with", name)}
		case !r.Matches(labels.Set{corev1.LabelMetadataName: name}):
			return false, nil
		}
	}
	return err == nil, err
}

// matches reports whether a match with this source applies to the object. If the
// object's source is unknown, only a match for all sources does.
func (s source) matches(x *matchable) (bool, error) {
	switch {
	case s == "" || s == sourceAll:
		return true, nil
	case x.source == "":
		return false, fmt.Errorf("failed to run Match criteria: source field not specified for resource %s", metaText(x.object, "name"))
	}
	return s == x.source, nil
}

// A wildcard is a name that may begin or end with *, which matches any text
// (gatekeeper/v3/pkg/wildcard).
type wildcard string

func (w wildcard) matches(name string) bool {
	rest, front := strings.CutPrefix(string(w), "*")
	if w == "*" {
		return true
	}
	rest, end := strings.CutSuffix(rest, "*")
	switch {
	case front && end:
		return strings.Contains(name, rest)
	case front:
		return strings.HasSuffix(name, rest)
	case end:
		return strings.HasPrefix(name, rest)
	}
	return name == rest
}

// generates reports whether every name generated from a generateName matches.
func (w wildcard) generates(generateName string) bool {
	return strings.HasSuffix(string(w), "*") && w.matches(generateName)
}

func isNamespace(object map[string]any) bool {
	return object["kind"] == "Namespace" && object["apiVersion"] == "v1"
}

func groupKindOf(object map[string]any) schema.GroupKind {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		group = ""
	}
	return schema.GroupKind{Group: group, Kind: kind}
}

func metaText(object map[string]any, field string) string {
	meta, _ := object["metadata"].(map[string]any)
	s, _ := meta[field].(string)
	return s
}

// labelsOf returns an object's labels as Gatekeeper reads them: null is an
// empty string, and if any label is another type there are no labels.
func labelsOf(object map[string]any) map[string]string {
	if set := (&unstructured.Unstructured{Object: object}).GetLabels(); set != nil {
		return set
	}
	return map[string]string{}
}
