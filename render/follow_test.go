package render

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var deployKind = schema.GroupKind{Group: "example.org", Kind: "Deploy"}

// deploys is a Resolver of objects that list what they make: other objects by
// name, with commas between. Each makes what it makes in the tree, or what
// stands behind a plus sign.
type deploys map[string]*Object

func (deploys) Follows(o *Object) bool { return o.GroupVersionKind().GroupKind() == deployKind }

func (d deploys) Resolve(_ context.Context, o *Object, w *World) *Unit {
	u := &Unit{ID: "deploy/" + o.GetName()}
	makes, _ := o.Object["makes"].(string)
	if need, ok := o.Object["needs"].(string); ok {
		x := w.Object(deployKind, "default", need)
		if x == nil {
			u.Err = &Error{Rule: "missing", Missing: true, Err: fmt.Errorf("%s is not there", need)}
			return u
		}
		makes += "," + x.Object["gives"].(string)
	}
	if makes == "endless" {
		u.Objects = append(u.Objects, deploy(o.GetName()+"x", "endless", nil))
		return u
	}
	for _, name := range strings.Split(makes, ",") {
		name, patch, patched := strings.Cut(name, "+")
		switch {
		case d[name] != nil && !patched:
			u.Objects = append(u.Objects, &Object{Unstructured: d[name].Unstructured})
		case name != "":
			u.Objects = append(u.Objects, deploy(name, patch, nil))
		}
	}
	return u
}

func deploy(name, makes string, fields map[string]any) *Object {
	o := map[string]any{"apiVersion": "example.org/v1", "kind": "Deploy", "metadata": map[string]any{"name": name}, "makes": makes}
	for k, v := range fields {
		o[k] = v
	}
	return &Object{Unstructured: &unstructured.Unstructured{Object: o}}
}

func follow(t *testing.T, objects ...*Object) (ids []string, roots int, d *Deployment) {
	t.Helper()
	u := &Unit{Source: Source{Path: "all.yaml", Kind: "manifest"}, Objects: objects}
	tree := make(deploys)
	for _, o := range objects {
		o.Unit, tree[o.GetName()] = u, o
	}
	f := Follower{Resolvers: []Resolver{tree}}
	d, err := f.Follow(t.Context(), nil, []*Unit{u})
	ok(t, err)
	for _, u := range d.Units {
		ids = append(ids, u.ID+" "+u.Status())
	}
	return ids, len(d.Roots), d
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What a parent makes counts as the parent makes it, not as it is in the tree.
func TestFollowPatchedChild(t *testing.T) {
	ids, _, d := follow(t, deploy("child", "wrong", nil), deploy("parent", "child+right", nil))
	same(t, ids, "deploy/child rendered", "deploy/parent rendered", "deploy/right rendered")
	if owner := d.Units[0].Owner.Unit.ID; owner != "deploy/parent" {
		t.Errorf("child is made by %s", owner)
	}
}

func TestFollowItself(t *testing.T) {
	ids, _, _ := follow(t, deploy("a", "a,b", nil))
	same(t, ids, "deploy/a rendered", "deploy/b rendered")
}

// What changes itself each time it is made is named.
func TestFollowUnsettled(t *testing.T) {
	_, _, d := follow(t, deploy("a", "a+b", nil))
	if e := Errors(d.Units[0].Err); len(e) != 1 || e[0].Rule != "unsettled" {
		t.Errorf("%v", d.Units[0].Err)
	}
}

// Of objects that make each other the first is a root.
func TestFollowCycle(t *testing.T) {
	ids, roots, _ := follow(t, deploy("b", "a", nil), deploy("a", "b", nil))
	same(t, ids, "deploy/a rendered", "deploy/b rendered")
	if roots != 1 {
		t.Errorf("%d units with roots", roots)
	}
}

// An object that comes later answers what was asked before.
func TestFollowAnswerComesLater(t *testing.T) {
	ids, _, _ := follow(t, deploy("asks", "", map[string]any{"needs": "given"}), deploy("given", "", map[string]any{"gives": "new"}))
	same(t, ids, "deploy/asks rendered", "deploy/given rendered", "deploy/new rendered")
	ids, _, _ = follow(t, deploy("asks", "", map[string]any{"needs": "absent"}))
	same(t, ids, "deploy/asks not-rendered")
}

func TestFollowMadeTwice(t *testing.T) {
	_, _, d := follow(t, deploy("one", "x", nil), deploy("two", "x", nil))
	for _, u := range d.Units {
		if twice := slices.ContainsFunc(Errors(u.Err), func(e *Error) bool { return e.Rule == "made-twice" }); twice != (u.ID == "deploy/x") {
			t.Errorf("%s: made twice: %v", u.ID, twice)
		}
	}
}

func TestFollowEndless(t *testing.T) {
	_, _, d := follow(t, deploy("x", "endless", nil))
	last := d.Units[len(d.Units)-1]
	if len(d.Units) > maxChain+2 || last.Err == nil || Errors(last.Err)[0].Rule != "too-deep" {
		t.Errorf("%d units, the last with %v", len(d.Units), last.Err)
	}
}

func TestFollowTooMany(t *testing.T) {
	names := make([]string, maxMade+10)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	_, _, d := follow(t, deploy("all", strings.Join(names, ","), nil))
	var e *Error
	if len(d.Units) > maxMade || !errors.As(d.Err, &e) || e.Rule != "too-many-units" {
		t.Errorf("%d units, %v", len(d.Units), d.Err)
	}
}

// With more than one cluster units say on which they are.
func TestFollowClusters(t *testing.T) {
	units := []*Unit{
		{Source: Source{Path: "a"}, Cluster: "one", Objects: []*Object{deploy("x", "", nil)}},
		{Source: Source{Path: "b"}, Cluster: "two", Objects: []*Object{deploy("x", "y", nil)}},
	}
	f := Follower{Resolvers: []Resolver{deploys{}}, Clusters: []Cluster{{Name: "one"}, {Name: "two"}}}
	d, err := f.Follow(t.Context(), units, nil)
	ok(t, err)
	var ids []string
	for _, u := range d.Units {
		ids = append(ids, u.ID)
	}
	same(t, ids, "one:deploy/x", "two:deploy/x", "two:deploy/y")
}

// TestFollowManyFailing holds that the work grows with the number of objects, and not
// with its square, if what they deploy is not there: four times as many allocate some
// four times as often.
func TestFollowManyFailing(t *testing.T) {
	allocated := func(n int) float64 {
		var units []*Unit
		for i := range n {
			o := deploy(fmt.Sprintf("o%d", i), "", map[string]any{"needs": "absent"})
			o.Unit = &Unit{Source: Source{Path: fmt.Sprintf("%d", i), Kind: "kustomize"}, Objects: []*Object{o}}
			units = append(units, o.Unit)
		}
		return testing.AllocsPerRun(1, func() {
			d, err := Follower{Resolvers: []Resolver{make(deploys)}}.Follow(t.Context(), nil, units)
			if err != nil || len(d.Units) != n {
				t.Fatal(len(d.Units), err)
			}
		})
	}
	few, many := allocated(200), allocated(800)
	if many > 6*few {
		t.Errorf("%.0f allocations for 200 objects, %.0f for 800", few, many)
	}
}
