package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
)

// recall is all with a memory: of units that are as they were, judged by what
// judged them then, among what they were judged among, it takes the results of
// that run.
func (j *judgement) recall(ctx context.Context, o *checkOptions, in *input, user policy.UserInfo) error {
	r := newRecollection(o, in, user)
	known := r.results()
	var rest []policy.Request
	for _, req := range policy.Requests(nil, objects(in.head)) {
		req.UserInfo = user
		if _, ok := known[req.Object.Unit]; !ok {
			rest = append(rest, req)
		}
	}
	if err := j.makeBench(o, in, r.bench(), len(rest) > 0); err != nil {
		return err
	}
	found, err := j.bench.chain.ReviewEach(ctx, rest)
	if err != nil {
		for _, u := range in.head { // what was evaluated, now or earlier
			j.results = append(j.results, known[u]...)
		}
		j.results = slices.Concat(j.results, slices.Concat(found...))
		return err
	}
	for i := range rest {
		u := rest[i].Object.Unit
		known[u] = append(known[u], found[i]...)
	}
	var results []policy.Result
	for _, u := range in.head {
		if !r.got[u] {
			policy.Sort(known[u])
		}
		r.learn(u, known[u])
		results = append(results, known[u]...)
	}
	policy.Sort(results)
	r.keep(j.bench)
	j.results = slices.Concat(in.found, notFollowed(objects(in.head), o.gitops != gitopsOff), j.bench.results, results)
	return nil
}

// makeBench takes what is known of the engines, and makes them where there is
// something to judge. What did not compile is known then, and not looked for.
func (j *judgement) makeBench(o *checkOptions, in *input, known *bench, judging bool) (err error) {
	if j.bench = known; known != nil && !judging {
		return nil
	}
	o.compiled = known != nil
	if j.bench, err = newBench(in, in, o); err != nil || known == nil {
		return err
	}
	j.bench.results, j.bench.notes, j.bench.said = known.results, known.notes, known.said
	return nil
}

// A recollection is what is known of results of earlier runs.
//
// Results follow from the unit (its ID, with the lines of its fields), from the
// program and its options, from the objects that judge, and from what engines
// asked about others: of which kinds they looked at the objects, and where
// which of their fields are written. The last two are noted as they are asked
// for, all requests together; results of a run stand under their sum.
type recollection struct {
	memory *memory
	graph  *cache.Graph
	head   []*render.Unit
	byKind map[schema.GroupKind][]member
	served string // the kinds there are, with their versions

	judges []member
	key    string // of what judges, and how
	kinds  string // what the rules member depend on besides
	off    bool   // nothing can be told

	around *surroundings // those that hold, nil if none do
	put    map[*render.Unit][]byte
	got    map[*render.Unit]bool
}

// member is an object with the list that it is from.
type member struct {
	*render.Object
	list int
}

func newRecollection(o *checkOptions, in *input, user policy.UserInfo) *recollection {
	r := &recollection{
		memory: o.memory, graph: in.graph, head: in.head, byKind: make(map[schema.GroupKind][]member),
		put: make(map[*render.Unit][]byte), got: make(map[*render.Unit]bool),
	}
	r.index(in.head, in.judges, in.context)
	options, ok := o.judging(in)
	r.off = !ok
	r.key = r.keyOf("judges", o.memory.build, options, fmt.Sprintf("%#v", user), r.sum(r.judges), fmt.Sprint(slices.ContainsFunc(objects(in.head), render.Substitutes)))
	r.kinds = strings.Join(append(versions(objects(in.head)), standIns(objects(in.head))...), "\n")
	r.findAround()
	return r
}

func (r *recollection) keyOf(parts ...string) string {
	k := cache.KeyOf(parts...)
	return string(k[:])
}

func (r *recollection) index(lists ...[]*render.Unit) {
	var all []*render.Object
	for i, units := range lists {
		for _, o := range objects(units) {
			all = append(all, o)
			gk := o.GroupVersionKind().GroupKind()
			r.byKind[gk] = append(r.byKind[gk], member{o, i})
			if isJudge(o) {
				r.judges = append(r.judges, member{o, i})
			}
		}
	}
	r.served = strings.Join(versions(all), "\n")
}

// versions are the kinds of objects with their versions, each once.
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

