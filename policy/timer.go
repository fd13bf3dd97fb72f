package policy

import "context"

// A Timer is called when the policy of that name begins to evaluate a request,
// and returns a function to call at the end. It is called by several goroutines
// at a time. Engines do not read the clock themselves.
type Timer func(engine, policy string) (end func())

type timerKey struct{}

// WithTimer makes engines call t for each policy that they evaluate.
func WithTimer(ctx context.Context, t Timer) context.Context {
	return context.WithValue(ctx, timerKey{}, t)
}

// IsTimed reports whether the context has a Timer.
func IsTimed(ctx context.Context) bool {
	t, _ := ctx.Value(timerKey{}).(Timer)
	return t != nil
}

// Timed calls f, which evaluates a policy of an engine, between the calls of
// the Timer.
func Timed(ctx context.Context, engine, policy string, f func()) {
	if t, _ := ctx.Value(timerKey{}).(Timer); t != nil {
		defer t(engine, policy)()
	}
	f()
}
