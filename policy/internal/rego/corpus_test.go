package rego

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

const corpora = "../../../../shared/corpora"

// TestBlameLibrary asks the published policies of Gatekeeper's library what
// their violations are about: each names a place that is there, or one that is
// missing below a place that is there.
func TestBlameLibrary(t *testing.T) {
	t.Parallel()
	cases := rendertest.GlobOrSkip(t, corpora+"/gatekeeper-library/*/case.json", corpora+"/gatekeeper/*/case.json")
	violations, placed := 0, 0
	for _, file := range cases {
		for _, said := range libraryCase(t, filepath.Dir(file)) {
			violations++
			if said.placed {
				placed++
			}
			t.Log(said.text)
		}
	}
	t.Logf("%d violations, %d with a place", violations, placed)
	if violations == 0 || placed*100 < violations*95 {
		t.Errorf("%d of %d violations have a place", placed, violations)
	}
}

type blamed struct {
	text   string
	placed bool
}

// libraryCase evaluates a case's constraints over its resources, without
// matching.
func libraryCase(t *testing.T, dir string) []blamed {
	var objects, constraints []map[string]any
	queries := map[string]*Query{}
	for _, d := range documents(t, dir+"/policies") {
		if d["kind"] == "ConstraintTemplate" {
			if kind, q := libraryTemplate(t, d); q != nil {
				queries[kind] = q
			}
		} else {
			constraints = append(constraints, d)
		}
	}
	objects = documents(t, dir+"/resources")
	data := libraryData(documents(t, dir+"/inventory"))
	var out []blamed
	for _, c := range constraints {
		q := queries[fmt.Sprint(c["kind"])]
		for _, o := range objects {
			if q != nil && o["kind"] != "AdmissionReview" {
				out = append(out, libraryObject(t, dir, q, data, c, o)...)
			}
		}
	}
	return out
}

func libraryTemplate(t *testing.T, d map[string]any) (string, *Query) {
	kind := fmt.Sprint(at(d, "spec", "crd", "spec", "names", "kind"))
	targets, _ := at(d, "spec", "targets").([]any)
	if len(targets) == 0 {
		return kind, nil
	}
	target := targets[0].(map[string]any)
	text, _ := target["rego"].(string)
	libs, _ := target["libs"].([]any)
	if code, ok := target["code"].([]any); ok {
		for _, c := range code {
			if at(c, "engine") == "Rego" {
				text, _ = at(c, "source", "rego").(string)
				libs, _ = at(c, "source", "libs").([]any)
			}
		}
	}
	if text == "" {
		return kind, nil
	}
	modules := map[string]*ast.Module{}
	for i, text := range append([]any{text}, libs...) {
		name := fmt.Sprintf("%d.rego", i)
		m, err := Parse(Source{Name: name, Text: text.(string), NoMetadata: true})
		if err != nil {
			t.Log(kind, texts(err))
			return kind, nil
		}
		modules[name] = m
	}
	p, err := Compile(modules, Options{ExternalData: true})
	if err != nil {
		t.Log(kind, texts(err))
		return kind, nil
	}
	return kind, query(t, p, modules["0.rego"].Package.Path.String()+".violation")
}

func libraryObject(t *testing.T, dir string, q *Query, data *Data, constraint, object map[string]any) []blamed {
	in := libraryQuestion(data, constraint, object)
	var values []ast.Value
	a := ask(t, q, in)
	each(a.Value, func(v *ast.Term) { values = append(values, v.Value) })
	slices.SortFunc(values, func(x, y ast.Value) int { return cmp.Compare(x.String(), y.String()) })
	fields, err := blame(q, in, values)
	rendertest.OK(t, err)
	var out []blamed
	for i, v := range values {
		b := blamed{text: fmt.Sprintf("%s: %.150s", strings.TrimPrefix(dir, corpora+"/"), said(v))}
		for _, f := range fields[i] {
			b.text += fmt.Sprintf("\n    %s%s%s", strings.Join(f.Path, "/"), map[bool]string{true: " missing"}[f.Missing], map[bool]string{false: " unsure"}[f.Sure])
			b.placed = b.placed || len(f.Path) > 2 && f.Path[1] == "object" && at(object, f.Path[2]) != nil
		}
		out = append(out, b)
	}
	return out
}

// libraryQuestion asks a constraint about the creation of an object.
func libraryQuestion(data *Data, constraint, object map[string]any) Question {
	params, _ := at(constraint, "spec", "parameters").(map[string]any)
	group, version, _ := strings.Cut(fmt.Sprint(object["apiVersion"]), "/")
	if version == "" {
		group, version = "", group
	}
	return Question{Data: data, Input: Value(map[string]any{"parameters": params, "review": map[string]any{
		"object": object, "operation": "CREATE", "name": at(object, "metadata", "name"), "namespace": at(object, "metadata", "namespace"),
		"kind": map[string]any{"kind": object["kind"], "group": group, "version": version},
	}})}
}

// libraryData is an inventory as Gatekeeper lays it out.
func libraryData(objects []map[string]any) *Data {
	inventory := map[string]any{}
	for _, o := range objects {
		path := []string{"cluster"}
		if ns := at(o, "metadata", "namespace"); ns != nil {
			path = []string{"namespace", fmt.Sprint(ns)}
		}
		m := inventory
		for _, s := range append(path, fmt.Sprint(o["apiVersion"]), fmt.Sprint(o["kind"])) {
			next, ok := m[s].(map[string]any)
			if !ok {
				next = map[string]any{}
				m[s] = next
			}
			m = next
		}
		m[fmt.Sprint(at(o, "metadata", "name"))] = o
	}
	return NewData(Value(map[string]any{"inventory": inventory}).Value.(ast.Object))
}

func documents(t *testing.T, dir string) []map[string]any {
	var out []map[string]any
	files, _ := filepath.Glob(dir + "/*.yaml")
	for _, file := range files {
		data := rendertest.ReadFile(t, file)
		for _, d := range bytes.Split(data, []byte("\n---")) {
			var m map[string]any
			if err := yaml.Unmarshal(d, &m); err == nil && m != nil {
				out = append(out, m)
			}
		}
	}
	return out
}

func at(x any, keys ...string) any {
	for _, k := range keys {
		m, _ := x.(map[string]any)
		x = m[k]
	}
	return x
}
