package pattern

import (
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, pattern, value string
		status               Status
		path, pointer        string
	}{
		{"a scalar", "{a: 1}", "{a: 1}", Pass, "", ""},
		{"a scalar that differs", "{a: 1}", "{a: 2}", Fail, "/a/", "/a"},
		{"a key that is missing", "{a: x}", "{}", Fail, "/a/", "/a"},
		{"the value may have more", "{a: 1}", "{a: 1, b: 2}", Pass, "", ""},
		{"no map where one is", "{a: {b: 1}}", "{a: 1}", Fail, "/a/", "/a"},
		{"a map that is missing", "{a: {b: 1}}", "{}", Fail, "/a/", "/a"},
		{"at the root", "{a: 1}", "5", Fail, "/", ""},
		{"the alphabet's first fails first", "{b: 1, a: 1}", "{}", Fail, "/a/", "/a"},
		{"a key with a slash", "{metadata: {labels: {a/b: x}}}", "{metadata: {labels: {a/b: w}}}", Fail, "/metadata/labels/a/b/", "/metadata/labels/a~1b"},

		{"a star wants a field", "{a: '*'}", "{a: {}}", Pass, "", ""},
		{"a star wants a field that is there", "{x: {a: '*'}}", "{x: {}}", Fail, "/x/", "/x/a"},
		{"a star wants a field that is not null", "{a: '*'}", "{a: null}", Fail, "/", "/a"},
		{"a star in a condition is a wildcard", "{(a): '*', b: 1}", "{a: {}, b: 1}", Skip, "/", "/a"},

		{"a list, each element", "{l: [{a: 1}]}", "{l: [{a: 1}, {a: 2}]}", Fail, "/l/1/a/", "/l/1/a"},
		{"an empty list has nothing wrong", "{l: [{a: 1}]}", "{l: []}", Pass, "", ""},
		{"a list that is missing", "{l: [{a: 1}]}", "{}", Fail, "/l/", "/l"},
		{"only the first pattern counts", "{l: [{a: 1}, {a: 2}]}", "{l: [{a: 1}]}", Pass, "", ""},
		{"no list where one is", "{l: [x]}", "{l: x}", Fail, "/l/", "/l"},
		{"an empty pattern list", "{l: []}", "{l: []}", Fail, "/l/", "/l"},
		{"a list of scalars", "{l: ['a*']}", "{l: [a, ab]}", Pass, "", ""},
		{"a list of scalars, one wrong", "{l: ['a*']}", "{l: [a, b]}", Fail, "/l/", "/l/1"},
		{"a scalar against a list", "{l: 'a*'}", "{l: [a, b]}", Fail, "/l/", "/l/1"},
		{"a scalar against an empty list", "{l: 'a*'}", "{l: []}", Pass, "", ""},
		{"a star as element is a wildcard", "{l: ['*']}", "{l: [{}]}", Fail, "/l/", "/l/0"},
		{"lists in lists go by index", "{l: [[1], [2]]}", "{l: [[1], [2], [3]]}", Pass, "", ""},
		{"lists in lists, one wrong", "{l: [[1], [2]]}", "{l: [[1], [1]]}", Fail, "/l/1/", "/l/1/0"},
		{"lists in lists, one too few", "{l: [[1], [2]]}", "{l: [[1]]}", Error, "", "/l"},

		{"a condition that holds", "{(a): x, b: 1}", "{a: x, b: 1}", Pass, "", ""},
		{"a condition that holds, the rest wrong", "{(a): x, b: 1}", "{a: x, b: 2}", Fail, "/b/", "/b"},
		{"a condition that does not hold", "{(a): x, b: 1}", "{a: w, b: 2}", Skip, "/", "/a"},
		{"a condition without its key", "{(a): x, b: 1}", "{b: 2}", Skip, "/", "/a"},
		{"a condition deep inside", "{s: {(a): x, b: 1}}", "{s: {a: w}}", Skip, "/s/", "/s/a"},
		{"a failure in a condition is a skip", "{(a): {b: {c: 1}}, d: 1}", "{a: {b: {c: 2}}}", Skip, "/", "/a/b/c"},
		{"a condition restricts elements", "{l: [{(nm): a, v: 1}]}", "{l: [{nm: a, v: 1}, {nm: b, v: 2}]}", Pass, "", ""},
		{"a condition restricts elements, one wrong", "{l: [{(nm): a, v: 1}]}", "{l: [{nm: b, v: 2}, {nm: a, v: 2}]}", Fail, "/l/1/v/", "/l/1/v"},
		{"no element meets the condition", "{l: [{(nm): a, v: 1}]}", "{l: [{nm: b}]}", Skip, "/l/", "/l/0/nm"},

		{"an equality, absent", "{=(a): 1}", "{}", Pass, "", ""},
		{"an equality, wrong", "{=(a): 1}", "{a: 2}", Fail, "/a/", "/a"},
		{"an equality with a map", "{=(a): {=(b): 'false'}}", "{a: {b: true}}", Fail, "/a/b/", "/a/b"},

		{"a negation, absent", "{X(a): 'null'}", "{}", Pass, "", ""},
		{"a negation, present", "{X(a): 'null'}", "{a: null}", Fail, "/a/", "/a"},
		{"a negation's missing key makes no error", "{X(a): 'null', b: 1}", "{b: 2}", Fail, "/b/", "/b"},

		{"existence, absent", "{^(l): [{a: 1}]}", "{}", Pass, "", ""},
		{"existence, one is enough", "{^(l): [{a: 1}]}", "{l: [{a: 2}, {a: 1}]}", Pass, "", ""},
		{"existence, none", "{^(l): [{a: 1}]}", "{l: [{a: 2}]}", Fail, "/l/", "/l"},
		{"existence, each pattern needs one", "{^(l): [{a: 1}, {a: 2}]}", "{l: [{a: 1}]}", Fail, "/l/", "/l"},
		{"existence of no list", "{^(l): [{a: 1}]}", "{l: {a: 1}}", Fail, "/l/", "/l"},
		{"existence with a pattern of no list", "{^(l): {a: 1}}", "{l: [{a: 1}]}", Fail, "/l/", "/l"},
		{"existence with a pattern of scalars", "{^(l): [a]}", "{l: [a]}", Fail, "/l/", "/l"},
		{"existence of nothing", "{^(l): [{a: 1}]}", "{l: []}", Fail, "/l/", "/l"},

		{"a global condition, absent", "{<(a): x, b: 1}", "{b: 1}", Pass, "", ""},
		{"a global condition that does not hold", "{<(a): x, b: 1}", "{a: w, b: 2}", Skip, "/a/", "/a"},
		{"a global condition before what is wrong", "{a: 1, <(z): x}", "{a: 2, z: w}", Skip, "/z/", "/z"},
		{"a global condition in a list, for one element", "{l: [{<(nm): a, v: 1}]}", "{l: [{nm: b, v: 2}, {nm: a, v: 1}]}", Pass, "", ""},
		{"a global condition beneath another key", "{m: {<(nm): a}, s: {h: 1}}", "{m: {nm: b}, s: {h: 2}}", Skip, "/m/nm/", "/m/nm"},

		{"an addition is a plain key here", "{+(a): 1}", "{a: 1}", Fail, "/+(a)/", "/+(a)"},

		{"a direct skip outweighs a later failure", "{(a): x, =(b): 1}", "{a: w, b: 2}", Skip, "/", "/a"},
		{"a condition that holds saves no other anchor", "{=(b): 1, ^(c): [{d: 1}], (z): x}", "{b: 1, c: [], z: x}", Fail, "/c/", "/c"},
		{"a direct skip outweighs existence", "{=(b): 1, ^(c): [{d: 1}], (z): x}", "{b: 1, c: [], z: w}", Skip, "/", "/z"},
		{"a nested skip beside an anchor that holds", "{=(a): [{(nm): x}], =(b): 1}", "{a: [{nm: w}], b: 1}", Pass, "", ""},
		{"a nested skip alone", "{=(a): [{(nm): x}]}", "{a: [{nm: w}]}", Skip, "/", "/a/0/nm"},
		{"a nested skip of a global condition", "{=(a): {<(nm): x}, =(b): 1, c: 1}", "{a: {nm: w}, b: 1, c: 1}", Pass, "", ""},

		{"a missing key of an anchor makes an error", "{l: [{^(p): [{q: 1}], i: z}]}", "{l: [{i: q}]}", Error, "", "/l/0/i"},
		{"a key found in one place is not missing", "{l: [{(p): '*', i: z}]}", "{l: [{i: q}, {p: 1, i: q}]}", Fail, "/l/1/i/", "/l/1/i"},

		{"labels with wildcards", "{metadata: {labels: {'a*': x}}}", "{metadata: {labels: {ab: x}}}", Pass, "", ""},
		{"labels with wildcards prefer what matches", "{metadata: {labels: {'a*': x}}}", "{metadata: {labels: {aa: w, ab: x}}}", Pass, "", ""},
		{"labels with wildcards, the first that is wrong", "{metadata: {labels: {'a*': x}}}", "{metadata: {labels: {ab: w, aa: w}}}", Fail, "/metadata/labels/aa/", "/metadata/labels/aa"},
		{"labels with wildcards, none", "{metadata: {labels: {'a*': x}}}", "{metadata: {labels: {b: x}}}", Fail, "/metadata/labels/a*/", "/metadata/labels/a*"},
		{"labels with wildcards in anchors", "{=(metadata): {=(labels): {X(a*): 'null'}}}", "{metadata: {labels: {ab: x}}}", Fail, "/metadata/labels/ab/", "/metadata/labels/ab"},
		{"annotations of a template", "{spec: {template: {metadata: {annotations: {'?/b': 'true'}}}}}", "{spec: {template: {metadata: {annotations: {a/b: 'true'}}}}}", Pass, "", ""},
		{"labels whose patterns are no strings do not count", "{metadata: {=(labels): {a: true, X(b): [x], (c): null}}}", "{metadata: {labels: {b: x}}}", Pass, "", ""},
		{"other keys have no wildcards", "{data: {'a*': x}}", "{data: {ab: x}}", Fail, "/data/a*/", "/data/a*"},
		{"labels with wildcards, a star", "{metadata: {labels: {'team*': '*'}}}", "{metadata: {labels: {team-a: b}}}", Pass, "", ""},

		{"anchors at the deep end come first", "{a: {x: 1}, b: {=(yy): 1}}", "{a: {x: 2}, b: {yy: 2}}", Fail, "/b/yy/", "/b/yy"},
		{"the last of those with anchors leads", "{a: {=(yy): 1}, b: {=(yy): 1}}", "{a: {yy: 2}, b: {yy: 2}}", Fail, "/b/yy/", "/b/yy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pattern, value := rendertest.Value(t, c.pattern), rendertest.Value(t, c.value)
			p, err := Compile(pattern)
			rendertest.OK(t, err)
			got := p.Match(value)
			want := Verdict{Status: c.status, Path: c.path, Pointer: c.pointer, Err: got.Err, Literals: got.Literals}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\n%s", diff, got.Err)
			}
			if (got.Err == "") != (got.Status == Pass) {
				t.Errorf("%s says %q", got.Status, got.Err)
			}
			if !reflect.DeepEqual(pattern, rendertest.Value(t, c.pattern)) || !reflect.DeepEqual(value, rendertest.Value(t, c.value)) {
				t.Error("what went in was changed")
			}
		})
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pattern, value, want string }{
		{"{a: x}", "{a: 1000000}", "resource value '1e+06' does not match 'x' at path /a/"},
		{"{a: x}", "{}", "resource value '<nil>' does not match 'x' at path /a/"},
		{"{a: 5}", "{a: [1, {b: true}]}", "resource value '[1 map[b:true]]' does not match '5' at path /a/"},
		{"{a: {b: 1}}", "{a: [1]}", "pattern and resource have different structures. Path: /a/. Expected map[string]interface {}, found []interface {}"},
		{"{a: {b: 1}}", "{a: 1}", "pattern and resource have different structures. Path: /a/. Expected map[string]interface {}, found float64"},
		{"{a: {b: 1}}", "{}", "pattern and resource have different structures. Path: /a/. Expected map[string]interface {}, found <nil>"},
		{"{a: [1]}", "{a: 1}", "validation rule failed at path /a/, resource does not satisfy the expected overlay pattern"},
		{"{s: {a: '*'}}", "{s: {}}", "/s//a not found"},
		{"{X(a): x}", "{a: 1}", "negation anchor matched in resource: /a/ is not allowed"},
		{"{(a): 1}", "{a: 2}", "conditional anchor mismatch: resource value '2' does not match '1' at path /a/"},
		{"{<(a): 1}", "{a: 2}", "global anchor mismatch: resource value '2' does not match '1' at path /a/"},
		{"{(a): 1, (b): 1}", "{a: 2}", "conditional anchor mismatch: resource value '2' does not match '1' at path /a/; conditional anchor mismatch: conditional anchor key doesn't exist in the resource"},
		{"{(a): {(b): 1}}", "{a: {}}", "conditional anchor mismatch: conditional anchor mismatch: conditional anchor key doesn't exist in the resource"},
		{"{^(l): [{a: 1}]}", "{l: []}", "existence anchor validation failed at path /l/"},
		{"{l: [[1], [2]]}", "{l: [[1]]}", "validate Array failed, array length mismatch, resource Array len is 1 and pattern Array len is 2"},
	} {
		p, err := Compile(rendertest.Value(t, c.pattern))
		rendertest.OK(t, err)
		if got := p.Match(rendertest.Value(t, c.value)).Err; got != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.pattern, c.value, got, c.want)
		}
	}
}

