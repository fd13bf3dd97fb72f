package overlay

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

func parseAny(text string) (map[string]any, bool) {
	var v map[string]any
	err := yaml.Unmarshal([]byte(text), &v)
	return v, err == nil && v != nil
}

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	m, _ := rendertest.Value(t, text).(map[string]any)
	return m
}

func TestStrategicMerge(t *testing.T) {
	t.Parallel()
	const pod = "apiVersion: v1, kind: Pod"
	for _, c := range []struct {
		name, object, patch, want string
		pointers                  string
	}{
		{"a field that is new", "{}", "{a: {b: 1}}", "{a: {b: 1}}", "/a"},
		{"a field of a map", "{a: {b: 1}}", "{a: {c: 2}}", "{a: {b: 1, c: 2}}", "/a/c"},
		{"a field that was other", "{a: {b: 1}}", "{a: {b: 2}}", "{a: {b: 2}}", "/a/b"},
		{"a field that is the same", "{a: {b: 1}}", "{a: {b: 1}}", "{a: {b: 1}}", ""},
		{"null removes", "{a: {b: 1, c: 1}}", "{a: {b: null}}", "{a: {c: 1}}", "/a/b"},
		{"null of what is not there", "{a: 1}", "{b: null}", "{a: 1}", ""},
		{"null in what is new", "{}", "{a: {b: null, c: 1}}", "{a: {c: 1}}", "/a"},
		{"keys with slashes", "{metadata: {labels: {a: b}}}", "{metadata: {labels: {x/y: c~d}}}", "{metadata: {labels: {a: b, x/y: c~d}}}", "/metadata/labels/x~1y"},
		{"a list of a kind that is not known", "{kind: Rollout, l: [{name: a, v: 1}]}", "{l: [{name: b}]}", "{kind: Rollout, l: [{name: b}]}", "/l"},
		{
			"a list by name", "{" + pod + ", spec: {containers: [{name: a, image: x}, {name: b}]}}", "{spec: {containers: [{name: b, image: z}]}}",
			"{" + pod + ", spec: {containers: [{name: b, image: z}, {name: a, image: x}]}}", "/spec/containers/0/image",
		},
		{
			"a new element stands first", "{" + pod + ", spec: {containers: [{name: a}]}}", "{spec: {containers: [{name: b, image: z}]}}",
			"{" + pod + ", spec: {containers: [{name: b, image: z}, {name: a}]}}", "/spec/containers/0",
		},
		{
			"lists within elements", "{" + pod + ", spec: {containers: [{name: a, env: [{name: e, value: x}]}]}}", "{spec: {containers: [{name: a, env: [{name: f, value: z}]}]}}",
			"{" + pod + ", spec: {containers: [{name: a, env: [{name: f, value: z}, {name: e, value: x}]}]}}", "/spec/containers/0/env/0",
		},
		{
			"an element that is deleted", "{" + pod + ", spec: {containers: [{name: a}, {name: b}]}}", "{spec: {containers: [{name: a, $patch: delete}]}}",
			"{" + pod + ", spec: {containers: [{name: b}]}}", "/spec/containers",
		},
		{
			"a list that is replaced", "{" + pod + ", spec: {containers: [{name: a}]}}", "{spec: {containers: [{$patch: replace}, {name: b}]}}",
			"{" + pod + ", spec: {containers: [{name: b}]}}", "/spec/containers",
		},
		{"a map that is replaced", "{a: {b: 1}}", "{a: {$patch: replace, c: 2}}", "{a: {c: 2}}", "/a"},
		{"a map that is deleted", "{a: {b: 1}, d: 1}", "{a: {$patch: delete}}", "{d: 1}", "/a"},
		{
			"tolerations are replaced", "{" + pod + ", spec: {tolerations: [{key: a}]}}", "{spec: {tolerations: [{key: b}]}}",
			"{" + pod + ", spec: {tolerations: [{key: b}]}}", "/spec/tolerations",
		},
		{
			"finalizers are one set", "{" + pod + ", metadata: {finalizers: [a, b]}}", "{metadata: {finalizers: [c, b]}}",
			"{" + pod + ", metadata: {finalizers: [c, b, a]}}", "/metadata/finalizers/0",
		},
		{
			"ports by number", "{" + pod + ", spec: {containers: [{name: a, ports: [{containerPort: 80}]}]}}", "{spec: {containers: [{name: a, ports: [{containerPort: 80, name: http}]}]}}",
			"{" + pod + ", spec: {containers: [{name: a, ports: [{containerPort: 80, name: http}]}]}}", "/spec/containers/0/ports/0/name",
		},
		{
			"the pod of a CronJob", "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: a}]}}}}}}",
			"{spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: x}]}}}}}}",
			"{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: x}]}}}}}}",
			"/spec/jobTemplate/spec/template/spec/containers/0/image",
		},
		{
			"an object within an object", "{apiVersion: x/v1, kind: Own, raw: {" + pod + ", spec: {containers: [{name: a}]}}}", "{raw: {spec: {containers: [{name: a, image: x}]}}}",
			"{apiVersion: x/v1, kind: Own, raw: {" + pod + ", spec: {containers: [{name: a, image: x}]}}}", "/raw/spec/containers/0/image",
		},
		{
			"the patch says the kind", "{spec: {containers: [{name: a}]}}", "{" + pod + ", spec: {containers: [{name: b}]}}",
			"{" + pod + ", spec: {containers: [{name: b}, {name: a}]}}", "/apiVersion /kind /spec/containers/0",
		},

		{"add where nothing is", "{}", "{a: {+(b): 1}}", "{a: {b: 1}}", "/a"},
		{"add what is there", "{a: {b: 2}}", "{a: {+(b): 1}}", "{a: {b: 2}}", ""},
		{"add what is there as null", "{a: {b: null}}", "{a: {+(b): 1}}", "{a: {b: null}}", ""},
		{"add a map", "{}", "{+(a): {b: 1}}", "{a: {b: 1}}", "/a"},
		{"a condition that holds", "{a: x}", "{(a): x, b: 1}", "{a: x, b: 1}", "/b"},
		{"a condition by wildcard", "{a: xyz}", "{(a): 'x*', b: 1}", "{a: xyz, b: 1}", "/b"},
		{"a condition on a number is one on its text", "{a: 8080}", "{(a): '80*', b: 1}", "{a: 8080, b: 1}", "/b"},
		{"a condition on a boolean", "{a: true}", "{(a): true, b: 1}", "{a: true, b: 1}", "/b"},
		{"a condition on a map", "{a: {c: x, d: x}}", "{(a): {(c): x}, b: 1}", "{a: {c: x, d: x}, b: 1}", "/b"},
		{"a condition on a list", "{a: [{c: x}]}", "{(a): [{(c): x}], b: 1}", "{a: [{c: x}], b: 1}", "/b"},
		{"a condition whose value adds", "{s: {a: {c: x}}}", "{s: {(a): {+(d): 1}}, b: 1}", "{s: {a: {c: x, d: 1}}, b: 1}", "/b /s/a/d"},
		{"a condition whose value adds, at the root", "{a: {c: x}}", "{(a): {+(d): 1}, b: 1}", "{a: {c: x}, (a): {d: 1}, b: 1}", "/(a) /b"},
		{"a condition whose value stays", "{a: {c: x}}", "{s: {(a): 1}}", "SKIP", ""},
		{"a condition that does not hold", "{a: z}", "{(a): x, b: 1}", "SKIP", ""},
		{"a condition without its key", "{}", "{(a): x, b: 1}", "SKIP", ""},
		{"a condition deep inside", "{s: {a: z}}", "{b: 1, s: {(a): x, c: 1}}", "SKIP", ""},
		{"a global condition", "{a: x}", "{<(a): x, b: 1}", "{a: x, b: 1}", "/b"},
		{"a global condition that does not hold", "{a: z}", "{<(a): x, b: 1}", "SKIP", ""},

		{
			"each container", "{" + pod + ", spec: {containers: [{name: a}, {name: b}]}}", "{spec: {containers: [{(name): '*', image: x}]}}",
			"{" + pod + ", spec: {containers: [{name: a, image: x}, {name: b, image: x}]}}", "/spec/containers/0/image /spec/containers/1/image",
		},
		{
			"some containers", "{" + pod + ", spec: {containers: [{name: a, image: 'x:latest'}, {name: b, image: 'x:1'}]}}", "{spec: {containers: [{(image): '*:latest', imagePullPolicy: Always}]}}",
			"{" + pod + ", spec: {containers: [{name: a, image: 'x:latest', imagePullPolicy: Always}, {name: b, image: 'x:1'}]}}", "/spec/containers/0/imagePullPolicy",
		},
		{
			"no container", "{" + pod + ", spec: {containers: [{name: a, image: 'x:1'}]}}", "{spec: {containers: [{(image): '*:latest', imagePullPolicy: Always}]}}",
			"{" + pod + ", spec: {containers: [{name: a, image: 'x:1'}]}}", "",
		},
		{
			"one condition, two elements", "{" + pod + ", spec: {containers: [{name: a}, {name: b}]}}", "{spec: {containers: [{(name): '*', image: x}]}}",
			"{" + pod + ", spec: {containers: [{name: a, image: x}, {name: b, image: x}]}}", "/spec/containers/0/image /spec/containers/1/image",
		},
		{
			"a global condition on a list that is null", "{" + pod + ", spec: {containers: null}}", "{spec: {hostNetwork: true, containers: [{<(name): a, image: x}]}}",
			"{" + pod + ", spec: {hostNetwork: true, containers: null}}", "/spec/hostNetwork",
		},
		{
			"a global condition on a list that is missing", "{" + pod + "}", "{spec: {hostNetwork: true, containers: [{<(name): a, image: x}]}}",
			"SKIP", "",
		},
		{
			"defaults of containers", "{" + pod + ", spec: {containers: [{name: a, resources: {limits: {cpu: 1}}}]}}", "{spec: {containers: [{(name): '*', resources: {limits: {+(memory): 1Gi, +(cpu): 2}}}]}}",
			"{" + pod + ", spec: {containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}", "/spec/containers/0/resources/limits/memory",
		},
		{
			"an addition that one has is lost to those behind it", "{" + pod + ", spec: {containers: [{name: a, image: x}, {name: b}]}}", "{spec: {containers: [{(name): '*', +(image): z, tty: true}]}}",
			"{" + pod + ", spec: {containers: [{name: a, image: x, tty: true}, {name: b, tty: true}]}}", "/spec/containers/0/tty /spec/containers/1/tty",
		},
		{
			"an element of conditions alone is a condition of nothing", "{" + pod + ", spec: {containers: [{name: a, image: x}]}}", "{spec: {containers: [{(image): z}], hostname: h}}",
			"{" + pod + ", spec: {hostname: h, containers: [{name: a, image: x}]}}", "/spec/hostname",
		},
		{
			"elements without a name are left alone", "{" + pod + ", spec: {volumes: [{emptyDir: {}}]}}", "{spec: {volumes: [{(emptyDir): {}, hostPath: {path: x}}]}}",
			"{" + pod + ", spec: {volumes: [{emptyDir: {}}]}}", "",
		},
		{
			"a global condition on elements, one meets it", "{" + pod + ", metadata: {}, spec: {volumes: [{name: a, emptyDir: {}}, {name: b}]}}", "{metadata: {annotations: {+(k): v}}, spec: {volumes: [{<(emptyDir): {}}]}}",
			"{" + pod + ", metadata: {annotations: {k: v}}, spec: {volumes: [{name: a, emptyDir: {}}, {name: b}]}}", "/metadata/annotations",
		},
		{"a global condition on elements, none meets it", "{" + pod + ", spec: {volumes: [{name: b}]}}", "{metadata: {annotations: {+(k): v}}, spec: {volumes: [{<(emptyDir): {}}]}}", "SKIP", ""},
		{"a global condition on elements that are not there", "{" + pod + ", spec: {}}", "{spec: {hostname: h, volumes: [{<(emptyDir): {}}]}}", "SKIP", ""},
		{"a condition on elements that are not there", "{" + pod + ", spec: {}}", "{spec: {hostname: h, volumes: [{(emptyDir): {}, name: x}]}}", "{" + pod + ", spec: {hostname: h}}", "/spec/hostname"},
		{
			"plain elements beside those with anchors", "{" + pod + ", spec: {containers: [{name: a}]}}", "{spec: {containers: [{(name): a, tty: true}, {name: c, image: x}]}}",
			"{" + pod + ", spec: {containers: [{name: c, image: x}, {name: a, tty: true}]}}", "/spec/containers/0 /spec/containers/1/tty",
		},
		{"what is empty is not patched", "{a: 1}", "{b: {}, c: [{}]}", "{a: 1}", ""},
		{"an empty list is", "{a: 1}", "{b: []}", "{a: 1, b: []}", "/b"},
		{"other anchors are plain keys", "{}", "{=(a): 1}", "{=(a): 1}", "/=(a)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before, patch := object(t, c.object), rendertest.Value(t, c.patch)
			got, err := StrategicMerge(before, patch)
			rendertest.OK(t, err)
			if !reflect.DeepEqual(before, object(t, c.object)) || !reflect.DeepEqual(patch, rendertest.Value(t, c.patch)) {
				t.Error("what went in was changed")
			}
			want := c.want
			if want == "SKIP" {
				want = c.object
			}
			if got.Applied != (c.want != "SKIP") {
				t.Errorf("applied: %v", got.Applied)
			}
			rendertest.Equal(t, object(t, want), got.Object)
			if p := strings.Join(got.Pointers, " "); p != c.pointers {
				t.Errorf("pointers %q, want %q", p, c.pointers)
			}
		})
	}
}

func TestStrategicMergeRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("{a: ", 400) + "1" + strings.Repeat("}", 400)
	for _, c := range []struct{ object, patch, want string }{
		{"{a: 1}", "[1]", "the patch is a list, and an object is a map"},
		{"{a: 1}", "null", "the patch is null, and an object is a map"},
		{"{a: 1}", "{a: {b: 1}}", "the patch has a map where the object has a number: /a"},
		{"{a: {b: 1}}", "{a: x}", "the patch has a string where the object has a map: /a"},
		{"{a: {b: 1}}", "{a: [x]}", "the patch has a list where the object has a map: /a"},
		{"{a: {b: 1}}", "{a: [{(c): x}]}", "the patch has a list where the object has a map"},
		{"{a: {b: 1}}", "{a: {$patch: other}}", "$patch at /a is none of merge, replace and delete"},
		{"{a: {b: 1}}", "{$patch: 5}", "$patch at the root is none of merge, replace and delete"},
		{"{a: 1}", "{$patch: delete}", "the patch deletes the whole object"},
		{"{apiVersion: v1, kind: Pod, spec: {containers: [{name: a}]}}", "{spec: {containers: [a]}}", "the patch has a string in a list of maps: /spec/containers"},
		{"{a: [{name: b}, {name: c}]}", "{a: [{(name): b, x: 1}, {(name): c, x: 2}]}", "several elements of a list have anchors, or only conditions: Kyverno drops the wrong elements or crashes"},
		{"{a: 1}", deep, "it nests deeper than 256 levels"},
	} {
		_, err := StrategicMerge(object(t, c.object), rendertest.Value(t, c.patch))
		if err == nil || err.Error() != c.want {
			t.Errorf("%.60s: %v, want %s", c.patch, err, c.want)
		}
	}
}

