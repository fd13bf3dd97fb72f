package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"text/template"
	"unsafe"

	"github.com/preadmit/preadmit/render"
)

// A run executes the templates of one release.
type run struct {
	ctx    context.Context
	cache  *sources
	set    *template.Template // the templates that can be called at the moment
	byText []*source          // the sources, ordered by the address of their text
	bySpot []*source          // the sources, ordered by the number of their first spot
	frame  *frame
	traces map[*byte]*trace // by strings that templates returned

	steps, written, made int
	includes, tpls       int
	names                map[string]int // how often each template is being included

	kube      string // the version of Kubernetes
	plainKube string // the version of Kubernetes outside variants
	file      string // the file being rendered
	draws     int    // number of random values drawn for the file
	assumed   map[string]bool
	broken    error // the innermost error
	regex     map[string]*pattern

	pointers []string // addresses that templates print, as {{ . }} does

	src    render.Source
	served map[string]bool // groups whose served versions are known
	raised map[[3]string]asked
	read   [][]string // fields read of objects that lookup finds
	// foundData are the data of those objects.
	foundData []map[string]any

	counts   doubtCounts
	inFile   doubtCounts      // before the file being rendered
	fields   map[string]doubt // that templates set to doubtful values
	branches map[int]*branch

	treeBuilder
	records   []record
	recorded  int // bytes
	omissions int
}

// An event records where in the source a part of an output comes from.
type event struct {
	off  int32 // in the output
	pos  int32 // in the source: offset of the text, or number of the spot
	text bool
	src  *source
	val  any      // what an action printed, if it is a string, number or boolean
	kids []*trace // outputs of the templates that were called while an action ran
	call *call    // the {{template}} around it, or nil
}

// A call is a {{template}} that is being executed. It writes to the frame that
// contains it.
type call struct {
	src   *source
	pos   int32 // number of the spot
	above *call
}

// A trace is the output of a template.
type trace struct {
	text    string
	events  []event
	omitted []omission
	// For a text given to tpl: that text and its parsed form.
	given string
	src   *source
}

// A frame is a template that is being executed: a file, or called by include or
// tpl.
type frame struct {
	run     *run
	out     strings.Builder
	events  []event
	omitted []omission
	kids    []*trace // since the last hook
	next    event    // of the action about to print
	src     *source  // of the last event
	call    *call
	above   *frame
}

// Write receives the output of text/template: a text node as it is in its tree,
// or what an action prints.
func (f *frame) Write(p []byte) (int, error) {
	r := f.run
	if len(p) == 0 {
		return 0, r.turn(f, p)
	}
	if r.written += len(p); r.written > maxOutput {
		return 0, r.exceeded("templates write more than %d MiB", maxOutput>>20)
	}
	e, n := f.next, len(p)
	if src, off, ok := r.locate(f, p); ok {
		e = event{pos: int32(off), text: true, src: src}
	} else if bytes.Contains(p, addressSign) {
		p = []byte(r.withoutPointers(string(p)))
	}
	e.off, e.call = int32(f.out.Len()), f.call
	f.events = append(f.events, e)
	f.next, f.kids = event{}, nil
	_, err := f.out.Write(p)
	return n, err
}

var addressSign = []byte("0x")

// withoutPointers replaces the addresses of pointers in a text, which differ between runs.
func (r *run) withoutPointers(text string) string {
	for _, p := range r.pointers {
		if strings.Contains(text, p) {
			r.assume(assumedAddress)
			text = strings.ReplaceAll(text, p, "0xc000000000")
		}
	}
	return text
}

// turn charges an iteration of a loop, if p is the empty text at the head of one.
func (r *run) turn(f *frame, p []byte) error {
	src, off, ok := r.locate(f, p)
	if !ok {
		return nil
	}
	if err := r.step(1); err != nil {
		return src.failed(off, err)
	}
	return nil
}