func TestWordsAreShort(t *testing.T) {
	t.Parallel()
	p, _ := Compile(map[string]any{"a": "x"})
	v := p.Match(map[string]any{"a": strings.Repeat("é", 1<<20)})
	if v.Status != Fail || len(v.Err) > maxText+3 || !strings.HasPrefix(v.Err, "resource value 'éé") {
		t.Errorf("%s in %d bytes", v.Status, len(v.Err))
	}
	var skips []any
	for range 5000 {
		skips = append(skips, map[string]any{})
	}
	p, _ = Compile(map[string]any{"l": []any{map[string]any{"(a)": "x"}}})
	if v := p.Match(map[string]any{"l": skips}); v.Status != Skip || len(v.Err) > maxText+3 {
		t.Errorf("%s in %d bytes", v.Status, len(v.Err))
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	var deep any = "x"
	for range 1000 {
		deep = map[string]any{"a": []any{deep}}
	}
	for _, p := range []any{deep, struct{}{}, map[string]any{"a": make(chan int)}} {
		if _, err := Compile(p); err == nil {
			t.Errorf("%T compiles", p)
		}
	}
	if HasAnchors(deep) {
		t.Error("anchors in what has none")
	}
}

// Many conditions, and ways deeper than the matcher has room for.
func TestLargePatterns(t *testing.T) {
	t.Parallel()
	wide, value := map[string]any{"z": "x"}, map[string]any{"z": "x"}
	for i := range 300 {
		key := strings.Repeat("k", i+1)
		wide["("+key+")"], value[key] = "v", "v"
	}
	p, err := Compile(wide)
	rendertest.OK(t, err)
	if v := p.Match(value); v.Status != Pass {
		t.Errorf("%v", v)
	}
	value["z"] = "y"
	if v := p.Match(value); v.Status != Fail || v.Path != "/z/" {
		t.Errorf("%v", v)
	}
	var deepPattern, deepValue any = "x", "y"
	for range 60 {
		deepPattern, deepValue = map[string]any{"a": deepPattern}, map[string]any{"a": deepValue}
	}
	if p, err = Compile(deepPattern); err != nil {
		t.Fatal(err)
	}
	if v := p.Match(deepValue); v.Path != strings.Repeat("/a", 60)+"/" || v.Pointer != strings.Repeat("/a", 60) {
		t.Errorf("%v", v)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key    string
		anchor Anchor
		name   string
	}{
		{"a", None, "a"},
		{"(a)", Condition, "a"},
		{"=(a)", Equality, "a"},
		{"^(a)", Existence, "a"},
		{"X(a)", Negation, "a"},
		{"<(a)", Global, "a"},
		{"+(a)", Addition, "a"},
		{"()", None, "()"},
		{"(a", None, "(a"},
		{"a)", None, "a)"},
		{"x(a)", None, "x(a)"},
		{"((a))", Condition, "(a)"},
		{" (a) ", Condition, "a"},
		{"=(a.b/c)", Equality, "a.b/c"},
		{"", None, ""},
		{")", None, ")"},
		{"=)", None, "=)"},
		{"X()", None, "X()"},
		{">(a)", None, ">(a)"},
	} {
		a, name := ParseKey(c.key)
		if a != c.anchor || name != c.name {
			t.Errorf("ParseKey(%q) = %q, %q", c.key, a, name)
		}
		if again, _ := ParseKey(AnchorKey(a, name)); again != a {
			t.Errorf("AnchorKey(%q, %q) is read as %q", a, name, again)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		mutate  bool
		want    []Problem
	}{
		{"{a: 1, =(b): [{(c): 1}]}", false, nil},
		{"{a: [{+(b): 1}]}", false, []Problem{{"/a/0/+(b)", "unsupported anchor +(b): only mutate rules add fields"}}},
		{"{a: [{+(b): 1}]}", true, nil},
		{"{^(a): 1}", false, []Problem{{"/^(a)", "an existence anchor needs a list"}}},
		{"{^(a): []}", false, []Problem{{"/^(a)", "an existence anchor needs a list of at least one element"}}},
		{"{metadata: {labels: {a/b: true, c: x}, annotations: {d: 1}}}", false, []Problem{
			{"/metadata/annotations/d", "labels and annotations are strings: put the value in double quotes"},
			{"/metadata/labels/a~1b", "labels and annotations are strings: put the value in double quotes"},
		}},
		{"{spec: {metadata: {labels: {a: true}}}}", false, nil},
		{"x", false, nil},
	} {
		if diff := cmp.Diff(c.want, Check(rendertest.Value(t, c.pattern), c.mutate)); diff != "" {
			t.Errorf("%s: %s", c.pattern, diff)
		}
	}
}

func TestHasAnchors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"{a: [{b: 1}]}": false, "{a: [{(b): 1}]}": true, "{+(a): 1}": true, "[x]": false, "x": false} {
		if HasAnchors(rendertest.Value(t, text)) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}

// A pattern is for many at once.
func TestMatchConcurrently(t *testing.T) {
	t.Parallel()
	p, _ := Compile(rendertest.Value(t, benchPattern))
	good, bad := rendertest.Value(t, benchPod), rendertest.Value(t, strings.Replace(benchPod, "registry.example/app:1.0", "docker.io/app:latest", 1))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if p.Match(good).Status != Pass || p.Match(bad).Path != "/spec/containers/1/image/" {
					t.Error("another verdict")
				}
			}
		})
	}
	wg.Wait()
}

