package schema

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// Other people's manifests, as they are, are refused only where the API server
// refuses them.
func TestValidateCorporaAsTheOracle(t *testing.T) {
	t.Parallel()
	needOracle(t)
	kinds := newKinds(t, "1.36")
	d := newDifferential(t, kinds)
	for _, o := range corpora(t) {
		d.add(o.Object, nil)
	}
	d.run()
}

// The same with a field that is dropped, doubled, or has another's value.
func TestValidateMutantsAsTheOracle(t *testing.T) {
	t.Parallel()
	needOracle(t)
	d := newDifferential(t, newKinds(t, "1.36"))
	r := rand.New(rand.NewPCG(1, 2))
	for _, o := range corpora(t) {
		for range 6 {
			object := runtime.DeepCopyJSON(o.Object)
			mutate(r, object)
			d.add(object, nil)
		}
	}
	d.run()
}

// Changes of objects that the API server accepts.
func TestValidateUpdatesAsTheOracle(t *testing.T) {
	t.Parallel()
	needOracle(t)
	d := newDifferential(t, newKinds(t, "1.36"))
	r := rand.New(rand.NewPCG(3, 4))
	for _, o := range accepted(t, corpora(t)) {
		for range 3 {
			object := runtime.DeepCopyJSON(o.Object)
			mutate(r, object)
			if name(object) == o.GetName() && object["metadata"] != nil {
				d.add(object, o.Object)
			}
		}
	}
	d.run()
}

// accepted are the objects that the API server would create.
func accepted(t *testing.T, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	var requests []oracleRequest
	for _, o := range objects {
		requests = append(requests, oracleRequest{Object: o.Object, Validate: true})
	}
	var good []*unstructured.Unstructured
	for i, a := range askOracle(t, requests) {
		if a.Error == "" && len(a.Faults) == 0 {
			good = append(good, objects[i])
		}
	}
	return good
}

// Objects of every kind made of fields that are there or not by chance.
func TestValidateRandomObjectsAsTheOracle(t *testing.T) {
	t.Parallel()
	needOracle(t)
	kinds := newKinds(t, "1.36")
	d := newDifferential(t, kinds)
	for i, b := range kinds.sortedKinds(func(b *builtin) bool { return b.goType() != nil }) {
		for seed := range 60 {
			g := &generator{Rand: rand.New(rand.NewPCG(uint64(i), uint64(seed)))}
			d.add(g.kind(b), nil)
		}
	}
	d.run()
}

// A differential holds the faults that a Validator finds against those of the
// API server's own validation.
type differential struct {
	t         *testing.T
	kinds     *Kinds
	validator *Validator
	requests  []oracleRequest
}

func newDifferential(t *testing.T, kinds *Kinds) *differential {
	return &differential{t: t, kinds: kinds, validator: NewValidator(kinds, nil)}
}

// add adds an object of a kind that is validated and can be decoded.
func (d *differential) add(object, old map[string]any) {
	u := &unstructured.Unstructured{Object: object}
	b := d.kinds.builtins[u.GroupVersionKind()]
	if b == nil || b.goType() == nil || d.validator.builtin(b.gvk) == nil {
		return
	}
	d.requests = append(d.requests, oracleRequest{Object: object, Old: old, Validate: true})
}

func (d *differential) run() {
	d.t.Helper()
	accepted, refused, wrong, found, missed, worse := 0, 0, 0, 0, 0, 0
	kindsOfMisses, shown := map[string]int{}, map[string]bool{}
	for i, a := range askOracle(d.t, d.requests) {
		if a.Error != "" {
			continue // no strategy in the oracle
		}
		req := d.requests[i]
		ours, warned, ok := faultsOf(d.t, d.kinds, d.validator, req)
		if !ok {
			continue // it can't be decoded: others compare that
		}
		theirs := map[string]bool{}
		strict := false
		for _, f := range a.Faults {
			strict = strict || f.Field == ""
			line, _, _ := strings.Cut(f.String(), "\n") // then comes a diff
			theirs[line] = true
		}
		if len(a.Faults) == 0 {
			accepted++
		} else {
			refused++
		}
		for _, f := range slices.Sorted(maps.Keys(ours)) {
			isStrict := strings.HasPrefix(f, "unknown field")
			if !matched(f, theirs) && (isStrict || !strict) {
				wrong++
				if len(a.Faults) == 0 {
					worse++
				}
				if kind := fmt.Sprintf("%v %.60s", req.Object["kind"], like(f)); !shown[kind] && len(shown) < 60 {
					shown[kind] = true
					d.t.Errorf("%v %v: ours alone: %s\n  theirs: %v", req.Object["kind"], name(req.Object), f, slices.Sorted(maps.Keys(theirs)))
				}
			}
		}
		for f := range theirs {
			if matched(f, ours) || matched(f, warned) {
				found++
				continue
			}
			missed++
			kindsOfMisses[fmt.Sprintf("%v %s", req.Object["kind"], like(f))]++
		}
	}
	d.t.Logf("%d objects: %d accepted, %d refused; %d faults found, %d missed (%.1f%% found), %d of ours alone, %d of them on accepted objects", len(d.requests), accepted, refused, found, missed,
		100*float64(found)/float64(max(1, found+missed)), wrong, worse)
	if os.Getenv("PREADMIT_MISSES") != "" {
		var lines []string
		for k, n := range kindsOfMisses {
			lines = append(lines, fmt.Sprintf("%5d %s", n, k))
		}
		slices.SortFunc(lines, func(a, b string) int { return strings.Compare(b, a) })
		d.t.Log(strings.Join(lines[:min(len(lines), 150)], "\n"))
	}
}

