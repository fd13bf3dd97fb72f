package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A history holds the changes that mutators made to an object since it was
// rendered. The zero history has none.
type history struct {
	changes []change
	mute    bool     // name no policy
	doubts  []string // assumptions of all later results
	// undecided are the results of mutators whose effect could not be determined.
	undecided []Result

	traced map[tracedField]trace // nil: fields are traced each time they are asked for
}

// A tracedField is a pointer into an object as one of the changes left it.
type tracedField struct {
	change  int
	pointer string
}

// A trace is the answer of change.trace.
type trace struct {
	was, touched string
	how          touch
}

// newHistory returns a history that traces each field once. It is for one goroutine.
func newHistory() *history { return &history{traced: make(map[tracedField]trace)} }

// back traces a field to where it was before all changes. touches are the changes that touched it,
// the latest first.
func (h *history) back(pointer string) (was string, touches []tracedTouch) {
	was = pointer
	level := 0
	for i := len(h.changes) - 1; i >= 0; i-- {
		if level = h.changes[i].leaves(was, level); level != unsure {
			continue
		}
		level = 0
		t := h.trace(i, was)
		if was = t.was; t.how != untouched {
			touches = append(touches, tracedTouch{&h.changes[i], t})
		}
	}
	return was, touches
}

// A tracedTouch is a change that touched a field.
type tracedTouch struct {
	change *change
	trace
}

// trace traces a field through change i. Many results are about the same few fields.
func (h *history) trace(i int, pointer string) trace {
	if h.traced == nil {
		was, touched, how := h.changes[i].trace(pointer)
		return trace{was, touched, how}
	}
	key := tracedField{i, pointer}
	t, known := h.traced[key]
	if !known {
		t.was, t.touched, t.how = h.changes[i].trace(pointer)
		h.traced[key] = t
	}
	return t
}

// A change is one step of a mutator that changed the object.
type change struct {
	left
	by     Result
	secret bool // the step has read a Secret
	kept   bool // an update keeps what the old object has on the cluster
}

// newChange returns the change from an object to another by a result's rule.
func newChange(before, after map[string]any, by Result) change {
	return change{left: leftOf(before, after), by: by}
}

// secretTexts returns the texts that steps which have read a Secret set in an object, the longest first.
func (h *history) secretTexts(object map[string]any) (texts []string) {
	isSecret := func(t tracedTouch) bool { return t.change.secret }
	if !slices.ContainsFunc(h.changes, func(c change) bool { return c.secret }) {
		return nil
	}
	for pointer, value := range render.Fields(object, "") {
		if text, ok := value.(string); ok && text != "" {
			if _, touches := h.back(pointer); slices.ContainsFunc(touches, isSecret) {
				texts = append(texts, text)
			}
		}
	}
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return texts
}

// A left records the fields of a map that a change did not touch: keys at this level, below
// those of maps in which only some fields changed.
type left struct {
	before, after map[string]any
	keys          []string // of equal values
	below         map[string]*left
}

func leftOf(before, after map[string]any) left {
	l := left{before: before, after: after}
	for key, is := range after {
		was, ok := before[key]
		if ok && render.Equal(was, is) {
			l.keys = append(l.keys, key)
			continue
		}
		b, ok := was.(map[string]any)
		if a, too := is.(map[string]any); ok && too {
			if l.below == nil {
				l.below = make(map[string]*left)
			}
			below := leftOf(b, a)
			l.below[key] = &below
		}
	}
	return l
}

// unsure is the level of a pointer that a change may have touched.
const unsure = -1

