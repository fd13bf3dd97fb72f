package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	yaml2 "go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Limits of the API server: the size of a request
// (k8s.io/apiserver/pkg/server/config.go) and of all annotations of an object
// (k8s.io/apimachinery/pkg/api/validation).
const (
	maxObject      = 3 << 20
	maxAnnotations = 256 << 10
)

// check reports what an API server refuses in objects of any kind. Policies
// evaluate these objects nevertheless.
func (u *Unit) check() error {
	var errs []error
	first := make(map[Key]*Object)
	for _, o := range u.Objects {
		errs = append(errs, u.checkName(o), u.checkSize(o), u.checkTwice(o, first))
		o.Assumed = append(o.Assumed, notes(o)...)
	}
	return errors.Join(append(errs, u.checkDefined()...)...)
}

// checkDefined warns of objects that Helm can't install together with the definition of their kind: it asks the
// cluster about all kinds before it sends anything (Install.RunWithContext in helm pkg/action). Definitions in a crds
// directory it installs before that.
func (u *Unit) checkDefined() (errs []error) {
	if !u.IsUpgraded() {
		return nil
	}
	templates := make(map[schema.GroupKind]*Object)
	for _, o := range u.Objects {
		gk, ok := Defines(o)
		if at := o.At("/kind"); ok && len(at) > 0 && strings.Contains("/"+at[0].File, "/templates/") {
			templates[gk] = o
		}
	}
	for _, o := range u.Objects {
		gk := o.GroupVersionKind().GroupKind()
		if d := templates[gk]; d != nil && o.GetAnnotations()["helm.sh/hook"] == "" { // hooks are not in the manifest
			delete(templates, gk) // one is enough
			e := u.errorAt(o, "/kind", "definition-in-template", "Helm can't install this %.63s together with its definition%s, which is a template, too: the cluster must have the definition before", o.GetKind(), whereIs(d))
			e.Warning, e.Hint = true, "move the definition to the chart's directory crds, or to another release"
			errs = append(errs, e)
		}
	}
	return errs
}

func (u *Unit) errorAt(o *Object, pointer, rule, format string, args ...any) *Error {
	e := &Error{Span: Span{File: u.Path}, Rule: rule, Err: fmt.Errorf(format, args...)}
	if origins := o.At(pointer); len(origins) > 0 {
		e.Span = origins[0].Span
	}
	return e
}

// nameless lists the groups whose objects, such as SubjectAccessReview, are
// questions to the API server and have no name.
var nameless = map[string]bool{"authorization.k8s.io": true, "authentication.k8s.io": true}

func (u *Unit) checkName(o *Object) error {
	if nameless[o.GroupVersionKind().Group] {
		return nil
	}
	value, ok := o.Object["metadata"]
	meta, isMap := value.(map[string]any)
	if ok && value != nil && !isMap {
		return u.errorAt(o, "/metadata", "invalid-name", "metadata is %s, not a map", TypeName(value))
	}
	for _, key := range []string{"name", "generateName", "namespace"} {
		if v := meta[key]; v != nil && !isString(v) {
			return u.errorAt(o, Pointer("metadata", key), "invalid-name", "metadata.%s is %s, not a string", key, TypeName(v))
		}
	}
	if strings.HasPrefix(o.GetKind(), "ENC[") {
		return u.errorAt(o, "/kind", "encrypted", "the object is encrypted by SOPS, its kind included, so it is not checked")
	}
	if o.GetName() == "" && o.GetGenerateName() == "" {
		return u.errorAt(o, "/metadata", "no-name", "%.63s has neither metadata.name nor metadata.generateName", o.GetKind())
	}
	return nil
}

func isString(v any) bool {
	_, ok := v.(string)
	return ok
}

func (u *Unit) checkSize(o *Object) error {
	size := 0
	for k, v := range o.GetAnnotations() {
		size += len(k) + len(v)
	}
	if size > maxAnnotations {
		return u.errorAt(o, "/metadata/annotations", "annotations-too-large",
			"annotations hold %d bytes, the API server takes %d", size, maxAnnotations)
	}
	if roughSize(o.Object) < maxObject/6 { // JSON writes a byte as six at most
		return nil
	}
	if least := leastSize(o.Object); least > maxObject { // aliases may expand it beyond all memory
		return u.errorAt(o, "", "object-too-large", "object holds more than %d bytes of JSON, the API server takes %d", least, maxObject)
	}
	if b, err := json.Marshal(o.Object); err == nil && len(b) > maxObject {
		return u.errorAt(o, "", "object-too-large", "object holds %d bytes of JSON, the API server takes %d", len(b), maxObject)
	}
	return nil
}

// leastSize returns a lower bound of a value's size as JSON.
func leastSize(v any) int {
	switch v := v.(type) {
	case string:
		return len(v) + 2
	case map[string]any:
		size := 2
		for k, e := range v {
			size += len(k) + 3 + leastSize(e)
		}
		return size
	case []any:
		size := 2
		for _, e := range v {
			size += leastSize(e)
		}
		return size
	}
	return 1
}

// roughSize estimates the size of a value as JSON.
func roughSize(v any) int {
	size := 0
	for key, v := range Values(v) {
		text, _ := v.(string)
		size += 8 + len(key) + len(text)
	}
	return size
}

// checkTwice warns of a second object with the same identity, since the last
// one wins. Hooks do not count: Helm runs hooks of one name one after another.
func (u *Unit) checkTwice(o *Object, first map[Key]*Object) error {
	k := o.Key()
	if o.GetName() == "" || o.GetAnnotations()["helm.sh/hook"] != "" {
		return nil
	}
	gv, _ := schema.ParseGroupVersion(k.APIVersion)
	k.APIVersion = gv.Group
	k.Namespace = cmp.Or(k.Namespace, u.Namespace, "default")
	was, twice := first[k]
	if !twice {
		first[k] = o
		return nil
	}
	then := "the cluster keeps the last"
	if u.IsUpgraded() { // createResource in helm pkg/kube
		then += ", and without server-side apply Helm fails to install the release"
	}
	e := u.errorAt(o, "", "duplicate-object", "%.63s %.253s is already defined%s: %s", k.Kind, k.Name, whereIs(was), then)
	e.Warning = true
	return e
}

func whereIs(o *Object) string {
	if origins := o.At(""); len(origins) > 0 {
		return " at " + origins[0].String()
	}
	return ""
}

// notes returns why some deployers leave out an object that is evaluated here.
func notes(o *Object) []string {
	var notes []string
	for _, n := range []struct{ key, value, note string }{
		{"config.kubernetes.io/local-config", "true", "kustomize leaves it out, kubectl applies it"},
		{"argocd.argoproj.io/hook", "Skip", "Argo CD does not apply it, others do"},
		{"kustomize.toolkit.fluxcd.io/reconcile", "disabled", "Flux does not apply it, others do"},
		{"kustomize.toolkit.fluxcd.io/ssa", "Ignore", "Flux does not apply it, others do"},
		{"kustomize.toolkit.fluxcd.io/ssa", "IfNotPresent", "Flux creates it, and does not change it afterwards"},
	} {
		if o.GetAnnotations()[n.key] == n.value {
			notes = append(notes, fmt.Sprintf("annotation %s: %s is set: %s", n.key, n.value, n.note))
		}
	}
	if HasSOPS(o.Object) {
		notes = append(notes, "SOPS encrypts values of this object: what they are is not known")
	}
	if o.GetDeletionTimestamp() != nil {
		notes = append(notes, "metadata.deletionTimestamp is set: the API server ignores it on creation")
	}
	return notes
}

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
