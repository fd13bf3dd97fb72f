package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// objectsOf parses manifests as one unit each: file, then its YAML.
func objectsOf(t *testing.T, kind string, files ...string) []*render.Object {
	t.Helper()
	var all []*render.Object
	for i := 0; i+1 < len(files); i += 2 {
		objects := rendertest.Parse(t, files[i], files[i+1])
		unit := &render.Unit{Source: render.Source{Path: files[i], Kind: kind}, Objects: objects}
		for _, o := range objects {
			o.Unit = unit
		}
		all = append(all, objects...)
	}
	return all
}

func object(apiVersion, kind, namespace, name string) string {
	return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {namespace: %s, name: %s}\n", apiVersion, kind, namespace, name)
}

func TestRequests(t *testing.T) {
	t.Parallel()
	web, db := object("v1", "ConfigMap", "a", "web"), object("v1", "ConfigMap", "a", "db")
	for name, c := range map[string]struct {
		base, head []string
		want       string
	}{
		"no base":                 {nil, []string{"a.yaml", web + db}, "CREATE web, CREATE db"},
		"the same":                {[]string{"a.yaml", web + db}, []string{"a.yaml", db + web}, "UPDATE db, UPDATE web"},
		"a file moved":            {[]string{"a.yaml", web}, []string{"b.yaml", web}, "UPDATE web from a.yaml"},
		"one of two gone":         {[]string{"a.yaml", web + db}, []string{"a.yaml", web}, "UPDATE web, DELETE db"},
		"renamed":                 {[]string{"a.yaml", web}, []string{"a.yaml", db}, "CREATE db, DELETE web"},
		"another namespace":       {[]string{"a.yaml", web}, []string{"a.yaml", strings.Replace(web, "namespace: a", "namespace: b", 1)}, "CREATE web, DELETE web"},
		"another version":         {[]string{"a.yaml", object("apps/v1beta1", "Deployment", "a", "web")}, []string{"a.yaml", object("apps/v1", "Deployment", "a", "web")}, "UPDATE web"},
		"another kind":            {[]string{"a.yaml", web}, []string{"a.yaml", object("v1", "Secret", "a", "web")}, "CREATE web, DELETE web"},
		"two clusters":            {[]string{"prod", web, "staging", web}, []string{"staging", web, "prod", web}, "UPDATE web, UPDATE web"},
		"one of two clusters":     {[]string{"prod", web, "staging", web}, []string{"staging", web}, "UPDATE web, DELETE web"},
		"copied to a new cluster": {[]string{"prod", web}, []string{"prod", web, "staging", web}, "UPDATE web, CREATE web"},
		"two moved to two":        {[]string{"a", web, "b", web}, []string{"c", web, "d", web}, "CREATE web, CREATE web, DELETE web, DELETE web"},
		"generated names": {
			[]string{"a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}\n"},
			[]string{"a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}\n"},
			"CREATE again ",
		},
		"a changed one of two generated names": {
			[]string{"a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}\n---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: y-}\n"},
			[]string{"a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: y-}\n---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: x-, labels: {a: b}}\n"},
			"CREATE again , CREATE instead of ",
		},
		"of several that changed, which replaces which is unknown": {
			[]string{"a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-, labels: {a: '1'}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: x-, labels: {a: '2'}}\n"},
			[]string{"a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-, labels: {a: '3'}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: x-, labels: {a: '4'}}\n"},
			"CREATE , CREATE ",
		},
		"one of several changed": {
			[]string{"a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-, labels: {a: '1'}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: x-, labels: {a: '2'}}\n"},
			[]string{"a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-, labels: {a: '2'}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: x-, labels: {a: '3'}}\n"},
			"CREATE again , CREATE instead of 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, r := range Requests(objectsOf(t, "manifest", c.base...), objectsOf(t, "manifest", c.head...)) {
				line := string(r.Operation) + " " + r.Subject().GetName()
				if r.Instead != nil {
					line = string(r.Operation) + " instead of " + r.Instead.GetLabels()["a"]
				}
				if r.Operation == Create && r.Unchanged() {
					line = string(r.Operation) + " again " + r.Subject().GetName()
				}
				if r.Operation == Update && r.OldObject.Unit.Path != r.Object.Unit.Path {
					line += " from " + r.OldObject.Unit.Path
				}
				got = append(got, line)
			}
			rendertest.Equal(t, c.want, strings.Join(got, ", "))
		})
	}
}

