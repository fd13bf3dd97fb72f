package rego

import (
	"cmp"
	"slices"

	"github.com/preadmit/preadmit/render"
)

// A Field is a place of the input that a violation depends on.
type Field struct {
	Path    []string // keys and indices below input
	Missing bool     // nothing is there
	Sure    bool     // what failed names it; otherwise it was only read
}

// maxFields bounds how many places one violation is said to be about.
const maxFields = 8

// Unsure is what a result assumes whose fields were only read.
const Unsure = "the policy does not say which field is at fault: these are those that it read"

// Pointers are the fields below one of the roots, paths of the input, as JSON
// pointers from there: those that are sure if there are any, else those that
// were only read.
func Pointers(fields []Field, roots ...[]string) (pointers []string, sure bool) {
	for _, sure := range []bool{true, false} {
		for _, f := range fields {
			i := slices.IndexFunc(roots, func(root []string) bool { return within(f.Path, root) })
			if f.Sure != sure || i < 0 {
				continue
			}
			if p := render.PathPointer(f.Path[len(roots[i]):]); !slices.Contains(pointers, p) {
				pointers = append(pointers, p)
			}
		}
		if len(pointers) > 0 {
			return pointers, sure
		}
	}
	return nil, false
}

// about is where the object lies in the input that a policy is about.
func (o *origins) about() []string {
	review := []string{"review", "object"}
	if o.exists(review) {
		return review
	}
	return nil
}

// fields returns the likeliest of the places that a violation depends on.
func fields(reads []read, root []string) []Field {
	best := likeliest(reads, root)
	slices.SortStableFunc(best, func(a, b read) int { return cmp.Compare(len(b.path), len(a.path)) })
	var out []Field
	for _, r := range merge(slices.Clone(best)) {
		above := slices.ContainsFunc(best, func(o read) bool { return len(o.path) > len(r.path) && within(o.path, r.path) })
		if !above && len(out) < maxFields {
			out = append(out, Field{r.path, r.missing, r.rank >= rankAssigned && !r.weak && len(best) <= maxFields})
		}
	}
	return out
}

// likeliest are the reads of the highest weight. The last come first: rules
// look whom they are about before they look what is wrong.
func likeliest(reads []read, root []string) []read {
	var out []read
	top := -1
	for _, r := range slices.Backward(reads) {
		w := weight(r, root)
		if w > top {
			out, top = nil, w
		}
		if w == top {
			out = append(out, r)
		}
	}
	return out
}

// weight is how likely a read is what a person would change: what lies outside
// of the object is no more than a last resort, a guard and the whole object
// little more than what is in the message.
func weight(r read, root []string) int {
	switch {
	case !within(r.path, root):
		return 0
	case r.rank > rankUsed && (len(r.path) == len(root) || isGuard(r.path[len(root):])):
		return 2
	case r.rank == rankUsed && isGuard(r.path[len(root):]):
		return 0
	case r.rank == rankUsed:
		return 1
	}
	return 2 + int(r.rank)
}

// useful says whether there is a read that is more than a guard.
func useful(reads []read) bool {
	return slices.ContainsFunc(reads, func(r read) bool {
		path := r.path
		if len(path) > 2 && path[0] == "review" {
			if path[1] != "object" && path[1] != "oldObject" {
				return false
			}
			path = path[2:]
		}
		return len(path) > 0 && path[0] != "parameters" && !isGuard(path)
	})
}

// isGuard says whether a path of an object is one by which rules choose what
// they are about.
func isGuard(path []string) bool {
	if len(path) > 2 && isIndex(path[0]) && path[1] == "contents" {
		path = path[2:] // conftest's --combine
	}
	switch len(path) {
	case 1:
		return path[0] == "kind" || path[0] == "apiVersion"
	case 2:
		return path[0] == "metadata" && (path[1] == "namespace" || path[1] == "name")
	}
	return false
}
