package policy

import "context"

// A Timer is told that the policy of that name begins to judge a request, and
// calls the function that it returns at the end. It is called by several
// goroutines at a time. No engine reads the clock itself.
type Timer func(engine, policy string) (end func())

type timerKey struct{}

// WithTimer has engines tell t of each policy that they evaluate.
func WithTimer(ctx context.Context, t Timer) context.Context {
	return context.WithValue(ctx, timerKey{}, t)
}

// Timed calls f, which evaluates a policy of an engine.
func Timed(ctx context.Context, engine, policy string, f func()) {
	if t, _ := ctx.Value(timerKey{}).(Timer); t != nil {
		defer t(engine, policy)()
	}
	f()
}
