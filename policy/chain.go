package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// A Chain evaluates requests in the API server's order: mutators, each on the
// result of the previous one, then validators.
type Chain struct {
	Kinds      Kinds
	Mutators   []Mutator
	Validators []Validator
	Watch      Watch       // may be nil
	Passes     *Passes     // receives passes instead of the results; may be nil
	Variables  bool        // Flux replaces variables such as ${NAME} in deployed objects
	Fails      func(n int) // called with the number of failures of a request; may be nil
	Secrets    Secrets     // may be nil
	Forgets    bool        // units forget their places when all requests about them are evaluated

	storing bool // Stored prepares the objects for storage
}

// Review evaluates the requests in parallel and returns the results, with their
// places and sorted. The error is not nil only if ctx is done or there is a
// bug.
func (c Chain) Review(ctx context.Context, reqs []Request) ([]Result, error) {
	found, err := c.reviewAll(ctx, reqs, new(Compact))
	return found.sorted(), err
}

// ReviewEach is Review with the results of each request kept apart, in the Compact.
func (c Chain) ReviewEach(ctx context.Context, reqs []Request, held *Compact) ([]CompactResults, error) {
	found, err := c.reviewAll(ctx, reqs, held)
	return found.parts, err
}

func (c Chain) reviewAll(ctx context.Context, reqs []Request, held *Compact) (*gathered, error) {
	done := func(*render.Unit) {}
	if c.Forgets {
		done = forgetful(reqs)
	}
	return inParallel(ctx, len(reqs), held, func(ctx context.Context, i int) ([]Result, error) {
		req := reqs[i]
		defer done(reqs[i].Subject().Unit)
		results, err := c.watchedRequest(ctx, &req, func() ([]Result, error) { return c.review(ctx, &req) })
		if n := failures(results); n > 0 && c.Fails != nil {
			c.Fails(n)
		}
		return results, err
	})
}

// failures counts the results that are failures.
func failures(results []Result) int {
	n := 0
	for i := range results {
		if results[i].Outcome == Fail {
			n++
		}
	}
	return n
}

// forgetful returns a function to call after each request, with the unit of its
// object. After the last one about a unit, the unit forgets its places.
func forgetful(reqs []Request) func(*render.Unit) {
	left := make(map[*render.Unit]*atomic.Int32)
	for i := range reqs {
		u := reqs[i].Subject().Unit
		if left[u] == nil {
			left[u] = new(atomic.Int32)
		}
		left[u].Add(1)
	}
	return func(u *render.Unit) {
		if left[u].Add(-1) == 0 {
			u.Forget()
		}
	}
}

// inParallel calls f for the numbers from 0 to n-1, and gathers the results in held. On error it
// returns the results so far; calls that do not stop when ctx ends are abandoned.
func inParallel(over context.Context, n int, held *Compact, f func(context.Context, int) ([]Result, error)) (*gathered, error) {
	const batch = 16 // numbers for one goroutine
	found := &gathered{compact: held, parts: make([]CompactResults, n)}
	group, ctx := errgroup.WithContext(over)
	group.SetLimit(goruntime.GOMAXPROCS(0))
	for first := 0; first < n; first += batch {
		group.Go(func() error {
			for i := first; i < min(first+batch, n); i++ {
				if err := ctx.Err(); err != nil {
					return err
				}
				results, err := f(ctx, i)
				if err != nil {
					return err
				}
				found.add(i, results)
				free(results)
			}
			return nil
		})
	}
	all := make(chan error, 1)
	go func() { all <- group.Wait() }()
	err := stopped(over, all)
	found.close()
	return found, err
}

// stopped waits for all calls to return. After the context ends it waits only a
// little longer, since a busy library may not check it.
func stopped(ctx context.Context, all <-chan error) error {
	select {
	case err := <-all:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-all:
		return err
	case <-time.After(patience):
		return ctx.Err()
	}
}

const patience = time.Second

// review evaluates one request. A panic becomes a result at its object.
func (c Chain) review(ctx context.Context, req *Request) (results []Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			results, err = []Result{brokenDown(req, p)}, nil
		}
	}()
	return c.reviewUnguarded(ctx, req)
}

