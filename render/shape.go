package render

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A shape classifies a document by its outermost keys.
type shape int

const (
	foreign  shape = iota // not Kubernetes
	nothing               // null
	object                // has an apiVersion and a kind
	half                  // an object that lacks a part
	config                // a tool's configuration in the form of an object
	template              // an object whose name is a placeholder
)

func shapeOf(v any) shape {
	switch v := v.(type) {
	case nil:
		return nothing
	case map[string]any:
		return shapeOfMap(v)
	case []any:
		for _, item := range v {
			if s := shapeOf(item); s == object || s == half {
				return half
			}
		}
	case string:
		if versionKey.MatchString(v) && kindKey.MatchString(v) {
			return half // such as JSON with comments, or an object made a text by a stray |
		}
	}
	return foreign
}

// versionKey and kindKey match the keys of an object in a text.
var (
	versionKey = regexp.MustCompile(`\bapiVersion['"]?\s*:`)
	kindKey    = regexp.MustCompile(`\bkind['"]?\s*:`)
)

func shapeOfMap(m map[string]any) shape {
	apiVersion, kind := text(m["apiVersion"]), text(m["kind"])
	switch {
	case apiVersion != "" && kind != "" && isConfig(apiVersion, kind):
		return config
	case apiVersion != "" && kind != "" && namedByPlaceholder(m):
		return template
	case apiVersion != "" && kind != "":
		return object
	}
	_, hasVersion := m["apiVersion"]
	_, hasKind := m["kind"]
	if hasVersion && hasKind {
		return half
	}
	_, hasMetadata := m["metadata"]
	_, hasSpec := m["spec"]
	if (hasVersion || hasKind) && (hasMetadata || hasSpec) {
		return half
	}
	return foreign
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// mayHoldObjects is a quick check: it returns true for every UTF-8 file with an
// object or half of one, unless its keys are written with escapes.
func mayHoldObjects(data []byte) bool {
	n := 0
	for _, word := range []string{"apiVersion", "kind", "metadata", "spec"} {
		if bytes.Contains(data, []byte(word)) {
			n++
		}
	}
	return n >= 2 || bytes.Contains(data, []byte{0}) || bytes.Contains(data, []byte(`\u`)) || bytes.Contains(data, []byte(`\U`)) || bytes.Contains(data, []byte(`\x`))
}

// missingPart describes why a value is not a Kubernetes object, and returns the pointer of the part
// that is wrong.
func missingPart(v any) (pointer, what string) {
	m, ok := v.(map[string]any)
	if !ok {
		return "", "it is " + TypeName(v)
	}
	var missing []string
	for _, key := range []string{"apiVersion", "kind"} {
		switch v, ok := m[key]; {
		case !ok:
			missing = append(missing, key)
		case v == "":
			return Pointer(key), key + " is empty"
		case text(v) == "":
			return Pointer(key), fmt.Sprintf("%s is %s, not a string", key, TypeName(v))
		}
	}
	return "", "it has no " + strings.Join(missing, " and no ")
}

// TypeName names the type of a JSON value for people.
func TypeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	}
	return "a map"
}

// listItems returns the items of a List. A kind that ends in List but has a
// name is an ordinary object.
func listItems(m map[string]any) (items []any, ok bool) {
	kind := text(m["kind"])
	items, isList := m["items"].([]any)
	if kind == "List" {
		return items, isList || m["items"] == nil
	}
	if !isList || !strings.HasSuffix(kind, "List") {
		return nil, false
	}
	if meta, ok := m["metadata"].(map[string]any); ok && meta["name"] != nil {
		return nil, false
	}
	return items, true
}

// inferKind sets an item's kind and version from its List, as
// UnstructuredJSONScheme does for a PodList. It leaves alone items that have
// one of them.
func inferKind(item any, list map[string]any) {
	m, ok := item.(map[string]any)
	kind := strings.TrimSuffix(text(list["kind"]), "List")
	if !ok || kind == "" || m["kind"] != nil || m["apiVersion"] != nil {
		return
	}
	m["apiVersion"], m["kind"] = list["apiVersion"], kind
}

// configGroups are API groups of files that tools read and no API server
// serves.
var configGroups = []string{
	"apiserver.config.k8s.io", "audit.k8s.io", "backstage.io", "chainsaw.kyverno.io", "cli.kyverno.io", "ctlptl.dev",
	"eksctl.io", "k3d.io", "kind.x-k8s.io", "kpt.dev", "kubeadm.k8s.io", "kubelet.config.k8s.io", "kubeproxy.config.k8s.io",
	"kubescheduler.config.k8s.io", "kustomize.config.k8s.io", "kuttl.dev", "meta.pkg.crossplane.io", "schema.plugin.fluxcd.io", "skaffold", "test.gatekeeper.sh",
}

func isConfig(apiVersion, kind string) bool {
	group, _, hasGroup := strings.Cut(apiVersion, "/")
	if !hasGroup {
		return apiVersion == "v1" && kind == "Config" // kubeconfig
	}
	return slices.Contains(configGroups, group)
}

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
