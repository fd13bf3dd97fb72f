package change

import (
	"errors"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// unit is a unit with a ConfigMap for each name, with the labels given.
func unit(path string, err error, labels map[string]any, names ...string) *render.Unit {
	u := &render.Unit{Source: render.Source{Path: path, Kind: "manifest"}, Err: err}
	for _, name := range names {
		u.Objects = append(u.Objects, &render.Object{Unit: u, Unstructured: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "labels": labels},
		}}})
	}
	return u
}

func side(units ...*render.Unit) *Side {
	return &Side{Tree: fstest.MapFS{}, Units: units, Deployed: &render.Deployment{}}
}

func names(objects []*render.Object) (all []string) {
	for _, o := range objects {
		all = append(all, o.GetName())
	}
	return all
}

// TestComparable holds that an object that one side lacks is only compared where
// that side was rendered whole.
func TestComparable(t *testing.T) {
	t.Parallel()
	broken := &render.Error{Err: errors.New("no such value")}
	for name, c := range map[string]struct {
		err  error
		want int
	}{"whole": {nil, 2}, "half": {broken, 1}, "warned": {&render.Error{Warning: true, Err: broken.Err}, 2}} {
		base, head := side(unit("app", nil, nil, "kept", "gone")), side(unit("app", c.err, nil, "kept"))
		old, now := Comparable(base, head, func(u *render.Unit) []*render.Object { return u.Objects })
		if len(old) != c.want || len(now) != 1 {
			t.Errorf("%s: %v and %v, want %d of the base", name, names(old), names(now), c.want)
		}
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	now := []*render.Unit{unit("a", nil, nil, "same", "other", "gone")}
	later := []*render.Unit{unit("b", nil, nil, "same"), unit("c", nil, map[string]any{"x": "y"}, "other")}
	gone, other := Missing(now, later)
	if len(gone) != 1 || gone[0].GetName() != "gone" || len(other) != 1 || other[0].GetName() != "other" {
		t.Errorf("gone %v, other %v", names(gone), names(other))
	}
}

// TestExempted holds that a failure counts which only labels of the change's
// Namespace make pass, and names the label's object.
func TestExempted(t *testing.T) {
	t.Parallel()
	namespace := func(labels map[string]any) *render.Unit {
		u := unit("ns", nil, labels, "shop")
		u.Objects[0].SetKind("Namespace")
		return u
	}
	changed, is := Exempting(side(namespace(nil)), side(namespace(map[string]any{"skip": "true"})), nil)
	if len(changed) != 1 || !is(changed[0].Object) {
		t.Fatalf("changed: %v", changed)
	}
	fails := policy.Result{Outcome: policy.Fail, Fingerprint: "1", Message: "no", Object: render.Key{Namespace: "shop"}}
	known := policy.Result{Outcome: policy.Fail, Fingerprint: "2"}
	denied := policy.Result{Outcome: policy.Fail, Fingerprint: "3", Action: policy.Deny, Message: "denied", Object: render.Key{Namespace: "shop"}}
	warned := denied
	warned.Action = policy.Warn
	got := Exempted([]policy.Result{fails, known, denied, {Outcome: policy.Pass}}, changed, policy.Each([]policy.Result{known, warned}))
	if len(got) != 2 || got[0].Message != "exempted by this change of Namespace shop: no" || got[1].Message != "exempted by this change of Namespace shop: denied" {
		t.Errorf("%+v", got)
	}
	if got := Exempted([]policy.Result{warned}, changed, policy.Each([]policy.Result{denied})); len(got) > 0 {
		t.Errorf("the change makes it stronger: %+v", got)
	}
}

// TestChangedInputs holds that a chart that neither side could render counts as changed
// if an edit may change its objects.
func TestChangedInputs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, before, after string
		want                bool
	}{
		"template":            {"c/templates/a.yaml", "a: 1\n", "a: 2\n", true},
		"new file":            {"c/templates/a.yaml", "", "a: 2\n", true},
		"leading comment":     {"c/templates/a.yaml", "a: 1\n", "# moved\n\na: 1\n", false},
		"comment that writes": {"c/templates/a.yaml", "a: 1\n", "# {{ \"\\na: 2\" }}\na: 1\n", true},
		"comment further on":  {"c/templates/a.yaml", "a: 1\n", "a: 1\n# b\n", true},
		"documentation":       {"c/README.md", "x\n", "y\n", false},
		"another text":        {"c/files/README.md", "x\n", "y\n", true},
		"another chart":       {"d/templates/a.yaml", "x: 1\n", "x: 2\n", false},
	} {
		base, head := side(unit("c", errors.New("no such value"), nil)), side(unit("c", errors.New("no such value"), nil))
		for s, text := range map[*Side]string{base: c.before, head: c.after} {
			tree := fstest.MapFS{"c/Chart.yaml": {Data: []byte("name: c\n")}}
			if text != "" {
				tree[c.file] = &fstest.MapFile{Data: []byte(text)}
			}
			s.Tree, s.Units[0].Kind = tree, "helm"
		}
		changed := changedInputs(base, head)
		if changed[head.Units[0].Identity()] != c.want {
			t.Errorf("%s: %v, want %v", name, changed, c.want)
		}
	}
}
