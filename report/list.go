package report

import (
	"iter"
	"slices"

	"github.com/preadmit/preadmit/policy"
)

// A list is the results of a report, without those in Passes, in the report's order.
// Each has a number. Those in Held are expanded when they are read.
type list struct {
	results []policy.Result // their numbers follow those of held
	held    *policy.CompactList
	order   []uint32 // all numbers

	number uint32         // of last
	last   *policy.Result // the one of held that was read last
}

func newList(r *Report) *list {
	l := &list{results: sorted(r.Results), held: r.Held}
	l.order = make([]uint32, 0, l.held.Len()+len(l.results))
	next, first := 0, l.held.Len()
	if len(l.results) == 0 {
		for n := range first {
			l.order = append(l.order, uint32(n))
		}
		return l
	}
	for x := range policy.Merged(l.held.All(), policy.Each(l.results)) {
		if next < len(l.results) && x == &l.results[next] {
			l.order = append(l.order, uint32(first+next))
			next++
		} else {
			l.order = append(l.order, uint32(len(l.order)-next))
		}
	}
	return l
}

// sorted returns results in the report's order. It copies them if they are in another order.
func sorted(results []policy.Result) []policy.Result {
	if !policy.IsSorted(results) {
		results = slices.Clone(results)
		policy.Sort(results)
	}
	return results
}

// addLast adds results that are listed after the others, whatever the order.
func (l *list) addLast(results []policy.Result) {
	l.results = slices.Concat(l.results, results)
	for range results {
		l.order = append(l.order, uint32(len(l.order)))
	}
}

// at returns a result.
func (l *list) at(number uint32) *policy.Result {
	if first := uint32(l.held.Len()); number >= first {
		return &l.results[number-first]
	}
	if l.last == nil || l.number != number {
		l.number, l.last = number, new(policy.Result)
		l.held.Expand(int(number), l.last)
	}
	return l.last
}

// each yields results with their numbers. A result is valid until the next one comes.
func (l *list) each(numbers []uint32) iter.Seq2[uint32, *policy.Result] {
	return func(yield func(uint32, *policy.Result) bool) {
		var r policy.Result
		first := uint32(l.held.Len())
		for _, n := range numbers {
			x := &r
			if n >= first {
				x = &l.results[n-first]
			} else {
				l.held.Expand(int(n), x)
			}
			if !yield(n, x) {
				return
			}
		}
	}
}

func (l *list) all() iter.Seq2[uint32, *policy.Result] { return l.each(l.order) }

// A selection is results of a list.
type selection struct {
	of      *list
	numbers []uint32
}

func (s *selection) add(number uint32) { s.numbers = append(s.numbers, number) }

func (s *selection) len() int { return len(s.numbers) }

func (s *selection) at(i int) *policy.Result { return s.of.at(s.numbers[i]) }

// all yields the results with their numbers. A result is valid until the next one comes.
func (s *selection) all() iter.Seq2[uint32, *policy.Result] { return s.of.each(s.numbers) }

// values yields the results. One is valid until the next one comes.
func (s *selection) values() iter.Seq[*policy.Result] {
	return func(yield func(*policy.Result) bool) {
		for _, x := range s.all() {
			if !yield(x) {
				return
			}
		}
	}
}
