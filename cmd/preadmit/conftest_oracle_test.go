package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A conftestSample is policies and data with the objects that they evaluate.
type conftestSample struct {
	name           string
	policies, data []string
	objects        []map[string]any
}

// regoPolicies is the set of this project's tests: Kubernetes policies such as
// people write.
const regoPolicies, regoData = "../../testdata/rego/kubernetes", "../../testdata/rego/data"

// conftestSamples are the policies of conftest's own tests that are about
// Kubernetes, and those of this project, which evaluate the objects of the
// Gatekeeper library.
func conftestSamples(t *testing.T) []conftestSample {
	t.Helper()
	cases, _ := filepath.Glob("../../../shared/corpora/conftest/*")
	if len(cases) == 0 {
		t.Skip("../shared/corpora is absent")
	}
	var samples []conftestSample
	seen := make(map[string]bool)
	for _, dir := range cases {
		s := conftestSample{name: filepath.Base(dir)}
		s.policies, _ = filepath.Glob(dir + "/policies/*.rego")
		s.data, _ = filepath.Glob(dir + "/data/*.yaml")
		files, _ := filepath.Glob(dir + "/resources/*.yaml")
		for _, f := range files {
			for _, o := range readObjects(t, "", f) {
				s.objects = append(s.objects, o.Object)
			}
		}
		key := fmt.Sprint(contents(t, s.policies), contents(t, files))
		if len(s.policies) == 0 || seen[key] || strings.Contains(key, "http.send") || strings.Contains(key, "net.") {
			continue
		}
		seen[key] = true
		samples = append(samples, s)
	}
	own := conftestSample{name: "kubernetes"}
	own.policies, _ = filepath.Glob(regoPolicies + "/*.rego")
	own.data, _ = filepath.Glob(regoData + "/*.yaml")
	for _, s := range gatorSamples(t) {
		for _, o := range s.objects {
			own.objects = append(own.objects, o.Object)
		}
	}
	return append(samples, own)
}

func contents(t *testing.T, files []string) (all []string) {
	t.Helper()
	for _, f := range files {
		data := rendertest.ReadFile(t, f)
		all = append(all, string(data))
	}
	return all
}

// TestConftestPerturbed asks conftest and the engine about objects, and about
// thousands that differ from one in a place, and holds failures, warnings and
// exceptions against each other: their packages, rules and messages.
func TestConftestPerturbed(t *testing.T) {
	t.Parallel()
	conftest := needProgram(t, "PREADMIT_CONFTEST", "conftest")
	total, same, swallowed := 0, 0, 0
	for _, s := range conftestSamples(t) {
		var objects []map[string]any
		seen := make(map[string]bool)
		for _, o := range s.objects {
			for _, p := range perturbed(o, max(6000/len(s.objects), 30)) {
				if key := toJSON(p); !seen[key] {
					seen[key] = true
					objects = append(objects, p)
				}
			}
		}
		ours, broke := s.evaluate(t, objects)
		theirs := s.ask(t, conftest, objects)
		differences := 0
		for i := range objects {
			total++
			switch d := differ(ours[i], theirs[i]); {
			case d == "":
				same++
			default:
				if differences++; differences <= 5 {
					t.Errorf("difference: %s: %s: %s%s", s.name, toJSON(objects[i]), d, broke[i])
				}
			}
			if broke[i] != "" {
				swallowed++
			}
		}
		if differences > 5 {
			t.Errorf("difference: %s: and %d more", s.name, differences-5)
		}
	}
	t.Logf("table conftest beside it: %d / %d", same, total)
	t.Logf("of these %d say here that a built-in function failed, where conftest takes it for a pass", swallowed)
	if total < 5000 {
		t.Errorf("only %d objects were compared", total)
	}
}

// differ lists what only one of both says.
func differ(ours, theirs []string) string {
	var b strings.Builder
	for _, s := range ours {
		if !slices.Contains(theirs, s) {
			fmt.Fprintf(&b, "\n  here only %q", s)
		}
	}
	for _, s := range theirs {
		if !slices.Contains(ours, s) {
			fmt.Fprintf(&b, "\n  of conftest only %q", s)
		}
	}
	return b.String()
}

