package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/render"
)

// A ranked finding is one whose place is spelled out for sorting.
type ranked struct {
	finding
	path []*place
}

// reduce drops redundant findings: weak ones if there are others, duplicates,
// and of a field and its container the less likely one, or else the container.
// It sorts the rest by root, then by likelihood, then as in the document.
func (c *collector) reduce() []ranked {
	better := slices.ContainsFunc(c.found, func(f finding) bool { return f.rank != weak })
	var all []ranked
	for _, f := range c.found {
		if f.rank != weak || !better {
			all = append(all, ranked{f, f.at.steps()})
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return firstOf(a.at.root.compare(b.at.root), compare(a.path, b.path), int(a.rank)-int(b.rank))
	})
	all = dropNested(all)
	slices.SortStableFunc(all, func(a, b ranked) int {
		return firstOf(a.at.root.compare(b.at.root), int(a.rank)-int(b.rank))
	})
	return all
}

func firstOf(orders ...int) int {
	for _, o := range orders {
		if o != 0 {
			return o
		}
	}
	return 0
}

// dropNested drops repeated findings, and the less likely one of two that contain each other.
func dropNested(sorted []ranked) []ranked {
	var kept []ranked
	for _, f := range sorted {
		drop := false
		for len(kept) > 0 {
			last := kept[len(kept)-1]
			if !f.at.within(last.at) {
				break
			}
			if len(f.path) == len(last.path) || f.rank > last.rank {
				drop = true
				break
			}
			kept = kept[:len(kept)-1]
		}
		if !drop {
			kept = append(kept, f)
		}
	}
	return kept
}

func (r *run) culprits(found []ranked) []Culprit {
	if len(found) == 0 {
		return nil
	}
	culprits := make([]Culprit, 0, len(found))
	for _, f := range found {
		value, there := f.at.value()
		k := Culprit{Root: f.at.root.name, Pointer: pointer(f.path), Missing: !there}
		if f.atom != nil {
			k.failed = f.atom.x
		}
		if !r.input.Places {
			k.Value, k.Element = native(value), element(f.path)
			if k.failed != nil {
				k.Text = k.failed.shortSource()
			}
		}
		culprits = append(culprits, k)
	}
	return culprits
}

// element names the list elements on a path: `containers[1] "side"`.
func element(path []*place) string {
	var b strings.Builder
	for i, p := range path {
		if p.index < 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if i > 0 && path[i-1].index < 0 {
			b.WriteString(path[i-1].key)
		}
		fmt.Fprintf(&b, "[%d]", p.index)
		if v, ok := p.value(); ok {
			if name := nameOf(v); name != "" {
				fmt.Fprintf(&b, " %q", name)
			}
		}
	}
	return b.String()
}

// nameOf returns the name by which people know a list element.
func nameOf(v any) string {
	m, ok := native(v).(map[string]any)
	if !ok {
		return ""
	}
	for _, key := range []string{"name", "key", "host"} {
		if s, ok := m[key].(string); ok && s != "" {
			return cut(s, 60)
		}
	}
	return ""
}

// Limits of texts, in bytes.
const (
	maxLine = 160
	maxAtom = 400
)

// summary describes in one line which part failed, for which elements, and with
// which values.
func (r *run) summary(top *node, found []ranked) string {
	if len(found) == 0 {
		return ""
	}
	first := found[0]
	atom := first.atom
	if atom == nil || atom.x == nil {
		atom = top
	}
	if atom.x == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(cut(atom.x.source(), maxLine))
	if err, ok := atom.val.(*types.Err); ok {
		fmt.Fprintf(&b, " fails: %s", cut(r.reason(first.at, err), maxLine))
	} else {
		fmt.Fprintf(&b, " is %s", r.shown(atom.val))
	}
	b.WriteString(forElements(found, atom.x))
	if !r.secret() && !failed(atom) && atom.x.op != opHas && atom.x.op != opSelect {
		b.WriteString(r.values(found, atom))
	}
	return b.String()
}

