package flux

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/gotemplate"
)

// maxInputs is how many sets of inputs a ResourceSet may have.
const maxInputs = 10_000

// resourceSetSpec is the spec of a ResourceSet, or one of its steps.
type resourceSetSpec struct {
	InputStrategy struct {
		Name string `json:"name"`
	} `json:"inputStrategy"`
	Inputs             []map[string]any  `json:"inputs"`
	InputsFrom         []inputsReference `json:"inputsFrom"`
	Resources          []map[string]any  `json:"resources"`
	ResourcesTemplate  string            `json:"resourcesTemplate"`
	Steps              []resourceSetStep `json:"steps"`
	CommonMetadata     commonMetadata    `json:"commonMetadata"`
	ServiceAccountName string            `json:"serviceAccountName"`
}

type resourceSetStep struct {
	Resources         []map[string]any `json:"resources"`
	ResourcesTemplate string           `json:"resourcesTemplate"`
}

type inputsReference struct {
	Kind     string                `json:"kind"`
	Name     string                `json:"name"`
	Selector *metav1.LabelSelector `json:"selector"`
}

// Inputs is one set of inputs, with their provenance.
type inputs struct {
	values map[string]any
	places render.Provenance
}

// reconcileKey is the annotation that can make flux-operator leave an object
// alone.
const reconcileKey = operatorGroup + "/reconcile"

// resourceSet renders what flux-operator applies for a ResourceSet.
func (t *task) resourceSet() error {
	var spec resourceSetSpec
	if err := t.spec(&spec); err != nil {
		return err
	}
	t.aim(target{ServiceAccountName: spec.ServiceAccountName})
	if t.object.GetAnnotations()[reconcileKey] == "disabled" {
		t.unit.State, t.unit.Reason = render.Suspended, "annotation "+reconcileKey+" is disabled, so Flux does not apply it"
	}
	all, err := t.inputs(&spec)
	if err != nil {
		return err
	}
	steps := []struct {
		at string
		resourceSetStep
	}{{"/spec", resourceSetStep{spec.Resources, spec.ResourcesTemplate}}}
	for i, s := range spec.Steps {
		steps = append(steps, struct {
			at string
			resourceSetStep
		}{render.Pointer("spec", "steps", i), s})
	}
	for _, s := range steps {
		for i, resource := range s.Resources {
			if err := t.resource(resource, s.at+render.Pointer("resources", i), all); err != nil {
				return err
			}
		}
		if err := t.resourcesTemplate(s.ResourcesTemplate, s.at+"/resourcesTemplate", all); err != nil {
			return err
		}
	}
	for i, o := range t.unit.Objects {
		t.unit.Objects[i] = t.withMetadata(t.copied(o), spec.CommonMetadata)
	}
	return nil
}

// inputs returns the sets of inputs of a ResourceSet: its own and those of its
// providers. Without either there is one empty set.
func (t *task) inputs(spec *resourceSetSpec) ([]inputs, error) {
	var providers [][]inputs
	var names []string
	if len(spec.Inputs) > 0 {
		var own []inputs
		for i, values := range spec.Inputs {
			own = append(own, inputs{provided(values, t.object), below{t.object, render.Pointer("spec", "inputs", i)}})
		}
		providers, names = append(providers, own), append(names, t.object.GetName())
	}
	for i, ref := range spec.InputsFrom {
		found, err := t.providers(ref, render.Pointer("spec", "inputsFrom", i))
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			sets, err := t.provider(o)
			if err != nil {
				return nil, err
			}
			providers, names = append(providers, sets), append(names, o.GetName())
		}
	}
	if len(spec.Inputs)+len(spec.InputsFrom) == 0 {
		return []inputs{{values: map[string]any{}, places: fixed{}}}, nil
	}
	if spec.InputStrategy.Name == "Permute" {
		return t.permute(names, providers)
	}
	return slices.Concat(providers...), nil
}

// provided adds the provider's identity to its inputs.
func provided(values map[string]any, o *render.Object) map[string]any {
	all := maps.Clone(values)
	if all == nil {
		all = make(map[string]any, 1)
	}
	all["provider"] = map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "name": o.GetName(), "namespace": o.GetNamespace()}
	return all
}

