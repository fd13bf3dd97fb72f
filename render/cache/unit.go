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

// A unit is a source or GitOps object and the unit rendered from it, in this run or an earlier one.
type unit struct {
	graph *Graph
	ctx   context.Context
	src   render.Source
	key   Key
	unit  *render.Unit

	result     render.Unit // unit as rendered, before callers change it
	resolution *resolution // for a GitOps object; nil for a source

	variants []variant // variants in the store; the first one is the one in use
	recalled bool
	adopted  *unit // the unit of the other side or of an earlier run that this one shares, which is saved there

	mu     sync.Mutex
	rec    *recorder       // of the rendering in this run; nil if there was none
	store  *recordingStore // for a source: the store used by that rendering
	inner  []render.Provenance
	places []*places
	asked  bool // a question was asked that the entry does not answer

	seenOf      [2]int // the numbers of reads and of questions to the store when seenVariant was made
	seenVariant variant
}

// A variant contains the reads and answers of one rendering, and the key of the entry with its
// result.
type variant struct {
	reads     []read
	condition condition
	id        Key
}

// maxVariants limits the variants of a source or object in the store. The latest ones are kept.
const maxVariants = 8

// identified returns a variant with its ID.
func (u *unit) identified(reads []read, c condition) variant {
	var e Encoder
	e.reads(reads)
	e.Plain(c)
	return variant{reads, c, KeyOf("rendered", string(u.key[:]), string(e.data))}
}

func (u *unit) holds(v *variant) bool {
	if u.resolution == nil {
		return u.graph.holds(&v.condition) && u.graph.tree.holds(v.reads)
	}
	return u.graph.tree.holds(v.reads) && u.resolution.holds(&v.condition)
}

// adopt uses the unit of the other side of a change, or of the last run, if everything that it depends
// on is the same now.
func (u *unit) adopt() bool {
	for _, other := range slices.Concat(u.graph.options.Other.alike(u.key), u.graph.options.Last.alike(u.key)) {
		if other.adopted != nil {
			other = other.adopted
		}
		v, ok := other.seen()
		if !ok || !storable(&other.result) || !u.holds(&v) {
			continue
		}
		made := other.result
		if made.Owner = u.src.Owner; u.resolution == nil {
			made.Source = u.src
		} else {
			u.resolution.noted = other.resolution.noted
			if made.FS != nil {
				made.FS = u.graph.tree
			}
		}
		u.unit = &made
		made.Objects, made.Variants = u.own(made.Objects), u.own(made.Variants)
		u.keepResult()
		u.variants, u.recalled, u.adopted = []variant{v}, true, other
		return true
	}
	return false
}

// own returns copies of objects that belong to the unit.
func (u *unit) own(objects []*render.Object) []*render.Object {
	var all []*render.Object
	for _, o := range objects {
		copied := *o
		copied.Unit = u.unit
		copied.KeepKind()
		all = append(all, &copied)
	}
	return all
}

// recall loads the unit from the store, if it is there and still valid.
func (u *unit) recall() bool {
	u.variants = u.stored()
	for i := range u.variants {
		v := u.variants[i]
		if !u.holds(&v) {
			continue
		}
		if body, ok := u.graph.options.Store.Get(v.id); ok && u.decode(body) == nil {
			u.variants = slices.Insert(slices.Delete(u.variants, i, i+1), 0, v)
			u.graph.graph.Parts.Share(u.unit)
			u.keepResult()
			u.recalled = true
			return true
		}
	}
	return false
}

// stored returns the variants in the store.
func (u *unit) stored() []variant {
	data, _ := u.graph.options.Store.Get(u.key)
	if data == nil {
		return nil
	}
	var all []variant
	d := NewDecoder(data)
	for n := d.Uint(); n > 0 && d.Err() == nil; n-- {
		v := variant{reads: d.reads()}
		d.Plain(&v.condition)
		copy(v.id[:], d.String())
		all = append(all, v)
	}
	if d.End() != nil {
		return nil
	}
	return all
}

