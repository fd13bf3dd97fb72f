package render

import (
	"bytes"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	yaml2 "go.yaml.in/yaml/v2"
)

// Forms of text in place of a value that is not in the tree.
var (
	placeholder = regexp.MustCompile(`\{\{[^{}]*\}\}|<[A-Z][A-Z0-9_-]*>`)
	variable    = regexp.MustCompile(`\$\{[A-Za-z_][^}]*\}`)
)

// HasPlaceholder reports whether text has a placeholder such as {{ .name }} or
// <TOKEN>, which must be replaced before the text is deployed.
func HasPlaceholder(text string) bool { return placeholder.MatchString(text) }

// HasVariable reports whether text holds a variable such as ${NAME} or
// ${NAME:-default}, which Flux substitutes.
func HasVariable(text string) bool { return variable.MatchString(text) }

// IsEncrypted reports whether SOPS encrypted the text.
func IsEncrypted(text string) bool {
	return strings.HasPrefix(text, "ENC[") && strings.HasSuffix(strings.TrimSpace(text), "]")
}

// HasSOPS reports whether an object's fields are encrypted by SOPS. What is
// deployed has other values there, and no field "sops".
func HasSOPS(object map[string]any) bool {
	_, ok := object["sops"].(map[string]any)
	return ok
}

// Substitutes reports whether o makes Flux substitute variables in what it
// deploys.
func Substitutes(o *Object) bool {
	if o.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization"}) {
		return false
	}
	_, ok := Lookup(o.Object, "/spec/postBuild")
	return ok
}

// namedByPlaceholder reports whether an object's name, namespace or kind is a
// placeholder, which no API server would accept.
func namedByPlaceholder(m map[string]any) bool {
	meta, _ := m["metadata"].(map[string]any)
	for _, part := range []any{m["apiVersion"], m["kind"], meta["name"], meta["namespace"]} {
		if s := text(part); strings.ContainsAny(s, "{<") && HasPlaceholder(s) {
			return true
		}
	}
	return false
}

// mayBeTemplate is a quick check: it returns true for every template, and for
// some other files.
func mayBeTemplate(data []byte) bool {
	return bytes.Contains(data, []byte("{{")) || bytes.Contains(data, []byte("{%")) || bytes.ContainsRune(data, '<')
}

// templateMark matches the actions of common template languages outside of
// comments.
var templateMark = regexp.MustCompile(`(?m)^[^#\n]*(?:\{\{.*\}\}|\{%.*%\}|<%.*%>|<[A-Z][A-Z0-9_-]*>)`)

// isTemplate reports whether all errors in a file come from actions of a
// template language, so that the file is not meant to be YAML.
func isTemplate(data []byte, err error) bool {
	for _, e := range Failures(err) {
		if e.Rule != "yaml-syntax" && e.Rule != "invalid-key" {
			return false
		}
	}
	for _, c := range newSource("", data).split() {
		if c.empty() || templateMark.Match(c.text) {
			continue
		}
		if yaml2.Unmarshal(c.text, new(any)) != nil {
			return false
		}
	}
	return true
}