// permute combines each set of inputs of a provider with each set of the
// others. A provider's inputs are below its name.
func (t *task) permute(names []string, providers [][]inputs) ([]inputs, error) {
	all := []inputs{{values: map[string]any{}, places: permuted{}}}
	for i, sets := range providers {
		key := strings.ReplaceAll(gotemplate.Normalize(names[i]), "-", "_")
		var next []inputs
		for _, before := range all {
			for _, set := range sets {
				values := maps.Clone(before.values)
				values[key] = set.values
				places := maps.Clone(before.places.(permuted))
				places[key] = set.places
				next = append(next, inputs{values, places})
			}
		}
		if all = next; len(all) > maxInputs {
			return nil, t.error("/spec/inputStrategy", "too-many-inputs", "ResourceSet %s has more than %d permutations of its inputs", t.object.GetName(), maxInputs)
		}
	}
	return all, nil
}

// permuted is the Provenance of permuted inputs, by the names of providers.
type permuted map[string]render.Provenance

// At implements render.Provenance.
func (p permuted) At(pointer string) []render.Origin {
	key, rest, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	if places, ok := p[key]; ok {
		return places.At("/" + rest)
	}
	return nil
}

// providers returns the providers that a reference names.
func (t *task) providers(ref inputsReference, pointer string) ([]*render.Object, error) {
	kind := schema.GroupKind{Group: operatorGroup, Kind: cmp.Or(ref.Kind, "ResourceSetInputProvider")}
	if ref.Name != "" {
		o := t.world.Object(kind, t.object.GetNamespace(), ref.Name)
		if o == nil {
			return nil, t.missing(pointer, "missing-inputs", "there is no %s %s/%s", kind.Kind, t.object.GetNamespace(), ref.Name)
		}
		return []*render.Object{o}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil, t.error(pointer+"/selector", "invalid-spec", "selector of inputs is not valid")
	}
	return slices.DeleteFunc(slices.Clone(t.world.Objects(kind)), func(o *render.Object) bool {
		return o.GetNamespace() != t.object.GetNamespace() || !selector.Matches(labels.Set(o.GetLabels()))
	}), nil
}

// provider returns the inputs of a ResourceSetInputProvider, except for those
// that come from outside.
func (t *task) provider(o *render.Object) ([]inputs, error) {
	var spec struct {
		Type          string         `json:"type"`
		DefaultValues map[string]any `json:"defaultValues"`
	}
	if err := decodeSpec(o, &spec); err != nil {
		return nil, err
	}
	if spec.Type == "Static" {
		return []inputs{{provided(spec.DefaultValues, o), below{o, "/spec/defaultValues"}}}, nil
	}
	if params, ok := t.world.Params(o.GetNamespace(), o.GetName()); ok {
		var all []inputs
		for _, p := range params {
			values := maps.Clone(spec.DefaultValues)
			if values == nil {
				values = make(map[string]any, len(p))
			}
			maps.Copy(values, p)
			all = append(all, inputs{provided(values, o), fixed(o.At("/spec"))})
		}
		return all, nil
	}
	e := errorAt(o, "/spec/type", "missing-inputs", "inputs of %s %s/%s come from outside (%s), so the objects made from them are unknown",
		o.GetKind(), o.GetNamespace(), o.GetName(), spec.Type)
	e.Missing = true
	e.Hint = "declare them under `generators` in .preadmit/config.yaml"
	return nil, e
}

// resource renders an entry of resources with each set of inputs.
func (t *task) resource(resource map[string]any, pointer string, all []inputs) error {
	data, err := yaml.Marshal(resource)
	if err != nil {
		return t.error(pointer, "internal", "resource can't be written as YAML")
	}
	tmpl, err := t.template(string(data), pointer)
	if err != nil {
		return err
	}
	for _, in := range all {
		text, err := tmpl.Execute(in.values)
		if err != nil {
			return t.error(pointer, "invalid-template", "resource of ResourceSet %s: %w", t.object.GetName(), err)
		}
		var value map[string]any
		if value, err = decodeObject(text); err != nil {
			return t.error(pointer, "invalid-template", "resource of ResourceSet %s is no object once its template is filled in", t.object.GetName())
		}
		before := &render.Object{Unstructured: &unstructured.Unstructured{Object: resource}, Provenance: below{t.object, pointer}}
		t.add(&render.Object{Unstructured: &unstructured.Unstructured{Object: value}, Provenance: &substituted{inner: before, values: in}})
	}
	return nil
}

