package document

import (
	"encoding/json"
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

// A Match is the match block of a constraint, mutator or expansion template,
// which selects objects. A nil *Match selects all. It is read-only
// (gatekeeper/v3/pkg/mutation/match).
type Match struct {
	block      matchBlock
	labels     labels.Selector // nil: all
	namespaces labels.Selector
}

// A matchBlock is a match as it is written.
type matchBlock struct {
	Source             Source                `json:"source,omitempty"`
	Kinds              []matchKinds          `json:"kinds,omitempty"`
	Scope              string                `json:"scope,omitempty"`
	Namespaces         []Wildcard            `json:"namespaces,omitempty"`
	ExcludedNamespaces []Wildcard            `json:"excludedNamespaces,omitempty"`
	LabelSelector      *metav1.LabelSelector `json:"labelSelector,omitempty"`
	NamespaceSelector  *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	Name               Wildcard              `json:"name,omitempty"`
}

type matchKinds struct {
	APIGroups []string `json:"apiGroups,omitempty"`
	Kinds     []string `json:"kinds,omitempty"`
}

// A Source is the creator of an object: a request or an expansion template.
type Source string

// The sources.
const (
	SourceAll       Source = "All"
	SourceOriginal  Source = "Original"
	SourceGenerated Source = "Generated"
)

// A Matchable is an object as match blocks see it.
type Matchable struct {
	Object    map[string]any
	Namespace *Namespace // the object's, or nil
	Source    Source
	// Written marks objects that are used as written, for gator. An object
	// without namespace is then in none, and if its Namespace is not given,
	// gator can't evaluate a namespaceSelector.
	Written bool
}

// A Namespace holds the known facts about a Namespace.
type Namespace struct {
	Name   string
	Labels map[string]string // with kubernetes.io/metadata.name
	Known  bool              // Labels is complete
	Object *render.Object    // nil if unknown
}

// NewMatch reads the match block at a pointer of o; value is nil if there is none. It
// returns nil then, and if an error is more than a warning. Errors are *render.Error.
func NewMatch(o *render.Object, pointer string, value any) (*Match, []error) {
	if value == nil {
		return nil, nil
	}
	if _, ok := value.(map[string]any); !ok {
		return nil, []error{policy.ErrorAt(o, pointer, "match", errors.New("match must be an object"))}
	}
	m := &Match{}
	errs := Decode(o, pointer, value, &m.block, "match")
	if Broken(errs) {
		return nil, errs
	}
	if errs = append(errs, m.block.check(o, pointer)...); Broken(errs) {
		return nil, errs
	}
	m.labels, _ = SelectorOf(m.block.LabelSelector)
	m.namespaces, _ = SelectorOf(m.block.NamespaceSelector)
	return m, errs
}

// SelectorOf returns nil if there is no selector, which selects everything.
func SelectorOf(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return nil, nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// WildcardPattern is the pattern for names with wildcards in Gatekeeper's CRDs.
var WildcardPattern = regexp.MustCompile(`^\*?[-:a-z0-9]*\*?$`)

// check returns an error for each field, of the match block at a pointer of o, that the
// API server or Gatekeeper would refuse.
func (m *matchBlock) check(o *render.Object, pointer string) (errs []error) {
	add := func(field string, err error) { errs = append(errs, policy.ErrorAt(o, pointer+field, "match", err)) }
	named := func(pointer string, w Wildcard) {
		if !WildcardPattern.MatchString(string(w)) {
			add(pointer, fmt.Errorf("%q is not a name; it may begin or end with *", w))
		}
	}
	for i, w := range m.Namespaces {
		named(render.Pointer("namespaces", i), w)
	}
	for i, w := range m.ExcludedNamespaces {
		named(render.Pointer("excludedNamespaces", i), w)
	}
	named("/name", m.Name)
	if !slices.Contains([]Source{"", SourceAll, SourceGenerated, SourceOriginal}, m.Source) {
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
	return errs
}

// Concerns reports whether the match selects any objects of a kind.
func (m *Match) Concerns(kind schema.GroupKind) bool {
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

// Matches reports whether an object matches. The error is a *cel.Undecided if that
// depends on the labels of an unknown namespace, and otherwise Gatekeeper's own.
func (m *Match) Matches(x *Matchable) (bool, error) {
	if m == nil {
		return true, nil
	}
	b := &m.block
	switch {
	case !m.Concerns(GroupKindOf(x.Object)),
		!inScope(b.Scope, x),
		len(b.Namespaces) > 0 && !x.inAny(b.Namespaces, true),
		x.inAny(b.ExcludedNamespaces, false),
		m.labels != nil && !m.labels.Matches(labels.Set(LabelsOf(x.Object))):
		return false, nil
	}
	selected, err := m.selectsNamespace(x)
	if !selected && err == nil || err != nil && x.Written {
		return false, err
	}
	if !b.Name.Matches(MetaText(x.Object, "name")) && !b.Name.generates(MetaText(x.Object, "generateName")) && b.Name != "" {
		return false, nil
	}
	if matched, wrong := b.Source.matches(x); !matched || wrong != nil {
		return false, wrong
	}
	return err == nil, err
}

func inScope(scope string, x *Matchable) bool {
	_, namespaced := x.in()
	namespaced = namespaced && !IsNamespace(x.Object)
	switch scope {
	case "Cluster":
		return !namespaced
	case "Namespaced":
		return namespaced
	}
	return true // invalid scopes are ignored
}

// in returns the object's namespace, or for a Namespace its name. It returns false for
// other cluster-scoped objects. A namespace without a name is one, since gator puts
// objects without a namespace there.
func (m *Matchable) in() (name string, ok bool) {
	switch {
	case IsNamespace(m.Object):
		return MetaText(m.Object, "name"), true
	case m.Namespace != nil:
		return m.Namespace.Name, true
	}
	name = MetaText(m.Object, "namespace")
	return name, name != ""
}

// inAny reports whether the object is in one of the namespaces. It returns
// otherwise for an object that is in none.
func (m *Matchable) inAny(list []Wildcard, otherwise bool) bool {
	name, ok := m.in()
	if !ok {
		return otherwise
	}
	return slices.ContainsFunc(list, func(w Wildcard) bool { return w.Matches(name) })
}

// selectsNamespace reports whether the namespaceSelector holds. It holds for
// cluster-scoped objects.
func (m *Match) selectsNamespace(x *Matchable) (bool, error) {
	name, ok := x.in()
	switch {
	case m.namespaces == nil:
		return true, nil
	case IsNamespace(x.Object):
		return m.namespaces.Matches(labels.Set(LabelsOf(x.Object))), nil
	case !ok:
		return true, nil
	case x.Namespace != nil && x.Namespace.Known:
		return m.namespaces.Matches(labels.Set(x.Namespace.Labels)), nil
	case x.Written:
		return false, errors.New("failed to run Match criteria: namespace selector for namespace-scoped object but missing Namespace")
	}
	return selectsByName(m.namespaces, name)
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
func (s Source) matches(x *Matchable) (bool, error) {
	switch {
	case s == "" || s == SourceAll:
		return true, nil
	case x.Source == "":
		return false, fmt.Errorf("failed to run Match criteria: source field not specified for resource %s", MetaText(x.Object, "name"))
	}
	return s == x.Source, nil
}

// A MatchPart is a match with only one of its fields.
type MatchPart struct {
	Name, Text string
	Only       *Match
}

// Parts returns the fields of a match that are set.
func (m *Match) Parts() []MatchPart {
	if m == nil {
		return nil
	}
	b := &m.block
	var all []MatchPart
	add := func(name string, value any, set bool, only Match) {
		if set {
			text, _ := json.Marshal(value)
			if name == "kinds" {
				text = []byte(kindWords(b.Kinds))
			}
			all = append(all, MatchPart{name, string(text), &only})
		}
	}
	add("kinds", b.Kinds, len(b.Kinds) > 0, Match{block: matchBlock{Kinds: b.Kinds}})
	add("scope", b.Scope, b.Scope != "", Match{block: matchBlock{Scope: b.Scope}})
	add("namespaces", b.Namespaces, len(b.Namespaces) > 0, Match{block: matchBlock{Namespaces: b.Namespaces}})
	add("excludedNamespaces", b.ExcludedNamespaces, len(b.ExcludedNamespaces) > 0, Match{block: matchBlock{ExcludedNamespaces: b.ExcludedNamespaces}})
	add("labelSelector", b.LabelSelector, m.labels != nil, Match{labels: m.labels})
	add("namespaceSelector", b.NamespaceSelector, m.namespaces != nil, Match{namespaces: m.namespaces})
	add("name", b.Name, b.Name != "", Match{block: matchBlock{Name: b.Name}})
	add("source", b.Source, b.Source != "", Match{block: matchBlock{Source: b.Source}})
	return all
}

// kindWords describes kinds in words: "Pod, Service, or Job in batch".
func kindWords(kinds []matchKinds) string {
	var texts []string
	for _, k := range kinds {
		text := strings.Join(k.Kinds, ", ")
		groups := strings.Join(slices.DeleteFunc(slices.Clone(k.APIGroups), func(g string) bool { return g == "" }), ", ")
		if len(k.Kinds) == 0 || slices.Contains(k.Kinds, "*") {
			text = "any kind"
		}
		switch {
		case len(k.APIGroups) == 0 || slices.Contains(k.APIGroups, "*"):
		case groups == "" && text == "any kind":
			text += " in the core group"
		case groups != "":
			text += " in " + groups
			if slices.Contains(k.APIGroups, "") {
				text += " or the core group"
			}
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", or ")
}

// A Wildcard is a name that may begin or end with *, which matches any text
// (gatekeeper/v3/pkg/wildcard).
type Wildcard string

// Matches reports whether a name matches.
func (w Wildcard) Matches(name string) bool {
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
func (w Wildcard) generates(generateName string) bool {
	return strings.HasSuffix(string(w), "*") && w.Matches(generateName)
}

// IsNamespace reports whether an object is a Namespace.
func IsNamespace(object map[string]any) bool {
	return object["kind"] == "Namespace" && object["apiVersion"] == "v1"
}

// GroupKindOf returns the group and kind of an object.
func GroupKindOf(object map[string]any) schema.GroupKind {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		group = ""
	}
	return schema.GroupKind{Group: group, Kind: kind}
}

// MetaText returns a text of an object's metadata; "" if it has none.
func MetaText(object map[string]any, field string) string {
	meta, _ := object["metadata"].(map[string]any)
	s, _ := meta[field].(string)
	return s
}

// LabelsOf returns an object's labels as Gatekeeper reads them: null is an
// empty string, and if any label is another type there are no labels.
func LabelsOf(object map[string]any) map[string]string {
	if set := (&unstructured.Unstructured{Object: object}).GetLabels(); set != nil {
		return set
	}
	return map[string]string{}
}
