package patch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// maxDifferences bounds the fields that a result names.
const maxDifferences = 64

// Differences returns the pointers at which after differs from before, in the order
// of the keys: those of the largest new values, and those of removed ones.
func Differences(before, after any) []string {
	var d diff
	d.compare("", before, after)
	return d.pointers
}

type diff struct{ pointers []string }

func (d *diff) add(pointer string) {
	if len(d.pointers) < maxDifferences {
		d.pointers = append(d.pointers, pointer)
	}
}

func (d *diff) compare(pointer string, before, after any) {
	if len(d.pointers) >= maxDifferences || render.Equal(before, after) {
		return
	}
	b, ok := before.(map[string]any)
	a, too := after.(map[string]any)
	if ok && too {
		d.objects(pointer, b, a)
		return
	}
	x, ok := before.([]any)
	y, too := after.([]any)
	if ok && too {
		d.lists(pointer, x, y)
		return
	}
	d.add(pointer)
}

func (d *diff) objects(pointer string, before, after map[string]any) {
	for _, key := range render.Keys(before, after) {
		b, was := before[key]
		a, is := after[key]
		if was && is {
			d.compare(pointer+render.Pointer(key), b, a)
		} else {
			d.add(pointer + render.Pointer(key))
		}
	}
}

// lists adds the elements that only the longer list has, or the list itself if
// elements were only removed.
func (d *diff) lists(pointer string, before, after []any) {
	if len(before) == len(after) {
		for i := range after {
			d.compare(pointer+render.Pointer(i), before[i], after[i])
		}
		return
	}
	named := len(d.pointers)
	rest := before
	for i, e := range after {
		j := slices.IndexFunc(rest, func(o any) bool { return render.Equal(o, e) })
		if j < 0 {
			d.element(pointer+render.Pointer(i), before, e)
			continue
		}
		rest = rest[j+1:]
	}
	if len(d.pointers) == named {
		d.add(pointer)
	}
}

// element adds the differences inside an element that has a name, or else the
// whole element.
func (d *diff) element(pointer string, before []any, e any) {
	for _, o := range before {
		was, ok := o.(map[string]any)
		is, too := e.(map[string]any)
		if ok && too && is["name"] != nil && render.Equal(was["name"], is["name"]) {
			d.objects(pointer, was, is)
			return
		}
	}
	d.add(pointer)
}

// OrList formats a list of pointers as text.
func OrList(pointers []string) string {
	const shown = 4
	if len(pointers) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(pointers[:shown], ", "), len(pointers)-shown)
	}
	return strings.Join(pointers, ", ")
}
