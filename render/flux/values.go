package flux

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/strvals"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
	mergevalues "github.com/preadmit/preadmit/render/internal/values"
)

// A valuesReference is an entry of a HelmRelease's spec.valuesFrom.
type valuesReference struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	ValuesKey  string `json:"valuesKey"`
	TargetPath string `json:"targetPath"`
	Optional   bool   `json:"optional"`
	Literal    bool   `json:"literal"`
}

// Composed holds the values of a release and the layers they are composed of.
type composed struct {
	values map[string]any
	layers []valuesLayer // later ones win, except by compose's last step
}

// A valuesLayer is one source of values, with the places where they are
// written.
type valuesLayer struct {
	values map[string]any
	places render.Provenance
	secret bool
}

// compose returns the values of a HelmRelease as helm-controller composes them.
// A reference with a target path overrides earlier references and the inline
// values. But the inline values are merged once more at the end, which
// overwrites it unless it was set in a map that the inline values brought. The error names every
// reference that can't be read.
func (t *task) compose(inline map[string]any, refs []valuesReference) (*composed, error) {
	c := &composed{values: map[string]any{}}
	inline, _ = plain(inline).(map[string]any)
	var errs []error
	for i, ref := range refs {
		pointer := render.Pointer("spec", "valuesFrom", i)
		text, err := t.valuesText(ref, pointer)
		switch {
		case err != nil || text == nil:
			errs = append(errs, err)
			continue
		case ref.TargetPath != "":
			c.values = mergevalues.Merge(c.values, inline)
			err = c.set(ref, text)
		default:
			err = c.add(ref, text)
		}
		if err != nil {
			errs = append(errs, t.error(pointer, "invalid-values", "%s of %s %s/%s %w", ref.key(), ref.Kind, t.object.GetNamespace(), ref.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c.values, _ = plain(mergevalues.Merge(c.values, inline)).(map[string]any)
	given, _ := t.object.Object["spec"].(map[string]any)
	own, _ := given["values"].(map[string]any)
	c.layers = append(c.layers, valuesLayer{values: own, places: below{t.object, "/spec/values"}})
	return c, nil
}

func (v valuesReference) key() string {
	if v.ValuesKey == "" {
		return "values.yaml"
	}
	return v.ValuesKey
}

// valuesText returns the text that a reference names. It returns nil without an
// error if the text is optional and absent.
func (t *task) valuesText(ref valuesReference, pointer string) (*variable, error) {
	if ref.Kind != "ConfigMap" && ref.Kind != "Secret" {
		return nil, t.error(pointer, "invalid-values", "values come from a ConfigMap or a Secret, not from a %s", ref.Kind)
	}
	data, ok := t.data(ref.Kind, ref.Name, pointer)
	text := data[ref.key()]
	switch {
	case text != nil && text.unknown != "":
		e := t.missing(pointer, "encrypted-values", "values in %s %s/%s are not known: %s", ref.Kind, t.object.GetNamespace(), ref.Name, text.unknown)
		e.Hint = fmt.Sprintf("declare a stand-in under clusters[].substitute, as %s/%s, in .preadmit/config.yaml", t.object.GetNamespace(), ref.Name)
		return nil, e
	case text != nil:
		return text, nil
	case ref.Optional:
		t.warnOptional(ref, pointer)
		return nil, nil
	case !ok:
		return nil, t.noData(pointer, ref.Kind, ref.Name)
	}
	return nil, t.error(pointer, "missing-values", "%s %s/%s has no key %s", ref.Kind, t.object.GetNamespace(), ref.Name, ref.key())
}

// warnOptional warns that optional values are not in the tree, unless the configuration declares
// the data on the cluster. They are undecided unless their ConfigMap or Secret is deployed, by a GitOps object or together with the
// HelmRelease.
func (t *task) warnOptional(ref valuesReference, pointer string) {
	namespace := t.object.GetNamespace()
	if _, declared := t.world.Cluster.Substitute[namespace+"/"+ref.Name]; declared {
		return
	}
	o := t.world.Object(schema.GroupKind{Kind: ref.Kind}, namespace, ref.Name)
	e := t.error(pointer, "missing-values", "there is no %s %s/%s in the tree: what values it brings on the cluster is not known", ref.Kind, namespace, ref.Name)
	e.Hint, e.Undecided = dataHint(namespace, ref.Name), o == nil || !render.IsDeployed(o) && o.Unit != t.object.Unit
	switch {
	case !e.Undecided:
		e.Err = fmt.Errorf("%s %s/%s has no key %s in the tree, so none on the cluster is assumed", ref.Kind, namespace, ref.Name, ref.key())
	case o != nil:
		e.Err = fmt.Errorf("%s %s/%s has no key %s, and nothing found in the tree deploys it: whether it has one on the cluster is not known", ref.Kind, namespace, ref.Name, ref.key())
	}
	t.warn(e)
}

// add merges a document with values over the others.
func (c *composed) add(ref valuesReference, text *variable) error {
	if len(text.value) > maxSubstituted {
		return fmt.Errorf("is larger than %d MiB", maxSubstituted>>20)
	}
	var values map[string]any
	err := yaml.Unmarshal([]byte(text.value), &values, func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d })
	if err != nil {
		return fmt.Errorf("is no YAML document of values")
	}
	c.values = mergevalues.Merge(c.values, values)
	layer := valuesLayer{values: values, places: fixed(text.origins), secret: ref.Kind == "Secret"}
	if docs, _ := render.Documents("", []byte(text.value), render.YAML11); len(docs) > 0 {
		layer.places = &embedded{positions: docs[0].Positions, text: text}
	}
	c.layers = append(c.layers, layer)
	return nil
}

// literals are the texts to escape for --set, the backslash first.
var literals = []string{`\`, `,`, `[`, `]`, `{`, `}`}

// set sets a value at a path as Helm's --set does, or --set-string where the
// value is quoted.
func (c *composed) set(ref valuesReference, text *variable) error {
	parse, value := strvals.ParseInto, text.value
	switch {
	case ref.Literal:
		parse = strvals.ParseIntoString
		for _, special := range literals {
			value = strings.ReplaceAll(value, special, `\`+special)
		}
	case quoted(value, "'"), quoted(value, `"`):
		parse, value = strvals.ParseIntoString, strings.Trim(value, `'"`)
	}
	set := map[string]any{}
	if err := parse(ref.TargetPath+"="+value, set); err != nil {
		return fmt.Errorf("can't be set at %s", ref.TargetPath)
	}
	c.layers = append(c.layers, valuesLayer{values: set, places: fixed(text.origins), secret: ref.Kind == "Secret"})
	return parse(ref.TargetPath+"="+value, c.values)
}

func quoted(text, quote string) bool {
	return strings.HasPrefix(text, quote) && strings.HasSuffix(text, quote)
}

// plain copies a value into the form that a Unit holds.
func plain(v any) any {
	return render.Replace(v, func(v any) any {
		switch v := v.(type) {
		case json.Number:
			if i, err := v.Int64(); err == nil {
				return i
			}
			f, _ := v.Float64()
			return f
		case float64:
			if f := math.Trunc(v); f == v && math.Abs(v) < 1<<53 {
				return int64(v)
			}
		}
		return v
	})
}

// At implements render.Provenance: where the value at a pointer is written.
func (c *composed) At(pointer string) []render.Origin {
	if l, ok := c.layer(pointer); ok {
		return render.WithRole(l.places.At(pointer), render.Value)
	}
	return nil
}

// Line is called by [render.Object.Line].
func (c *composed) Line(pointer string, n int) []render.Origin {
	l, ok := c.layer(pointer)
	if !ok {
		return nil
	}
	return render.WithRole((&render.Object{Provenance: l.places}).Line(pointer, n), render.Value)
}

// layer returns the last layer that has the value at a pointer, or that has a
// map there if the value is a map.
func (c *composed) layer(pointer string) (valuesLayer, bool) {
	want, _ := render.Lookup(c.values, pointer)
	_, wantMap := want.(map[string]any)
	for _, l := range slices.Backward(c.layers) {
		v, ok := render.Lookup(l.values, pointer)
		_, isMap := v.(map[string]any)
		if ok && (isMap && wantMap || reflect.DeepEqual(plain(v), want)) {
			return l, true
		}
	}
	return valuesLayer{}, false
}

// covered returns the values, with a placeholder for each that comes from a Secret.
func (c *composed) covered() map[string]any {
	out, _ := c.cover(c.values, "").(map[string]any)
	return out
}

const cover = "(from a Secret)"

func (c *composed) cover(v any, pointer string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = c.cover(e, pointer+render.Pointer(k))
		}
		return out
	case []any:
		if l, ok := c.layer(pointer); ok && l.secret {
			return cover
		}
		return v
	}
	if l, ok := c.layer(pointer); ok && l.secret {
		return cover
	}
	return v
}

