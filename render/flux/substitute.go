package flux

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/envsubst"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
)

// postBuild is a Kustomization's spec.postBuild.
type postBuild struct {
	Substitute         map[string]string `json:"substitute"`
	SubstituteFrom     []substituteFrom  `json:"substituteFrom"`
	SubstituteStrategy string            `json:"substituteStrategy"`
}

type substituteFrom struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Optional bool   `json:"optional"`
}

// maxSubstituted bounds the size of an object's text after substitution.
const maxSubstituted = 16 << 20

// A variable has a value and the place where that is written. The value of an
// encrypted variable is unknown.
type variable struct {
	value   string
	unknown string        // why the value is unknown; "" if it is known
	absent  *absentSource // would replace the value; nil if there is none
	origins []render.Origin
	line    func(n int) []render.Origin // where a line of the value is written; may be nil
}

// An absentSource is an optional source of variables that is not in the tree. Whether
// it exists on the cluster is not known.
type absentSource struct {
	substituteFrom
	pointer string
	names   []string // variables of objects that it may set, sorted
}

// Variables holds variables by name.
type variables map[string]*variable

func (variables) names(text string) []string { return namesIn(text) }

func (variables) whole(text string) bool { return wholeVariable.MatchString(text) }

func (v variables) text(name string) (string, bool) {
	found, ok := v[name]
	if !ok {
		return "", false
	}
	return found.value, true
}

func (v variables) key(before, now string) bool {
	if !strings.Contains(before, "${") {
		return false
	}
	text, err := v.eval(before, false)
	return err == nil && text == now
}

func (v variables) at(name string) []render.Origin {
	if found, ok := v[name]; ok {
		return found.origins
	}
	return nil
}

// eval replaces the variables in a text as Flux does. A variable with an
// unknown value is left as it is.
func (v variables) eval(text string, strict bool) (result string, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the expression breaks Flux's own library")
		}
	}()
	if !strings.Contains(text, "$") {
		return text, nil
	}
	if strings.Contains(text, "\x00") { // the library stops there; Flux escapes it in YAML
		parts := strings.Split(text, "\x00")
		for i, part := range parts {
			if parts[i], err = v.eval(part, strict); err != nil {
				return "", err
			}
		}
		return strings.Join(parts, "\x00"), nil
	}
	if v.size(text) > maxSubstituted {
		return "", fmt.Errorf("the text would grow beyond %d MiB", maxSubstituted>>20)
	}
	return envsubst.Eval(text, func(name string) (string, bool) {
		found, ok := v[name]
		switch {
		case !ok:
			return "", !strict
		case found.unknown != "":
			return "${" + name + "}", true
		}
		return found.value, true
	})
}

// size returns an upper bound of a text's length after substitution.
func (v variables) size(text string) int {
	longest := 0
	for _, found := range v {
		longest = max(longest, len(found.value))
	}
	return len(text) + strings.Count(text, "${")*longest
}

var validName = regexp.MustCompile(`^[_[:alpha:]][_[:alpha:][:digit:]]*$`)

// check returns a name that Flux refuses and false, or true.
func (v variables) check() (string, bool) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if !validName.MatchString(name) {
			return name, false
		}
	}
	return "", true
}

const substituteKey = kustomizeGroup + "/substitute"

// substitute replaces the variables in objects, as configured by postBuild.
func (t *task) substitute(objects []*render.Object, post *postBuild) ([]*render.Object, error) {
	if post == nil {
		return objects, nil
	}
	var values variables
	var absent []*absentSource
	strict := t.since29()
	for i, o := range objects {
		if o.GetLabels()[substituteKey] == "disabled" || o.GetAnnotations()[substituteKey] == "disabled" {
			continue
		}
		if values == nil {
			var err error
			if values, absent, err = t.variables(post); err != nil {
				return nil, err
			}
			if name, ok := values.check(); !ok {
				return nil, t.errorOf(values[name], "invalid-variable", "%q is no name of a variable, so Flux substitutes none", name)
			}
		}
		values.leaveOpen(o, absent)
		if len(values) == 0 && post.SubstituteStrategy != "Always" {
			continue
		}
		changed, err := values.object(o, strict)
		if err != nil {
			return nil, err
		}
		objects[i] = changed
		if twice(objects, i) {
			return nil, errorAt(o, "/metadata/name", "duplicate-object", "variables make two objects of %s %s", changed.GetKind(), changed.GetName())
		}
	}
	for _, a := range absent {
		t.warnAbsent(a)
	}
	return objects, nil
}

