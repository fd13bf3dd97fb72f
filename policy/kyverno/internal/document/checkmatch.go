package document

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/preadmit/preadmit/policy/internal/filters"
	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// blocks checks the match and exclude of a rule.
func (c checker) blocks(r *Rule) {
	x := field{r.Source, r.Pointer}
	c.block(r, r.Match, x.at("match"))
	if r.Exclude != nil {
		c.block(r, r.Exclude, x.at("exclude"))
	}
	c.namesKinds(r)
	switch match, exclude := x.at("match"), x.at("exclude"); {
	case !excludesAll(match, exclude):
	case len(match.at("any").list()) > 0 == (len(exclude.at("any").list()) > 0):
		c.add(exclude.pointer, "the rule excludes everything that it matches")
	default:
		c.add(exclude.pointer, "Kyverno refuses this exclude because only one of match and exclude has any: use any in both")
	}
}

func (c checker) block(r *Rule, m *Match, block field) {
	c.oneForm(block)
	checkMatch(m, block.pointer, c.faults)
	c.scope(m)
	c.noVariables(block, "a variable can't be used in "+lastKey(block.pointer))
	if c.Background {
		checkNoUser(m, c.faults)
	}
	for _, f := range m.Filters() {
		c.everyKind(r, f)
		c.subresources(r, f)
	}
}

// subresources refuses subresources in rules for background scans, which see none.
func (c checker) subresources(r *Rule, f *Filter) {
	if c.offline || !c.Background || r.Validate == nil {
		return
	}
	for i, k := range f.Kinds {
		if k.Subresource != "" || slices.Contains(subresourceKinds, k.Kind) {
			c.add(f.Pointer+"/resources/kinds/"+strconv.Itoa(i), "a background scan finds no subresources: set spec.background to false")
		}
	}
}

// subresourceKinds are built-in kinds of subresources only.
var subresourceKinds = []string{
	"Eviction", "NodeProxyOptions", "PodAttachOptions", "PodExecOptions", "PodPortForwardOptions", "PodProxyOptions", "Scale",
	"ServiceProxyOptions", "TokenRequest",
}

// oneForm refuses filters that are written in two ways at once.
func (c checker) oneForm(block field) {
	some, all := len(block.at("any").list()) > 0, len(block.at("all").list()) > 0
	if some && all {
		c.add(block.at("all").pointer, "any and all can't be used together")
	}
	if (some || all) && len(block.at("resources").keys()) > 0 {
		c.add(block.at("resources").pointer, "resources can't be used together with any or all: put them into a filter")
	}
}

// namesKinds refuses a match that names no kinds.
func (c checker) namesKinds(r *Rule) {
	filters := r.Match.Filters()
	if len(filters) == 0 {
		c.add(r.Pointer+"/match", "match names no resources")
	}
	for _, f := range filters {
		switch {
		case !f.NamesObjects():
			c.add(f.Pointer, "match names only users: it must also name resources")
		case len(f.Kinds) == 0:
			c.add(f.Pointer+"/resources", "match names no kinds")
		}
	}
}

// checkMatch checks each filter alone.
func checkMatch(m *Match, pointer string, f *faults) {
	if len(m.Any) > 0 && len(m.All) > 0 {
		f.add(pointer+"/all", "any and all can't be used together")
	}
	for _, x := range m.Filters() {
		x.check(f)
	}
}

func (f *Filter) check(into *faults) {
	resources := f.Pointer + "/resources"
	if f.both {
		into.add(f.Pointer+"/resources/name", "name and names can't be used together")
	}
	if s := f.Selector; s != nil && !s.hasWildcard() {
		switch err := s.invalid(); {
		case err != nil:
			into.add(resources+"/selector", "%s", err)
		case len(s.MatchLabels)+len(s.MatchExpressions) == 0:
			into.add(resources+"/selector", "a selector names labels")
		}
	}
	for i, s := range f.Subjects {
		at := f.Pointer + "/subjects/" + strconv.Itoa(i)
		if s.Kind != "User" && s.Kind != "Group" && s.Kind != "ServiceAccount" {
			into.add(at+"/kind", "a subject is a User, a Group or a ServiceAccount")
		}
		if s.Name == "" {
			into.add(at+"/name", "a subject has a name")
		}
		if s.Kind == "ServiceAccount" && s.Namespace == "" {
			into.add(at+"/namespace", "a ServiceAccount has a namespace")
		}
	}
	for i, role := range f.Roles {
		if strings.Count(role, ":") != 1 {
			into.add(f.Pointer+"/roles/"+strconv.Itoa(i), "a role is namespace:name")
		}
	}
}