func TestUnchanged(t *testing.T) {
	t.Parallel()
	base := objectsOf(t, "manifest", "a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b, m: '1'}\n")
	for text, want := range map[string]bool{
		"\n\nkind: ConfigMap\ndata:\n  m: \"1\"\n  a: b\nmetadata: {name: x}\napiVersion: v1\n": true,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b, m: '2'}\n":          false,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}\n":                  false,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b, m: 1}\n":            false,
	} {
		reqs := Requests(base, objectsOf(t, "manifest", "b.yaml", text))
		if got := reqs[0].Unchanged(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// fails is a validator that fails each request at fields.
type fails []string

func (f fails) Rules() []Rule { return nil }
func (f fails) Validate(_ context.Context, r *Request) ([]Result, error) {
	var results []Result
	for _, field := range f {
		results = append(results, Result{Engine: "E", Policy: "p", Rule: "r", Outcome: Fail, Action: Deny, Fields: []string{field}})
	}
	return results, nil
}

func review(t *testing.T, fields []string, objects []*render.Object) []Result {
	t.Helper()
	results, err := Chain{Kinds: plainKinds{}, Validators: []Validator{fails(fields)}}.Review(t.Context(), Requests(nil, objects))
	rendertest.OK(t, err)
	return results
}

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: a, image: x}\n  - {name: b, image: z}\n"

func TestFingerprintIsStable(t *testing.T) {
	t.Parallel()
	reordered := "# moved\nkind: Pod\napiVersion: v1\nmetadata: {name: web}\nspec:\n  containers:\n\n  - {image: z, name: b}\n  - {name: a, image: x}\n"
	was := review(t, []string{"/spec/containers/0/image"}, objectsOf(t, "manifest", "a.yaml", pod))
	now := review(t, []string{"/spec/containers/1/image"}, objectsOf(t, "manifest", "dir/b.yaml", reordered))
	if was[0].Fingerprint != now[0].Fingerprint {
		t.Error("a reordered list in a renamed file has another fingerprint")
	}
	other := review(t, []string{"/spec/containers/1/image"}, objectsOf(t, "manifest", "a.yaml", pod))
	if was[0].Fingerprint == other[0].Fingerprint {
		t.Error("two containers have one fingerprint")
	}
	staging := review(t, []string{"/spec/containers/0/image"}, objectsOf(t, "kustomize", "staging", pod))
	prod := review(t, []string{"/spec/containers/0/image"}, objectsOf(t, "kustomize", "prod", pod))
	if staging[0].Fingerprint == prod[0].Fingerprint {
		t.Error("two overlays have one fingerprint")
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	image, name := "/spec/containers/0/image", "/metadata/name"
	for what, c := range map[string]struct {
		base, head             []string // units
		baseFields, headFields []string
		broken                 string
		want                   string
	}{
		"all known":                   {[]string{"a"}, []string{"a"}, []string{image}, []string{image}, "", "unchanged"},
		"one more":                    {[]string{"a"}, []string{"a"}, []string{image}, []string{image, name}, "", "new unchanged"},
		"fixed":                       {[]string{"a"}, []string{"a"}, []string{image, name}, []string{image}, "", "absent unchanged"},
		"fixed here, new there":       {[]string{"a", "b"}, []string{"b"}, []string{image}, []string{image}, "", "absent unchanged"},
		"moved":                       {[]string{"a"}, []string{"b"}, []string{image}, []string{image}, "", "unchanged"},
		"a copy":                      {[]string{"a"}, []string{"a", "b"}, []string{image}, []string{image}, "", "new unchanged"},
		"the base could not be whole": {[]string{"a"}, []string{"a"}, []string{image}, []string{image, name}, "a", " unchanged"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			units := func(names []string) []*render.Object {
				var files []string
				for _, n := range names {
					files = append(files, n, pod)
				}
				return objectsOf(t, "kustomize", files...)
			}
			base, head := units(c.base), units(c.head)
			comparison := Comparison{
				Base:         review(t, c.baseFields, base),
				Updates:      Updates(Requests(base, head)),
				Incomparable: func(unit string) bool { return unit == c.broken },
			}
			results := comparison.Compare(review(t, c.headFields, head))
			var got []string
			for _, r := range results {
				got = append(got, string(r.Baseline))
			}
			slices.Sort(got)
			rendertest.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}

// TestCompareMore holds that a rule which fails at one field more is new, and that a
// list in another order, or a field that was fixed, is not. A failure is fixed only if it
// is at none of its fields any more.
func TestCompareMore(t *testing.T) {
	t.Parallel()
	const one, two = "{name: one, image: x}", "{name: two, image: x}"
	pod := func(containers string) []*render.Object {
		return objectsOf(t, "manifest", "a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: ["+containers+"]}\n")
	}
	first, second := "/spec/containers/0/image", "/spec/containers/1/image"
	for what, c := range map[string]struct {
		base, head             string
		baseFields, headFields []string
		want                   string
	}{
		"both before":       {one + ", " + two, one + ", " + two, []string{first, second}, []string{first, second}, "unchanged"},
		"the second now":    {one + ", " + two, one + ", " + two, []string{first}, []string{first, second}, "new"},
		"the second fixed":  {one + ", " + two, one + ", " + two, []string{first, second}, []string{first}, "unchanged"},
		"another order":     {one + ", " + two, two + ", " + one, []string{first, second}, []string{second, first}, "unchanged"},
		"another container": {one + ", " + two, one + ", {name: three, image: x}", []string{first, second}, []string{first, second}, "new"},
		"the first fixed":   {one + ", " + two, one + ", " + two, []string{first, second}, []string{second}, "unchanged"},
		"the first now":     {one + ", " + two, one + ", " + two, []string{second}, []string{first, second}, "new"},
		"one for the other": {one + ", " + two, one + ", " + two, []string{first}, []string{second}, "new absent"},
		"fixed by its name": {one + ", " + two, two, []string{first, second}, []string{first}, "unchanged"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			result := func(objects []*render.Object, fields []string) []Result {
				r := Result{Engine: "e", Policy: "p", Rule: "r", Outcome: Fail, Action: Deny, Object: objects[0].Key(), Fields: fields}
				r.setFingerprint(objects[0])
				return []Result{r}
			}
			base, head := pod(c.base), pod(c.head)
			head[0].Object["metadata"].(map[string]any)["labels"] = map[string]any{"changed": "true"}
			comparison := Comparison{Base: result(base, c.baseFields), Updates: Updates(Requests(base, head))}
			var got []string
			for _, r := range comparison.Compare(result(head, c.headFields)) {
				got = append(got, string(r.Baseline))
			}
			rendertest.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}

// TestCompareCutShort holds that a run which ended early on both sides is not
// taken for one whose results are unchanged.
func TestCompareCutShort(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{RuleIncomplete, RuleOutOfTime} {
		r := Result{Engine: EngineRender, Rule: rule, Outcome: Error, Action: Deny, UnitlessPrint: "same"}
		if got := (Comparison{Base: []Result{r}}).Compare([]Result{r}); len(got) != 1 || got[0].Baseline != "" {
			t.Errorf("%s: %+v, want one result without a mark", rule, got)
		}
	}
}

// TestCompareMessages holds that another failure of a Rego rule is new, also if it is at
// a field at which the rule failed before, because one rule can have several failures.
// TestCompareUndecoded holds that failures are not fixed if nobody looks for them any
// more, because the API server can't decode the object.
func TestCompareUndecoded(t *testing.T) {
	t.Parallel()
	result := func(engine, rule, name string, fields ...string) Result {
		return Result{Engine: engine, Rule: rule, Object: render.Key{Kind: "Pod", Name: name}, Outcome: Fail, UnitlessPrint: fmt.Sprint(engine, rule, name, fields), Fields: fields}
	}
	base := []Result{result("Kyverno", "tag", "web"), result("Kyverno", "tag", "db"), result(EngineSchema, "decode", "web", "/spec/a")}
	var got []string
	for _, r := range (Comparison{Base: base}).Compare([]Result{result(EngineSchema, "decode", "web", "/spec/b")}) {
		got = append(got, fmt.Sprint(r.Baseline, " ", r.Rule, " ", r.Object.Name))
	}
	rendertest.Equal(t, []string{"new decode web", "absent tag db", "absent decode web"}, got)
}

func TestCompareMessages(t *testing.T) {
	t.Parallel()
	failure := func(message string, fields ...string) Result {
		r := Result{Engine: EngineRego, Policy: "main", Rule: "deny", Outcome: Fail, Action: Deny, Message: message, Fields: fields}
		r.Object = render.Key{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}
		return r.Fingerprinted()
	}
	comparison := Comparison{Base: []Result{failure("one", "/data/a", "/data/b")}}
	for message, want := range map[string]string{"one": "unchanged", "two": "new absent"} {
		var got []string
		for _, r := range comparison.Compare([]Result{failure(message, "/data/b")}) {
			got = append(got, string(r.Baseline))
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", message, diff)
		}
	}
}