func (c Chain) reviewUnguarded(ctx context.Context, req *Request) ([]Result, error) {
	asRendered := req.Subject()
	others, err := c.clusterScoped(ctx, req)
	if err != nil {
		return nil, err
	}
	h := newHistory()
	refused, admitted := c.admit(req, h)
	results := append(buffers.Get().(*buffer).results, refused...)
	var mutations []Result
	if !admitted && req.Admitted != nil {
		written, err := c.validateWritten(ctx, req)
		if err != nil {
			return nil, err
		}
		results = append(results, written...)
	}
	if admitted {
		if mutations, err = c.mutate(ctx, req, h); err != nil {
			return nil, err
		}
		if results, err = c.validateAll(ctx, req, h, results); err != nil {
			return nil, err
		}
		mutations = append(mutations, req.undecidedBefore(mutations, results)...)
		made, err := c.reviewMade(ctx, req, mutations, results)
		if err != nil {
			return nil, err
		}
		results = append(results, made...)
		if req.refused != nil {
			reported := make(map[string]bool) // fields that the definition refuses, too
			for i := range results {
				if r := &results[i]; r.Outcome == Fail && r.Engine == EngineCRD {
					for _, f := range r.Fields {
						reported[f] = true
					}
				}
			}
			results = append(results, slices.DeleteFunc(decodeErrors(req, req.refused), func(r Result) bool {
				return slices.ContainsFunc(r.Fields, func(f string) bool { return reported[f] })
			})...)
		}
		if c.scopeUnknown(req) && !req.clusterScoped {
			results = req.decideScope(results, mutations, others)
		}
		if req.OldUnknown {
			if results, err = c.decideOld(ctx, req, results, mutations); err != nil {
				return nil, err
			}
		}
	}
	l := newLocator(req, h)
	l.apart = c.Passes != nil
	secret := h.secretTexts(req.Admitted)
	for i := range results {
		c.undecide(&results[i], asRendered)
		l.locate(&results[i])
		c.Secrets.cover(&results[i])
		results[i].Message = covered(results[i].Message, secret)
	}
	kept := append(buffers.Get().(*buffer).results, mutations...) // apart from the buffer, which another request gets
	kept = append(kept, c.Passes.take(results, l.printed)...)
	for i := len(mutations); i < len(kept); i++ {
		kept[i].Origins = slices.Clone(kept[i].Origins) // results of the request share them
	}
	if ctx.Err() == nil { // else an engine that does not stop may still write into it
		free(results)
	}
	return kept, nil
}

// validateAll appends the results of the validators, in order. Those that run after the object is
// prepared see the prepared one. A rule is undecided if its verdict is another with other values of what
// the cluster allocates.
func (c Chain) validateAll(ctx context.Context, req *Request, h *history, results []Result) ([]Result, error) {
	for i, v := range c.Validators {
		req.buffer = results[len(results):]
		rs, err := c.validate(ctx, v, req)
		if err != nil {
			return nil, err
		}
		results = append(results, rs...)
		p := req.prepared
		if p == nil {
			continue
		}
		req.prepare(h)
		if p.Other == nil || i+1 == len(c.Validators) {
			continue
		}
		rest := c
		rest.Validators = c.Validators[i+1:]
		first := len(results)
		if results, err = rest.validateAll(ctx, req, h, results); err != nil {
			return nil, err
		}
		for o := p.Other; o != nil; o = o.Other {
			other := *req
			other.take(o)
			others, err := rest.validateAll(ctx, &other, newHistory(), nil)
			if err != nil {
				return nil, err
			}
			others = slices.DeleteFunc(others, func(r Result) bool { return !r.fails() })
			results = append(results[:first], undecideDiffering(results[first:], nil, others, p.Differs)...)
			assumeMessages(results[first:], others, p.Differs)
		}
		return results, nil
	}
	return results, nil
}

// assumeMessages adds an assumption to failures whose message is another one in others.
func assumeMessages(results, others []Result, differs string) {
	for i := range results {
		r, why := &results[i], "the message "+differs
		if r.Outcome == Fail && !slices.Contains(r.Assumed, why) && slices.ContainsFunc(others, func(o Result) bool { return o.ofRule(r) && o.Message != r.Message }) {
			r.Assumed = append(slices.Clone(r.Assumed), why)
		}
	}
}

// A buffer is memory for the results of a request, which the next request reuses. Results are
// large.
type buffer struct{ results []Result }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// free leaves the memory of results to another request.
func free(results []Result) {
	if cap(results) == 0 {
		return
	}
	clear(results)
	buffers.Put(&buffer{results[:0]})
}