// evaluate returns what the engine says about each object, and which built-in
// functions failed.
func (c *conftestSample) evaluate(t *testing.T, objects []map[string]any) (said [][]string, broke []string) {
	t.Helper()
	var modules []rego.Module
	for i, text := range contents(t, c.policies) {
		modules = append(modules, rego.Module{File: c.policies[i], Text: text})
	}
	var o rego.Options
	for i, text := range contents(t, c.data) {
		o.Data = append(o.Data, rego.Document{File: c.data[i], Text: text})
	}
	engine, err := rego.New(modules, o)
	for _, e := range render.Errors(err) {
		if !e.Warning {
			t.Fatalf("%s: %v", c.name, e)
		}
	}
	kinds, err := schema.New(nil, schema.Options{})
	rendertest.OK(t, err)
	said, broke = make([][]string, len(objects)), make([]string, len(objects))
	for i, tree := range objects {
		object := objectOf(tree)
		gvk := object.GroupVersionKind()
		results, err := engine.Validate(context.Background(), &policy.Request{
			Operation: policy.Create, Object: object, Admitted: tree,
			Kind: gvk, Resource: kinds.Resource(gvk), Namespace: object.GetNamespace(), Name: object.GetName(),
		})
		rendertest.OK(t, err)
		for _, r := range results {
			rule := r.Policy + "." + r.Rule
			switch r.Outcome {
			case policy.Fail:
				said[i] = append(said[i], string(r.Action)+" "+rule+": "+r.Message)
			case policy.Skip:
				said[i] = append(said[i], "exception "+rule)
			case policy.Error, policy.Unknown:
				broke[i] += "\n  " + rule + " " + r.Message
			}
		}
		slices.Sort(said[i])
	}
	return said, broke
}

// ask returns what conftest says about each object, all in one process.
func (c *conftestSample) ask(t *testing.T, conftest string, objects []map[string]any) [][]string {
	t.Helper()
	dir := t.TempDir()
	policies := filepath.Join(dir, "policies")
	args := []string{"test", "-o", "json", "--all-namespaces", "-p", policies}
	for i, text := range contents(t, c.policies) {
		putFile(t, filepath.Join(policies, filepath.Base(c.policies[i])), text)
	}
	for i, text := range contents(t, c.data) {
		putFile(t, filepath.Join(dir, "data", filepath.Base(c.data[i])), text)
		args = append(args, "-d", filepath.Join(dir, "data"))
	}
	for i, o := range objects {
		putFile(t, filepath.Join(dir, "objects", fmt.Sprintf("%06d.yaml", i)), toJSON(o)+"\n")
	}
	out, errOut := runProgram(t, dir, conftest, append(args, filepath.Join(dir, "objects"))...)
	type result struct {
		Msg      string
		Metadata struct{ Query string }
	}
	var files []struct {
		Filename, Namespace            string
		Failures, Warnings, Exceptions []result
	}
	if err := json.Unmarshal(out, &files); err != nil {
		t.Fatalf("%s: %v: %s", c.name, err, errOut)
	}
	said := make([][]string, len(objects))
	for _, f := range files {
		i := 0
		if _, err := fmt.Sscanf(filepath.Base(f.Filename), "%06d.yaml", &i); err != nil {
			t.Fatal(err)
		}
		for _, r := range f.Failures {
			said[i] = append(said[i], "deny "+strings.TrimPrefix(r.Metadata.Query, "data.")+": "+r.Msg)
		}
		for _, r := range f.Warnings {
			said[i] = append(said[i], "warn "+strings.TrimPrefix(r.Metadata.Query, "data.")+": "+r.Msg)
		}
		for _, r := range f.Exceptions {
			said[i] = append(said[i], "exception "+exempted(f.Namespace, r.Msg))
		}
	}
	return said
}

// exempted is the rule that an exception is about, of which conftest tells the
// name behind the first underscore: it is that of a deny rule in these tests.
func exempted(namespace, msg string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(msg, `"`), `== "`)
	return namespace + ".deny_" + name
}

func putFile(t testing.TB, name, text string) {
	t.Helper()
	rendertest.WriteFile(t, name, text)
}
