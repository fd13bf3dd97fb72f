package policy

import (
	"slices"
	"sync"
)

// A gathered collects the results of requests that are evaluated in parallel, in one
// slice: in a large run results take most of the memory, so they are not copied to
// put them together. They are in the order in which they came.
type gathered struct {
	mu      sync.Mutex
	results []Result
	parts   []part // of the results, by request
	done    int    // requests
	closed  bool
}

type part struct{ from, to int32 }

// add copies the results of request i. It ignores those of a request that is done
// after the time of the run is over.
func (g *gathered) add(i int, results []Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.done++
	from := len(g.results)
	if need := from + len(results); need > cap(g.results) {
		g.results = slices.Grow(g.results, g.expected(need)-from)
	}
	g.results = append(g.results, results...)
	g.parts[i] = part{int32(from), int32(len(g.results))}
}

// expected is how many results there will be, if the other requests have as many as
// those that are done, and a few more.
func (g *gathered) expected(need int) int {
	if g.done < len(g.parts)/16 {
		return 2 * need // too early to say
	}
	n := need * len(g.parts) / g.done
	return max(need, n+n/16+64)
}

// close ends the gathering.
func (g *gathered) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// each returns the results of each request.
func (g *gathered) each() [][]Result {
	all := make([][]Result, len(g.parts))
	for i, p := range g.parts {
		if p.from < p.to {
			all[i] = g.results[p.from:p.to:p.to]
		}
	}
	return all
}

// sorted returns all results, sorted.
func (g *gathered) sorted() []Result {
	order := make([]int32, 0, len(g.results))
	for _, p := range g.parts {
		for i := p.from; i < p.to; i++ {
			order = append(order, i)
		}
	}
	sortFrom(g.results, order)
	return g.results
}
