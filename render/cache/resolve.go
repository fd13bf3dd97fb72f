package cache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// Resolvers returns resolvers that cache their units as Render does for sources. An entry depends
// on the object, the files that were read, and every answer of the World, including origins of
// fields.
func (g *Graph) Resolvers(all []render.Resolver) []render.Resolver {
	caching := make([]render.Resolver, len(all))
	for i, r := range all {
		caching[i] = resolver{r, g}
	}
	return caching
}

type resolver struct {
	render.Resolver
	graph *Graph
}

// Resolve implements render.Resolver.
func (r resolver) Resolve(ctx context.Context, o *render.Object, w *render.World) *render.Unit {
	key, ok := r.graph.objectKey(o, w)
	if !ok {
		return r.Resolver.Resolve(ctx, o, w)
	}
	u := &unit{
		graph: r.graph, ctx: context.WithoutCancel(ctx), src: render.Source{Owner: o}, key: key,
		resolution: &resolution{resolver: r.Resolver, object: o, world: w, graph: r.graph},
	}
	if !u.adopt() && !u.recall() {
		if err := u.renderAnew(ctx); err != nil {
			return u.unit
		}
		u.resolution.noted = w.Noted()
		reads, _ := u.rec.reads()
		w.Recalled(opened(reads), false, render.Noted{})
	} else {
		w.Recalled(opened(u.variants[0].reads), u.variants[0].condition.Fetched, u.resolution.noted)
	}
	r.graph.add(u)
	return u.unit
}

// objectKey returns the key of the unit that an object makes on a cluster.
func (g *Graph) objectKey(o *render.Object, w *render.World) (Key, bool) {
	var e Encoder
	e.String(g.digest(o))
	e.Plain(w.Cluster)
	e.Plain(w.Clusters)
	e.Plain(w.Variant)
	data, err := e.Data()
	return KeyOf("object", g.options.Build, string(data)), err == nil && !strings.HasPrefix(g.digest(o), failure)
}

// digest returns a digest of an object without the origins of its fields. It begins with failure if
// the object can't be encoded.
func (g *Graph) digest(o *render.Object) string {
	if o == nil {
		return isMissing
	}
	sum, err := g.digests.Of(o)
	if err != nil {
		return failure + err.Error()
	}
	sum = content + sum
	if o.Unit != nil {
		sum += o.Unit.Namespace
		if by := o.Unit.Owner; by != nil {
			sum += fmt.Sprintf(" %s %s/%s", by.GroupVersionKind().GroupKind(), by.GetNamespace(), by.GetName())
		}
	}
	return sum + "\x00" + strings.Join(o.Assumed, "\x00")
}

// opened returns the names of the files and directories that were opened.
func opened(reads []read) []string {
	var names []string
	for _, r := range reads {
		if r.op == opRead && strings.HasPrefix(r.outcome, content) || r.op == opOpen && (r.outcome == isFile || r.outcome == isDir) {
			names = append(names, r.name)
		}
	}
	return names
}

// A condition holds all answers that a resolver got, except the content of
// files. The cached unit is valid as long as a World gives the same answers.
type condition struct {
	Own     []string // the object's answers about origins of its fields
	Asked   []asked
	Fetched bool // fetched content was used
}

// asked is an inquiry with its answer.
type asked struct {
	Question inquiry
	Answer   string
	Places   []objectPlaces // answers about origins, of the objects in Answer
}

// An inquiry asks a World for an object, a list, a repository, a source or
// parameters.
type inquiry struct{ What, Cluster, A, B, C string }

type objectPlaces struct {
	Index   int // of the object in the answer
	Answers string
}

// A resolution records how a unit was made from an object.
type resolution struct {
	resolver render.Resolver
	object   *render.Object
	world    *render.World
	graph    *Graph

	noted render.Noted

	mu      sync.Mutex
	own     *places
	asked   map[inquiry]*reply
	spoiled bool
}

// A reply is an answer with the objects that the resolver received.
type reply struct {
	answer  string
	objects []*render.Object
}