// admit completes a request as the API server does before any policy runs. If
// the server would refuse the request, admitted is false and the results say
// why. h gets what an update keeps of the old object.
func (c Chain) admit(req *Request, h *history) (results []Result, admitted bool) {
	req.Object, req.OldObject = decrypted(req.Object), decrypted(req.OldObject)
	subject := req.Subject()
	req.Kind = subject.GroupVersionKind()
	req.Resource = c.Kinds.Resource(req.Kind)
	req.Name = subject.GetName()
	if req.clusterScoped {
		req.Resource.Namespaced = false
	}
	if req.Resource.Namespaced {
		req.Namespace = subject.EffectiveNamespace()
	}
	var err error
	if req.Object != nil {
		if kinds, ok := c.Kinds.(TypedKinds); ok && req.Operation == Create {
			req.Admitted, req.Typed, err = kinds.AdmitTyped(req.Object, req.Namespace)
		} else {
			req.Admitted, err = req.Admit(c.Kinds, req.Object)
		}
		if err != nil {
			req.Admitted = notServed(req, err)
			return decodeErrors(req, err), false
		}
	}
	req.refused = nil
	if req.OldObject != nil {
		c.admitOld(req, h)
	}
	if typed, ok := c.Kinds.(TypedKinds); ok && req.Method == ApplyServerSide && req.Object != nil {
		if _, err := typed.Merge(req.Method, req.Kind, nil, req.Object.Object, nil); errors.As(err, new(*FieldError)) {
			req.refused = err
		}
	}
	if c.unplaced(req) {
		req.place()
	}
	return nil, true
}

// notServed returns the object as written if its version is not served, or nil.
func notServed(req *Request, err error) map[string]any {
	var fe *FieldError
	if req.Operation != Create || !errors.As(err, &fe) || !fe.NotServed {
		return nil
	}
	return runtime.DeepCopyJSON(req.Object.Object)
}

const evaluatedAsWritten = "checked as it is written: the API server does not serve this version"

// validateWritten runs the validators that evaluate objects as written.
func (c Chain) validateWritten(ctx context.Context, req *Request) ([]Result, error) {
	var results []Result
	for _, v := range c.Validators {
		if _, ok := v.(WrittenValidator); !ok {
			continue
		}
		rs, err := c.validate(ctx, v, req)
		if err != nil {
			return nil, err
		}
		for i := range rs {
			rs[i].Assumed = append(rs[i].Assumed, evaluatedAsWritten)
		}
		results = append(results, rs...)
	}
	return results, nil
}

// decodeErrors returns a result for each of the errors that err joins.
func decodeErrors(req *Request, err error) []Result {
	all := []error{err}
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		all = several.Unwrap()
	}
	results := make([]Result, len(all))
	for i, e := range all {
		results[i] = decodeError(req, e)
	}
	return results
}

func decodeError(req *Request, err error) Result {
	r := Result{
		Engine: EngineSchema, Policy: req.Kind.GroupKind().String(), Rule: "decode",
		Outcome: Fail, Action: Deny, Message: err.Error(),
	}
	var fe *FieldError
	if errors.As(err, &fe) {
		r.Fields = fe.Fields
	}
	return r
}

// validate converts a panic in an engine's libraries to a result, so that one
// object can't hide the verdicts on the others.
func validate(ctx context.Context, v Validator, req *Request) (results []Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			results, err = []Result{panicked(v, p)}, nil
		}
	}()
	return v.Validate(ctx, req)
}

func panicked(engine, p any) Result {
	name, ok := engine.(string)
	if !ok {
		name = fmt.Sprintf("%T", engine)
	}
	return Result{
		Engine: EngineCompile, Policy: name, Rule: "panic", Outcome: Error, Action: Deny,
		Message: fmt.Sprintf("internal error: %v", p),
	}
}

// brokenDown returns the result of a request whose review panicked.
func brokenDown(req *Request, p any) Result {
	r := panicked("policy.Chain", p)
	subject := req.Subject()
	r.Operation, r.Object, r.Origins = req.Operation, subject.Key(), subject.At("")
	r.setFingerprint(subject)
	return r
}

// written converts fields to where they were written, if the API server moves or copies them: the stringData
// of a Secret to data, and the clusterIP of a Service to clusterIPs.
func written(fields []string, o *render.Object) []string {
	kind := o.GetKind()
	if o.GetAPIVersion() != "v1" || kind != "Secret" && kind != "Service" {
		return fields
	}
	moved := slices.Clone(fields)
	for i, f := range fields {
		from := ""
		if key, ok := strings.CutPrefix(f, "/data/"); ok && kind == "Secret" {
			from = "/stringData/" + key
		} else if _, own := render.Lookup(o.Object, "/spec/clusterIPs"); f == "/spec/clusterIPs/0" && !own && kind == "Service" {
			from = "/spec/clusterIP"
		}
		if _, found := render.Lookup(o.Object, from); found && from != "" {
			moved[i] = from
		}
	}
	return moved
}

// Sort sorts results into the report's order: by unit, object, engine, policy,
// rule, operation, then by place and message.
func Sort(results []Result) {
	if !IsSorted(results) {
		sortMoving(results, compareResults)
	}
}