// leaves returns the level of the equal values that a pointer certainly leads to before and after the
// change, 0 if it leads to none, or unsure. later is the level of the next change, after which the
// pointer led to values that are equal, too. Most mutations change a few fields, and most results are
// about others.
func (c *change) leaves(pointer string, later int) int {
	if pointer != "" && pointer[0] != '/' || strings.Contains(pointer, "~") {
		return unsure
	}
	l, level := &c.left, 0
	for _, rest, more := strings.Cut(pointer, "/"); more; {
		var key string
		key, rest, more = strings.Cut(rest, "/")
		level++
		if slices.Contains(l.keys, key) {
			if more && level != later && !leads(l.after[key], rest) {
				return unsure
			}
			return level
		}
		below := l.below[key]
		if below == nil {
			_, was := l.before[key]
			if _, is := l.after[key]; was || is {
				return unsure
			}
			return 0
		}
		l = below
	}
	return 0
}

// leads reports whether a pointer without its first slash, below a value, names no element of a
// list that is not there.
func leads(at any, pointer string) bool {
	for more := true; more; {
		var key string
		key, pointer, more = strings.Cut(pointer, "/")
		switch t := at.(type) {
		case map[string]any:
			at = t[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(t) || strconv.Itoa(i) != key {
				return false
			}
			at = t[i]
		}
	}
	return true
}

// silent returns the history for results of the mutators themselves: it leads
// to the rendered places and names no policy.
func (h *history) silent() *history {
	return &history{changes: h.changes, mute: true, traced: h.traced}
}

// at returns the places that determined a field of the current object: the
// expression of the policy that set it, then the lines of the rendered field.
// set describes which policies set it.
func (h *history) at(rendered *render.Object, pointer string) (origins []render.Origin, set []string) {
	was, touches := h.back(pointer)
	return h.places(rendered, was, touches)
}

// places is at for a field that back has traced.
func (h *history) places(rendered *render.Object, was string, touches []tracedTouch) (origins []render.Origin, set []string) {
	var later []render.Origin
	if h.mute {
		touches = nil
	}
	for _, t := range touches {
		by := &t.change.by
		place := render.Origin{Span: by.PolicyOrigin, Role: render.Patch}
		switch {
		case place.File == "":
		case t.how == replaced || t.how == removed:
			origins = appendNew(origins, place)
		default:
			later = appendNew(later, place)
		}
		if t.change.kept {
			set = appendNew(set, t.touched+" stays as the cluster has it")
			continue
		}
		author := "the API server" // which prepares the object
		if by.Engine != "" {
			author = by.Engine + " " + by.Policy
		}
		set = appendNew(set, fmt.Sprintf("%s %s by %s", t.touched, t.how, author))
	}
	for _, o := range slices.Concat(rendered.At(written([]string{was}, rendered)[0]), later) {
		origins = appendNew(origins, o)
	}
	return origins, set
}

func appendNew[T comparable](list []T, item T) []T {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}

// A touch says how a change touched a field.
type touch int

const (
	untouched touch = iota
	resized         // a list that it added to or took from
	removed
	replaced // added, or given another value
)

func (t touch) String() string {
	return [...]string{"is left", "is changed", "is removed", "is set"}[t]
}

// trace finds where a field of the changed object was before the change: the
// field itself, perhaps at another index, or its nearest ancestor. touched is
// the pointer that the change touched: of the field or an ancestor.
func (c *change) trace(pointer string) (was, touched string, how touch) {
	var before, after any = c.before, c.after
	path := render.Path(pointer)
	if strings.Contains(pointer, "~") || !strings.HasPrefix(pointer, "/") {
		pointer = render.PathPointer(path)
	}
	end := 0 // of what is traced of the pointer
	for i, key := range path {
		next, ok := step(before, after, key)
		here := end
		if end = len(pointer); i+1 < len(path) {
			end = here + 1 + strings.IndexByte(pointer[here+1:], '/')
		}
		touched = pointer[:end]
		switch {
		case !ok || next.after && !next.before:
			return was, touched, replaced
		case !next.after && next.before:
			return was + pointer[here:], touched, removed
		case !next.after:
			if _, list := before.([]any); list {
				return was, touched, untouched // another one may have had the index
			}
			return was + pointer[here:], touched, untouched
		}
		if was == pointer[:here] && next.key == key {
			was = touched
		} else {
			was += render.Pointer(next.key)
		}
		before, after = next.was, next.is
	}
	return was, touched, compare(before, after)
}

func compare(before, after any) touch {
	if b, ok := before.([]any); ok {
		if a, ok := after.([]any); ok {
			if len(a) != len(b) {
				return resized
			}
			return untouched
		}
	}
	_, object := before.(map[string]any)
	if _, too := after.(map[string]any); object && too {
		return untouched
	}
	if render.Equal(before, after) {
		return untouched
	}
	return replaced
}

// A pair is a child of two values: the value of a key after a change, and its
// value before.
type pair struct {
	key           string // the key before the change
	was, is       any
	before, after bool // whether there is a value
}

// step descends by a key. ok is false if the values have no children in common,
// since they are of different kinds or scalars.
func step(before, after any, key string) (p pair, ok bool) {
	switch a := after.(type) {
	case map[string]any:
		b, same := before.(map[string]any)
		p.key = key
		p.is, p.after = a[key]
		p.was, p.before = b[key]
		return p, same
	case []any:
		b, same := before.([]any)
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(a) {
			return p, same // neither has the key
		}
		p.is, p.after = a[i], true
		if j := counterpart(b, a, i); j >= 0 {
			p.key, p.was, p.before = strconv.Itoa(j), b[j], true
		}
		return p, same
	default:
		return p, compare(before, after) == untouched
	}
}

// counterpartKeys are the fields that identify list elements: elementKeys, and
// further ones for lists without keys.
var counterpartKeys = slices.Concat(elementKeys, []string{"url", "host", "path"})

// maxCompared limits the length of lists whose elements are compared one by
// one.
const maxCompared = 512

// counterpart returns the index in the list before of element i of the list
// after, or -1 if there is none or it is not certain.
func counterpart(before, after []any, i int) int {
	if i < len(before) && len(before) == len(after) && render.Equal(before[i], after[i]) {
		return i
	}
	for _, key := range counterpartKeys {
		b, ok := index(before, key)
		if !ok {
			continue
		}
		if a, ok := index(after, key); ok {
			return lookUp(b, a, i)
		}
	}
	if len(before) > maxCompared || len(after) > maxCompared {
		return -1
	}
	if j, found := nth(before, after, i); found {
		return j
	}
	return inPlace(before, after, i)
}

// index indexes the elements of a list by a field. ok is false unless all
// elements have the field, with different values.
func index(list []any, key string) (map[any]int, bool) {
	found := make(map[any]int, len(list))
	for i, e := range list {
		m, _ := e.(map[string]any)
		id := m[key]
		if !scalar(id) { // excludes values that can't be a map's key
			return nil, false
		}
		if _, dup := found[id]; dup {
			return nil, false
		}
		found[id] = i
	}
	return found, true
}

func scalar(v any) bool {
	switch v.(type) {
	case string, int64, float64, bool:
		return true
	}
	return false
}

func lookUp(before, after map[any]int, i int) int {
	for id := range maps.Keys(after) {
		if after[id] != i {
			continue
		}
		if j, ok := before[id]; ok {
			return j
		}
	}
	return -1
}

// nth finds an equal element; if there are several, the one at the same place
// among them.
func nth(before, after []any, i int) (int, bool) {
	n := 0
	for _, e := range after[:i] {
		if render.Equal(e, after[i]) {
			n++
		}
	}
	for j, e := range before {
		if render.Equal(e, after[i]) {
			if n == 0 {
				return j, true
			}
			n--
		}
	}
	return -1, false
}

// inPlace returns the index of the removed element whose place a new element
// took, if the lists are otherwise the same.
func inPlace(before, after []any, i int) int {
	if len(before) != len(after) {
		return -1
	}
	for j := range before {
		if j != i && !render.Equal(before[j], after[j]) {
			return -1
		}
	}
	return i
}
