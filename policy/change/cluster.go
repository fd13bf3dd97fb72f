package change

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Cluster returns the objects that policies of a base can look up. Objects of
// the base are in their old state, so that a change of a parameter or a Role
// does not affect the decision about the change itself. Objects that the head
// adds are included. Namespaces are the head's, with the labels that the change
// gives them.
//
// Unless exempts is nil, the objects that it selects, including Namespaces, are
// taken from the base.
func Cluster(head, base *Side, exempts func(*render.Object) bool) *policy.Cluster {
	if exempts != nil {
		was := slices.Concat(render.Objects(base.Units), render.Objects(base.Given), render.Objects(base.Context))
		now := slices.Concat(render.Objects(head.Units), render.Objects(head.Given), render.Objects(head.Context), render.Objects(head.Anywhere))
		return clusterOf(was, asInBase(now, was, exempts))
	}
	isNamespace := func(o *render.Object) bool {
		return o.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}
	}
	first := slices.DeleteFunc(slices.Concat(render.Objects(base.Units), render.Objects(base.Given), render.Objects(base.Context)), isNamespace)
	return clusterOf(first, render.Objects(head.Units), render.Objects(head.Given), render.Objects(head.Context), render.Objects(head.Anywhere), render.Objects(base.Units))
}

// Definitions returns the policies and definitions of a head. If several define one
// kind the first counts. Those that the base has too come first, then those that the
// change adds, then those that it deletes, for objects of their kinds in the head.
func Definitions(head, base []*render.Object) []*render.Object {
	was, is := make(map[render.Key]bool, len(base)), make(map[render.Key]bool, len(head))
	for _, o := range base {
		was[o.Unversioned()] = true
	}
	var first, added []*render.Object
	for _, o := range head {
		is[o.Unversioned()] = true
		if was[o.Unversioned()] {
			first = append(first, o)
		} else {
			added = append(added, o)
		}
	}
	deleted := slices.DeleteFunc(slices.Clone(base), func(o *render.Object) bool {
		return is[o.Unversioned()] || o.GetKind() != "CustomResourceDefinition"
	})
	return slices.Concat(first, added, deleted)
}

// clusterOf returns a cluster of the first of each object in lists.
func clusterOf(lists ...[]*render.Object) *policy.Cluster {
	all := slices.Concat(lists...)
	seen := make(map[render.Key]bool, len(all))
	return policy.NewCluster(slices.DeleteFunc(all, func(o *render.Object) bool {
		k := o.Unversioned()
		again := seen[k]
		seen[k] = true
		return again
	})...)
}

// asInBase returns the objects that policies look up, with exempting objects as the
// base has them. It leaves out exempting objects that the change adds, except new
// Namespaces, which lose their labels.
func asInBase(head []*render.Object, base []*render.Object, exempts func(*render.Object) bool) []*render.Object {
	known := make(map[string]bool) // Namespaces
	for _, o := range base {
		known[o.GetName()] = known[o.GetName()] || o.GetKind() == "Namespace"
	}
	var all []*render.Object
	for _, o := range head {
		switch {
		case !exempts(o):
			all = append(all, o)
		case o.GetKind() == "Namespace" && !known[o.GetName()]:
			bare := *o
			bare.Unstructured = o.DeepCopy()
			bare.SetLabels(nil)
			all = append(all, &bare)
		}
	}
	return all
}

// Standing returns the units of a base. Objects that the head has unchanged are at
// the head's lines, which a reader can look up; all other places are in files that
// name renames.
func Standing(base, head []*render.Unit, name func(file string) string) []*render.Unit {
	same := make(map[*render.Object]*render.Object)
	for _, r := range policy.Requests(render.Objects(base), render.Objects(head)) {
		if r.Unchanged() {
			same[r.OldObject] = r.Object
		}
	}
	units := make([]*render.Unit, len(base))
	for i, u := range base {
		moved := *u
		moved.Objects = slices.Clone(u.Objects)
		for k, o := range moved.Objects {
			if now := same[o]; now != nil {
				moved.Objects[k] = now
				continue
			}
			moved.Objects[k] = AtCommit(o, name)
		}
		units[i] = &moved
	}
	return units
}

// AtCommit returns an object of the base with its files renamed by name.
func AtCommit(o *render.Object, name func(file string) string) *render.Object {
	was := *o
	if o.Provenance != nil {
		was.Provenance = Committed{o.Provenance, name}
	}
	return &was
}

// Committed is the provenance of an object of a commit.
type Committed struct {
	render.Provenance                          // of the files in their tree
	Name              func(file string) string // of a file of the commit
}

// At implements render.Provenance.
func (c Committed) At(pointer string) []render.Origin {
	origins := slices.Clone(c.Provenance.At(pointer))
	for i := range origins {
		origins[i].File = c.Name(origins[i].File)
	}
	return origins
}
