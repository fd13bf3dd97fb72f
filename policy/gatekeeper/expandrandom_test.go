package gatekeeper

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// randomCases is how many random inputs were recorded.
const randomCases = 600

// TestRandomBesideGator makes mutators and objects up, always the same ones, and
// compares what happens to them with the sums of what `gator expand` v3.23.1
// made of them, or that it refused them. GATOR=path/to/gator UPDATE_GOLDEN=1
// records the sums anew.
func TestRandomBesideGator(t *testing.T) {
	t.Parallel()
	const file = "testdata/gator/random.txt"
	if bin := os.Getenv("GATOR"); bin != "" && os.Getenv("UPDATE_GOLDEN") != "" {
		var b bytes.Buffer
		for i := range randomCases {
			fmt.Fprintln(&b, gatorSum(t, askGator(t, bin, randomInput(uint64(i)))))
		}
		rendertest.OK(t, os.WriteFile(file, b.Bytes(), 0o600))
	}
	data := rendertest.ReadFile(t, file)
	want := strings.Fields(string(data))
	refused, kinds := 0, map[string]bool{}
	for i := range randomCases {
		input := randomInput(uint64(i))
		got := "error"
		made, said := expandAll(t, "input.yaml", input)
		if !strings.Contains(said, "error: ") {
			got = sum(t, made)
		}
		if got == "error" {
			refused++
		}
		kinds[got] = true
		if got != want[i] {
			t.Errorf("case %d: got %s, want %s; we say %s\nof %s", i, got, want[i], said, input)
		}
	}
	if refused > randomCases*2/3 || len(kinds) < randomCases/4 {
		t.Errorf("%d of %d are refused, and %d are different: that is no test", refused, randomCases, len(kinds))
	}
}

func gatorSum(t *testing.T, said []byte) string {
	if bytes.HasPrefix(said, []byte("error")) {
		return "error"
	}
	return sum(t, documents(t, said))
}

func sum(t *testing.T, v any) string {
	data, err := json.Marshal(v)
	rendertest.OK(t, err)
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:6])
}

// randomInput is an object with a few mutators for what is made of it, in JSON:
// as YAML, some words would be values of other types.
func randomInput(seed uint64) []byte {
	r := random{rand.New(rand.NewPCG(seed, 8))}
	template := map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": r.object(4)}
	docs := []any{
		map[string]any{
			"apiVersion": "expansion.gatekeeper.sh/v1beta1", "kind": "ExpansionTemplate", "metadata": map[string]any{"name": "t"},
			"spec": map[string]any{
				"applyTo":        []any{map[string]any{"groups": []any{"x.io"}, "versions": []any{"v1"}, "kinds": []any{"Foo"}}},
				"templateSource": "spec.template", "generatedGVK": map[string]any{"version": "v1", "kind": "Pod"},
			},
		},
		map[string]any{"apiVersion": "x.io/v1", "kind": "Foo", "metadata": map[string]any{"name": "Foo", "namespace": "default"}, "spec": map[string]any{"template": template}},
	}
	for i := range 1 + r.IntN(5) {
		docs = append(docs, r.mutator(i))
	}
	var b bytes.Buffer
	for _, d := range docs {
		data, _ := json.Marshal(d)
		fmt.Fprintf(&b, "---\n%s\n", data)
	}
	return b.Bytes()
}

// random makes things up. Fields are of the type that their name tells, nearly
// always: a and b are objects, l lists with keys, s sets and image a string.
type random struct{ *rand.Rand }

func (r random) one(of ...string) string { return of[r.IntN(len(of))] }

// rarely is true once in n times.
func (r random) rarely(n int) bool { return r.IntN(n) == 0 }

func (r random) object(depth int) map[string]any {
	o := map[string]any{}
	for range 1 + r.IntN(4) {
		field := r.one("a", "b", "l", "l", "s", "image")
		o[field] = r.field(field, depth)
	}
	return o
}

func (r random) field(name string, depth int) any {
	if r.rarely(40) {
		name = r.one("a", "l", "s", "image")
	}
	switch {
	case name == "image":
		return r.one("busybox", "a/b:1", "gcr.io/x:2", "a/b:1/foo", "localhost:5000/y@sha256:ab", "")
	case name == "s":
		set := []any{}
		for range r.IntN(4) {
			set = append(set, r.value())
		}
		return set
	case name == "l":
		list := []any{}
		for range r.IntN(4) {
			e := map[string]any{}
			if depth > 0 {
				e = r.object(depth - 1)
			}
			e["name"] = r.one("x", "z", "w")
			list = append(list, e)
		}
		return list
	case depth > 0:
		return r.object(depth - 1)
	}
	return map[string]any{}
}

