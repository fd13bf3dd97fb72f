package tui

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
type row struct{ group, item int32 }

func newList() *list { return &list{folded: make(map[groupKey]bool), anchor: -1} }

// show shows another arrangement. The cursor stays on its entry, or its group,
// or else in its place.
func (l *list) show(a arrangement, flat bool) {
	var key string
	var head *groupKey
	if e := l.entry(); e != nil {
		key = e.key
	} else if g := l.group(); g != nil {
		head = &g.key
	}
	l.arrangement, l.flat, l.anchor = a, flat, -1
	l.build()
	if key == "" && head == nil {
		l.top = 0
		l.move(l.first() - l.cursor)
		return
	}
	for i := range l.rows {
		if e := l.at(i); e != nil && key != "" && e.key == key || e == nil && head != nil && l.groups[l.rows[i].group].key == *head {
			l.move(i - l.cursor)
			return
		}
	}
	l.move(0)
}

// first returns the first row with an entry.
func (l *list) first() int {
	if !l.flat && len(l.rows) > 1 && l.at(1) != nil {
		return 1
	}
	return 0
}

// build builds the rows again, after folding.
func (l *list) build() {
	l.rows = l.rows[:0]
	for i, g := range l.groups {
		if !l.flat {
			l.rows = append(l.rows, row{int32(i), -1})
		}
		if l.flat || !l.folded[g.key] {
			for k := range g.items {
				l.rows = append(l.rows, row{int32(i), int32(k)})
			}
		}
	}
}

// at returns the entry of a row, or nil for the head of a group.
func (l *list) at(i int) *entry {
	if i < 0 || i >= len(l.rows) || l.rows[i].item < 0 {
		return nil
	}
	return l.groups[l.rows[i].group].items[l.rows[i].item]
}

// entry returns the entry under the cursor, or nil on the head of a group.
func (l *list) entry() *entry { return l.at(l.cursor) }

// group returns the group of the cursor, or nil in an empty list.
func (l *list) group() *group {
	if l.cursor < 0 || l.cursor >= len(l.rows) {
		return nil
	}
	return l.groups[l.rows[l.cursor].group]
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

// window moves the window to contain the cursor and, if there is room, its
// group's head.
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

// fold folds the cursor's group, or opens it; the cursor goes to its head.
func (l *list) fold(folded bool) {
	g := l.group()
	if g == nil || l.flat {
		return
	}
	l.folded[g.key] = folded
	at := l.rows[l.cursor].group
	stay := !folded
	l.build()
	if stay {
		l.window()
		return
	}
	l.toGroup(at)
}

// foldAll folds every group, or opens all.
func (l *list) foldAll(folded bool) {
	if g := l.group(); g == nil || l.flat {
		return
	}
	e := l.entry()
	at := l.rows[l.cursor].group
	for _, g := range l.groups {
		l.folded[g.key] = folded
	}
	l.build()
	for i := range l.rows {
		if e != nil && l.at(i) == e {
			l.move(i - l.cursor)
			return
		}
	}
	l.toGroup(at)
}

func (l *list) toGroup(at int32) {
	for i := range l.rows {
		if l.rows[i].group == at {
			l.move(i - l.cursor)
			return
		}
	}
}

// nextGroup moves to the next group's head, or the previous one.
func (l *list) nextGroup(by int) {
	if g := l.group(); g == nil {
		return
	}
	if l.flat {
		l.move(by * l.height)
		return
	}
	at := int(l.rows[l.cursor].group) + by
	if by < 0 && l.rows[l.cursor].item >= 0 {
		at++ // the group's own head first
	}
	l.toGroup(int32(max(0, min(at, len(l.groups)-1))))
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
		return l.groups[l.rows[i].group].items
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
		case l.folded[l.groups[l.rows[i].group].key] && !l.flat:
			all = append(all, l.groups[l.rows[i].group].items...)
		}
	}
	return all
}
