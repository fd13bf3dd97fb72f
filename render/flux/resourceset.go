package flux

import (
	"cmp"
	"errors"
	"fmt"
	"hash/adler32"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

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
		Name                  string `json:"name"`
		IncludeEmptyProviders bool   `json:"includeEmptyProviders"`
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
	values  map[string]any
	places  render.Provenance
	assumed map[string]string // by pointer: why the cluster's value is another one
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
	if err := t.steps(&spec, all); err != nil {
		return err
	}
	for i, o := range t.unit.Objects {
		t.unit.Objects[i] = t.withMetadata(t.copied(o), spec.CommonMetadata)
	}
	return nil
}

// steps adds the objects of each step to the unit. No object may be made by two
// steps. A ResourceSet without steps is one step.
func (t *task) steps(spec *resourceSetSpec, all []inputs) error {
	own := resourceSetStep{spec.Resources, spec.ResourcesTemplate}
	if len(spec.Steps) == 0 {
		var err error
		t.unit.Objects, err = t.step(own, "/spec", all)
		return err
	}
	if !own.empty() {
		return t.error("/spec/steps", "invalid-spec", "ResourceSet %s has steps, so it can't have resources beside them", t.object.GetName())
	}
	first := make(map[identity]int)
	for i, s := range spec.Steps {
		pointer := render.Pointer("spec", "steps", i)
		if s.empty() {
			return t.error(pointer, "invalid-spec", "step %d of ResourceSet %s has neither resources nor resourcesTemplate", i+1, t.object.GetName())
		}
		objects, err := t.step(s, pointer, all)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if at, ok := first[anyVersion(o)]; ok && at != i {
				return t.error(pointer, "duplicate-object", "steps %d and %d of ResourceSet %s make %s %s, which Flux refuses", at+1, i+1, t.object.GetName(), o.GetKind(), o.GetName())
			}
			first[anyVersion(o)] = i
		}
		t.unit.Objects = append(t.unit.Objects, objects...)
	}
	return nil
}

func (s resourceSetStep) empty() bool { return len(s.Resources) == 0 && s.ResourcesTemplate == "" }

// step returns the objects of one step. Of objects with the same identity it
// returns the first. It leaves out those that are annotated to be left alone. If
// the ResourceSet names no inputs, it returns all objects of resources. If its
// providers have none, it makes nothing, and templates may be wrong.
func (t *task) step(s resourceSetStep, at string, all []inputs) ([]*render.Object, error) {
	if len(all) == 0 {
		return nil, nil
	}
	var objects []*render.Object
	seen := make(map[identity]bool)
	add := func(made []*render.Object, whole bool) {
		for _, o := range made {
			if whole || o.GetAnnotations()[reconcileKey] != "disabled" && !seen[anyVersion(o)] {
				objects = append(objects, o)
				seen[anyVersion(o)] = true
			}
		}
	}
	for i, resource := range s.Resources {
		made, err := t.resource(resource, at+render.Pointer("resources", i), all)
		if err != nil {
			return nil, err
		}
		add(made, len(all) == 1 && len(all[0].values) == 0)
	}
	made, err := t.resourcesTemplate(s.ResourcesTemplate, at+"/resourcesTemplate", all)
	add(made, false)
	return objects, err
}

// anyVersion returns an object's identity on the cluster.
func anyVersion(o *render.Object) identity {
	return identity{o.GroupVersionKind().Group, o.GetKind(), o.GetNamespace(), o.GetName()}
}

