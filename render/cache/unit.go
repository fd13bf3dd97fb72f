package cache

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

// A unit is a source with what it rendered to, in this run or in another.
type unit struct {
	graph *Graph
	ctx   context.Context
	src   render.Source
	key   Key
	unit  *render.Unit

	variants []variant // of the source's index, the one that was recalled first
	recalled bool

	mu     sync.Mutex
	rec    *recorder // of a rendering in this run
	inner  []render.Provenance
	places []*places
	asked  bool // something was asked for the first time
}

// A variant is what a source read at one time, and the entry of what came of
// it.
type variant struct {
	reads []read
	id    Key
}

// maxVariants are kept of a source: those of its last contents.
const maxVariants = 6

func (u *unit) id(reads []read) Key {
	var e Encoder
	e.reads(reads)
	return KeyOf("rendered", string(u.key[:]), string(e.data))
}

// recall takes the unit from the store, if it is there.
func (u *unit) recall() bool {
	data, _ := u.graph.options.Store.Get(u.key)
	if data == nil {
		return false
	}
	d := NewDecoder(data)
	for n := d.Uint(); n > 0 && d.Err() == nil; n-- {
		v := variant{reads: d.reads()}
		copy(v.id[:], d.String())
		u.variants = append(u.variants, v)
	}
	if d.End() != nil {
		u.variants = nil
	}
	for i, v := range u.variants {
		if !u.graph.tree.holds(v.reads) {
			continue
		}
		if body, ok := u.graph.options.Store.Get(v.id); ok && u.decode(body) == nil {
			u.variants = slices.Insert(slices.Delete(u.variants, i, i+1), 0, v)
			u.recalled = true
			return true
		}
	}
	return false
}

// renderAnew renders the unit and notes what that reads.
func (u *unit) renderAnew(ctx context.Context) error {
	u.rec = newRecorder(u.graph.tree)
	src := u.src
	src.FS = u.rec
	units, err := u.graph.graph.Render(ctx, src)
	if err != nil {
		return err
	}
	u.unit = units[0]
	for i, o := range allOf(u.unit) {
		u.inner = append(u.inner, o.Provenance)
		u.remember(i, o)
	}
	return nil
}

// allOf returns the objects of a unit and of its variants.
func allOf(u *render.Unit) []*render.Object { return slices.Concat(u.Objects, u.Variants) }

// remember puts what is asked about an object's lines on record.
func (u *unit) remember(i int, o *render.Object) {
	p := &places{unit: u, index: i, told: make(map[question]answer)}
	u.places = append(u.places, p)
	if o.Provenance != nil || u.rec == nil {
		o.Provenance = p
	}
}

// provenance is that of an object, rendered again if need be. It is nil where
// the object rendered now is another: the tree changed under the run.
func (u *unit) provenance(i int) render.Provenance {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.rec == nil {
		u.again()
	}
	if i >= len(u.inner) {
		return nil
	}
	return u.inner[i]
}

func (u *unit) again() {
	u.rec = newRecorder(u.graph.tree)
	src := u.src
	src.FS = u.rec
	units, err := u.graph.graph.Render(u.ctx, src)
	if err != nil || !slices.EqualFunc(allOf(units[0]), allOf(u.unit), sameObject) {
		u.rec.spoil()
		return
	}
	for _, o := range allOf(units[0]) {
		u.inner = append(u.inner, o.Provenance)
	}
}

func sameObject(a, b *render.Object) bool { return reflect.DeepEqual(a.Object, b.Object) }

func (r *recorder) spoil() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spoiled = true
}

// reads are what the unit read, in this run and in the one that it is recalled
// from.
func (u *unit) reads() ([]read, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.rec == nil {
		return u.variants[0].reads, true
	}
	reads, ok := u.rec.reads()
	if u.recalled {
		all := slices.Concat(reads, u.variants[0].reads)
		sortReads(all)
		reads = slices.Compact(all)
	}
	return reads, ok
}

// storable says whether a unit would be the same at any time. A rendering that
// takes too long may be done in time another day, and how a missing file is
// called differs between kinds of trees.
func storable(u *render.Unit) bool {
	for _, e := range render.Errors(u.Err) {
		text := e.Err.Error()
		if e.Rule == "internal" || e.Rule == "helm-template" ||
			strings.Contains(text, "no such file or directory") || strings.Contains(text, "file does not exist") {
			return false
		}
	}
	return true
}

// save keeps the unit, where there is anything new to keep.
func (u *unit) save() {
	if u.recalled && u.rec == nil && !u.asked || !storable(u.unit) {
		return
	}
	reads, ok := u.reads()
	if !ok {
		return
	}
	id := u.id(reads)
	body, err := u.encode()
	if err != nil {
		return
	}
	u.graph.options.Store.Put(id, body)
	variants := append([]variant{{reads, id}}, slices.DeleteFunc(u.variants, func(v variant) bool { return v.id == id })...)
	var e Encoder
	variants = variants[:min(len(variants), maxVariants)]
	e.Uint(uint64(len(variants)))
	for _, v := range variants {
		e.reads(v.reads)
		e.String(string(v.id[:]))
	}
	if data, err := e.Data(); err == nil {
		u.graph.options.Store.Put(u.key, data)
	}
}

// failure as it is kept.
type problem struct {
	Span             render.Span
	Rule, Text, Hint string
	Source           string
	Missing, Warning bool
	Undecided        bool
}

func (u *unit) encode() ([]byte, error) {
	var e Encoder
	e.String(u.unit.Name)
	e.String(u.unit.Cluster)
	var problems []problem
	for _, x := range render.Errors(u.unit.Err) {
		problems = append(problems, problem{x.Span, x.Rule, x.Err.Error(), x.Hint, x.MissingSource(), x.Missing, x.Warning, x.Undecided})
	}
	e.Plain(problems)
	e.Plain(u.unit.Inputs)
	e.Uint(uint64(len(u.unit.Objects) + len(u.unit.Variants)))
	for i, o := range allOf(u.unit) {
		e.Value(o.Object)
		e.Strings(o.Assumed)
		e.Plain(o.Variant)
		e.Bool(o.Provenance != nil)
		u.places[i].encode(&e)
	}
	return e.Data()
}

func (u *unit) decode(body []byte) error {
	d := NewDecoder(body)
	u.unit = &render.Unit{Source: u.src, Name: d.String(), Cluster: d.String()}
	var problems []problem
	d.Plain(&problems)
	d.Plain(&u.unit.Inputs)
	var errs []error
	for _, p := range problems {
		errs = append(errs, &render.Error{
			Span: p.Span, Rule: p.Rule, Err: errors.New(p.Text), Hint: p.Hint, Source: p.Source, Missing: p.Missing, Warning: p.Warning, Undecided: p.Undecided,
		})
	}
	u.unit.Err = errors.Join(errs...)
	u.places = nil
	for n := d.Uint(); n > 0 && d.Err() == nil; n-- {
		u.decodeObject(d)
	}
	return d.End()
}

func (u *unit) decodeObject(d *Decoder) {
	value, ok := d.Value().(map[string]any)
	if !ok {
		d.fail()
	}
	o := &render.Object{Unstructured: &unstructured.Unstructured{Object: value}, Unit: u.unit, Assumed: d.Strings()}
	d.Plain(&o.Variant)
	known := d.Bool()
	u.remember(len(u.places), o)
	u.places[len(u.places)-1].decode(d)
	if !known {
		o.Provenance = nil
	}
	if o.Variant.IsDefault() {
		u.unit.Objects = append(u.unit.Objects, o)
	} else {
		u.unit.Variants = append(u.unit.Variants, o)
	}
}
