package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/tui"
)

// A progress tells a screen how far a run is, with the first results as they
// come. A nil one, that of the other commands, changes nothing.
type progress struct {
	tell  func(tui.Progress)
	quiet bool // it tells of no results before the end

	mu          sync.Mutex
	done, total int
	told        time.Time
}

// tellEvery is how often it tells, and partialEvery how often with results.
const (
	tellEvery    = 100 * time.Millisecond
	partialEvery = 400 * time.Millisecond
)

// Expect says that n more units are to be rendered.
func (p *progress) expect(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total += n
}

func (p *progress) rendered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if now := time.Now(); now.Sub(p.told) > tellEvery {
		p.told = now
		p.tell(tui.Progress{Step: "rendering", Done: p.done, Total: p.total})
	}
}

// early reports whether results are told before the end.
func (p *progress) early() bool { return p != nil && !p.quiet }

// renderers are the same, and each unit that is done is reported.
func (p *progress) renderers(all []render.Renderer) []render.Renderer {
	if p == nil {
		return all
	}
	return tasks.Around(all, func(_ context.Context, _ string, _ render.Source, next tasks.Rendering) ([]*render.Object, error) {
		defer p.rendered()
		return next()
	})
}

// review is the chain's, some requests after others, so that the first results
// can be looked at while the rest is evaluated.
func (p *progress) review(ctx context.Context, o *checkOptions, in *input, j *evaluation, reqs []policy.Request) ([]policy.Result, error) {
	if !p.early() {
		return j.bench.chain.Review(ctx, reqs)
	}
	var all []policy.Result
	size, next := 32, time.Now().Add(partialEvery)
	for done := 0; done < len(reqs); size = min(size*2, 256) {
		part := reqs[done:min(done+size, len(reqs))]
		p.tell(tui.Progress{Step: "evaluating", Done: done, Total: len(reqs)})
		results, err := j.bench.chain.Review(ctx, part)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
		if done += len(part); done < len(reqs) && time.Now().After(next) {
			began := time.Now()
			p.tell(tui.Progress{Step: "evaluating", Done: done, Total: len(reqs), Report: partial(o, in, j, all)})
			next = time.Now().Add(max(partialEvery, 10*time.Since(began))) // a tenth of the time at most
		}
	}
	return all, nil
}

// partial is a report of the results so far, which shares nothing that is still
// to be changed.
func partial(o *checkOptions, in *input, j *evaluation, results []policy.Result) *report.Report {
	some := *j
	some.results = slices.Concat(in.found, j.bench.results, results)
	for i := range some.results {
		some.results[i].Origins = slices.Clone(some.results[i].Origins)
	}
	if held, err := readSuppressions(o, in); err == nil {
		policy.Suppress(some.results, held, o.day())
	}
	return newReport(in, &some)
}