func (c *condition) sort() {
	slices.SortFunc(c.Asked, func(a, b asked) int {
		return cmp.Or(strings.Compare(a.Question.What, b.Question.What), strings.Compare(a.Question.Cluster, b.Question.Cluster), strings.Compare(a.Question.A, b.Question.A),
			strings.Compare(a.Question.B, b.Question.B), strings.Compare(a.Question.C, b.Question.C))
	})
}

// and returns the condition that c and o both hold.
func (c condition) and(o condition) condition {
	both := condition{Own: slices.Concat(c.Own, o.Own), Asked: slices.Concat(c.Asked, o.Asked), Fetched: c.Fetched || o.Fetched}
	slices.Sort(both.Own)
	both.Own = slices.Compact(both.Own)
	both.sort()
	both.Asked = slices.CompactFunc(both.Asked, func(a, b asked) bool { return reflect.DeepEqual(a, b) })
	return both
}

// resolve calls the resolver for the object and records its inquiries.
func (r *resolution) resolve(ctx context.Context, rec *recorder) *render.Unit {
	object := r.recording(r.object)
	r.mu.Lock()
	r.own, _ = object.Provenance.(*places)
	r.asked = make(map[inquiry]*reply)
	r.mu.Unlock()
	u := r.resolver.Resolve(ctx, object, r.world.With(&recordingAnswers{r, r.world.Answers(), rec}))
	u.Owner = r.object
	if u.FS != nil {
		u.FS = r.graph.tree
	}
	return u
}

// recording returns a copy of an object that records questions about origins.
func (r *resolution) recording(o *render.Object) *render.Object {
	if o == nil || o.Provenance == nil {
		return o
	}
	copied := *o
	copied.Provenance = &places{of: given{o, r}}
	return &copied
}

// given holds the places of an object that was passed to a resolver.
type given struct {
	object *render.Object
	by     *resolution
}

func (g given) provenance(int) render.Provenance { return g.object.Provenance }
func (g given) wasAsked()                        {}
func (g given) overflows()                       { g.by.spoil() }

func (r *resolution) spoil() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spoiled = true
}

// condition returns the answers so far. ok is false if the record is incomplete.
func (r *resolution) condition() (condition, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := condition{Fetched: r.world.UsedFetched()}
	if answers, ok := answersOf(r.own); ok {
		c.Own = []string{answers}
	}
	for q, a := range r.asked {
		x := asked{Question: q, Answer: a.answer}
		for i, o := range a.objects {
			p, _ := o.Provenance.(*places)
			if answers, ok := answersOf(p); ok {
				x.Places = append(x.Places, objectPlaces{i, answers})
			}
		}
		c.Asked = append(c.Asked, x)
	}
	c.sort()
	return c, !r.spoiled
}

// answersOf returns the recorded answers about origins. ok is false if there are none.
func answersOf(p *places) (string, bool) {
	if p == nil {
		return "", false
	}
	p.mu.Lock()
	n := len(p.answers)
	p.mu.Unlock()
	if n == 0 {
		return "", false
	}
	answers, err := p.text()
	return answers, err == nil
}

// holds reports whether the World still gives the recorded answers.
func (r *resolution) holds(c *condition) bool {
	for _, answers := range c.Own {
		if !confirms(r.object, answers) {
			return false
		}
	}
	for _, a := range c.Asked {
		now := r.ask(a.Question)
		if now.answer != a.Answer {
			return false
		}
		for _, t := range a.Places {
			if t.Index >= len(now.objects) || !confirms(now.objects[t.Index], t.Answers) {
				return false
			}
		}
	}
	return true
}

// ask sends an inquiry to the World.
func (r *resolution) ask(q inquiry) *reply {
	kind, w := schema.ParseGroupKind(q.A), r.world.Answers()
	switch q.What {
	case "object":
		return r.reply(w.Object(q.Cluster, kind, q.B, q.C))
	case "objects":
		return r.reply(w.Objects(q.Cluster, kind)...)
	case "repository":
		repo, err := w.Repository(q.A, q.B)
		return &reply{answer: rootOf(repo, err)}
	case "source":
		repo, ok := w.Source(q.A, q.B, q.C)
		return &reply{answer: fmt.Sprint(ok, repo.FS != nil, repo.Root)}
	case "fetched":
		return &reply{answer: rootOf(w.Fetched(remoteOf(q)))}
	case "params":
		params, ok := w.Params(q.A, q.B)
		data, err := json.Marshal(params)
		return &reply{answer: fmt.Sprint(ok, string(data), err)}
	}
	return &reply{answer: failure + q.What}
}

