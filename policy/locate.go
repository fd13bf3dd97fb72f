package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A locator sets the fields of a request's results that follow from the request, its
// object and the object's history. Only here JSON pointers become lines. Results are
// often about the same few fields, so it looks up each once.
type locator struct {
	req     *Request
	h       *history
	subject *render.Object
	key     render.Key
	only    string // the installations that make the request, if not all
	fields  map[locatedField]*located
	whole   *located // of the object as a whole
	assumed []string // of results without assumptions of their own
	apart   bool     // Passes takes the results, and computes the fingerprints of those that it holds
}

// A locatedField is a pointer into the object, before or after the mutators.
type locatedField struct {
	pointer   string
	asWritten bool
}

// A located holds the places of a field, and assumptions about it.
type located struct {
	origins []render.Origin
	assumed []string
}

func newLocator(req *Request, h *history) *locator {
	l := &locator{req: req, h: h, subject: req.Subject(), only: req.only()}
	l.key = l.subject.Key()
	l.key.Namespace = cmp.Or(l.key.Namespace, req.Namespace)
	return l
}

func locate(r *Result, req *Request, h *history) { newLocator(req, h).locate(r) }

// locate completes a result. Its Origins may be those of other results, too.
func (l *locator) locate(r *Result) {
	if r.Outcome == Unknown {
		r.Missing = missingIn(r.Message)
	}
	r.Operation, r.Object = l.req.Operation, l.key
	h := l.h
	if l.asWritten(r) {
		h = &history{}
	}
	var assumed []string // about the fields
	switch len(r.Fields) {
	case 0:
		assumed = l.add(r, "", h, assumed)
	default:
		for _, f := range l.touchedFirst(r) {
			assumed = l.add(r, f, h, assumed)
		}
	}
	r.Fields, r.Literals = written(r.Fields, l.subject), nil
	r.Assumed = l.assume(r.Assumed, h, assumed)
	if l.apart && (l.only == "" || l.req.Run == OtherRun) && r.plainPass() {
		return
	}
	r.setFingerprint(l.subject)
	if l.req.Run != OtherRun || r.Outcome != Pass && r.Outcome != Skip { // the label keeps passes of variants out
		r.inVariant(l.subject.Variant, l.only)
	}
}

// touchedFirst returns the fields of a failure. Those at which the change touches the object come
// first, since their author is the one who reads the result.
func (l *locator) touchedFirst(r *Result) []string {
	was, is := l.versions()
	if r.Outcome != Fail || len(r.Fields) < 2 || was == nil || is == nil {
		return r.Fields
	}
	var touched, rest []string
	for _, f := range r.Fields {
		if sameAt(was, is, render.Path(f)) {
			rest = append(rest, f)
		} else {
			touched = append(touched, f)
		}
	}
	return append(touched, rest...)
}

// versions returns the object before and after the change, or nil.
func (l *locator) versions() (was, is map[string]any) {
	if l.req.OldAdmitted == nil && l.req.Instead != nil {
		return l.req.Instead.Object, l.req.Object.Object
	}
	return l.req.OldAdmitted, l.req.Admitted
}

// sameAt reports whether two versions of an object have equal values at a path of the second one, or
// at the part of the path that exists there. Elements of lists are compared by name.
func sameAt(was, is any, path []string) bool {
	if len(path) > 0 {
		switch now := is.(type) {
		case map[string]any:
			if next, ok := now[path[0]]; ok {
				before, _ := was.(map[string]any)
				return sameAt(before[path[0]], next, path[1:])
			}
		case []any:
			if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(now) {
				before, _ := was.([]any)
				name, _ := nameOf(now[i])
				return sameAt(named(before, name), now[i], path[1:])
			}
		}
	}
	return reflect.DeepEqual(was, is)
}

// named returns the only element of a list with that name, or nil.
func named(list []any, name string) any {
	var found any
	for _, e := range list {
		if n, ok := nameOf(e); ok && n == name {
			if found != nil {
				return nil
			}
			found = e
		}
	}
	return found
}

// assume returns the assumptions of a result: its own, those about the object, and those about
// its fields. Results with only those about the object share a list.
func (l *locator) assume(own []string, h *history, fields []string) []string {
	if len(own)+len(fields) > 0 || h != l.h {
		return distinct(own, l.subject.Assumed, h.doubts, fields)
	}
	if l.assumed == nil {
		l.assumed = slices.Clip(distinct(l.subject.Assumed, h.doubts))
	}
	return l.assumed
}

// distinct returns each text of the lists once.
func distinct(lists ...[]string) (all []string) {
	for _, list := range lists {
		for _, text := range list {
			all = appendNew(all, text)
		}
	}
	return all
}

// printed returns the unit in the fingerprint of a result that has none yet.
func (l *locator) printed(r *Result) (unit string, ok bool) {
	return unitInPrint(r.Object.Unit, l.subject), r.Fingerprint == ""
}

func (l *locator) asWritten(r *Result) bool { return l.req.Object == nil || r.AsWritten }