// inputs returns the sets of inputs of a ResourceSet: its own and those of its
// providers. Without either there is one empty set.
func (t *task) inputs(spec *resourceSetSpec) ([]inputs, error) {
	if len(spec.Inputs)+len(spec.InputsFrom) == 0 {
		return []inputs{{values: map[string]any{}, places: fixed{}}}, nil
	}
	var own []inputs
	for i, values := range spec.Inputs {
		own = append(own, inputs{values: provided(values, t.object), places: below{t.object, render.Pointer("spec", "inputs", i)}})
	}
	providers, names := [][]inputs{own}, []string{t.object.GetName()}
	var all []*render.Object
	for i, ref := range spec.InputsFrom {
		found, err := t.providers(ref, render.Pointer("spec", "inputsFrom", i))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b *render.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	for _, o := range slices.CompactFunc(all, func(a, b *render.Object) bool { return a.GetName() == b.GetName() }) {
		sets, err := t.provider(o)
		if err != nil {
			return nil, err
		}
		providers, names = append(providers, sets), append(names, o.GetName())
	}
	if spec.InputStrategy.Name == "Permute" {
		return t.permute(names, providers, spec.InputStrategy.IncludeEmptyProviders)
	}
	return slices.Concat(providers...), nil
}

// provided adds the provider's identity to its inputs. Whole numbers are
// integers, as the operator reads them.
func provided(values map[string]any, o *render.Object) map[string]any {
	all, _ := plain(values).(map[string]any)
	if all == nil {
		all = make(map[string]any, 1)
	}
	all["provider"] = map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "name": o.GetName(), "namespace": o.GetNamespace()}
	return all
}

// permute combines each set of inputs of a provider with each set of the
// others. A provider's inputs are below its name. Providers without inputs are
// left out unless empty is true.
func (t *task) permute(names []string, providers [][]inputs, empty bool) ([]inputs, error) {
	all := []inputs{{values: map[string]any{}, places: permuted{}}}
	ids := []string{""}
	for i, sets := range providers {
		if len(sets) == 0 && !empty {
			continue
		}
		key := normalizeKey(names[i])
		var next []inputs
		var nextIDs []string
		for b, before := range all {
			for n, set := range sets {
				values := maps.Clone(before.values)
				values[key] = set.values
				places := maps.Clone(before.places.(permuted))
				places[key] = set.places
				assumed := maps.Clone(before.assumed)
				for pointer, why := range set.assumed {
					if assumed == nil {
						assumed = make(map[string]string, 1)
					}
					assumed["/"+key+pointer] = why
				}
				next = append(next, inputs{values, places, assumed})
				nextIDs = append(nextIDs, fmt.Sprintf("%s/%s=%d", ids[b], key, n))
			}
		}
		if all, ids = next, nextIDs; len(all) > maxInputs {
			return nil, t.error("/spec/inputStrategy", "too-many-inputs", "ResourceSet %s has more than %d permutations of its inputs", t.object.GetName(), maxInputs)
		}
	}
	if len(all) == 1 && len(all[0].values) == 0 {
		return nil, nil
	}
	for i := range all {
		all[i].values["id"] = checksum(strings.TrimPrefix(ids[i], "/"))
	}
	return all, nil
}

// checksum returns the id that flux-operator makes of a text.
func checksum(text string) string { return fmt.Sprint(adler32.Checksum([]byte(text))) }