// locate finds the text node that p belongs to.
func (r *run) locate(f *frame, p []byte) (src *source, off int, ok bool) {
	if f.src != nil {
		if off, ok := f.src.holds(p); ok {
			return f.src, off, true
		}
	}
	at := address(p)
	i := sort.Search(len(r.byText), func(i int) bool { return address(r.byText[i].text) > at }) - 1
	if i < 0 {
		return nil, 0, false
	}
	if off, ok = r.byText[i].holds(p); ok {
		f.src = r.byText[i]
	}
	return f.src, off, ok
}

// spot returns the source that contains a spot.
func (r *run) spot(f *frame, n int) *source {
	if s := f.src; s != nil && n >= s.base && n < s.base+len(s.spots) {
		return s
	}
	i := sort.Search(len(r.bySpot), func(i int) bool { return r.bySpot[i].base > n }) - 1
	f.src = r.bySpot[i] // an instrumented template is added before it is executed
	return f.src
}

// add registers a source with the run, once.
func (r *run) add(s *source) {
	if len(s.spots) > 0 {
		r.bySpot = insert(r.bySpot, s, func(s *source) uintptr { return uintptr(s.base) })
	}
	if len(s.text) > 0 {
		r.byText = insert(r.byText, s, func(s *source) uintptr { return address(s.text) })
	}
}

func insert(list []*source, s *source, key func(*source) uintptr) []*source {
	i := sort.Search(len(list), func(i int) bool { return key(list[i]) >= key(s) })
	if i < len(list) && list[i] == s {
		return list
	}
	return slices.Insert(list, i, s)
}

// The hooks that instrument inserts.

func (r *run) hookOut(n int, v reflect.Value) (reflect.Value, error) {
	if err := r.step(1); err != nil {
		return v, err
	}
	f := r.frame
	src := r.spot(f, n)
	e := event{pos: int32(n - src.base), src: src}
	if len(f.kids) > 0 && src.spots[e.pos].carries {
		e.kids = f.kids
	}
	f.kids = nil
	switch v.Kind() {
	case reflect.String:
		s := v.String()
		if t, ok := r.traces[unsafe.StringData(s)]; ok && len(s) > 1 && len(t.text) == len(s) {
			e.kids = []*trace{t}
		}
		e.val = s
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		if v.CanInterface() {
			e.val = v.Interface()
		}
	case reflect.Map, reflect.Slice, reflect.Array, reflect.Struct, reflect.Pointer, reflect.Interface:
		if err := r.measure(v); err != nil {
			return v, err
		}
	}
	f.next = e
	return v, nil
}

func (r *run) hookTake(v reflect.Value) (reflect.Value, error) {
	r.frame.kids = nil
	return v, r.step(1)
}

func (r *run) hookIn(n int) (string, error) {
	if r.includes++; r.includes > maxInclude {
		return "", r.exceeded("templates call one another more than %d deep", maxInclude)
	}
	src := r.spot(r.frame, n)
	r.frame.call = &call{src, int32(n - src.base), r.frame.call}
	return "", r.step(10)
}

func (r *run) hookLeave() string {
	r.includes--
	r.frame.call = r.frame.call.above
	return ""
}

func (r *run) hookAsk(i, n int) string {
	r.counts[questions[i].doubt]++
	q := questions[i]
	if q.assumed != "" {
		r.assume(q.assumed)
	}
	if q.subject != "" {
		r.recordQuestion(asked{subject: q.subject, src: r.spot(r.frame, n), spot: n})
	}
	return ""
}

// ask records what the file being rendered assumes.
func (r *run) assume(assumed string) {
	r.assumed[assumed] = true
	r.counts[assumedBy[assumed]]++
}

// step charges n steps to the budget, and checks from time to time whether the
// context is done.
func (r *run) step(n int) error {
	before := r.steps
	r.steps += n
	if r.steps > maxSteps {
		return r.exceeded("templates take more than %d steps", maxSteps)
	}
	if before>>8 != r.steps>>8 && r.ctx.Err() != nil {
		if r.broken == nil {
			r.broken = errStopped
		}
		return errStopped
	}
	return nil
}

var errStopped = errors.New("rendering takes too long")

