package render

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// suiteFiles are the names under which test suites look for their tests.
var suiteFiles = []string{"kyverno-test.yaml", "kyverno-test.yml", "suite.yaml", "suite.yml", "kaptest.yaml", "kaptest.yml"}

// isChainsaw reports whether a directory holds a chainsaw test, which applies
// the files beside it to a test cluster.
func isChainsaw(entries []fs.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		name := strings.ToLower(e.Name())
		return e.Type().IsRegular() && (name == "chainsaw-test.yaml" || name == "chainsaw-test.yml")
	})
}

// suites marks the files that test suites in dir name as fixtures, except for
// the policies under test. Files outside of dir are not marked, since a suite
// may test something that is deployed.
func (w *walk) suites(dir string, entries []fs.DirEntry) {
	for _, e := range entries {
		if !e.Type().IsRegular() || !slices.Contains(suiteFiles, strings.ToLower(e.Name())) {
			continue
		}
		name := path.Join(dir, e.Name())
		data, err := ReadFile(w.fsys, name)
		if err != nil {
			continue
		}
		docs, _ := Documents(name, data, YAML11)
		for _, doc := range docs {
			if isSuite(doc.Value) {
				w.fixtures(dir, name, doc.Value)
			}
		}
	}
}

func isSuite(v any) bool {
	m, _ := v.(map[string]any)
	group, _, _ := strings.Cut(text(m["apiVersion"]), "/")
	switch {
	case group == "cli.kyverno.io" || group == "test.gatekeeper.sh":
		return true
	case m["apiVersion"] != nil:
		return false
	}
	policies := m["policies"] != nil || m["validatingAdmissionPolicies"] != nil
	return policies && (m["results"] != nil || m["testSuites"] != nil || m["vapTestSuites"] != nil || m["mapTestSuites"] != nil)
}

// fixtures marks the files that a part of a suite names.
func (w *walk) fixtures(dir, suite string, v any) {
	switch v := v.(type) {
	case string:
		name := path.Join(dir, v)
		if hasManifestName(name) && strings.HasPrefix(name, strings.TrimPrefix(dir+"/", "./")) {
			w.tested[name] = suite
		}
	case []any:
		for _, item := range v {
			w.fixtures(dir, suite, item)
		}
	case map[string]any:
		for key, item := range v {
			switch key {
			case "policies", "validatingAdmissionPolicies", "template", "constraint":
			default:
				w.fixtures(dir, suite, item)
			}
		}
	}
}
