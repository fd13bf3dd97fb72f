package rego

import (
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/topdown"
)

// Limits of one question. A policy that goes through a whole inventory takes some ten
// or hundred thousand steps, which is milliseconds.
const (
	maxTime      = 5 * time.Second // unless Options say otherwise
	maxSteps     = 20_000_000
	maxAllocated = 256 << 20 // bytes that built-in functions may make
	maxGrown     = 512 << 20 // bytes that the heap may grow meanwhile
)

// A bound holds the rest of the limits of a question. The evaluator asks it
// before each expression whether to go on, from one goroutine, so that it
// needs neither a timer nor a lock.
type bound struct {
	ctx       context.Context
	end       time.Time
	time      time.Duration
	heap      uint64 // when the question's memory was first looked at
	steps     int
	allocated int
	err       error // why the evaluation ended early

	timeless bool // the question gives no time
	opened   bool // an open place of the input was read
	unknown  []string
}

func newBound(ctx context.Context, limit time.Duration) *bound {
	return &bound{ctx: ctx, time: limit, end: time.Now().Add(limit)}
}

// Cancel does nothing: a bound ends by itself.
func (b *bound) Cancel() {}

// Cancelled counts a step and checks the clock every so often.
func (b *bound) Cancelled() bool {
	if b.err != nil {
		return true
	}
	b.steps++
	if b.steps&127 == 0 {
		b.look()
	}
	return b.err != nil
}

func (b *bound) look() {
	switch {
	case b.ctx.Err() != nil:
		b.err = b.ctx.Err()
	case b.steps > maxSteps:
		b.err = fmt.Errorf("more than %d million steps", maxSteps/1_000_000)
	case time.Now().After(b.end):
		b.err = fmt.Errorf("more than %v", b.time)
	case b.steps&(1<<16-1) == 0 && b.grown() > maxGrown:
		b.err = errors.New("too much memory")
	}
}

// grown returns how much the heap has grown since it was first looked at. Other
// goroutines allocate too, so the limit is wide.
func (b *bound) grown() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	now := live[0].Value.Uint64()
	if b.heap == 0 {
		b.heap = now + 1
	}
	return max(now, b.heap) - b.heap
}

// allocate counts bytes that a built-in function is about to allocate, and reports
// whether it may.
func (b *bound) allocate(n int) bool {
	if n < 0 || n > maxAllocated-b.allocated {
		b.allocated = maxAllocated
		return false
	}
	b.allocated += n
	return true
}

// ask records a need that only a live cluster can answer.
func (b *bound) ask(what string) { b.unknown = append(b.unknown, what) }

// asked returns the recorded needs, sorted, without duplicates.
func (b *bound) asked() []string {
	slices.Sort(b.unknown)
	return slices.Compact(b.unknown)
}

// fault returns the error of a question that its bound ended.
func (b *bound) fault(q *Query) error {
	if b.ctx.Err() != nil {
		return b.ctx.Err()
	}
	q.ended.Add(1)
	return q.broken(fmt.Sprintf("the evaluation of %v takes %v, and was ended", q.ref, b.err))
}

// maxEnded is how often a bound may end a query before the query is refused:
// thousands of objects would take hours.
const maxEnded = 3

// broken returns an error of a query, at its first rule.
func (q *Query) broken(text string) error {
	if rules := q.program.Rules(q.ref); len(rules) > 0 {
		return newError(rules[0].Location, text)
	}
	return newError(nil, text)
}

var _ topdown.Cancel = (*bound)(nil)