// renderAnew renders the unit and records its reads.
func (u *unit) renderAnew(ctx context.Context) error {
	var err error
	if u.unit, err = u.made(ctx); err != nil {
		return err
	}
	u.keepResult()
	for i, o := range allOf(&u.result) {
		u.inner = append(u.inner, o.Provenance)
		u.remember(i, o)
	}
	return nil
}

// allOf returns the objects of a unit and of its variants.
func allOf(u *render.Unit) []*render.Object { return slices.Concat(u.Objects, u.Variants) }

// keepResult copies the unit, because callers may change it later.
func (u *unit) keepResult() {
	u.result = *u.unit
	u.result.Objects, u.result.Variants = slices.Clone(u.unit.Objects), slices.Clone(u.unit.Variants)
}

// made renders the unit. It returns an error only if ctx is cancelled.
func (u *unit) made(ctx context.Context) (*render.Unit, error) {
	u.rec = newRecorder(u.graph.tree)
	if u.resolution != nil {
		return u.resolution.resolve(ctx, u.rec), ctx.Err()
	}
	src, graph := u.src, u.graph.graph
	u.store = newRecordingStore(graph.Store, u.rec)
	src.FS, graph.Store = u.rec, u.store
	units, err := graph.Render(ctx, src)
	if err != nil {
		return nil, err
	}
	return units[0], nil
}

// remember makes an object keep its kind and record the questions about its origins.
func (u *unit) remember(i int, o *render.Object) {
	p := &places{of: u, index: i}
	u.places = append(u.places, p)
	o.KeepKind()
	if o.Provenance != nil || u.rec == nil {
		o.Provenance = p
	}
}

// provenance returns an object's provenance, rendering the unit again if
// needed. It is nil if the object has changed, because the tree changed during
// the run.
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
	now, err := u.made(u.ctx)
	if err != nil || !slices.EqualFunc(allOf(now), allOf(&u.result), sameObject) {
		u.rec.spoil()
		return
	}
	for _, o := range allOf(now) {
		u.inner = append(u.inner, o.Provenance)
	}
}

func (u *unit) wasAsked() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = true
}

func (u *unit) overflows() {} // the unit is rendered again for answers that are not recorded

func sameObject(a, b *render.Object) bool { return reflect.DeepEqual(a.Object, b.Object) }

func (r *recorder) spoil() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spoiled = true
}