func (s *Selector) hasWildcard() bool {
	for k, v := range s.MatchLabels {
		if pattern.HasWildcard(k) || pattern.HasWildcard(v) {
			return true
		}
	}
	return false
}

// invalid returns the API server's error about the selector.
func (s *Selector) invalid() error {
	l := &metav1.LabelSelector{MatchLabels: s.MatchLabels}
	for _, r := range s.MatchExpressions {
		op := metav1.LabelSelectorOperator(r.Operator)
		l.MatchExpressions = append(l.MatchExpressions, metav1.LabelSelectorRequirement{Key: r.Key, Operator: op, Values: r.Values})
	}
	_, err := metav1.LabelSelectorAsSelector(l)
	return err
}

// checkNoUser refuses users in rules for background scans, which have no user.
func checkNoUser(m *Match, f *faults) {
	for _, x := range m.Filters() {
		key := ""
		switch {
		case len(x.Roles) > 0:
			key = "roles"
		case len(x.ClusterRoles) > 0:
			key = "clusterRoles"
		case len(x.Subjects) > 0:
			key = "subjects"
		default:
			continue
		}
		f.add(child(x.Pointer, key), "%s name users, whom background scans do not know: set spec.background to false", key)
	}
}

// scope refuses namespaces and cluster-scoped kinds in a Policy, which is namespaced.
func (c checker) scope(m *Match) {
	if !c.isNamespaced() {
		return
	}
	for _, f := range m.Filters() {
		if len(f.Namespaces) > 0 {
			c.add(f.Pointer+"/resources/namespaces", "a Policy has one namespace, its own: use a ClusterPolicy")
		}
		for i, k := range f.Kinds {
			if !c.offline && slices.Contains(clusterKinds, k.Kind) && (k.Group == "*" || builtIn(k.Group+"/")) {
				c.add(f.Pointer+"/resources/kinds/"+strconv.Itoa(i), "%s is cluster-scoped: use a ClusterPolicy", k.Kind)
			}
		}
	}
}

// everyKind checks a filter that names every kind by a lone "*".
func (c checker) everyKind(r *Rule, f *Filter) {
	i := slices.Index(f.Kinds, filters.ParseKindSelector("*"))
	if i < 0 {
		return
	}
	at := f.Pointer + "/resources/kinds/" + strconv.Itoa(i)
	switch {
	case c.Background:
		c.add(at, "a background scan can't look at every kind: set spec.background to false")
	case len(f.Kinds) > 1:
		c.add(at, "* is listed beside other kinds")
	case r.Generate != nil || len(r.VerifyImages) > 0 || r.Validate != nil && len(r.Validate.Foreach) > 0:
		c.add(at, "a rule for every kind can't have generate, verifyImages or foreach")
	case r.beyondMetadata() || r.deniesBeyondMetadata():
		c.add(at, "a rule for every kind may read only metadata")
	}
}

// beyondMetadata reports whether patterns or patches of the rule concern more than
// metadata.
func (r *Rule) beyondMetadata() bool {
	var all []any
	if v := r.Validate; v != nil {
		all = append(v.AnyPattern, v.Pattern)
	}
	if m := r.Mutate; m != nil {
		if patches, err := readPatches(m.JSON6902); err == nil && slices.ContainsFunc(patches, patch.beyondMetadata) {
			return true
		}
		all = append(all, m.StrategicMerge)
	}
	for _, v := range all {
		m, _ := v.(map[string]any)
		for key := range m {
			if key != "metadata" {
				return true
			}
		}
	}
	return false
}