// Below is the Provenance of the part of an object below a field.
type below struct {
	object  *render.Object
	pointer string
}

// At implements render.Provenance.
func (b below) At(pointer string) []render.Origin { return b.object.At(b.pointer + pointer) }

// Line is called by [render.Object.Line].
func (b below) Line(pointer string, n int) []render.Origin {
	return b.object.Line(b.pointer+pointer, n)
}

// fixed is the Provenance of fields that all have the same places.
type fixed []render.Origin

// At implements render.Provenance.
func (f fixed) At(string) []render.Origin { return f }

// An embedded is the Provenance of a document in a text of a ConfigMap or
// Secret.
type embedded struct {
	positions *render.Positions
	text      *variable
}

// At implements render.Provenance.
func (e *embedded) At(pointer string) []render.Origin {
	for _, at := range e.positions.At(pointer) {
		if e.text.line != nil && at.Line > 0 {
			if found := e.text.line(at.Line - 1); len(found) > 0 {
				return found
			}
		}
	}
	return e.text.origins
}

// Line is called by [render.Object.Line].
func (e *embedded) Line(pointer string, n int) []render.Origin {
	for _, at := range e.positions.Line(pointer, n) {
		if e.text.line != nil {
			return e.text.line(at.Line - 1)
		}
	}
	return nil
}
