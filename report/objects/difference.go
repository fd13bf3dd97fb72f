// Package objects writes objects for people.
//
// [Changes] takes the requests that a change makes, and returns which objects it creates,
// updates and deletes, with a diff of each that leaves out what is [Ignored]. [Lines] takes one object, and returns the lines
// of its YAML with the place of each.
package objects

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// How much of a change is shown.
const (
	maxShownDiff = 60  // lines of an object
	maxDiffs     = 500 // of a run
	maxTaken     = 8   // kinds that a deletion deletes with the object
	leastHidden  = 8   // bytes of a Secret's value that is looked for elsewhere
)

// Sides holds the units of the two states of a repository that are compared.
type Sides struct {
	Base, Head         []*render.Unit
	BaseFile, HeadFile func(name string) string // names of files in reports
	Half               func(unit string) bool   // one side could not render it whole
	Resumed            func(unit string) bool   // only the head has a deployer that can apply it
	Uncertain          map[*render.Object]bool  // it is unknown whether they are on the cluster
	Ignore             []Ignored                // fields whose changes are not shown

	// Dropped are objects that move, each with that of the base, which its old deployer perhaps deletes.
	Dropped map[*render.Object]*render.Object
}

// Changes returns the changes that requests make to the cluster. Units that one
// side could not render completely are left out, because their changes are
// unknown, and so are units that nothing deploys. Values of Secrets are
// covered, also in other objects. notes are about changes that could not be left out.
func Changes(reqs []policy.Request, s Sides) (changes []report.Change, notes []string) {
	d := newChangeDiffs(s)
	changes = []report.Change{}
	for i := range reqs {
		r := &reqs[i]
		if r.Run == policy.OtherRun || r.Instead != nil && r.Unchanged() || r.Recreated && r.Operation == policy.Delete || s.LeavesOut(r) {
			continue
		}
		recreated := r.Recreated && r.Instead.GetName() == r.Object.GetName()
		if r.Recreated { // a reader gets one change for both requests
			both := *r
			both.Operation, both.OldObject = policy.Update, r.Instead
			r = &both
		}
		c := report.Change{Operation: r.Operation, Object: d.ids.Key(r.Subject()), Recreated: recreated, Uncertain: s.Uncertain[r.Subject()]}
		if old := s.Dropped[r.Object]; old != nil {
			from := d.ids.Key(old)
			c.Dropped, c.From = true, &from
			c.Takes = d.taken(old)
		}
		if u := r.Subject().Unit; u != nil {
			c.Cluster = u.Cluster
		}
		if r.Operation == policy.Update {
			if from := d.ids.Key(r.OldObject); from != c.Object {
				c.From = &from
			}
			if r.Unchanged() {
				if c.From == nil {
					continue
				}
				c.Unchanged = true
			}
		}
		d.describe(&c, r)
		changes = append(changes, c)
	}
	return changes, slices.Sorted(maps.Keys(d.notes))
}

// LeavesOut reports whether a request is about a unit that nothing deploys, or
// creates or moves an object that one side could not render.
func (s Sides) LeavesOut(r *policy.Request) bool {
	o := r.Subject()
	switch {
	case o.Unit != nil && o.Unit.State == render.Unreached:
		return true
	case r.Operation == policy.Create:
		return s.Half(o.Key().Unit) && !s.Resumed(o.Key().Unit)
	case r.Operation == policy.Update:
		from := r.OldObject.Key().Unit
		return from != o.Key().Unit && s.Half(from)
	}
	return false
}

// changeDiffs builds the diffs of objects.
type changeDiffs struct {
	sides   Sides
	ids     policy.Identities
	secrets *strings.Replacer
	left    int // how many diffs there is room for
	notes   map[string]bool
}

func newChangeDiffs(s Sides) *changeDiffs {
	hidden := make(map[string]bool)
	for _, o := range render.Objects(slices.Concat(s.Base, s.Head)) {
		if o.GetKind() == "Secret" && o.GroupVersionKind().Group == "" {
			secretValues(o, hidden)
		}
	}
	values := slices.SortedFunc(maps.Keys(hidden), func(a, b string) int { // longest first
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	var pairs []string
	for _, v := range values {
		pairs = append(pairs, v, "…")
	}
	ids := policy.NewIdentities(render.Objects(s.Base), render.Objects(s.Head))
	return &changeDiffs{sides: s, ids: ids, secrets: strings.NewReplacer(pairs...), left: maxDiffs, notes: make(map[string]bool)}
}

// secretValues adds the values of a Secret, decoded and as written, line by line.
func secretValues(o *render.Object, hidden map[string]bool) {
	add := func(text string) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); len(line) >= leastHidden {
				hidden[line] = true
			}
		}
	}
	for _, field := range []string{"data", "stringData"} {
		m, _ := o.Object[field].(map[string]any)
		for _, v := range m {
			written, _ := v.(string)
			add(written)
			if decoded, err := base64.StdEncoding.DecodeString(written); field == "data" && err == nil {
				add(string(decoded))
			}
		}
	}
}