// TestResultSharesNothing holds that changes to a result change neither the inputs
// nor other results.
func TestResultSharesNothing(t *testing.T) {
	t.Parallel()
	before, patch := object(t, "{a: {b: [1]}, c: {d: 1}}"), rendertest.Value(t, "{x: [{z: 1}]}")
	r, err := StrategicMerge(before, patch)
	rendertest.OK(t, err)
	r.Object["c"].(map[string]any)["d"] = 2
	r.Object["x"].([]any)[0].(map[string]any)["z"] = 2
	if !reflect.DeepEqual(before, object(t, "{a: {b: [1]}, c: {d: 1}}")) || !reflect.DeepEqual(patch, rendertest.Value(t, "{x: [{z: 1}]}")) {
		t.Error("shared")
	}
}

func TestPointersAreBounded(t *testing.T) {
	t.Parallel()
	labels := map[string]any{}
	for i := range 5000 {
		labels[strings.Repeat("k", 1+i%50)+string(rune('a'+i%26))+text(i)] = "v"
	}
	r, err := StrategicMerge(map[string]any{"metadata": map[string]any{"labels": map[string]any{}}}, map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil || len(r.Pointers) != maxPointers {
		t.Errorf("%d pointers, %v", len(r.Pointers), err)
	}
}

// FuzzStrategicMerge wants the same of the same, of JSON, with what goes in as
// it was.
func FuzzStrategicMerge(f *testing.F) {
	f.Add("{apiVersion: v1, kind: Pod, spec: {containers: [{name: a}]}}", "{spec: {containers: [{(name): '*', +(image): x}]}}")
	f.Add("{a: [{b: 1}]}", "{a: [{<(b): 1, c: [{$patch: delete}]}]}")
	f.Add("{apiVersion: v1, kind: Service, spec: {ports: [{port: 1}]}}", "{spec: {ports: [{port: 1, protocol: TCP}, {port: 1}]}}")
	f.Fuzz(func(t *testing.T, objectText, patchText string) {
		var o, p any
		if yaml.Unmarshal([]byte(objectText), &o) != nil || yaml.Unmarshal([]byte(patchText), &p) != nil {
			t.Skip()
		}
		m, ok := o.(map[string]any)
		if !ok {
			t.Skip()
		}
		first, err := StrategicMerge(m, p)
		again, errAgain := StrategicMerge(m, p)
		if !reflect.DeepEqual(first, again) || (err == nil) != (errAgain == nil) {
			t.Error("another result")
		}
		if !reflect.DeepEqual(m, object(t, objectText)) || !reflect.DeepEqual(p, rendertest.Value(t, patchText)) {
			t.Error("what went in was changed")
		}
		if _, err := json.Marshal(first.Object); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkStrategicMerge(b *testing.B) {
	o := object(b, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {a: b}}, spec: {template: {spec: {containers: [
		{name: a, image: x, env: [{name: e, value: v}], ports: [{containerPort: 80, protocol: TCP}]}, {name: b, image: z}]}}}}`)
	p := rendertest.Value(b, "{spec: {template: {spec: {containers: [{(name): '*', securityContext: {+(privileged): false}}]}}}}")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := StrategicMerge(o, p); err != nil {
			b.Fatal(err)
		}
	}
}

// An object of very many elements is merged in no time that grows with their
// square.
func TestMergeOfManyElements(t *testing.T) {
	t.Parallel()
	var containers []any
	for i := range 20000 {
		containers = append(containers, map[string]any{"name": "c" + text(i)})
	}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": containers}}
	r, err := StrategicMerge(pod, rendertest.Value(t, "{spec: {containers: [{(name): '*', tty: true}]}}"))
	rendertest.OK(t, err)
	got := r.Object["spec"].(map[string]any)["containers"].([]any)
	if len(got) != 20000 || got[19999].(map[string]any)["tty"] != true {
		t.Errorf("%d containers, the last %v", len(got), got[len(got)-1])
	}
}