// sum tells objects from others by all but their lines.
func (r *recollection) sum(objects []member) string {
	var e cache.Encoder
	for _, o := range objects {
		e.Uint(uint64(o.list))
		e.Value(o.Object.Object)
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

// judging is all that the command line says of how objects are judged, with the
// files that it names; false if these can't be read, or if judging does more
// than say something of each unit for itself.
func (o *checkOptions) judging(in *input) (string, bool) {
	if o.combine || o.verbose && len(in.modules) > 0 { // which may print
		return "", false
	}
	said := []string{fmt.Sprintf("%#v %#v %v %s %q", o.judges, o.asking, o.verbose, o.kubeVersion, o.apiVersions)}
	var files []string
	if name, _, err := in.file(o.authorizer); err == nil {
		files = append(files, name)
	}
	for _, m := range in.modules {
		said = append(said, m.File, m.Text)
	}
	for _, d := range in.data {
		said = append(said, append(d.Under, d.File, d.Text)...)
	}
	for _, name := range files {
		data, err := render.ReadFile(in.tree, name)
		if err != nil {
			return "", false
		}
		said = append(said, name, string(data))
	}
	k := cache.KeyOf(said...)
	return string(k[:]), true
}

// surroundings are what engines asked about other objects, and were told.
type surroundings struct {
	Kinds  []schema.GroupKind // whose objects they looked at
	Sums   []string           // of these
	Served string             // the kinds there are, if they asked; else empty
	Told   []string           // the lines of the judges, and of objects of the kinds
}

func (s *surroundings) encode() string {
	var e cache.Encoder
	e.Plain(*s)
	data, _ := e.Data()
	return string(data)
}

const maxSurroundings = 4

// findAround finds surroundings under which results are kept and that hold.
func (r *recollection) findAround() {
	if r.off {
		return
	}
	for _, s := range r.surroundings() {
		if r.holds(&s) {
			r.around = &s
			return
		}
	}
}

func (r *recollection) surroundings() []surroundings {
	var all []surroundings
	if data, ok := r.memory.store.Get(cache.KeyOf("surroundings", r.key)); ok {
		d := cache.NewDecoder(data)
		if d.Plain(&all); d.End() != nil {
			return nil
		}
	}
	return all
}

func (r *recollection) holds(s *surroundings) bool {
	if s.Served != "" && s.Served != r.served || len(s.Sums) != len(s.Kinds) {
		return false
	}
	for i, k := range s.Kinds {
		if r.sum(r.byKind[k]) != s.Sums[i] {
			return false
		}
	}
	return slices.EqualFunc(r.about(s.Kinds), s.Told, func(o member, told string) bool { return cache.Tells(o.Object, told) })
}

// about are the objects whose lines may be asked for on behalf of others.
func (r *recollection) about(kinds []schema.GroupKind) []member {
	all := slices.Clone(r.judges)
	for _, k := range kinds {
		for _, o := range r.byKind[k] {
			if !isJudge(o.Object) {
				all = append(all, o)
			}
		}
	}
	return all
}

// results are those that are known, by unit.
func (r *recollection) results() map[*render.Unit][]policy.Result {
	known := make(map[*render.Unit][]policy.Result)
	if r.around == nil {
		return known
	}
	around := r.around.encode()
	for _, u := range r.head {
		id, ok := r.graph.ID(u)
		if !ok {
			continue
		}
		data, ok := r.memory.store.Get(r.resultsKey(id, around))
		if !ok {
			continue
		}
		var results []policy.Result
		d := cache.NewDecoder(data)
		if d.Plain(&results); d.End() == nil {
			known[u] = results
			r.put[u], r.got[u] = data, true
		}
	}
	return known
}

func (r *recollection) resultsKey(unit cache.Key, around string) cache.Key {
	return cache.KeyOf("results", r.key, around, string(unit[:]))
}

// learn notes the results of a unit.
func (r *recollection) learn(u *render.Unit, results []policy.Result) {
	if r.got[u] || r.off || slices.ContainsFunc(results, isFault) {
		return
	}
	var e cache.Encoder
	e.Plain(results)
	if data, err := e.Data(); err == nil {
		r.put[u] = data
	}
}

// isFault tells of a result that another run may not come to.
func isFault(r policy.Result) bool { return r.Engine == policy.EngineCompile }

// compiled is what is kept of a bench.
type compiled struct {
	Results []policy.Result
	Notes   []string
	Rules   []policy.Rule
}

func (r *recollection) benchKey(around string) cache.Key {
	return cache.KeyOf("bench", r.key, around, r.kinds)
}

// bench is what is known of the engines without making them.
func (r *recollection) bench() *bench {
	if r.around == nil {
		return nil
	}
	data, ok := r.memory.store.Get(r.benchKey(r.around.encode()))
	if !ok {
		return nil
	}
	var e compiled
	d := cache.NewDecoder(data)
	if d.Plain(&e); d.End() != nil {
		return nil
	}
	return &bench{results: e.Results, notes: e.Notes, said: append([]policy.Rule{}, e.Rules...)}
}

// keep has the memory keep what is new when the report is written.
func (r *recollection) keep(b *bench) {
	if r.off || b.cluster == nil {
		return
	}
	var e cache.Encoder
	e.Plain(compiled{b.results, b.notes, b.rules()})
	data, err := e.Data()
	if err != nil {
		return
	}
	r.memory.put = append(r.memory.put, func() {
		now, ok := r.seen(b.cluster)
		if !ok {
			return
		}
		around := now.encode()
		changed := r.around == nil || r.around.encode() != around
		if changed {
			r.keepAround(now)
		}
		r.memory.store.Put(r.benchKey(around), data)
		for u, results := range r.put {
			if id, ok := r.graph.ID(u); ok && (changed || !r.got[u]) {
				r.memory.store.Put(r.resultsKey(id, around), results)
			}
		}
	})
}

// seen are the surroundings of this run: what was asked now, and what was asked
// for results that were recalled.
func (r *recollection) seen(c *policy.Cluster) (surroundings, bool) {
	kinds, served := c.Asked()
	if r.around != nil {
		served = served || r.around.Served != ""
		kinds = slices.Concat(kinds, r.around.Kinds)
		slices.SortFunc(kinds, func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
		kinds = slices.Compact(kinds)
	}
	s := surroundings{Kinds: kinds}
	if served {
		s.Served = r.served
	}
	for _, k := range kinds {
		s.Sums = append(s.Sums, r.sum(r.byKind[k]))
	}
	for _, o := range r.about(kinds) {
		told, ok := cache.Told(o.Object)
		if !ok {
			return s, false
		}
		s.Told = append(s.Told, told)
	}
	return s, true
}

func (r *recollection) keepAround(now surroundings) {
	all := append([]surroundings{now}, r.surroundings()...)
	var e cache.Encoder
	e.Plain(all[:min(len(all), maxSurroundings)])
	if data, err := e.Data(); err == nil {
		r.memory.store.Put(cache.KeyOf("surroundings", r.key), data)
	}
}
