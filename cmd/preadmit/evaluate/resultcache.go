package evaluate

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
)

// compiled turns the cache off if compilations may have failed because they took too long, since
// another run may be faster.
func (r *resultCache) compiled(s *engines.Set, took time.Duration) {
	r.off = r.off || len(s.Results) > 0 && took > quickCompile
}

// quickCompile is shorter than every compile time limit of engines.
const quickCompile = 10 * time.Second

// makeEngines makes the engines of an evaluation. If every result is cached these have the cached
// compile errors, and the policies are not compiled.
func (e *Evaluation) makeEngines(in, trusted *load.Input, s engines.Options, r *resultCache, needed bool) (err error) {
	known := r.engines()
	if e.Engines = known; known == nil || needed {
		s.Compiled = known != nil
		if e.Engines, err = engines.New(in, trusted, s); err != nil {
			return err
		}
		e.Engines.Chain.Secrets = SecretsOf(in, trusted)
		if known != nil {
			e.Engines.Results, e.Engines.Notes, e.Engines.Unknown, e.Engines.Said = known.Results, known.Notes, known.Unknown, known.Said
		}
	}
	if r.around != nil {
		e.Engines.Shown = r.around.Shown
	}
	return nil
}

// A resultCache holds the cached results of earlier runs that still apply.
//
// The results of a unit depend on the unit (its ID, and the lines of its fields),
// the program and its options, the policies, and the other objects that engines
// looked at: their kinds, their content and the lines of their fields. What
// engines look at is recorded during a run, for all requests together, and its
// hash is part of the key.
type resultCache struct {
	memory *load.Memory
	graphs []*cache.Graph // of the head and of the base
	byKind map[schema.GroupKind][]member
	sums   map[schema.GroupKind]string // of the objects of a kind, computed when needed
	served func() string               // the existing kinds and versions

	lists    int      // number of indexed lists of units
	policies []member // policies and the objects that belong to them
	key      string   // hash of engineInputs and of the clusters' names
	kinds    string   // kinds of the head's objects, which notes depend on
	off      bool     // nothing is cached

	around    *surroundings // recorded surroundings that are still valid, or nil
	aroundSum string        // of around

	parts     []*part                                 // the requests of the run
	positions map[*render.Unit]map[*render.Object]int // see position
}

// A member is an object and the number of its list in the input.
type member struct {
	*render.Object
	list int
}

// newResultCache returns the cached results for the requests of in, evaluated by the policies of
// trusted, which is in itself or its base. With a nil Memory there are none.
func newResultCache(m *load.Memory, in, trusted *load.Input, s engines.Options) *resultCache {
	r := &resultCache{
		memory: m, graphs: []*cache.Graph{in.Graph}, off: m == nil, sums: make(map[schema.GroupKind]string),
		byKind: make(map[schema.GroupKind][]member), positions: make(map[*render.Unit]map[*render.Object]int),
	}
	if m == nil {
		return r
	}
	if r.index(in.Head, in.Given, in.Context, in.Anywhere); trusted != in {
		r.graphs = append(r.graphs, trusted.Graph)
		r.index(trusted.Head, trusted.Given, trusted.Context, trusted.Anywhere)
	}
	r.served = sync.OnceValue(func() string { return servedBy(in, trusted) })
	// Policies must print in every run, and with --combine an object's results depend on all other
	// objects.
	r.off = s.Combine || s.Verbose && len(trusted.Modules) > 0
	var e cache.Encoder
	e.Plain(engineInputs{m.Build, *s.Settings, trusted.Modules, trusted.Data, r.sum(r.policies), trusted != in, in.Partial})
	data, err := e.Data()
	r.off = r.off || err != nil
	clusters := strings.Join(load.ClusterNames(nil, in), "\n")
	r.key = r.keyOf("policies", string(data), clusters) // clusters with the same policies have surroundings of their own
	r.kinds = strings.Join(append(versions(render.Objects(in.Head)), clusters), "\n")
	r.findAround()
	return r
}

// servedBy returns the kinds and versions of the objects that engines can look up.
func servedBy(in, trusted *load.Input) string {
	if trusted == in {
		return strings.Join(versions(render.Objects(slices.Concat(in.Head, in.Given, in.Context, in.Anywhere))), "\n")
	}
	var all []string
	for _, gvk := range change.Cluster(in.Side(), trusted.Side(), trusted.Exempts).Versions() {
		all = append(all, gvk.String())
	}
	return strings.Join(all, "\n")
}

// id returns the ID of a unit of either side.
func (r *resultCache) id(u *render.Unit) (id cache.Key, ok bool) {
	for _, g := range r.graphs {
		if id, ok = g.ID(u); ok {
			return id, true
		}
	}
	return id, false
}

