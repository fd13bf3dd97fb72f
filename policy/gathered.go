package policy

import "sync"

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
