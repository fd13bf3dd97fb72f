package report

import (
	"fmt"
	"strings"
)

// Formats with a size limit are written in sections. Each has a share of the
// space, in thousandths, that is reserved for it. Space that a section does not
// need goes to the first sections that need more.
const (
	shareDenied     = 300
	shareBroken     = 110
	shareUndecided  = 100
	shareMissing    = 40
	shareWarned     = 60
	shareAudited    = 40
	shareNotWhole   = 60
	shareChanges    = 40
	shareDiffs      = 30
	shareNewly      = 30
	shareNoLonger   = 20
	shareFixed      = 20
	shareSuppressed = 20
	shareUnreached  = 10
	shareUnchanged  = 10
	shareAssumed    = 10
	shareNotes      = 20
	shareUnits      = 40
	shareRules      = 40
)

// A section is a part of a report that has items.
type section struct {
	id, title string
	head      string // of a table; see the page's template
	share     int
	n         int
	weight    func(i int) int    // how many results an item is; nil is one
	item      func(i int) string // the same text whenever it is called
	brief     func(i int) string // a shorter text for want of room; nil if there is none

	texts []string // of all items, if they are few enough to keep
	size  int      // bytes of all items, counted to a little above the room of all
	room  int      // bytes that the items may take
	left  int      // how many results are not shown
}

// total returns the number of results in the section.
func (s *section) total() int { return s.sum(0) }

// sum returns the number of results of the items from i on.
func (s *section) sum(from int) int {
	if s.weight == nil {
		return s.n - from
	}
	n := 0
	for i := from; i < s.n; i++ {
		n += s.weight(i)
	}
	return n
}

// allot divides the space among the sections.
func allot(limit int, all []*section) {
	free, keep := limit, limit
	for _, s := range all {
		var texts []string
		for i := 0; i < s.n && s.size <= limit; i++ {
			text := s.item(i)
			if s.size += len(text); s.size <= keep {
				texts = append(texts, text)
			}
		}
		if len(texts) == s.n {
			s.texts = texts
			keep -= s.size
		}
		s.room = min(s.size, s.share*limit/1000)
		free -= s.room
	}
	for _, s := range all {
		more := max(0, min(free, s.size-s.room))
		s.room += more
		free -= more
	}
}

// fit calls write with the items that fit: all, or the first ones in full and
// the others briefly, or as many as fit. The text says how many results are
// left out.
func (s *section) fit(write func(text string)) {
	if s.size <= s.room {
		for i := range s.n {
			if s.texts != nil {
				write(s.texts[i])
			} else {
				write(s.item(i))
			}
		}
		return
	}
	whole, briefly := s.n, s.n
	if s.brief != nil {
		whole, briefly = s.split()
	}
	used := 0
	for i := range briefly {
		text := ""
		if i < whole {
			text = s.item(i)
		} else {
			text = s.brief(i)
		}
		if used += len(text); used > s.room {
			s.left = s.sum(i)
			return
		}
		write(text)
	}
	s.left = s.sum(briefly)
}

// split returns how many items are written in full, and the end of those that
// are written briefly. At most half of the space is for brief ones.
func (s *section) split() (whole, briefly int) {
	room := s.room / 2
	for briefly = 0; briefly < s.n; briefly++ {
		if room -= len(s.brief(briefly)); room < 0 {
			break
		}
	}
	room = s.room - (s.room/2 - max(room, 0))
	for whole = 0; whole < briefly; whole++ {
		if room -= len(s.item(whole)) - len(s.brief(whole)); room < 0 {
			break
		}
	}
	return whole, briefly
}

// leftOut counts the findings that the sections leave out: "210 of 310 warned".
func leftOut(all []*section) string {
	var parts []string
	for _, s := range all {
		if s.left > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d under %q", s.left, s.total(), s.title))
		}
	}
	return strings.Join(parts, ", ")
}