// normalizeKey converts a provider's name to a key that templates can read.
func normalizeKey(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) })
	return strings.Join(words, "_")
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
	if ref.Selector == nil {
		return nil, t.error(pointer, "invalid-spec", "inputs of ResourceSet %s come from a provider with neither name nor selector", t.object.GetName())
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
		values := provided(spec.DefaultValues, o)
		values["id"] = checksum("")
		assumed := map[string]string{"/id": fmt.Sprintf("inputs.id of %s %s comes from its UID, which only the cluster knows", o.GetKind(), o.GetName())}
		return []inputs{{values, below{o, "/spec/defaultValues"}, assumed}}, nil
	}
	if params, ok := t.world.Params(o.GetNamespace(), o.GetName()); ok {
		var all []inputs
		for _, p := range params {
			values := maps.Clone(spec.DefaultValues)
			if values == nil {
				values = make(map[string]any, len(p))
			}
			maps.Copy(values, p)
			all = append(all, inputs{values: provided(values, o), places: fixed(o.At("/spec"))})
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
func (t *task) resource(resource map[string]any, pointer string, all []inputs) ([]*render.Object, error) {
	data, err := yaml.Marshal(resource)
	if err != nil {
		return nil, t.error(pointer, "internal", "resource can't be written as YAML")
	}
	tmpl, err := t.template(string(data), pointer)
	if err != nil {
		return nil, err
	}
	var made []*render.Object
	for _, in := range all {
		text, err := tmpl.Execute(in.values)
		if err != nil {
			return nil, t.error(pointer, "invalid-template", "resource of ResourceSet %s: %w", t.object.GetName(), err)
		}
		var value map[string]any
		if value, err = decodeObject(text); err != nil {
			return nil, t.error(pointer, "invalid-template", "resource of ResourceSet %s is no object once its template is filled in", t.object.GetName())
		}
		before := &render.Object{Unstructured: &unstructured.Unstructured{Object: resource}, Provenance: below{t.object, pointer}}
		made = append(made, &render.Object{
			Unstructured: &unstructured.Unstructured{Object: value}, Provenance: &substituted{inner: before, values: in}, Assumed: in.notes(string(data)),
		})
	}
	return made, nil
}

// resourcesTemplate renders a template of several objects with each set of
// inputs.
func (t *task) resourcesTemplate(text, pointer string, all []inputs) ([]*render.Object, error) {
	if text == "" {
		return nil, nil
	}
	tmpl, err := t.template(text, pointer)
	if err != nil {
		return nil, err
	}
	var made []*render.Object
	for _, in := range all {
		result, err := tmpl.Execute(in.values)
		if err != nil {
			return nil, t.error(pointer, "invalid-template", "resourcesTemplate of ResourceSet %s: %w", t.object.GetName(), err)
		}
		values, err := decodeObjects(result)
		if err != nil {
			return nil, t.error(pointer, "invalid-template", "resourcesTemplate of ResourceSet %s is not a list of objects once it is filled in: %w", t.object.GetName(), err)
		}
		for _, value := range values {
			o := &render.Object{Unstructured: &unstructured.Unstructured{Object: value}, Assumed: in.notes(text)}
			if o.Provenance = fixed(render.WithRole(t.object.At(pointer), render.Template)); !notApplied(o) {
				made = append(made, o)
			}
		}
	}
	return made, nil
}

// template parses a template of a ResourceSet, in which inputs is a function.
func (t *task) template(text, pointer string) (*gotemplate.Template, error) {
	tmpl, err := gotemplate.Parse(t.ctx, text, gotemplate.Options{
		Options: []string{"missingkey=error"}, Left: "<<", Right: ">>", Data: "inputs", Operator: true,
	})
	if err != nil {
		return nil, t.error(pointer, "invalid-template", "ResourceSet %s: %w", t.object.GetName(), err)
	}
	return tmpl, nil
}

// decodeObject reads the YAML of one object.
func decodeObject(text string) (map[string]any, error) {
	objects, err := decodeObjects(text)
	if err == nil && len(objects) != 1 {
		err = errors.New("is no object")
	}
	if err != nil {
		return nil, err
	}
	return objects[0], nil
}

// decodeObjects reads the YAML of objects, and of lists of them. As the operator
// it takes the last value of a key that is written twice.
func decodeObjects(text string) (objects []map[string]any, err error) {
	docs, err := render.Documents("", []byte(text), render.YAML11)
	for _, e := range render.Failures(err) {
		if e.Rule != "duplicate-key" {
			return nil, e
		}
	}
	for _, doc := range docs {
		if doc.Value == nil {
			continue
		}
		m, ok := doc.Value.(map[string]any)
		if !ok || m["kind"] == nil {
			return nil, errors.New("a document has no kind")
		}
		items, isList := m["items"].([]any)
		if !isList {
			objects = append(objects, m)
		}
		for _, item := range items {
			if m, ok := item.(map[string]any); ok {
				objects = append(objects, m)
			}
		}
	}
	return objects, nil
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
		changed.Assumed = append(slices.Clone(o.Assumed), fmt.Sprintf(render.AssumedCopy+"%s %s/%s, which is not in the tree", o.GetKind(), namespace, name))
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

// notes returns the assumptions about the inputs in a text.
func (i inputs) notes(text string) (notes []string) {
	for _, name := range i.names(text) {
		if why, ok := i.assumed[name]; ok {
			notes = append(notes, why)
		}
	}
	return notes
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