// resourcesTemplate renders a template of several objects with each set of
// inputs.
func (t *task) resourcesTemplate(text, pointer string, all []inputs) error {
	if text == "" {
		return nil
	}
	tmpl, err := t.template(text, pointer)
	if err != nil {
		return err
	}
	for _, in := range all {
		result, err := tmpl.Execute(in.values)
		if err != nil {
			return t.error(pointer, "invalid-template", "resourcesTemplate of ResourceSet %s: %w", t.object.GetName(), err)
		}
		objects, err := render.Parse("", []byte(result))
		if len(render.Failures(err)) > 0 {
			return t.error(pointer, "invalid-template", "resourcesTemplate of ResourceSet %s is not YAML once it is filled in: %w", t.object.GetName(), err)
		}
		for _, o := range objects {
			o.Provenance = fixed(render.WithRole(t.object.At(pointer), render.Template))
			t.add(o)
		}
	}
	return nil
}

// template parses a template of a ResourceSet, in which inputs is a function.
func (t *task) template(text, pointer string) (*gotemplate.Template, error) {
	tmpl, err := gotemplate.Parse(t.ctx, text, gotemplate.Options{
		Options: []string{"missingkey=error"}, Left: "<<", Right: ">>", Data: "inputs",
	})
	if err != nil {
		return nil, t.error(pointer, "invalid-template", "ResourceSet %s: %w", t.object.GetName(), err)
	}
	return tmpl, nil
}

// decodeObject reads the YAML of one object.
func decodeObject(text string) (map[string]any, error) {
	docs, err := render.Documents("", []byte(text), render.YAML11)
	if len(render.Failures(err)) > 0 || len(docs) != 1 {
		return nil, fmt.Errorf("is no document: %w", err)
	}
	m, ok := docs[0].Value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is no object")
	}
	return m, nil
}

// add adds an object to the unit, unless the unit has one with its identity or
// Flux leaves it alone.
func (t *task) add(o *render.Object) {
	if o.GetAnnotations()[reconcileKey] == "disabled" || slices.ContainsFunc(t.unit.Objects, func(have *render.Object) bool {
		return have.GroupVersionKind() == o.GroupVersionKind() && have.GetNamespace() == o.GetNamespace() && have.GetName() == o.GetName()
	}) {
		return
	}
	t.unit.Objects = append(t.unit.Objects, o)
}

// copied returns a ConfigMap or Secret with the data that flux-operator copies
// from another one because of an annotation.
func (t *task) copied(o *render.Object) *render.Object {
	namespace, name, ok := strings.Cut(o.GetAnnotations()[operatorGroup+"/copyFrom"], "/")
	if !ok {
		return o
	}
	from := t.world.Object(schema.GroupKind{Kind: o.GetKind()}, namespace, name)
	changed := *o
	if from == nil {
		changed.Assumed = append(slices.Clone(o.Assumed), fmt.Sprintf("its data is copied from %s %s/%s, which is not in the tree", o.GetKind(), namespace, name))
		return &changed
	}
	changed.Unstructured = o.DeepCopy()
	for _, field := range []string{"data", "stringData", "type"} {
		if v, ok := from.Object[field]; ok {
			changed.Object[field] = v
		}
	}
	return &changed
}

var (
	inputsAction = regexp.MustCompile(`<<.*?>>`)
	inputsPath   = regexp.MustCompile(`\binputs((?:\.[A-Za-z_][A-Za-z0-9_]*)+)`)
	wholeInput   = regexp.MustCompile(`^\s*<<[^<>]*>>\s*$`)
)

// names implements replacements: the inputs in a text, as pointers.
func (i inputs) names(text string) []string {
	var names []string
	for _, action := range inputsAction.FindAllString(text, -1) {
		for _, m := range inputsPath.FindAllStringSubmatch(action, -1) {
			if name := strings.ReplaceAll(m[1], ".", "/"); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// whole implements replacements.
func (i inputs) whole(text string) bool { return wholeInput.MatchString(text) }

// at implements replacements.
func (i inputs) at(name string) []render.Origin { return i.places.At(name) }

// text implements replacements.
func (i inputs) text(name string) (string, bool) {
	v, ok := render.Lookup(i.values, name)
	return fmt.Sprint(v), ok
}

// key implements replacements.
func (i inputs) key(string, string) bool { return false }