// describe sets a change's place, its diff, and what a deletion deletes with the object.
func (c *changeDiffs) describe(change *report.Change, r *policy.Request) {
	switch r.Operation {
	case policy.Delete:
		change.Origin = first(ownFirst(r.OldObject, r.OldObject.At(namePointer)), c.sides.BaseFile)
		change.Takes = c.taken(r.OldObject)
	case policy.Update:
		was, now := c.sides.Shown(r, c.notes)
		change.Origin = first(ownFirst(now, changedAt(was, now)), c.sides.HeadFile)
		if change.Recreated {
			change.Takes = c.taken(r.OldObject)
		}
		if !change.Unchanged && c.left > 0 {
			change.Diff = c.diff(was, now)
			c.left--
		}
	default:
		change.Origin = first(ownFirst(r.Object, r.Object.At(namePointer)), c.sides.HeadFile)
	}
}

const namePointer = "/metadata/name"

// firstDifference returns the JSON pointer of the first field in which two values differ,
// or "". Metadata comes last, since its labels often only follow from the rest.
func firstDifference(was, is any) string {
	switch is := is.(type) {
	case map[string]any:
		if old, ok := was.(map[string]any); ok {
			return firstOfMap(old, is)
		}
	case []any:
		if old, ok := was.([]any); ok {
			for i := range min(len(old), len(is)) {
				if !reflect.DeepEqual(old[i], is[i]) {
					return render.Pointer(i) + firstDifference(old[i], is[i])
				}
			}
			if len(is) > len(old) {
				return render.Pointer(len(old))
			}
		}
	}
	return ""
}

func firstOfMap(was, is map[string]any) string {
	keys := render.Keys(was, is)
	if i := slices.Index(keys, "metadata"); i >= 0 {
		keys = append(slices.Delete(keys, i, i+1), "metadata")
	}
	for _, key := range keys {
		old, before := was[key]
		now, after := is[key]
		if before != after || !reflect.DeepEqual(old, now) {
			return render.Pointer(key) + firstDifference(old, now)
		}
	}
	return ""
}

// changedAt returns the places of the first field in which an object differs from what it
// was. Of a text, such as an image of repository and tag, the places of the part that
// differs come first.
func changedAt(was, is *render.Object) []render.Origin {
	pointer := cmp.Or(firstDifference(was.Object, is.Object), namePointer)
	before, _ := render.Lookup(was.Object, pointer)
	after, _ := render.Lookup(is.Object, pointer)
	old, _ := before.(string)
	text, _ := after.(string)
	same := 0
	for i, r := range text {
		if !strings.HasPrefix(old[min(i, len(old)):], string(r)) {
			break
		}
		same = i + len(string(r))
	}
	return append(is.Part(pointer, text[same:]), is.At(pointer)...)
}

// ownFirst returns the places of a field of an object. If the first is in a template that other objects use, too, the
// place in the object's own template comes before it.
func ownFirst(o *render.Object, at []render.Origin) []render.Origin {
	own := o.At("/kind")
	if len(at) == 0 || len(own) == 0 || at[0].Role != render.Template {
		return at
	}
	if i := slices.IndexFunc(at, func(x render.Origin) bool { return x.File == own[0].File }); i > 0 {
		return append([]render.Origin{at[i]}, at...)
	}
	return at
}

// first returns the first of some places, or nil.
func first(at []render.Origin, file func(string) string) *render.Span {
	if len(at) == 0 {
		return nil
	}
	s := at[0].Span
	s.File = file(s.File)
	return &s
}

