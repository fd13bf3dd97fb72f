package main

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
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
	maxDiffLines = 60  // of an object
	maxDiffs     = 500 // of a run
	maxTaken     = 8   // kinds that a deletion takes along
	leastHidden  = 8   // bytes of a Secret's value that is looked for elsewhere
)

// changeDiffs writes down what changes in objects. Values of Secrets are covered,
// also where they are written in other objects.
type changeDiffs struct {
	base, head *input
	secrets    *strings.Replacer
	left       int // how many diffs there is room for
}

func newChangeDiffs(base, head *input) *changeDiffs {
	hidden := make(map[string]bool)
	for _, in := range []*input{base, head} {
		for _, o := range objects(in.head) {
			if o.GetKind() == "Secret" && o.GroupVersionKind().Group == "" {
				secretValues(o, hidden)
			}
		}
	}
	values := slices.SortedFunc(maps.Keys(hidden), func(a, b string) int { // longest first
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	var pairs []string
	for _, v := range values {
		pairs = append(pairs, v, "…")
	}
	return &changeDiffs{base: base, head: head, secrets: strings.NewReplacer(pairs...), left: maxDiffs}
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
			written := text(v)
			add(written)
			if decoded, err := base64.StdEncoding.DecodeString(written); field == "data" && err == nil {
				add(string(decoded))
			}
		}
	}
}

// describe adds to a change where the object is written, what changes in it,
// and what its deletion takes along.
func (d *changeDiffs) describe(c *report.Change, r *policy.Request) {
	switch r.Operation {
	case policy.Delete:
		c.Origin = d.place(d.base, r.OldObject)
		c.Takes = d.taken(r.OldObject)
	case policy.Update:
		c.Origin = d.place(d.head, r.Object)
		if !c.Unchanged && d.left > 0 {
			c.Diff = d.diff(r.OldObject, r.Object)
			d.left--
		}
	default:
		c.Origin = d.place(d.head, r.Object)
	}
}

func (d *changeDiffs) place(in *input, o *render.Object) *render.Span {
	at := o.At("/metadata/name")
	if len(at) == 0 {
		return nil
	}
	s := at[0].Span
	s.File = in.tree.Display(s.File)
	return &s
}

// diff is what changes in an object as it is rendered: the lines of a unified
// diff, without its head, cut after maxDiffLines.
func (d *changeDiffs) diff(was, now *render.Object) string {
	before, err := d.shown(was, nil)
	if err != nil {
		return ""
	}
	after, err := d.shown(now, was)
	if err != nil {
		return ""
	}
	lines := strings.SplitAfter(string(diff.Diff("a", []byte(before), "b", []byte(after))), "\n")
	lines = lines[min(3, len(lines)):] // the command and the two names
	if more := len(lines) - 1 - maxDiffLines; more > 0 {
		lines = append(lines[:maxDiffLines:maxDiffLines], fmt.Sprintf("… and %d more lines\n", more))
	}
	return strings.Join(lines, "")
}

// shown is an object as YAML with the values of Secrets covered. Those that
// differ from what they were are marked.
func (d *changeDiffs) shown(o, was *render.Object) (string, error) {
	tree := maps.Clone(o.Object)
	if o.GetKind() == "Secret" {
		for _, field := range []string{"data", "stringData"} {
			if v, ok := tree[field]; ok {
				tree[field] = marked(hiddenValues(v), v, was, field)
			}
		}
	}
	data, err := yaml.Marshal(tree)
	return d.secrets.Replace(string(data)), err
}

// marked says of covered values which are not what they were.
func marked(hidden, values any, was *render.Object, field string) any {
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

// taken says what a cluster deletes with an object: what is in a Namespace, the
// objects of a definition's kind, the data of a claim.
func (d *changeDiffs) taken(o *render.Object) string {
	switch gk := o.GroupVersionKind().GroupKind(); {
	case gk.Group == "" && gk.Kind == "Namespace":
		return takes("everything in it", d.count(func(x *render.Object) bool { return x.GetNamespace() == o.GetName() }))
	case gk.Group == "apiextensions.k8s.io" && gk.Kind == "CustomResourceDefinition":
		group, _ := render.Lookup(o.Object, "/spec/group")
		kind, _ := render.Lookup(o.Object, "/spec/names/kind")
		return takes("all objects of its kind", d.count(func(x *render.Object) bool {
			return x.GroupVersionKind().Group == text(group) && x.GetKind() == text(kind)
		}))
	case gk.Group == "" && gk.Kind == "PersistentVolumeClaim":
		return "the data on its volume, unless the volume's reclaim policy is Retain"
	case gk.Group == "apps" && gk.Kind == "StatefulSet":
		return "its pods; the claims that its templates made stay"
	}
	return ""
}

// count counts the base's objects by kind.
func (d *changeDiffs) count(of func(*render.Object) bool) map[string]int {
	counts := make(map[string]int)
	for _, x := range objects(d.base.head) {
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
