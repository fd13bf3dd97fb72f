package policytest

import (
	"context"
	"testing"
	"testing/fstest"
)

// FuzzKyverno holds that no text of a suite breaks the run, and that none that
// is not read whole passes in silence.
func FuzzKyverno(f *testing.F) {
	f.Add(kyvernoHead + "results:\n- {policy: p, rule: a, kind: Pod, resources: [good, ns/bad], result: pass, patchedResources: resources.yaml}\n")
	f.Add(kyvernoHead + "values: {globalValues: {a.b: 1}, policies: [{name: p, rules: [{name: a, foreachValues: {e: [1]}}]}], subresources: [{subresource: {name: x}}]}\nresults: []")
	f.Add(kyvernoHead + "checks:\n- {match: {rule: {(name): a}}, assert: {~.(x): [1, {}]}, error: {status: (length(@))}}\n")
	f.Add("kind: Test\napiVersion: x\njsonPayloads: [resources.yaml]\nclusterResources: [resources.yaml]\nglobalContextEntries: [{name: a, data: {b: 1}, fieldPath: 'b | c', projections: [{name: x, path: '@'}]}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		fsys := kyvernoFiles(nil)
		fsys["kyverno-test.yaml"] = &fstest.MapFile{Data: []byte(text)}
		r, err := Run(context.Background(), Options{FS: fsys, Engines: kyvernoEngines(nil)}, "kyverno-test.yaml")
		if err != nil || len(r.Suites) != 1 {
			t.Fatal(r, err)
		}
		if s := r.Suites[0]; s.Error == "" && len(s.Cases) == 0 {
			t.Errorf("%q: neither a case nor an error", text)
		}
	})
}