// shown returns a value for people, unless it may be secret.
func (r *run) shown(v ref.Val) string {
	t := tracer{hide: r.secret()}
	return t.value(v)
}

// reason returns the text of an error, or a placeholder if it may quote a
// secret.
func (r *run) reason(at *place, err *types.Err) string {
	_, there := at.value()
	switch {
	case !there && at.up != nil && at.index >= 0:
		return "there is no element " + at.token()
	case !there && at.up != nil:
		return "no such key: " + at.token()
	case r.secret():
		return "error in evaluation"
	}
	return render.WithoutAddresses(err.Error())
}

// forElements names the elements that the same code failed on.
func forElements(found []ranked, x *code) string {
	const most = 3
	var names []string
	var last *place
	extra := 0
	for _, f := range found {
		of := innermost(f.path)
		if of == nil || f.atom == nil || f.atom.x != x || f.at.root != found[0].at.root || last != nil && of.same(last) {
			continue
		}
		if last = of; len(names) == most {
			extra++
			continue
		}
		names = append(names, element(f.path))
	}
	switch {
	case len(names) == 0:
		return ""
	case extra > 0:
		return fmt.Sprintf(" for %s and %d more", strings.Join(names, ", "), extra)
	}
	return " for " + strings.Join(names, ", ")
}

// innermost returns the innermost list element on a path, or nil.
func innermost(path []*place) *place {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].index >= 0 {
			return path[i]
		}
	}
	return nil
}

// values formats the scalars of the first failing test.
func (r *run) values(found []ranked, atom *node) string {
	var told []string
	for _, f := range found {
		if f.atom != atom || len(told) == 3 {
			continue
		}
		v, there := f.at.value()
		switch text := scalar(v); {
		case !there && f.at.up != nil:
			told = append(told, dotted(f)+" is missing")
		case text != "":
			told = append(told, dotted(f)+" is "+text)
		}
	}
	if len(told) == 0 {
		return ""
	}
	return ": " + strings.Join(told, ", ")
}

// dotted returns the path below the innermost list element, or from the root.
func dotted(f ranked) string {
	from := 0
	for i, p := range f.path {
		if p.index >= 0 {
			from = i + 1
		}
	}
	var b strings.Builder
	switch {
	case from == 0:
		b.WriteString(f.at.root.name)
	case from == len(f.path):
		for from--; from > 0 && f.path[from].index >= 0; from-- {
		}
	}
	for _, p := range f.path[from:] {
		switch {
		case p.index >= 0:
			fmt.Fprintf(&b, "[%d]", p.index)
		case plainKey(p.key):
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(p.key)
		default:
			fmt.Fprintf(&b, "[%q]", p.key)
		}
	}
	return b.String()
}

func plainKey(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// scalar shows a scalar; "" for anything else.
func scalar(v any) string {
	_, isNull := v.(types.Null)
	if r, ok := v.(ref.Val); ok && !isNull && native(r) == nil {
		return "" // of a library's type
	}
	switch v := native(v).(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", cut(v, 80))
	case bool, int64, int, float64, uint64:
		return fmt.Sprint(v)
	}
	return ""
}

// Show puts a value on one line, for people.
func Show(v ref.Val) string { return shown(v) }

// shown formats a value on one line.
func shown(v ref.Val) string {
	switch v := v.(type) {
	case *types.Err:
		return cut(render.WithoutAddresses(v.Error()), maxLine)
	case *types.Optional:
		if !v.HasValue() {
			return "optional.none()"
		}
		return cut("optional.of("+shown(v.GetValue())+")", maxLine)
	case types.Null:
		return "null"
	}
	if s := scalar(v); s != "" {
		return s
	}
	return container(v)
}

// secret reports whether a root is a Secret, whose values must not be shown.
func (r *run) secret() bool {
	if r.input.Hide {
		return true
	}
	for _, v := range r.input.Roots {
		if m, ok := native(v).(map[string]any); ok && m["kind"] == "Secret" {
			return true
		}
	}
	return false
}

// cut shortens s to about n bytes, on one line and without control characters.
func cut(s string, n int) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, render.Cut(s, n))
}