func (r *resultCache) keyOf(parts ...string) string {
	k := cache.KeyOf(parts...)
	return string(k[:])
}

// index adds the objects of a side. Lists are numbered in the order in which they are added.
func (r *resultCache) index(lists ...[]*render.Unit) {
	for _, units := range lists {
		for _, o := range render.Objects(units) {
			gk := o.GroupVersionKind().GroupKind()
			m := member{o, r.lists}
			r.byKind[gk] = append(r.byKind[gk], m)
			if lint.IsCompiled(o) {
				r.policies = append(r.policies, m)
			}
		}
		r.lists++
	}
}

// versions returns the kinds of objects with their versions, sorted, each once.
func versions(objects []*render.Object) []string {
	seen := make(map[schema.GroupVersionKind]bool)
	var all []string
	for _, o := range objects {
		if gvk := o.GroupVersionKind(); !seen[gvk] {
			seen[gvk] = true
			all = append(all, gvk.String())
		}
	}
	slices.Sort(all)
	return all
}

// sum returns a hash of objects, without their lines.
func (r *resultCache) sum(objects []member) string {
	var e cache.Encoder
	for _, o := range objects {
		content, err := r.memory.Digests.Of(o.Object)
		r.off = r.off || err != nil
		e.Uint(uint64(o.list))
		e.String(content)
		e.Strings(o.Assumed)
		if u := o.Unit; u != nil {
			e.Strings([]string{u.Identity(), u.Path, u.Kind, u.Namespace, u.Cluster})
		}
	}
	data, err := e.Data()
	if err != nil {
		r.off = true
	}
	s := sha256.Sum256(data)
	return string(s[:])
}

// sumOf returns the sum of the objects of a kind.
func (r *resultCache) sumOf(k schema.GroupKind) string {
	sum, ok := r.sums[k]
	if !ok {
		sum = r.sum(r.byKind[k])
		r.sums[k] = sum
	}
	return sum
}

// placeAnswers returns the engines' questions about origins of an object, with the answers, in
// encoded form.
func placeAnswers(o member) (string, bool) {
	at, commit := rendered(o)
	answers, ok := cache.PlaceAnswers(at)
	return commit + "\x00" + answers, ok
}

// givesAnswers reports whether an object still gives the answers of placeAnswers.
func givesAnswers(o member, was string) bool {
	at, commit := rendered(o)
	of, answers, _ := strings.Cut(was, "\x00")
	return of == commit && cache.GivesAnswers(at, answers)
}

// rendered returns an object as it was rendered, and the commit in the names of its
// files, which is "" except for an object of a base that the head does not have.
func rendered(o member) (*render.Object, string) {
	p, ok := o.Provenance.(change.Committed)
	if !ok {
		return o.Object, ""
	}
	was := *o.Object
	was.Provenance = p.Provenance
	return &was, p.Name("-")
}

// engineInputs is everything that results of a unit depend on besides the unit and its
// surroundings. The cache key is the hash of the whole struct.
type engineInputs struct {
	Build    string
	Settings engines.Settings
	Modules  []rego.Module
	Data     []rego.Document
	Policies string // the policies, and the objects that belong to them
	Compared bool   // a change is evaluated, by the policies of its base
	Partial  bool   // see load.Input
}

// surroundings records the other objects that engines looked up.
type surroundings struct {
	Kinds  []schema.GroupKind // kinds of the objects that engines looked up
	Sums   []string           // a hash of the objects of each kind
	Served string             // the existing kinds if engines asked for them, else empty
	Shown  []policy.Identity  // objects that nothing deploys, and that engines may have looked up
	Places []string           // the lines of the policies, and of objects of the kinds
}

// sum returns a hash of the surroundings for the keys of entries.
func (s *surroundings) sum() string {
	var e cache.Encoder
	e.Plain(*s)
	data, _ := e.Data()
	sum := sha256.Sum256(data)
	return string(sum[:])
}

const maxSurroundings = 4

// findAround sets around to recorded surroundings that are still valid.
func (r *resultCache) findAround() {
	if r.off {
		return
	}
	for _, s := range r.surroundings() {
		if r.holds(&s) {
			r.around, r.aroundSum = &s, s.sum()
			return
		}
	}
}

func (r *resultCache) surroundings() []surroundings {
	var all []surroundings
	if data, ok := r.memory.Store.Get(cache.KeyOf("surroundings", r.key)); ok {
		d := cache.NewDecoder(data)
		if d.Plain(&all); d.End() != nil {
			return nil
		}
	}
	return all
}

