package policy

import "context"

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
