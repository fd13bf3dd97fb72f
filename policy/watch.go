package policy

import (
	"context"
	"fmt"
)

// A Watch is called for each request that is reviewed, with a nil engine, and
// within that for each Mutator and Validator. The returned done may be nil; it
// is called at the end. If the Watch returns an error, the step is skipped and
// the error becomes its result. A Watch is called by several goroutines at a
// time.
type Watch func(req *Request, engine any) (done func(), err error)

// watched runs a step under the Watch, or returns the result of skipping it.
func (c Chain) watched(req *Request, engine any, step func() error) (leftOut []Result, err error) {
	if c.Watch == nil {
		return nil, step()
	}
	done, refused := c.Watch(req, engine)
	if refused != nil {
		return []Result{leftOutResult(engine, refused)}, nil
	}
	if done != nil {
		defer done()
	}
	return nil, step()
}

// watchedRequest is watched for a whole request: its results, or why there are
// none.
func (c Chain) watchedRequest(req *Request, step func() ([]Result, error)) (results []Result, err error) {
	leftOut, err := c.watched(req, nil, func() (err error) {
		results, err = step()
		return err
	})
	for i := range leftOut {
		locate(&leftOut[i], req, &history{})
	}
	return append(results, leftOut...), err
}

// validate is validate, watched.
func (c Chain) validate(ctx context.Context, v Validator, req *Request) (results []Result, err error) {
	leftOut, err := c.watched(req, v, func() (err error) {
		results, err = validate(ctx, v, req)
		return err
	})
	return append(results, leftOut...), err
}

// steps is steps, watched.
func (c Chain) steps(ctx context.Context, m Mutator, req *Request) (taken []Step, err error) {
	leftOut, err := c.watched(req, m, func() (err error) {
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
		Message: fmt.Sprintf("evaluating this object %v: it is set apart, and no policy is evaluated on it", why),
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
