package policy

import (
	"cmp"
	"context"
	"fmt"

	"github.com/preadmit/preadmit/render"
)

// A Watch is called for each request that is reviewed, with a nil engine, and
// within that for each Mutator and Validator. If the Watch returns an error, the step
// is skipped and the error becomes its result. A Watch is called by several goroutines
// at a time.
type Watch func(req *Request, engine any) (Watched, error)

// A Watched is a step that begins. Its functions may be nil.
type Watched struct {
	Done   func()                                       // called at the end
	Policy func(policy string) (done func(), err error) // called like the Watch for each policy of the engine
}

// watched runs a step under the Watch, and returns the results of skipping it, or
// policies in it.
func (c Chain) watched(ctx context.Context, req *Request, engine any, step func(context.Context) error) (leftOut []Result, err error) {
	if c.Watch == nil {
		return nil, step(ctx)
	}
	w, refused := c.Watch(cmp.Or(req.Maker, req), engine)
	if refused != nil {
		return []Result{leftOutResult(engine, refused)}, nil
	}
	if w.Done != nil {
		defer w.Done()
	}
	if w.Policy == nil {
		return nil, step(ctx)
	}
	return watchedClosely(ctx, w.Policy, engine, step)
}

// watchedClosely runs a step in which each policy is watched.
func watchedClosely(ctx context.Context, begin func(policy string) (func(), error), engine any, step func(context.Context) error) (leftOut []Result, err error) {
	o := observersOf(ctx)
	left := make(map[string]bool) // some engines evaluate a policy in parts
	o.watch = func(policy string) (func(), bool) {
		done, refused := begin(policy)
		if refused != nil && !left[policy] {
			left[policy] = true
			leftOut = append(leftOut, leftOutPolicy(engine, policy, refused))
		}
		return done, refused != nil
	}
	err = step(withObservers(ctx, o))
	return leftOut, err
}

// watchedRequest runs step, the review of a whole request, under the Watch. It returns the results,
// or one that says why the request was skipped.
func (c Chain) watchedRequest(ctx context.Context, req *Request, step func() ([]Result, error)) (results []Result, err error) {
	leftOut, err := c.watched(ctx, req, nil, func(context.Context) (err error) {
		results, err = step()
		return err
	})
	for i := range leftOut {
		locate(&leftOut[i], req, &history{})
	}
	return append(results, leftOut...), err
}

// validate calls the function validate under the Watch.
func (c Chain) validate(ctx context.Context, v Validator, req *Request) (results []Result, err error) {
	leftOut, err := c.watched(ctx, req, v, func(ctx context.Context) (err error) {
		results, err = validate(ctx, v, req)
		return err
	})
	return append(results, leftOut...), err
}

// steps calls the function steps under the Watch.
func (c Chain) steps(ctx context.Context, m Mutator, req *Request) (taken []Step, err error) {
	var engine any = m
	if second, ok := m.(secondCall); ok {
		engine = second.Reinvoker // the Watch knows engines by their identity
	}
	leftOut, err := c.watched(ctx, req, engine, func(ctx context.Context) (err error) {
		taken, err = steps(ctx, m, req)
		return err
	})
	for _, r := range leftOut {
		taken = append(taken, Step{Result: r})
	}
	return taken, err
}

// leftOutResult says that a request, or one engine's part in it, was not
// evaluated.
func leftOutResult(engine any, why error) Result {
	r := Result{
		Engine: EngineCompile, Policy: "all", Rule: "set-apart", Outcome: Error, Action: Deny,
		Message: fmt.Sprintf("evaluating this object %v: it is skipped, and no policy is evaluated on it", why),
	}
	if e, ok := engine.(interface{ Rules() []Rule }); ok {
		r.Policy = fmt.Sprintf("%T", engine)
		if rules := e.Rules(); len(rules) > 0 {
			r.Policy = rules[0].Engine
		}
		r.Message = fmt.Sprintf("evaluating the %s policies on this object %v: they are set apart for it", r.Policy, why)
	}
	return r
}

// leftOutPolicy says that a policy, or a rule of it, was not evaluated.
func leftOutPolicy(engine any, name string, why error) Result {
	r := Result{Engine: EngineCompile, Policy: name, Rule: "set-apart", Outcome: Error, Action: Deny}
	what := "the policy " + name
	for _, rule := range engine.(interface{ Rules() []Rule }).Rules() {
		if rule.Policy == name || rule.Policy+"/"+rule.Name == name {
			r.Policy, r.PolicyOrigin = rule.Policy, rule.Origin
			if rule.Engine == EngineSchema {
				what = "the API server's validation of " + name
			}
			break
		}
	}
	if e, ok := engine.(interface{ PolicyOrigin(string) render.Span }); ok && r.PolicyOrigin.File == "" {
		r.PolicyOrigin = e.PolicyOrigin(name)
	}
	r.Message = fmt.Sprintf("evaluating %s on this object %v: it is skipped for this object", what, why)
	return r
}

// A Timer is called when a policy begins to evaluate a request, and returns a function to call at
// the end. It must be safe for concurrent use. Engines do not read the clock themselves.
type Timer func(engine, policy string) (end func())

// observers contains functions that are called for each policy that evaluates a request. Either may
// be nil.
type observers struct {
	time  Timer
	watch func(policy string) (done func(), left bool)
}

type observersKey struct{}

func observersOf(ctx context.Context) observers {
	o, _ := ctx.Value(observersKey{}).(*observers)
	if o == nil {
		return observers{}
	}
	return *o
}

func withObservers(ctx context.Context, o observers) context.Context {
	return context.WithValue(ctx, observersKey{}, &o)
}

// WithTimer makes engines call t for each policy that they evaluate.
func WithTimer(ctx context.Context, t Timer) context.Context {
	o := observersOf(ctx)
	o.time = t
	return withObservers(ctx, o)
}

// IsObserved reports whether Observed does more than call its function.
func IsObserved(ctx context.Context) bool {
	o := observersOf(ctx)
	return o.time != nil || o.watch != nil
}

// IsWatched reports whether policies must be evaluated one by one.
func IsWatched(ctx context.Context) bool { return observersOf(ctx).watch != nil }

// Observed calls f, which evaluates a policy of an engine, and measures it with the Timer. It does
// not call f if the chain's Watch skips the policy; the chain then adds a result about that.
func Observed(ctx context.Context, engine, policy string, f func()) {
	o, _ := ctx.Value(observersKey{}).(*observers)
	if o == nil {
		f()
		return
	}
	if o.watch != nil {
		done, left := o.watch(policy)
		if left {
			return
		}
		defer done()
	}
	if o.time != nil {
		defer o.time(engine, policy)()
	}
	f()
}
