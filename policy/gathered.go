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
	shared  sharedTexts
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
	for i := from; i < len(g.results); i++ {
		g.shared.share(&g.results[i])
	}
	g.parts[i] = part{int32(from), int32(len(g.results))}
}

// sharedTexts holds messages and fields that results share: those about many objects
// are often equal.
type sharedTexts struct {
	messages map[string]string
	fields   map[string][]string // by the only one of them
}

// maxShared bounds the number of texts that are held, and maxSharedText their length.
const (
	maxShared     = 4096
	maxSharedText = 512
)

func (t *sharedTexts) share(r *Result) {
	if t.messages == nil {
		t.messages, t.fields = make(map[string]string), make(map[string][]string)
	}
	if known, ok := t.messages[r.Message]; ok {
		r.Message = known
	} else if len(t.messages) < maxShared && len(r.Message) <= maxSharedText {
		t.messages[r.Message] = r.Message
	}
	if len(r.Fields) != 1 {
		return
	}
	if known, ok := t.fields[r.Fields[0]]; ok {
		r.Fields = known
	} else if len(t.fields) < maxShared && len(r.Fields[0]) <= maxSharedText {
		t.fields[r.Fields[0]] = slices.Clip(r.Fields)
	}
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