// ofRequest matches variables that exist for objects of every kind.
var ofRequest = regexp.MustCompile(`\{\{\s*(request\.|serviceAccountName|serviceAccountNamespace)[^{}]*\}\}`)

// deniesBeyondMetadata is beyondMetadata for conditions in the form of a list, as far
// as Kyverno checks them.
func (r *Rule) deniesBeyondMetadata() bool {
	for _, x := range (field{value: r.Source}).at("validate", "deny", "conditions").list() {
		key := x.text("key")
		if x.at("any").isSet() || x.at("all").isSet() || strings.Contains(key, "request.object.metadata.") {
			continue
		}
		if !ofRequest.MatchString(key) || strings.Contains(key, "request.object.spec") {
			return true
		}
	}
	return false
}

// maxPairs bounds the pairs of filters of match and exclude that are compared.
const maxPairs = 100_000

// excludesAll reports whether Kyverno refuses the rule because exclude obviously
// excludes all that match selects. If only one of them has any, Kyverno compares the
// fields beside any, which may all be missing.
func excludesAll(match, exclude field) bool {
	some, others := match.at("any").list(), exclude.at("any").list()
	switch {
	case len(match.at("all").list())+len(exclude.at("all").list()) > 0:
		return false
	case len(some) > 0 && len(others) > 0:
		return len(some)*len(others) <= maxPairs && slices.ContainsFunc(some, func(a field) bool {
			return slices.ContainsFunc(others, func(b field) bool { return reflect.DeepEqual(a.value, b.value) })
		})
	}
	return !exclude.isBlank() && covers(exclude, match)
}

// isBlank reports whether a match or exclude block has no fields.
func (f field) isBlank() bool {
	resources := f.at("resources")
	return len(resources.keys()) == 0 && (len(f.keys()) == 0 || len(f.keys()) == 1 && resources.isSet())
}

// covers reports whether exclude selects all that match selects, as far as Kyverno
// compares the fields beside any and all: each list is contained, or empty.
func covers(exclude, match field) bool {
	f, other := filter(exclude), filter(match)
	if !coversList(f.Roles, other.Roles) || !coversList(f.ClusterRoles, other.ClusterRoles) || !coversList(f.Subjects, other.Subjects) {
		return false
	}
	exclude, match = exclude.at("resources"), match.at("resources")
	if name := exclude.text("name"); name != "" && !pattern.Wildcard(name, match.text("name")) {
		return false
	}
	if names := exclude.texts("names"); len(names) > 0 {
		return slices.ContainsFunc(match.texts("names"), func(name string) bool { return pattern.AnyWildcard(names, name) })
	}
	return coversList(f.Namespaces, other.Namespaces) && coversList(f.Kinds, other.Kinds) &&
		f.Selector.covers(other.Selector) && f.NamespaceSelector.covers(other.NamespaceSelector) &&
		reflect.DeepEqual(f.Annotations, other.Annotations)
}

func (s *Selector) covers(other *Selector) bool {
	if s == nil || other == nil {
		return s == other
	}
	for key, value := range other.MatchLabels {
		if len(s.MatchLabels) > 0 && s.MatchLabels[key] != value {
			return false
		}
	}
	for _, x := range other.MatchExpressions {
		if len(s.MatchExpressions) > 0 && !slices.ContainsFunc(s.MatchExpressions, func(y SelectorRequirement) bool { return reflect.DeepEqual(x, y) }) {
			return false
		}
	}
	return (len(s.MatchLabels) == 0 || len(other.MatchLabels) > 0) && (len(s.MatchExpressions) == 0 || len(other.MatchExpressions) > 0)
}

func coversList[T comparable](list, other []T) bool {
	if len(list) == 0 {
		return true
	}
	return len(other) > 0 && !slices.ContainsFunc(other, func(x T) bool { return !slices.Contains(list, x) })
}