// sortMoving is a stable sort of large elements. It moves each only once, within the
// slice.
func sortMoving[T any](all []T, compare func(a, b *T) int) {
	order := make([]int32, len(all))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return compare(&all[a], &all[b]) })
	for i := range order {
		moved, to := all[i], i
		for from := int(order[to]); from != i; from = int(order[to]) {
			all[to] = all[from]
			order[to] = int32(to)
			to = from
		}
		all[to] = moved
		order[to] = int32(to)
	}
}

// IsSorted reports whether results are in the report's order.
func IsSorted(results []Result) bool {
	for i := 1; i < len(results); i++ {
		if compareResults(&results[i-1], &results[i]) > 0 {
			return false
		}
	}
	return true
}

func compareResults(a, b *Result) int {
	if c := compareObjects(&a.Object, &b.Object); c != 0 {
		return c
	}
	if c := compareRules(a, b); c != 0 {
		return c
	}
	return cmp.Or(comparePlaces(a, b), strings.Compare(a.Message, b.Message))
}

func compareRules(a, b *Result) int {
	return cmp.Or(
		strings.Compare(a.Engine, b.Engine),
		strings.Compare(a.Policy, b.Policy),
		strings.Compare(a.Rule, b.Rule),
		strings.Compare(string(a.Operation), string(b.Operation)),
	)
}

func compareObjects(a, b *render.Key) int {
	if c := strings.Compare(a.Unit, b.Unit); c != 0 {
		return c
	}
	return compareKeys(*a, *b)
}

func compareKeys(a, b render.Key) int {
	return cmp.Or(
		strings.Compare(a.APIVersion, b.APIVersion),
		strings.Compare(a.Kind, b.Kind),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	)
}

func comparePlaces(a, b *Result) int {
	x, y := a.PolicyOrigin, b.PolicyOrigin
	if len(a.Origins) > 0 && len(b.Origins) > 0 {
		x, y = a.Origins[0].Span, b.Origins[0].Span
	}
	return compareSpans(x, y)
}

func compareSpans(x, y render.Span) int {
	return cmp.Or(strings.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column))
}

// Errors returns a result for each error of rendering or compiling, at its
// place. engine is EngineRender or EngineCompile; unit may be nil.
func Errors(engine string, unit *render.Unit, err error) []Result {
	var results []Result
	for _, e := range render.Errors(err) {
		r := Result{Engine: engine, Rule: e.Rule, Outcome: Error, Action: Deny, Message: e.Err.Error(), Hint: e.Hint, Operation: Create}
		if e.Warning {
			r.Outcome, r.Action = Fail, Warn
		}
		if e.Undecided {
			r.Outcome, r.Action = Unknown, Deny
		}
		if source := e.MissingSource(); source != "" {
			r.Missing = []Missing{{Kind: MissingSource, Name: source}}
		}
		if e.Maker != "" {
			r.Missing = []Missing{{Kind: MissingUnit, Name: e.Maker}}
		}
		if unit != nil {
			r.Policy, r.Object.Unit = unit.Kind, unit.Identity()
		}
		if named := (*NamedError)(nil); errors.As(e.Err, &named) {
			r.Policy = named.Policy
		}
		if e.Span.File != "" {
			if engine == EngineCompile {
				r.PolicyOrigin = e.Span
			}
			r.Origins = []render.Origin{{Span: e.Span, Role: render.Manifest}}
		}
		r.setFingerprint(nil)
		results = append(results, r)
	}
	return results
}

// ParseGroupVersion is schema.ParseGroupVersion without the error, which the
// apiVersion of a rendered object can't cause.
func ParseGroupVersion(apiVersion string) schema.GroupVersion {
	gv, _ := schema.ParseGroupVersion(apiVersion)
	return gv
}

// A gathered collects the results of requests that are evaluated in parallel.
type gathered struct {
	mu      sync.Mutex
	compact *Compact
	parts   []CompactResults // by request
	closed  bool
}

// add records the results of request i, unless the run has ended.
func (g *gathered) add(i int, results []Result) {
	held := g.compact.Add(results)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.parts[i] = held
	}
}

// close ends the gathering.
func (g *gathered) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// sorted returns all results, sorted. There is room for a few more.
func (g *gathered) sorted() []Result {
	n := 0
	for _, results := range g.parts {
		n += len(results)
	}
	all := make([]Result, 0, n+n/16+64)
	for i := range g.parts {
		all = g.compact.Append(all, g.parts[i])
		g.parts[i] = nil
	}
	Sort(all)
	return all
}