const benchPattern = `
metadata:
  labels: {app.kubernetes.io/name: "?*"}
spec:
  =(hostNetwork): "false"
  =(initContainers): [{image: "registry.example/*"}]
  containers:
  - image: "registry.example/* | ghcr.io/org/*"
    =(securityContext): {=(privileged): "false"}
    resources: {limits: {memory: "<=4Gi"}, requests: {cpu: "?*"}}
  =(volumes): [{X(hostPath): "null"}]
`

const benchPod = `
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app.kubernetes.io/name: web, team: a}}
spec:
  containers:
  - {name: a, image: ghcr.io/org/web:2, securityContext: {privileged: false}, resources: {limits: {memory: 1Gi}, requests: {cpu: 100m}}}
  - {name: b, image: "registry.example/app:1.0", resources: {limits: {memory: 512Mi}, requests: {cpu: 1}}}
  volumes:
  - {name: v, emptyDir: {}}
`

// What matches costs no memory.
func TestMatchAllocatesNothing(t *testing.T) {
	p, err := Compile(rendertest.Value(t, benchPattern))
	rendertest.OK(t, err)
	value := rendertest.Value(t, benchPod)
	if v := p.Match(value); v.Status != Pass {
		t.Fatal(v)
	}
	if n := testing.AllocsPerRun(100, func() { p.Match(value) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	p, err := Compile(rendertest.Value(b, benchPattern))
	if err != nil {
		b.Fatal(err)
	}
	value := rendertest.Value(b, benchPod)
	failing := rendertest.Value(b, strings.Replace(benchPod, "privileged: false", "privileged: true", 1))
	b.Run("pass", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Match(value)
		}
	})
	b.Run("fail", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Match(failing)
		}
	})
	b.Run("compile", func(b *testing.B) {
		b.ReportAllocs()
		source := rendertest.Value(b, benchPattern)
		for b.Loop() {
			_, _ = Compile(source)
		}
	})
}

