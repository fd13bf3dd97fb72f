package policy

import (
	"slices"
	"sync"
)

// A gathered collects the results of requests that are evaluated in parallel.
type gathered struct {
	mu      sync.Mutex
	compact Compact
	parts   []CompactResults // by request
	closed  bool
}

// add keeps the results of request i. It ignores those of a request that is done
// after the time of the run is over.
func (g *gathered) add(i int, results []Result) {
	held := g.compact.Add(results)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.parts[i] = held
	}
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

func (s *sharedTexts) share(r *Result) {
	if s.messages == nil {
		s.messages, s.fields = make(map[string]string), make(map[string][]string)
	}
	if known, ok := s.messages[r.Message]; ok {
		r.Message = known
	} else if len(s.messages) < maxShared && len(r.Message) <= maxSharedText {
		s.messages[r.Message] = r.Message
	}
	if len(r.Fields) != 1 {
		return
	}
	if known, ok := s.fields[r.Fields[0]]; ok {
		r.Fields = known
	} else if len(s.fields) < maxShared && len(r.Fields[0]) <= maxSharedText {
		s.fields[r.Fields[0]] = slices.Clip(r.Fields)
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