func (r random) value() any {
	return []any{"one", "two", "1", 1, 2, 1.5, true, nil, map[string]any{"k": "v"}, map[string]any{"k": 1}, []any{"one"}}[r.IntN(11)]
}

// location is one in the spec, with the field that it ends with and the key of
// the element, if it ends with one.
func (r random) location() (location, field, key string) {
	location = "spec"
	for range 1 + r.IntN(3) {
		key = ""
		field = r.one("a", "b", "l", "l", "s", "image")
		location += "." + r.one(field, field, `"`+field+`"`)
		if field == "l" && !r.rarely(15) || r.rarely(60) {
			key = r.one("x", "z", "*", "*", "n")
			location += r.one("[name: ", "[ name :", "['name': ", "[name: ", "[name: ", "[name: ") + key + "]"
		}
		if field == "s" || field == "image" {
			break
		}
	}
	return location, field, key
}

// endingWith is a location that ends with a field.
func (r random) endingWith(field string) string {
	if location, last, _ := r.location(); last != "s" && last != "image" {
		return location + "." + field
	}
	return "spec." + field
}

func (r random) mutator(i int) map[string]any {
	kind := r.one("Assign", "Assign", "Assign", "AssignMetadata", "ModifySet", "AssignImage")
	version := map[string]string{"AssignImage": "v1alpha1"}[kind]
	if version == "" {
		version = r.one("v1", "v1beta1", "v1alpha1")
	}
	spec := map[string]any{"applyTo": []any{map[string]any{"groups": []any{""}, "versions": []any{"v1"}, "kinds": []any{"Pod"}}}}
	parameters := map[string]any{}
	switch kind {
	case "Assign":
		spec["location"] = r.assign(parameters)
	case "ModifySet":
		spec["location"] = r.endingWith("s")
		parameters["operation"] = r.one("merge", "prune")
		parameters["values"] = map[string]any{"fromList": r.field("s", 0)}
	case "AssignImage":
		spec["location"] = r.endingWith("image")
		r.image(parameters)
	case "AssignMetadata":
		delete(spec, "applyTo")
		r.metadata(spec, parameters)
	}
	if location, _ := spec["location"].(string); kind != "AssignMetadata" && r.rarely(3) {
		parameters["pathTests"] = r.tests(location)
	}
	spec["parameters"] = parameters
	return map[string]any{"apiVersion": "mutations.gatekeeper.sh/" + version, "kind": kind, "metadata": map[string]any{"name": fmt.Sprintf("m%d", i)}, "spec": spec}
}

func (r random) assign(parameters map[string]any) string {
	location, field, key := r.location()
	value := r.field(field, 1)
	switch {
	case key == "*":
		location += ".image"
		value = r.field("image", 0)
	case key != "":
		e := r.object(1)
		if e["name"] = key; r.rarely(20) {
			e["name"] = "other"
		}
		value = e
	}
	parameters["assign"] = map[string]any{"value": value}
	if key == "" && r.rarely(10) {
		parameters["assign"] = map[string]any{"fromMetadata": map[string]any{"field": r.one("name", "namespace")}}
	}
	return location
}

func (r random) image(parameters map[string]any) {
	for _, p := range [][]string{
		{"assignDomain", "gcr.io", "localhost", "localhost:5000", "gcr.io", "bad"},
		{"assignPath", "x/y", "localhost", "x__y", "p-q.r", "gcr.io/x"},
		{"assignTag", ":v1", "@sha256:0123456789abcdef0123456789abcdef", ":v1", ":1", "v1"},
	} {
		if r.rarely(2) {
			parameters[p[0]] = r.one(p[1:5]...)
			if r.rarely(30) {
				parameters[p[0]] = p[5]
			}
		}
	}
}

func (r random) metadata(spec, parameters map[string]any) {
	spec["location"] = r.one("metadata.labels.m", "metadata.labels.a", "metadata.annotations.'x/m'", `metadata.annotations."m"`)
	if r.rarely(3) {
		spec["match"] = map[string]any{"labelSelector": map[string]any{"matchLabels": map[string]any{"m": "on"}}}
	}
	parameters["assign"] = map[string]any{"value": r.one("on", "off")}
	if r.rarely(4) {
		parameters["assign"] = map[string]any{"fromMetadata": map[string]any{"field": r.one("name", "namespace")}}
	}
}

// tests are about how a location begins.
func (r random) tests(location string) []any {
	var tests []any
	for range 1 + r.IntN(2) {
		end := r.IntN(len(location))
		for end < len(location) && location[end] != '.' && location[end] != '[' {
			end++
		}
		tests = append(tests, map[string]any{"subPath": location[:end], "condition": r.one("MustExist", "MustExist", "MustNotExist")})
	}
	return tests
}