func (r *run) exceeded(format string, args ...any) error {
	return &exceeded{fmt.Sprintf(format, args...)}
}

// enter opens a frame for a template that the current frame calls.
func (r *run) enter() (*frame, error) {
	if r.includes++; r.includes > maxInclude {
		return nil, r.exceeded("templates call one another more than %d deep", maxInclude)
	}
	r.frame = &frame{run: r, above: r.frame}
	return r.frame, r.step(10)
}

// leave closes the frame and passes its output to the frame above.
func (r *run) leave(f *frame) *trace {
	r.includes--
	r.frame = f.above
	t := &trace{text: f.out.String(), events: f.events, omitted: f.omitted}
	if r.frame != nil {
		r.frame.kids = append(r.frame.kids, t)
	}
	if t.text != "" {
		r.traces[unsafe.StringData(t.text)] = t
	}
	return t
}

// maxNested is how often a template may be included within itself, as in Helm.
const maxNested = 1000

// include is Helm's include.
func (r *run) include(name string, data any) (string, error) {
	if r.names[name] > maxNested {
		return "", fmt.Errorf("template %q includes itself without end", name)
	}
	f, err := r.enter()
	if err != nil {
		return "", err
	}
	r.names[name]++
	err = r.set.ExecuteTemplate(f, name, data)
	r.names[name]--
	t := r.leave(f)
	return t.text, r.inner(err)
}

// inner keeps the innermost error and passes on a short one. Otherwise
// text/template would wrap the error once for each template on the way out.
func (r *run) inner(err error) error {
	if err == nil {
		return nil
	}
	if r.broken == nil {
		r.broken = err
	}
	return errInner
}

var errInner = errors.New("template failed")

// tpl is Helm's tpl. Templates that the text defines are visible only in the
// text.
func (r *run) tpl(text string, data any) (string, error) {
	if !strings.Contains(text, "{{") {
		return strings.ReplaceAll(text, noValue, ""), nil
	}
	if r.tpls++; r.tpls > maxTpl {
		return "", r.exceeded("tpl calls itself more than %d deep", maxTpl)
	}
	defer func() { r.tpls-- }()
	if err := r.step(100); err != nil {
		return "", err
	}
	src, err := r.cache.parse(newTemplateText([]byte(text)), r.fields, params(r.src).Version)
	if err != nil {
		return "", fmt.Errorf("text given to tpl: %w", plainParseError(err))
	}
	r.add(src)
	before := r.set
	defer func() { r.set = before }()
	t, err := r.scope(src)
	if err != nil {
		return "", err
	}
	f, err := r.enter()
	if err != nil {
		return "", err
	}
	err = t.Execute(f, data)
	out := r.leave(f)
	out.given, out.src = text, src
	if strings.Contains(out.text, noValue) {
		return strings.ReplaceAll(out.text, noValue, ""), r.inner(err)
	}
	return out.text, r.inner(err)
}

// scope returns the template of a text given to tpl. Only a text that defines
// templates gets a set of its own; Helm clones the set for every text, which
// costs more than executing it.
func (r *run) scope(src *source) (*template.Template, error) {
	if len(src.names) == 0 && !strings.Contains(string(src.text), rootName) {
		t := r.set.New(r.set.Name())
		t.Tree = src.main
		return t, nil
	}
	set, err := r.set.Clone()
	if err != nil {
		return nil, err
	}
	set.Option("missingkey=zero") // Clone forgets it, https://go.dev/issue/43022
	t, err := install(set, set.Name(), src)
	r.set = set
	return t, err
}

// install adds a text's templates to a set, as Template.Parse does.
func install(set *template.Template, name string, src *source) (*template.Template, error) {
	t := set.New(name)
	for _, n := range src.names {
		if _, err := t.AddParseTree(n, src.trees[n]); err != nil {
			return nil, err
		}
	}
	return t.AddParseTree(name, src.main)
}

const (
	rootName = "gotpl" // Helm's name for the set, and tpl's texts
	noValue  = "<no value>"
)