// diff returns the changes of an object as rendered: the lines of a unified
// diff without its head, cut after maxShownDiff.
func (c *changeDiffs) diff(was, now *render.Object) string {
	before, err := c.shown(was, nil)
	if err != nil {
		return ""
	}
	after, err := c.shown(now, was)
	if err != nil {
		return ""
	}
	lines := strings.SplitAfter(UnifiedDiff("a", []byte(before), "b", []byte(after)), "\n")
	lines = routineLast(lines[min(2, len(lines)):]) // without the two names
	if more := len(lines) - 1 - maxShownDiff; more > 0 {
		lines = append(lines[:maxShownDiff:maxShownDiff], fmt.Sprintf("… and %d more lines\n", more))
	}
	return strings.Join(lines, "")
}

// routineLast moves the hunks of a diff that change nothing but labels and annotations that follow from
// the rest, such as a chart's version, behind the others.
func routineLast(lines []string) []string {
	var first, last []string
	for len(lines) > 0 {
		n := 1 + slices.IndexFunc(lines[1:], func(line string) bool { return strings.HasPrefix(line, "@@") })
		if n == 0 {
			n = len(lines)
		}
		if report.Routine(lines[:n]) {
			last = append(last, lines[:n]...)
		} else {
			first = append(first, lines[:n]...)
		}
		lines = lines[n:]
	}
	return append(first, last...)
}

// shown returns an object as YAML with the values of Secrets covered. Values
// that changed are marked.
func (c *changeDiffs) shown(o, was *render.Object) (string, error) {
	data, err := coveredYAML(o, was)
	return c.secrets.Replace(string(data)), err
}

// YAML returns an object as YAML, a Secret without its values.
func YAML(o *render.Object) ([]byte, error) { return coveredYAML(o, nil) }

func coveredYAML(o, was *render.Object) ([]byte, error) {
	tree := o.Object
	if o.GetKind() == "Secret" {
		tree = maps.Clone(o.Object)
		for _, field := range []string{"data", "stringData"} {
			if v, ok := tree[field]; ok {
				tree[field] = markValues(withoutValues(v), v, was, field)
			}
		}
	}
	return yaml.Marshal(tree)
}

// withoutValues returns a map with its keys but without its values.
func withoutValues(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return "…"
	}
	hidden := make(map[string]any, len(m))
	for k := range m {
		hidden[k] = "…"
	}
	return hidden
}

// UnifiedDiff returns the unified diff of two named texts, or "" if they are
// equal.
func UnifiedDiff(oldName string, old []byte, newName string, new []byte) string {
	_, text, _ := strings.Cut(string(diff.Diff(oldName, old, newName, new)), "\n") // the first line names a program
	return text
}

// markValues marks the covered values that changed.
func markValues(hidden, values any, was *render.Object, field string) any {
	h, ok := hidden.(map[string]any)
	v, isMap := values.(map[string]any)
	if !ok || !isMap || was == nil {
		return hidden
	}
	old, _ := was.Object[field].(map[string]any)
	for k := range h {
		if before, there := old[k]; there && before != v[k] {
			h[k] = "… (another value)"
		}
	}
	return h
}

// taken describes what is deleted together with an object: the objects in a
// Namespace, the objects of a definition's kind, the data of a claim.
func (c *changeDiffs) taken(o *render.Object) string {
	defined, defines := render.Defines(o)
	switch gk := o.GroupVersionKind().GroupKind(); {
	case policy.Undeletable(o):
	case gk.Group == "" && gk.Kind == "Namespace":
		return takes("everything in it", c.count(func(x *render.Object) bool { return c.ids.Key(x).Namespace == o.GetName() }))
	case defines:
		return takes("all objects of its kind", c.count(func(x *render.Object) bool { return x.GroupVersionKind().GroupKind() == defined }))
	case gk.Group == "" && gk.Kind == "PersistentVolumeClaim":
		return "the data on its volume, unless the volume's reclaim policy is Retain"
	case gk.Group == "apps" && gk.Kind == "StatefulSet":
		return "its pods; the claims that its templates made stay"
	}
	return ""
}

// count counts the base's objects by kind.
func (c *changeDiffs) count(of func(*render.Object) bool) map[string]int {
	counts := make(map[string]int)
	for _, x := range render.Objects(c.sides.Base) {
		if of(x) {
			counts[x.GetKind()]++
		}
	}
	return counts
}

func takes(what string, counts map[string]int) string {
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	var parts []string
	for i, k := range kinds {
		if i == maxTaken {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, fmt.Sprintf("%d %s", counts[k], k))
	}
	if len(parts) == 0 {
		return what + "; none of it was in the tree"
	}
	return what + "; of the tree: " + strings.Join(parts, ", ")
}