func (r *resultCache) holds(s *surroundings) bool {
	if s.Served != "" && s.Served != r.served() || len(s.Sums) != len(s.Kinds) {
		return false
	}
	for i, k := range s.Kinds {
		if r.sumOf(k) != s.Sums[i] {
			return false
		}
	}
	return slices.EqualFunc(r.about(s.Kinds), s.Places, givesAnswers)
}

// about returns the objects whose lines may appear in results of other objects.
func (r *resultCache) about(kinds []schema.GroupKind) []member {
	all := slices.Clone(r.policies)
	for _, k := range kinds {
		for _, o := range r.byKind[k] {
			if !lint.IsCompiled(o.Object) {
				all = append(all, o)
			}
		}
	}
	return all
}

// unitResults holds the cached results of a unit.
type unitResults struct {
	Results []policy.Result
	Passes  policy.PackedPasses
}

// isFault reports whether another run may give another result: a compile error, or an error of
// Rego, which may be due to a time or memory limit.
func isFault(r policy.Result) bool {
	rego := r.Engine == policy.EngineRego || r.Engine == policy.EngineGatekeeper
	return r.Engine == policy.EngineCompile || rego && r.Outcome == policy.Error
}

// Compiled is the cached part of the engines.
type Compiled struct {
	Results []policy.Result
	Notes   []string
	Unknown []engines.ClusterKind
	Rules   []policy.Rule
	Implied bool
}

func (r *resultCache) enginesKey(around string) cache.Key {
	return cache.KeyOf("engines", r.key, around, r.kinds)
}

// engines returns a Set with the cached compile errors and rules, or nil.
func (r *resultCache) engines() *engines.Set {
	if r.around == nil {
		return nil
	}
	data, ok := r.memory.Store.Get(r.enginesKey(r.aroundSum))
	if !ok {
		return nil
	}
	var e Compiled
	d := cache.NewDecoder(data)
	if d.Plain(&e); d.End() != nil {
		return nil
	}
	return &engines.Set{Results: e.Results, Notes: e.Notes, Unknown: e.Unknown, Implied: e.Implied, Said: append([]policy.Rule{}, e.Rules...)}
}

// shown returns the objects that nothing deploys and that engines may have looked up.
func (r *resultCache) shown(by []*engines.Set) []policy.Identity {
	all := make(map[policy.Identity]bool)
	for _, objects := range r.byKind {
		for _, o := range objects {
			if o.Unit != nil && o.Unit.State == render.Unreached && slices.ContainsFunc(by, func(b *engines.Set) bool { return b.MayHaveRead(o.Object) }) {
				all[policy.NameOf(o.Object)] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(x, y policy.Identity) int {
		return cmp.Or(strings.Compare(x.String(), y.String()), strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
}

// keep registers the new results to be stored after the report is written. others are engines, besides
// b, that found some of them.
func (r *resultCache) keep(b *engines.Set, others ...*engines.Set) {
	if r.off || b.Cluster == nil {
		return
	}
	var e cache.Encoder
	e.Plain(Compiled{b.Results, b.Notes, b.Unknown, b.Rules(), b.Implied})
	data, err := e.Data()
	if err != nil {
		return
	}
	r.memory.Put = append(r.memory.Put, func() {
		now, ok := r.seen(append(others, b))
		if !ok {
			return
		}
		around := now.sum()
		r.memory.Store.Put(r.enginesKey(around), data)
		for _, p := range r.parts {
			p.keep(around)
		}
		if r.around == nil || r.aroundSum != around {
			r.keepAround(now)
		}
	})
}

// seen returns the surroundings of this run, with those of its cached results.
func (r *resultCache) seen(by []*engines.Set) (surroundings, bool) {
	var kinds []schema.GroupKind
	served := false
	for _, b := range by {
		asked, all := b.Cluster.Asked()
		kinds, served = append(kinds, asked...), served || all
	}
	if r.around != nil {
		served = served || r.around.Served != ""
		kinds = slices.Concat(kinds, r.around.Kinds)
	}
	slices.SortFunc(kinds, func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
	kinds = slices.Compact(kinds)
	s := surroundings{Kinds: kinds, Shown: r.shown(by)}
	if served {
		s.Served = r.served()
	}
	for _, k := range kinds {
		s.Sums = append(s.Sums, r.sumOf(k))
	}
	for _, o := range r.about(kinds) {
		answers, ok := placeAnswers(o)
		if !ok {
			return s, false
		}
		s.Places = append(s.Places, answers)
	}
	return s, true
}

func (r *resultCache) keepAround(now surroundings) {
	all := append([]surroundings{now}, r.surroundings()...)
	var e cache.Encoder
	e.Plain(all[:min(len(all), maxSurroundings)])
	if data, err := e.Data(); err == nil {
		r.memory.Store.Put(cache.KeyOf("surroundings", r.key), data)
	}
}