// leaveOpen adds an object's variables to the absent sources that may set them.
func (v variables) leaveOpen(o *render.Object, absent []*absentSource) {
	if len(absent) == 0 {
		return
	}
	for _, text := range render.Texts(o.Object, "") {
		for _, name := range namesIn(text) {
			a := absent[len(absent)-1]
			if found, ok := v[name]; ok {
				a = found.absent
			}
			if a == nil {
				continue
			}
			if i, known := slices.BinarySearch(a.names, name); !known {
				a.names = slices.Insert(a.names, i, name)
			}
		}
	}
}

// few lists names for a message, of many the first ones.
func few(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

func (t *task) warnAbsent(a *absentSource) {
	if len(a.names) == 0 {
		return
	}
	e := t.error(a.pointer, "missing-values", "there is no %s %s/%s in the tree: whether it sets %s on the cluster is not known", a.Kind, t.object.GetNamespace(), a.Name, few(a.names))
	e.Hint = dataHint(t.object.GetNamespace(), a.Name)
	e.Undecided = true
	t.warn(e)
}

// errorOf returns an error at the place of a variable.
func (t *task) errorOf(v *variable, rule, format string, args ...any) *render.Error {
	e := t.error("/spec/postBuild", rule, format, args...)
	if len(v.origins) > 0 {
		e.Span = v.origins[0].Span
	}
	return e
}

// since29 reports whether Flux is 2.9 or newer. From then on a variable without
// a value is an error, and post-renderers get hooks.
func (t *task) since29() bool {
	return render.Since(t.world.Cluster.FluxVersion, 2, 9)
}

// object replaces the variables in an object's YAML.
func (v variables) object(o *render.Object, strict bool) (*render.Object, error) {
	data, err := json.Marshal(o.Object)
	if err == nil {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return nil, errorAt(o, "", "internal", "%s %s can't be written as YAML", o.GetKind(), o.GetName())
	}
	text, err := v.eval(string(data), strict)
	if err != nil {
		return nil, v.failure(o, err, strict)
	}
	data, err = yaml.YAMLToJSON([]byte(text))
	value := make(map[string]any)
	if err == nil {
		err = utiljson.Unmarshal(data, &value)
	}
	if err != nil {
		return nil, errorAt(o, "", "substitution", "%s %s is no YAML any more once variables are substituted", o.GetKind(), o.GetName())
	}
	changed := *o
	changed.Unstructured = &unstructured.Unstructured{Object: value}
	changed.Provenance = &substituted{inner: o, values: v}
	changed.Assumed = append(o.Assumed[:len(o.Assumed):len(o.Assumed)], v.assumed(string(data))...)
	return &changed, nil
}

// assumed returns an assumption for each variable in a text whose value is
// unknown.
func (v variables) assumed(text string) []string {
	var notes []string
	for _, name := range namesIn(text) {
		if found, ok := v[name]; ok && found.unknown != "" {
			notes = append(notes, fmt.Sprintf("the value of variable %s is not known: %s", name, found.unknown))
		}
	}
	return notes
}

// failure places an error of substitution at the field that causes it.
func (v variables) failure(o *render.Object, err error, strict bool) error {
	at, line := "", 0
	for pointer, text := range render.Texts(o.Object, "") {
		_, failed := v.eval(text, strict)
		if failed == nil {
			continue
		}
		at, err = pointer, failed
		line = slices.IndexFunc(strings.Split(text, "\n"), func(line string) bool {
			_, failed := v.eval(line, strict)
			return failed != nil
		})
		break
	}
	if _, name, ok := strings.Cut(err.Error(), "(strict mode): "); ok {
		e := errorAt(o, at, "unset-variable", "variable %s has no value and no default, which Flux refuses from 2.9 on", strings.Trim(name, `"`))
		e.Span = spanOf(o, at, line, e.Span)
		e.Hint = "set it in spec.postBuild, or declare what is on the cluster under clusters[].substitute in .preadmit/config.yaml"
		return e
	}
	e := errorAt(o, at, "substitution", "variables of %s %s can't be substituted: %w", o.GetKind(), o.GetName(), err)
	e.Span = spanOf(o, at, line, e.Span)
	e.Hint = "write $${…} for text that is no variable, or label the object " + substituteKey + ": disabled"
	return e
}

// spanOf returns the place of a line of a field, or else the given one.
func spanOf(o *render.Object, pointer string, line int, known render.Span) render.Span {
	if found := o.Line(pointer, line); line >= 0 && len(found) > 0 {
		return found[0].Span
	}
	return known
}

// twice reports whether another object has the identity of objects[i].
func twice(objects []*render.Object, i int) bool {
	id := identityOf(objects[i])
	return slices.ContainsFunc(objects, func(o *render.Object) bool { return o != objects[i] && identityOf(o) == id })
}

// An identity distinguishes objects from each other, as kustomize does.
type identity struct{ apiVersion, kind, namespace, name string }

func identityOf(o *render.Object) identity {
	return identity{o.GetAPIVersion(), o.GetKind(), cmp.Or(o.GetNamespace(), "default"), o.GetName()}
}

// variables collects the variables of a Kustomization; later ones win. It returns the
// optional sources that are not in the tree, too.
func (t *task) variables(post *postBuild) (variables, []*absentSource, error) {
	all := make(variables)
	var absent []*absentSource
	for i, from := range post.SubstituteFrom {
		pointer := render.Pointer("spec", "postBuild", "substituteFrom", i)
		if from.Kind != "ConfigMap" && from.Kind != "Secret" {
			continue
		}
		data, ok := t.data(from.Kind, from.Name, pointer)
		if !ok && !from.Optional {
			return nil, nil, t.noData(pointer, from.Kind, from.Name)
		}
		if !ok {
			a := &absentSource{substituteFrom: from, pointer: pointer}
			for _, v := range all {
				v.absent = a
			}
			absent = append(absent, a)
		}
		for key, v := range data {
			v.value = strings.ReplaceAll(v.value, "\n", "")
			all[key] = v
		}
	}
	for key, value := range post.Substitute {
		all[key] = &variable{
			value:   strings.ReplaceAll(value, "\n", ""),
			origins: t.object.At(render.Pointer("spec", "postBuild", "substitute", key)),
		}
	}
	return all, absent, nil
}

// noData returns an error for a ConfigMap or Secret that is not in the tree.
func (t *task) noData(pointer, kind, name string) error {
	e := t.missing(pointer, "missing-values", "there is no %s %s/%s in the tree", kind, t.object.GetNamespace(), name)
	e.Hint = dataHint(t.object.GetNamespace(), name)
	return e
}

func dataHint(namespace, name string) string {
	return fmt.Sprintf("declare its data under clusters[].substitute, as %s/%s, in .preadmit/config.yaml", namespace, name)
}

// data returns the data of a ConfigMap or Secret in the object's namespace, and
// what the configuration declares for it on the cluster. pointer is the field
// that refers to it.
func (t *task) data(kind, name, pointer string) (variables, bool) {
	all := make(variables)
	o := t.world.Object(schema.GroupKind{Kind: kind}, t.object.GetNamespace(), name)
	if o != nil {
		fields := []string{"data"}
		if kind == "Secret" {
			fields = append(fields, "stringData")
		}
		for _, field := range fields {
			m, _ := o.Object[field].(map[string]any)
			for key, v := range m {
				all[key] = dataOf(o, field, key, v)
			}
		}
	}
	declared, ok := t.world.Cluster.Substitute[t.object.GetNamespace()+"/"+name]
	for key, v := range declared {
		all[key] = &variable{value: v, origins: t.object.At(pointer)}
	}
	return all, o != nil || ok
}

// dataOf returns an entry of a ConfigMap or Secret as the API server stores it.
func dataOf(o *render.Object, field, key string, v any) *variable {
	text, isText := v.(string)
	pointer := render.Pointer(field, key)
	found := &variable{value: text, origins: o.At(pointer), line: func(n int) []render.Origin { return o.Line(pointer, n) }}
	switch {
	case render.IsEncrypted(text):
		found.value, found.unknown = "", fmt.Sprintf("SOPS encrypts it in %s %s", o.GetKind(), o.GetName())
	case !isText && v != nil:
		found.value = fmt.Sprint(v)
	case o.GetKind() == "Secret" && field == "data":
		found.line = nil
		if plain, err := base64.StdEncoding.DecodeString(text); err == nil {
			found.value = string(plain)
		}
	}
	return found
}
