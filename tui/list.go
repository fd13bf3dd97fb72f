package tui

import "slices"

// A list is a window on an arrangement. It knows the rows that are not folded
// away, the cursor, and the visible part. Only rows in the window are drawn.
type list struct {
	arrangement
	folded map[groupKey]bool
	flat   bool // no rows for groups
	rows   []row

	cursor, top int
	height      int
	anchor      int // where a range began; -1 if there is none
}

// A row is a group's head, where item is -1, or one of its entries.
type row struct {
	group *group
	item  int
}

func newList() *list { return &list{folded: make(map[groupKey]bool), anchor: -1} }

// show shows another arrangement. The cursor stays on its group or entry, or
// goes to the folded group that holds it, or else stays in its place.
func (l *list) show(a arrangement, flat bool) {
	e, g := l.entry(), l.group()
	l.arrangement, l.flat, l.anchor = a, flat, -1
	l.build()
	switch {
	case g == nil:
		l.top = 0
		l.move(l.first() - l.cursor)
	case e == nil && l.toGroup(g.key):
	case e == nil && l.toEntry(g.items[0].key):
	case e != nil && l.toEntry(e.key):
	default:
		l.move(0)
	}
}

// first returns the first row that is not the head of an open group.
func (l *list) first() int {
	for i := range l.rows {
		if l.at(i) != nil || l.isFolded(i) {
			return i
		}
	}
	return 0
}

// build builds the rows again, after folding.
func (l *list) build() {
	l.rows = l.rows[:0]
	l.add(l.groups)
}

func (l *list) add(groups []*group) {
	for _, g := range groups {
		if !l.flat {
			l.rows = append(l.rows, row{g, -1})
		}
		switch {
		case !l.flat && l.folded[g.key]:
		case g.children != nil:
			l.add(g.children)
		default:
			for k := range g.items {
				l.rows = append(l.rows, row{g, k})
			}
		}
	}
}

// isFolded reports whether a row is the head of a folded group.
func (l *list) isFolded(i int) bool {
	return l.at(i) == nil && i >= 0 && i < len(l.rows) && l.folded[l.rows[i].group.key]
}

// at returns the entry of a row, or nil for the head of a group.
func (l *list) at(i int) *entry {
	if i < 0 || i >= len(l.rows) || l.rows[i].item < 0 {
		return nil
	}
	return l.rows[i].group.items[l.rows[i].item]
}

// entry returns the entry under the cursor, or nil on the head of a group.
func (l *list) entry() *entry { return l.at(l.cursor) }

// group returns the group of the cursor, or nil in an empty list.
func (l *list) group() *group {
	if l.cursor < 0 || l.cursor >= len(l.rows) {
		return nil
	}
	return l.rows[l.cursor].group
}

// move moves the cursor and the window, within bounds.
func (l *list) move(by int) {
	l.cursor = max(0, min(l.cursor+by, len(l.rows)-1))
	l.window()
}

// next moves to the next entry below for which wanted returns true, if there is
// one.
func (l *list) next(wanted func(*entry) bool) {
	for i := l.cursor + 1; i < len(l.rows); i++ {
		if e := l.at(i); e != nil && wanted(e) {
			l.move(i - l.cursor)
			return
		}
	}
}

// window moves the window to contain the cursor.
func (l *list) window() {
	l.top = windowOn(l.cursor, l.top, l.height, len(l.rows))
}

// windowOn returns where a window of a height begins in n rows, so that it
// contains the cursor and moves as little as possible.
func windowOn(cursor, top, height, n int) int {
	h := max(height, 1)
	margin := min(2, (h-1)/2)
	top = min(top, max(cursor-margin, 0))
	top = max(top, cursor-h+1+margin)
	return max(0, min(top, n-h))
}

// fold folds the cursor's group, or the one above if it is folded, or opens it;
// the cursor goes to its head.
func (l *list) fold(folded bool) {
	g := l.group()
	if g == nil || l.flat {
		return
	}
	if folded && l.folded[g.key] && g.parent != nil {
		g = g.parent
	}
	l.folded[g.key] = folded
	l.build()
	l.toGroup(g.key)
}

// foldAll folds every group, or opens all.
func (l *list) foldAll(folded bool) {
	if l.group() == nil || l.flat {
		return
	}
	var set func([]*group)
	set = func(groups []*group) {
		for _, g := range groups {
			l.folded[g.key] = folded
			set(g.children)
		}
	}
	set(l.groups)
	l.show(l.arrangement, false)
}

// toGroup moves to the head of a group, if it is shown.
func (l *list) toGroup(key groupKey) bool {
	return l.toRow(func(i int) bool { return l.at(i) == nil && l.rows[i].group.key == key })
}

// toEntry moves to an entry, or to the folded group that holds it.
func (l *list) toEntry(key string) bool {
	is := func(e *entry) bool { return e.key == key }
	return l.toRow(func(i int) bool {
		e := l.at(i)
		return e != nil && is(e) || l.isFolded(i) && slices.ContainsFunc(l.rows[i].group.items, is)
	})
}

func (l *list) toRow(wanted func(i int) bool) bool {
	for i := range l.rows {
		if wanted(i) {
			l.move(i - l.cursor)
			return true
		}
	}
	return false
}

// nextGroup moves to the next group's head, or the previous one.
func (l *list) nextGroup(by int) {
	if l.flat {
		l.move(by * l.height)
		return
	}
	for i := l.cursor + by; i >= 0 && i < len(l.rows); i += by {
		if l.at(i) == nil {
			l.move(i - l.cursor)
			return
		}
	}
}

// chosen returns the entries for an action: the marked ones, those of the
// range, or the entry under the cursor, or its whole group on a head.
func (l *list) chosen(entries []*entry) []*entry {
	if l.anchor >= 0 {
		return l.ranged()
	}
	var marked []*entry
	for _, e := range entries {
		if e.marked {
			marked = append(marked, e)
		}
	}
	if len(marked) > 0 {
		return marked
	}
	return l.under(l.cursor)
}

func (l *list) under(i int) []*entry {
	if e := l.at(i); e != nil {
		return []*entry{e}
	}
	if i >= 0 && i < len(l.rows) {
		return l.rows[i].group.items
	}
	return nil
}

// ranged returns the entries from the beginning of a range to the cursor.
func (l *list) ranged() []*entry {
	from, to := min(l.anchor, l.cursor), max(l.anchor, l.cursor)
	var all []*entry
	for i := from; i <= to && i < len(l.rows); i++ {
		switch e := l.at(i); {
		case e != nil:
			all = append(all, e)
		case l.isFolded(i):
			all = append(all, l.rows[i].group.items...)
		}
	}
	return all
}