// seen returns all reads and answers of the unit's rendering, in this run and in the run that
// stored it.
func (u *unit) seen() (variant, bool) {
	if u.adopted != nil { // it records the questions about origins
		return u.adopted.seen()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.rec == nil {
		return u.variants[0], true
	}
	var now [2]int
	if u.resolution == nil {
		if now = [2]int{u.rec.len(), u.store.len()}; now == u.seenOf && now[0] > 0 {
			return u.seenVariant, true
		}
	}
	reads, ok := u.rec.reads()
	var c condition
	if u.resolution == nil {
		c = u.store.condition()
	} else {
		answers, known := u.resolution.condition()
		c, ok = answers, ok && known
	}
	if u.recalled {
		all := slices.Concat(reads, u.variants[0].reads)
		sortReads(all)
		reads, c = slices.Compact(all), c.and(u.variants[0].condition)
	}
	v := u.identified(reads, c)
	if ok {
		u.seenOf, u.seenVariant = now, v
	}
	return v, ok
}

// storable reports whether rendering the unit again would give the same result. It would not if
// rendering took too long, or if an error contains the message for a missing file, which differs
// between kinds of trees.
func storable(u *render.Unit) bool {
	for _, e := range render.Errors(u.Err) {
		text := e.Err.Error()
		if slices.Contains([]string{"internal", "helm-template", "set-apart", "wrong-content"}, e.Rule) ||
			strings.Contains(text, "no such file or directory") || strings.Contains(text, "file does not exist") {
			return false
		}
	}
	return true
}

// save stores the unit if there is something new.
func (u *unit) save() {
	if u.adopted != nil || u.recalled && u.rec == nil && !u.asked || !storable(&u.result) {
		return
	}
	v, ok := u.seen()
	if !ok {
		return
	}
	body, err := u.encode()
	if err != nil {
		return
	}
	u.graph.options.Store.Put(v.id, body)
	variants := append([]variant{v}, slices.DeleteFunc(u.stored(), func(x variant) bool { return x.id == v.id })...)
	var e Encoder
	variants = variants[:min(len(variants), maxVariants)]
	e.Uint(uint64(len(variants)))
	for _, v := range variants {
		e.reads(v.reads)
		e.Plain(v.condition)
		e.String(string(v.id[:]))
	}
	if data, err := e.Data(); err == nil {
		u.graph.options.Store.Put(u.key, data)
	}
}

// A problem is a rendering error in the store.
type problem struct {
	Span             render.Span
	Rule, Text, Hint string
	Source           string
	Missing, Warning bool
	Undecided        bool
	Upgrade          bool
	Remote           *render.Remote
}

// made holds a resolver's facts about a unit besides its objects.
type made struct {
	ID, Kind, Path, Namespace, Renderer, Reason, Release, Chart, User string

	State  render.State
	Origin render.Origin
	Files  bool // the source has files
	Client bool // ByClient of the unit
	As     bool // Impersonates of the unit
	Noted  render.Noted
}

func (u *unit) encode() ([]byte, error) {
	var e Encoder
	e.String(u.result.Name)
	e.String(u.result.Cluster)
	if x := &u.result; u.resolution != nil {
		e.Plain(made{x.ID, x.Kind, x.Path, x.Namespace, x.Renderer, x.Reason, x.Release, x.Chart, x.User, x.State, x.Origin, x.FS != nil, x.ByClient, x.Impersonates, u.resolution.noted})
		e.Bool(x.Values != nil)
		if x.Values != nil {
			e.Value(x.Values)
		}
	}
	var problems []problem
	for _, x := range render.Errors(u.result.Err) {
		problems = append(problems, problem{x.Span, x.Rule, x.Err.Error(), x.Hint, x.Source, x.Missing, x.Warning, x.Undecided, x.Upgrade, x.Remote})
	}
	e.Plain(problems)
	e.Plain(u.result.Inputs)
	e.Uint(uint64(len(allOf(&u.result))))
	for i, o := range allOf(&u.result) {
		e.Value(o.Object)
		e.Strings(o.Assumed)
		e.Plain(o.Variant)
		e.Bool(o.Provenance != nil)
		answers, err := u.places[i].text()
		if err != nil {
			return nil, err
		}
		e.String(answers)
	}
	return e.Data()
}

func (u *unit) decode(body []byte) error {
	d := NewDecoder(body)
	u.unit = &render.Unit{Source: u.src, Name: d.String(), Cluster: d.String()}
	if u.resolution != nil {
		u.decodeMade(d)
	}
	var problems []problem
	d.Plain(&problems)
	d.Plain(&u.unit.Inputs)
	var errs []error
	for _, p := range problems {
		errs = append(errs, &render.Error{
			Span: p.Span, Rule: p.Rule, Err: errors.New(p.Text), Hint: p.Hint, Source: p.Source, Missing: p.Missing, Warning: p.Warning, Undecided: p.Undecided, Upgrade: p.Upgrade, Remote: p.Remote,
		})
	}
	u.unit.Err = errors.Join(errs...)
	u.places = nil
	for n := d.Uint(); n > 0 && d.Err() == nil; n-- {
		u.decodeObject(d)
	}
	return d.End()
}

func (u *unit) decodeMade(d *Decoder) {
	var m made
	d.Plain(&m)
	x := u.unit
	x.ID, x.Kind, x.Path, x.Namespace, x.Renderer, x.Reason = m.ID, m.Kind, m.Path, m.Namespace, m.Renderer, m.Reason
	x.Release, x.Chart, x.User, x.State, x.Origin, x.ByClient, x.Impersonates = m.Release, m.Chart, m.User, m.State, m.Origin, m.Client, m.As
	u.resolution.noted = m.Noted
	if m.Files {
		x.FS = u.graph.tree
	}
	if d.Bool() {
		x.Values, _ = d.Value().(map[string]any)
	}
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
	u.places[len(u.places)-1].kept = d.String()
	if !known {
		o.Provenance = nil
	}
	if o.Variant.IsDefault() {
		u.unit.Objects = append(u.unit.Objects, o)
	} else {
		u.unit.Variants = append(u.unit.Variants, o)
	}
}