func name(o map[string]any) string {
	u := unstructured.Unstructured{Object: o}
	return u.GetName()
}

// like is what faults that differ in numbers alone have in common.
func like(f string) string {
	var b strings.Builder
	for _, r := range f {
		if r >= '0' && r <= '9' {
			r = '#'
		}
		b.WriteRune(r)
	}
	return b.String()[:min(b.Len(), 160)]
}

// matched reports whether a fault is among others. The value that some faults
// quote is the server's own type, which is written otherwise than in YAML.
func matched(f string, in map[string]bool) bool {
	if in[f] {
		return true
	}
	for other := range in {
		if unquoted(other) == unquoted(f) {
			return true
		}
	}
	return false
}

func unquoted(f string) string {
	for _, empty := range []string{": {}: ", ": []: "} { // which Admit holds as absent
		f = strings.Replace(f, empty, ": null: ", 1)
	}
	if i := strings.Index(f, ": {"); i >= 0 {
		if j := strings.LastIndex(f, "}: "); j > i {
			return f[:i] + f[j+1:]
		}
	}
	return f
}

// faultsOf are the messages of our faults, one for each as the server has it.
func faultsOf(t *testing.T, kinds *Kinds, v *Validator, req oracleRequest) (found, warned map[string]bool, ok bool) {
	t.Helper()
	r := policy.Request{Operation: policy.Create, Object: &render.Object{Unstructured: &unstructured.Unstructured{Object: req.Object}}}
	r.Kind = r.Object.GroupVersionKind()
	var err error
	if r.Admitted, err = kinds.Admit(r.Object, cmp.Or(r.Object.GetNamespace(), "default")); err != nil {
		return nil, nil, false
	}
	if req.Old != nil {
		r.Operation = policy.Update
		r.OldObject = &render.Object{Unstructured: &unstructured.Unstructured{Object: req.Old}}
		if r.OldAdmitted, err = kinds.Admit(r.OldObject, cmp.Or(r.OldObject.GetNamespace(), "default")); err != nil {
			return nil, nil, false
		}
	}
	j := v.builtin(r.Kind).validator()
	found, warned = map[string]bool{}, map[string]bool{}
	for _, u := range j.unknownFields(&r) {
		found[strings.TrimPrefix(u.Message, "strict decoding error: ")] = true
	}
	faults, err := j.faults(&r)
	rendertest.OK(t, err)
	for _, f := range faults {
		line, _, _ := strings.Cut(f.Err.Error(), "\n")
		if f.Warns {
			warned[line] = true
		} else {
			found[line] = true
		}
	}
	return found, warned, true
}

// mutate changes one place of an object: it drops a field, misspells it, gives
// it another value, or doubles an element.
func mutate(r *rand.Rand, object map[string]any) {
	var objects []map[string]any
	var doubles []func()
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if len(v) > 0 {
				objects = append(objects, v)
			}
			for _, k := range slices.Sorted(maps.Keys(v)) {
				if list, ok := v[k].([]any); ok && len(list) > 0 {
					doubles = append(doubles, func() { v[k] = append(list, runtime.DeepCopyJSONValue(list[r.IntN(len(list))])) })
				}
				walk(v[k])
			}
		case []any:
			for _, c := range v {
				walk(c)
			}
		}
	}
	for _, k := range []string{"metadata", "spec", "rules", "roleRef", "subjects", "data", "webhooks"} {
		walk(object[k])
	}
	if len(objects) == 0 {
		return
	}
	m := objects[r.IntN(len(objects))]
	keys := slices.Sorted(maps.Keys(m))
	key := keys[r.IntN(len(keys))]
	switch r.IntN(6) {
	case 0, 1:
		delete(m, key)
	case 2:
		m[key+"x"] = m[key]
	case 3:
		if len(doubles) > 0 {
			doubles[r.IntN(len(doubles))]()
		}
	default:
		m[key] = other(r, m[key])
	}
}

// other is another value of the type.
func other(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case string:
		return []any{"", "A b", "a_b", "-1", "a/b/c", "..", "x", "100%", "None", strings.Repeat("a", 64), "a.b", "/a", "Always"}[r.IntN(13)]
	case int64:
		return []any{int64(-1), int64(0), int64(70000), int64(1)}[r.IntN(4)]
	case bool:
		return !v
	case []any:
		return []any{}
	case map[string]any:
		return map[string]any{}
	}
	return v
}