// FuzzMatch wants a verdict of every pattern and value, twice the same, with
// both as they were.
func FuzzMatch(f *testing.F) {
	f.Add(benchPattern, benchPod)
	f.Add("{(a): {<(b): [{^(c): [{d: 1!-5}]}]}}", "{a: {b: [{c: [{d: 3}]}]}}")
	f.Add("{metadata: {labels: {'=(a*)': '>1h & <2h | 0'}}}", "{metadata: {labels: {ab: 90m}}}")
	f.Add("[[1], [2]]", "[[1]]")
	f.Fuzz(func(t *testing.T, pattern, value string) {
		var p, v any
		if yaml.Unmarshal([]byte(pattern), &p) != nil || yaml.Unmarshal([]byte(value), &v) != nil {
			t.Skip()
		}
		compiled, err := Compile(p)
		if err != nil {
			t.Skip()
		}
		first := compiled.Match(v)
		if again := compiled.Match(v); !reflect.DeepEqual(again, first) {
			t.Errorf("%v, then %v", first, again)
		}
		Check(p, false)
		if !reflect.DeepEqual(v, rendertest.Value(t, value)) || !reflect.DeepEqual(p, rendertest.Value(t, pattern)) {
			t.Error("what went in was changed")
		}
	})
}

// AnchorKey writes a key with an anchor, as [ParseKey] reads it.
func AnchorKey(a Anchor, key string) string {
	switch a {
	case None:
		return key
	case Condition:
		return "(" + key + ")"
	}
	return string(a) + "(" + key + ")"
}