// add adds the places of a field to a result, and assumptions about it to assumed.
func (l *locator) add(r *Result, field string, h *history, assumed []string) []string {
	pointer := field
	if r.OfKeys {
		pointer = render.KeyOf(field)
	}
	at := l.field(pointer, l.asWritten(r), h)
	origins := l.partFirst(r, field, at.origins)
	if len(r.Origins) == 0 && len(origins) > 0 {
		r.Origins = slices.Clip(origins)
		return append(assumed, at.assumed...)
	}
	for _, o := range origins {
		r.Origins = appendNew(r.Origins, o)
	}
	return append(assumed, at.assumed...)
}

func (l *locator) field(field string, asWritten bool, h *history) *located {
	if field == "" && !asWritten {
		if l.whole == nil {
			l.whole = l.find(field, h)
		}
		return l.whole
	}
	key := locatedField{field, asWritten}
	at := l.fields[key]
	if at == nil {
		if l.fields == nil {
			l.fields = make(map[locatedField]*located)
		}
		at = l.find(field, h)
		l.fields[key] = at
	}
	return at
}

func (l *locator) find(field string, h *history) *located {
	held := l.h.first(l.req.Admitted)
	if l.req.Object == nil {
		held = l.req.OldAdmitted
	}
	at := new(located)
	was, touches := h.back(field)
	at.origins, at.assumed = h.places(l.subject, was, touches)
	if len(touches) > 0 {
		return at
	}
	if d := defaulted(field, was, l.subject, held); d != "" {
		at.assumed = append(at.assumed, d)
	}
	return at
}

// partFirst moves to the front the origins of the part of the string that the
// failure is about: of `image: repo:latest`, the tag rather than the repository.
// The part is the one that the change changes, else the one that matches Result.Literals,
// else the one that the message quotes.
func (l *locator) partFirst(r *Result, field string, origins []render.Origin) []render.Origin {
	o := l.subject
	if r.Outcome != Fail || len(origins) < 2 {
		return origins
	}
	value, _ := render.Lookup(o.Object, field)
	text, ok := value.(string)
	if !ok {
		return origins
	}
	parts := slices.Concat(r.Literals, quoted(r.Message))
	was, _ := l.versions()
	before, _ := render.Lookup(was, field)
	if old, ok := before.(string); ok && old != text {
		same := 0
		for same < min(len(old), len(text)) && old[same] == text[same] {
			same++
		}
		for same > 0 && strings.Count(text, text[same:]) > 1 { // until it names one place in the text
			same--
		}
		parts = slices.Insert(parts, 0, text[same:])
	}
	for _, s := range parts {
		part := partOf(text, s)
		if part == "" || part == text {
			continue
		}
		made := o.Part(field, part)
		first := slices.DeleteFunc(slices.Clone(origins), func(x render.Origin) bool { return !slices.Contains(made, x) })
		if len(first) > 0 && len(first) < len(origins) {
			rest := slices.DeleteFunc(slices.Clone(origins), func(x render.Origin) bool { return slices.Contains(made, x) })
			return append(first, rest...)
		}
	}
	return origins
}

// partOf returns the first match of literal in text. literal may be a regular
// expression.
func partOf(text, literal string) string {
	if strings.Contains(text, literal) {
		return literal
	}
	if regexp.QuoteMeta(literal) == literal || len(literal) > 1000 {
		return ""
	}
	if x, err := regexp.Compile(literal); err == nil {
		return x.FindString(text)
	}
	return ""
}

// quoted returns the quoted words of a message.
func quoted(message string) []string {
	var words []string
	for _, m := range quotedWords.FindAllStringSubmatch(message, -1) {
		words = append(words, m[1]+m[2]+m[3])
	}
	return words
}

var quotedWords = regexp.MustCompile("'([^'\\s]+)'|\"([^\"\\s]+)\"|`([^`\\s]+)`")

// defaulted returns an assumption about a field that no mutation set, if nobody
// wrote it either: the API server of the chosen version defaults it. Otherwise
// it returns "". was is the field's pointer in held, which is the object as the
// API server had it before any mutation.
func defaulted(field, was string, rendered *render.Object, held map[string]any) string {
	value, _ := render.Lookup(held, was)
	text, found := render.Lookup(rendered.Object, written([]string{was}, rendered)[0])
	if value == nil || found && text != nil {
		return ""
	}
	how := " is not written"
	if found {
		how = " is null"
	}
	switch secret := rendered.GetKind() == "Secret"; {
	case was == "/metadata/namespace":
		return field + how + ": it is that of the request, " + brief(value)
	case secret:
		return field + how + ": the API server defaults it"
	default:
		return field + how + ": the API server defaults it to " + brief(value)
	}
}

// first returns the object before all mutations; held is the object after them.
func (h *history) first(held map[string]any) map[string]any {
	if len(h.changes) > 0 {
		return h.changes[0].before
	}
	return held
}

// brief returns the JSON of a value, cut to fit on a line.
func brief(value any) string {
	const most = 100
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return "…"
	}
	return render.Cut(strings.TrimSuffix(text.String(), "\n"), most)
}