func (r *resolution) reply(objects ...*render.Object) *reply {
	a := &reply{}
	var sums strings.Builder
	for _, o := range objects {
		sum := r.graph.digest(o)
		if strings.HasPrefix(sum, failure) {
			r.spoil()
		}
		fmt.Fprintf(&sums, "%d %s %t", len(sum), sum, render.IsDeployed(o))
		if o != nil {
			a.objects = append(a.objects, o)
		}
	}
	hash := sha256.Sum256([]byte(sums.String()))
	a.answer = string(hash[:])
	return a
}

func rootOf(repo render.Repository, err error) string {
	if err == nil {
		return content + repo.Root
	}
	var e *render.Error
	if errors.As(err, &e) {
		return fmt.Sprint(failure, e.Rule, e.Missing, e.Err, e.Hint)
	}
	return failure + err.Error()
}

// note sends an inquiry, records the answer, and returns it with objects that record questions. A
// repeated inquiry gets the first answer again.
func (r *resolution) note(q inquiry) *reply {
	r.mu.Lock()
	known := r.asked[q]
	r.mu.Unlock()
	if known != nil {
		return known
	}
	a := r.ask(q)
	for i, o := range a.objects {
		a.objects[i] = r.recording(o)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.asked[q]; known != nil {
		return known
	}
	r.asked[q] = a
	return a
}

// recordingAnswers implements [render.WorldAnswers] for a resolver. It asks the World
// and records the inquiries.
type recordingAnswers struct {
	*resolution
	render.WorldAnswers
	rec *recorder
}

// Object implements render.WorldAnswers.
func (r *recordingAnswers) Object(cluster string, kind schema.GroupKind, namespace, name string) *render.Object {
	if a := r.note(inquiry{"object", cluster, kind.String(), namespace, name}); len(a.objects) > 0 {
		return a.objects[0]
	}
	return nil
}

// Objects implements render.WorldAnswers.
func (r *recordingAnswers) Objects(cluster string, kind schema.GroupKind) []*render.Object {
	return append([]*render.Object(nil), r.note(inquiry{What: "objects", Cluster: cluster, A: kind.String()}).objects...)
}

// Repository implements render.WorldAnswers.
func (r *recordingAnswers) Repository(url, revision string) (render.Repository, error) {
	r.note(inquiry{What: "repository", A: url, B: revision})
	repo, err := r.WorldAnswers.Repository(url, revision)
	return r.recorded(repo), err
}

// Source implements render.WorldAnswers.
func (r *recordingAnswers) Source(kind, namespace, name string) (render.Repository, bool) {
	r.note(inquiry{"source", "", kind, namespace, name})
	repo, ok := r.WorldAnswers.Source(kind, namespace, name)
	return r.recorded(repo), ok
}

// Params implements render.WorldAnswers.
func (r *recordingAnswers) Params(namespace, name string) ([]map[string]any, bool) {
	r.note(inquiry{What: "params", A: namespace, B: name})
	return r.WorldAnswers.Params(namespace, name)
}

// Fetched implements render.WorldAnswers.
func (r *recordingAnswers) Fetched(remote *render.Remote) (render.Repository, error) {
	r.note(inquiryFor(remote))
	repo, err := r.WorldAnswers.Fetched(remote)
	return r.recorded(repo), err
}

// Render implements [render.WorldAnswers]. It also records the Remotes that a renderer requests
// from the store.
func (r *recordingAnswers) Render(ctx context.Context, src render.Source) ([]*render.Object, error) {
	src.Store = r
	return r.WorldAnswers.Render(ctx, src)
}

func (r *recordingAnswers) recorded(repo render.Repository) render.Repository {
	if repo.FS != nil {
		repo.FS = r.rec
	}
	return repo
}

var _ render.WorldAnswers = (*recordingAnswers)(nil)
