package helm

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"
	"unsafe"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/preadmit/preadmit/render"
)

// A pipe describes a pipeline to the hook that sees its values.
type pipe struct {
	src    *source
	spot   int // in src
	cmds   []segment
	sets   []*variable
	assign bool   // with =
	around *block // the innermost one of its template
	heads  *block // the block whose condition it is
	calls  bool   // it is the argument of {{template}}, include or tpl
	nested bool
	prints bool
	kids   bool // it calls templates
}

// A segment is a call of a function, or a value with the arguments of its method.
type segment struct {
	function string // "" for a value
	args     []operand
}

// An operand is a value that a command is given: a literal text, the result of a pipeline, or a
// variable, with the fields that are read of it.
type operand struct {
	literal string // a text or number
	value   reflect.Value
	isText  bool
	pipe    *pipe
	base    *variable
	path    []string
}

// A variable is a variable of a template, or the dot of one or of a block. That of a template has
// the value that the template was called with.
type variable struct{ root bool }

// A block is a branch of a template.
type block struct {
	around   *block
	dot      *variable   // with and range
	list     *variable   // that range walks
	sides    [2]bool     // which of its lists write something
	assigned []*variable // by one of them
	changes
}

// changes are what executing a part of a template may change in maps.
type changes struct {
	keys  []string // it sets these
	any   bool     // it sets others, too
	calls []string // it calls these templates
	text  bool     // it calls others, or a text given to tpl
}

// A seen is a value with the doubts about it.
type seen struct {
	v reflect.Value
	d doubts
	// method is the method of v that is read.
	method string
}

// A scope holds what one execution of a template knows.
type scope struct {
	data    seen
	vars    map[*variable]seen
	results map[*pipe]seen    // of pipelines that are being evaluated
	decided map[*block]doubts // about the conditions of the blocks being executed
	under   doubts            // about whether the template is executed
	printed doubts            // about what it wrote
	call    uint64            // identifies the calls that led to it
	above   *scope            // that of a {{template}}
}

// newScope returns the scope of a template that is called with the value seen last.
func (r *run) newScope() *scope {
	s := &scope{data: r.last, vars: map[*variable]seen{}, results: map[*pipe]seen{}, decided: map[*block]doubts{}}
	if from := r.from; from != nil && r.frame != nil {
		s.under = r.frame.scope.underOf(from.around)
		h := fnv.New64a()
		fmt.Fprintf(h, "%x %s %d", r.frame.scope.call, from.src.id, from.spot)
		s.call = h.Sum64()
	}
	return s
}

// underOf returns the doubt about whether what is in a block is executed.
func (s *scope) underOf(b *block) doubts {
	d := s.under
	for ; b != nil; b = b.around {
		d |= s.decided[b]
	}
	return d
}

// doubtful values, by their addresses
type doubtfulValues struct {
	values map[unsafe.Pointer]held
	marks  map[unsafe.Pointer]map[string]doubts // of maps' fields
	names  map[string]doubts                    // of fields of all maps
	any    doubts                               // of all fields
}

type held struct {
	v any // keeps the address from being used again
	d doubts
}

// identity returns the address that a value has wherever templates pass it on, or nil.
func identity(v any) unsafe.Pointer {
	switch x := v.(type) {
	case nil:
		return nil
	case string:
		if len(x) < 2 { // such texts share memory
			return nil
		}
		return unsafe.Pointer(unsafe.StringData(x))
	}
	switch rv := reflect.ValueOf(v); rv.Kind() {
	case reflect.Map, reflect.Pointer:
		return rv.UnsafePointer()
	case reflect.Slice:
		if rv.Cap() == 0 {
			return nil
		}
		return rv.UnsafePointer()
	}
	return nil
}

// hold records the doubt about a value under its address.
func (r *run) hold(v any, d doubts) {
	if p := identity(v); p != nil && len(r.doubts.values) < maxRecords {
		r.doubts.values[p] = held{v, r.doubts.values[p].d | d}
	}
}

// boxed returns a copy of a value for a map, which is in doubt wherever it is passed on.
func (r *run) boxed(v any, d doubts) any {
	v = box(v)
	r.doubts.values[word(v)] = held{v, d}
	if s, ok := v.(string); ok && len(s) > 1 {
		r.hold(s, d)
	}
	return v
}

// mark records the doubt about a field of a map.
func (r *run) mark(m reflect.Value, key string, d doubts) {
	if m = concrete(m); d == 0 || m.Kind() != reflect.Map {
		return
	}
	p := m.UnsafePointer()
	if r.doubts.marks[p] == nil {
		r.doubts.marks[p] = map[string]doubts{}
		r.doubts.values[p] = held{m.Interface(), r.doubts.values[p].d}
	}
	r.doubts.marks[p][key] |= d
}

// copyMarks records for a map what is known about the fields of the map that it was made from.
func (r *run) copyMarks(to, from reflect.Value, depth int) {
	to, from = concrete(to), concrete(from)
	if len(r.doubts.marks) == 0 || depth > maxValue || to.Kind() != reflect.Map || from.Kind() != reflect.Map || to.UnsafePointer() == from.UnsafePointer() {
		return
	}
	for key, d := range r.doubts.marks[from.UnsafePointer()] {
		r.mark(to, key, d)
	}
	for it := from.MapRange(); it.Next(); {
		if v := concrete(it.Value()); v.Kind() == reflect.Map && it.Key().Type() == to.Type().Key() {
			r.copyMarks(to.MapIndex(it.Key()), v, depth+1)
		}
	}
}

// about returns what is known about a value itself.
func (r *run) about(v reflect.Value) (d doubts) {
	if v = concrete(v); !v.IsValid() || !v.CanInterface() {
		return 0
	}
	x := v.Interface()
	switch x := x.(type) {
	case string:
		if len(x) > 1 {
			d = r.doubts.values[unsafe.Pointer(unsafe.StringData(x))].d
		}
	default:
		d = r.doubts.values[identity(x)].d
	}
	return d | r.doubts.values[word(x)].d
}

// typed returns the doubts about a value with the capabilities of the cluster, or a part of them.
func typed(v reflect.Value) doubts {
	if v = concrete(v); !v.IsValid() {
		return 0
	}
	switch v.Type() {
	case reflect.TypeFor[chartutil.KubeVersion]():
		return kube
	case reflect.TypeOf(chartutil.Capabilities{}.HelmVersion):
		return text(byHelm)
	case reflect.TypeFor[chartutil.VersionSet]():
		return text(byVersions)
	case reflect.TypeFor[*chartutil.Capabilities]():
		return anyVersion | text(byVersions)
	}
	return 0
}

// within returns the doubts about a value and everything in it.
func (r *run) within(v reflect.Value, depth int) doubts {
	v = concrete(v)
	d := r.about(v) | typed(v)
	if depth > maxValue {
		return d
	}
	switch v.Kind() {
	case reflect.Map:
		for _, x := range r.doubts.marks[v.UnsafePointer()] {
			d |= x
		}
		for it := v.MapRange(); it.Next(); {
			d |= r.within(it.Value(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k == reflect.Interface || k == reflect.String || k == reflect.Map {
			for i := range v.Len() {
				d |= r.within(v.Index(i), depth+1)
			}
		}
	}
	return d
}

// fieldOf follows fields of a value, as templates do.
func (r *run) fieldOf(at seen, path []string) seen {
	for _, key := range path {
		v := concrete(at.v)
		if v.Kind() == reflect.Pointer && v.Type() == reflect.TypeFor[*chartutil.Capabilities]() {
			v = v.Elem()
		}
		switch v.Kind() {
		case reflect.Map:
			if v.Type().Key().Kind() != reflect.String {
				return at
			}
			at.d |= r.doubts.marks[v.UnsafePointer()][key] | r.doubts.names[key] | r.doubts.any
			at.v = v.MapIndex(reflect.ValueOf(key).Convert(v.Type().Key()))
			if slices.Contains(params(r.src).AtCommit, key) {
				at.d |= text(byCommit)
			}
		case reflect.Struct:
			f := v.FieldByName(key)
			if !f.IsValid() || !f.CanInterface() {
				if at.method = key; v.Type() == reflect.TypeFor[time.Time]() && key == "Local" {
					at.d |= text(byTime)
				}
				return at
			}
			switch at.v = f; typed(v) {
			case kube:
				at.d |= text(byKubeVersion)
				if key == "Version" {
					at.d |= text(byKubeDetail)
				}
			case text(byHelm):
				at.d |= text(byHelm)
			}
		default:
			at.method = key
			return at
		}
		at.d |= r.about(at.v)
	}
	return at
}

// operand returns the value of an operand, or ok false if it was not evaluated.
func (r *run) operand(s *scope, o *operand) (at seen, ok bool) {
	switch {
	case o.pipe != nil:
		if at, ok = s.results[o.pipe]; !ok {
			return at, false
		}
		delete(s.results, o.pipe)
	case o.base != nil && o.base.root:
		at = s.data
	case o.base != nil:
		at = s.vars[o.base]
	default:
		return seen{v: o.value}, true
	}
	at.d |= r.about(at.v)
	if at = r.fieldOf(at, o.path); at.method != "Has" {
		at.d |= typed(at.v)
	}
	return at, true
}

// hookVal follows the value of a pipeline's command.
func (r *run) hookVal(n, k int, v reflect.Value) (reflect.Value, error) {
	src := r.spot(r.frame, n)
	p := src.spots[n-src.base].pipe
	at := seen{v: v, d: r.follow(p, k, v) &^ typed(v)} // which is added where the value is read
	r.last, r.from = at, p
	if k+1 < len(p.cmds) || p.nested {
		r.frame.scope.results[p] = at
		return v, nil
	}
	r.use(p, at)
	if p.calls {
		return v, r.enterCall(p)
	}
	return v, r.step(1)
}

// follow returns the doubts about the result of a command.
func (r *run) follow(p *pipe, k int, v reflect.Value) doubts {
	s, c, raised := r.frame.scope, &p.cmds[k], r.doubted
	r.doubted = 0
	d := r.outcome(p, c, r.operands(s, p, c), v) | raised
	if d == 0 {
		return 0
	}
	r.question(p, d)
	if v = concrete(v); v.IsValid() && v.CanInterface() {
		r.hold(v.Interface(), d&(1<<(2*degree)-1)) // what is chosen may be a value that others have
	}
	return d
}

// operands returns the evaluated arguments of a command. That of a pipe is the last one.
func (r *run) operands(s *scope, p *pipe, c *segment) []seen {
	in := r.inputs[:0]
	for i := range c.args {
		at, ok := r.operand(s, &c.args[i])
		if !ok {
			break
		}
		in = append(in, at)
	}
	if at, ok := s.results[p]; ok {
		delete(s.results, p)
		in = append(in, at)
	}
	r.inputs = in
	return in
}

func union(in []seen) (d doubts) {
	for i := range in {
		d |= in[i].d
	}
	return d
}

func truth(v reflect.Value) bool {
	if !v.IsValid() || !v.CanInterface() {
		return false
	}
	is, ok := template.IsTrue(v.Interface())
	return is && ok
}

// decides returns the doubts about whether a value is true.
func (at seen) decides() doubts { return at.d.decides(truth(at.v)) }

// outcome returns the doubts about the result v of a command with the arguments in.
func (r *run) outcome(p *pipe, c *segment, in []seen, v reflect.Value) doubts {
	if len(in) == 0 {
		return 0
	}
	last := in[len(in)-1]
	switch f := c.function; f {
	case "":
		return r.value(p, in)
	case "include":
		return in[0].d.chosen()
	case "tpl":
		return in[0].d
	case "not", "empty":
		return last.decides().chosen()
	case "and", "or", "coalesce":
		return firstOf(in, f != "and")
	case "default":
		if len(in) == 2 {
			return firstOf([]seen{last, in[0]}, true)
		}
	case "ternary":
		if len(in) == 3 {
			if d := last.decides(); d != 0 {
				return d.chosen()
			}
			if truth(last.v) {
				return in[0].d
			}
			return in[1].d
		}
	case "required":
		return last.d
	case "fail":
		return 0
	case "set":
		if len(in) == 3 {
			r.mark(in[0].v, textOf(in[1].v), in[2].d|r.frame.scope.underOf(p.around).unsure()|in[1].d.chosen())
			return in[0].d
		}
	case "dict":
		for i := 0; i+1 < len(in); i += 2 {
			r.mark(v, textOf(in[i].v), in[i+1].d|in[i].d.chosen())
		}
		return 0
	case "merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite", "deepCopy", "mustDeepCopy", "pick", "omit":
		d := in[0].d
		for i := range in {
			r.copyMarks(v, in[i].v, 0)
		}
		if more := union(in[1:]) | r.frame.scope.underOf(p.around); more != 0 && strings.Contains(strings.ToLower(f), "merge") {
			r.hold(v.Interface(), more.unsure())
		}
		return d
	case "get", "index", "hasKey", "dig", "pluck":
		return r.picked(f, in)
	case "kindOf", "kindIs", "typeOf", "typeIs", "typeIsLike":
		return union(in).decides(true).chosen()
	case "keys", "values":
		if v = concrete(v); v.Kind() == reflect.Slice && v.Len() > 1 {
			return union(in) | text(byOrder)
		}
		return union(in)
	case "semverCompare", "regexMatch", "mustRegexMatch":
		if d, ok := r.sameForVersions(f, in, v); ok {
			return d
		}
	case "contains":
		if !c.args[0].isText { // many charts look for the chart's name, merely to make up full names
			return union(in).without(names).chosen()
		}
	}
	return spread(c, in, v) | r.inside(c.function, in)
}

// value returns the doubts about a value, or the result of its method.
func (r *run) value(p *pipe, in []seen) doubts {
	at := concrete(in[0].v)
	if in[0].method == "Has" && at.IsValid() && at.Type() == reflect.TypeFor[chartutil.VersionSet]() {
		r.assume(assumedAPIs)
		for _, arg := range in[1:] {
			if api := textOf(arg.v); r.unknownAPI(api) {
				r.recordQuestion(asked{subject: render.AsksAPI, api: api, src: p.src, spot: p.spot + p.src.base})
			}
		}
		return union(in[1:]).chosen()
	}
	return in[0].d | union(in[1:]).chosen()
}

// firstOf returns the doubts about the first of some values that is true, or false, else the last.
func firstOf(in []seen, is bool) (d doubts) {
	for i := range in {
		switch stops := truth(in[i].v) == is; {
		case stops && is: // whichever is the first one is true
			return d>>(2*degree)<<(2*degree) | d.each() | in[i].d
		case is && i == len(in)-1: // one of them, or this
			return d>>(2*degree)<<(2*degree) | d.unsure() | in[i].d
		case stops, i == len(in)-1:
			return d.chosen() | in[i].d
		}
		d |= in[i].decides()
	}
	return d
}

// picked returns the doubts about what a function reads of maps and lists by keys.
func (r *run) picked(f string, in []seen) (d doubts) {
	from, keys := in[0], in[1:]
	switch f {
	case "dig":
		if len(in) < 3 {
			return union(in)
		}
		from, keys, d = in[len(in)-1], in[:len(in)-2], in[len(in)-2].d
	case "pluck":
		for _, m := range in[1:] {
			d |= r.fieldOf(m, []string{textOf(in[0].v)}).d
		}
		return d | in[0].d.chosen()
	}
	for _, key := range keys {
		d |= key.d.chosen()
		if k := concrete(key.v); k.Kind() == reflect.String {
			from = r.fieldOf(from, []string{k.String()})
		} else if l := concrete(from.v); l.Kind() == reflect.Slice && k.CanInt() && k.Int() >= 0 && int(k.Int()) < l.Len() {
			from = seen{v: l.Index(int(k.Int())), d: from.d | r.about(l.Index(int(k.Int())))}
		} else {
			from = seen{d: from.d}
		}
	}
	if f == "hasKey" {
		return d | from.d.decides(true).chosen()
	}
	return d | from.d
}

// keeping are functions whose result has the text of their arguments, or of one of them, and is
// empty only if that is.
var keeping = set("quote", "squote", "toString", "print", "println", "printf", "cat", "indent", "nindent", "b64enc", "b32enc",
	"lower", "upper", "title", "untitle", "toYaml", "toYamlPretty", "toJson", "toPrettyJson", "toRawJson", "mustToJson", "mustToPrettyJson",
	"mustToRawJson", "toToml", "list", "tuple", "append", "push", "mustAppend", "mustPush", "prepend", "mustPrepend", "concat", "first",
	"last", "rest", "initial", "slice", "mustFirst", "mustLast", "mustRest", "mustInitial", "mustSlice", "join", "toStrings", "trim",
	"sha1sum", "sha256sum", "sha512sum", "date", "dateInZone", "date_in_zone", "htmlDate", "htmlDateInZone", "unixEpoch", "dateModify",
	"date_modify", "mustDateModify", "must_date_modify", "toDate", "mustToDate", "html", "js", "urlquery", "buildCustomCert", "fromYaml", "fromJson",
	"fromYamlArray", "fromJsonArray")

// ordering are functions whose result depends on the order of a list.
var ordering = set("first", "last", "rest", "initial", "slice", "mustFirst", "mustLast", "mustRest", "mustInitial", "mustSlice", "index",
	"join", "toString", "quote", "squote", "print", "printf", "println", "toYaml", "toJson", "cat")

// showing are functions that write a whole map or list, or compare it.
var showing = set("quote", "squote", "toString", "print", "println", "printf", "cat", "join", "toYaml", "toYamlPretty", "toJson", "toPrettyJson",
	"toRawJson", "mustToJson", "mustToPrettyJson", "mustToRawJson", "toToml", "deepEqual", "has", "eq", "ne", "toStrings", "values", "without", "html", "js", "urlquery")

func set(all ...string) map[string]bool {
	m := map[string]bool{}
	for _, f := range all {
		m[f] = true
	}
	return m
}

// inside returns the doubts about what a function shows of the parts of its arguments.
func (r *run) inside(f string, in []seen) (d doubts) {
	if !showing[f] {
		return 0
	}
	for i := range in {
		switch concrete(in[i].v).Kind() {
		case reflect.Map, reflect.Slice, reflect.Pointer:
			d |= r.within(in[i].v, 0)
		}
	}
	if d != 0 && !keeping[f] {
		return d.chosen()
	}
	return d
}

// spread returns the doubts about the result of other functions.
func spread(c *segment, in []seen, v reflect.Value) doubts {
	d := union(in)
	if d == 0 {
		return 0
	}
	if !ordering[c.function] {
		d &^= text(byOrder)
	}
	literal := func(i int) string { return c.args[min(i, len(c.args)-1)].literal }
	switch c.function {
	case "trimSuffix", "trimPrefix", "trimAll":
		if literal(0) == "-" { // texts in doubt have other characters, too
			return d
		}
	case "trunc", "abbrev":
		if n := literal(0); n != "" && n != "0" && n[0] != '-' {
			return d
		}
	case "replace":
		if len(c.args) > 1 && c.args[1].literal != "" {
			return d&^(text(byChance)|text(byTime)) | (d & (text(byChance) | text(byTime))).chosen()
		}
	case "regexReplaceAll", "regexReplaceAllLiteral", "mustRegexReplaceAll", "mustRegexReplaceAllLiteral", "regexFind", "mustRegexFind", "substr":
		if d.has(byChance) || d.has(byTime) {
			return d.chosen()
		}
	}
	switch {
	case keeping[c.function]:
		return d
	case concrete(v).Kind() == reflect.Bool:
		return d.chosen()
	}
	return d.unsure() | d>>(2*degree)<<(2*degree)
}

func textOf(v reflect.Value) string {
	if v = concrete(v); v.Kind() == reflect.String {
		return v.String()
	}
	return ""
}

var (
	numbers = regexp.MustCompile(`\d+`)
	// An expression with a letter or one of these signs may ask for a suffix.
	suffixed = regexp.MustCompile(`[a-uw-zA-Z+-]`)
)

// sameForVersions returns the doubts about a comparison with the version of Kubernetes or Helm.
// Other patch versions don't matter if the result is the same for those at each number in the
// constraint, where alone it can change. ok is false if the arguments are others.
func (r *run) sameForVersions(f string, in []seen, v reflect.Value) (d doubts, ok bool) {
	d = union(in)
	if len(in) != 2 || in[0].d != 0 || d&^anyVersion != 0 || d == 0 {
		return 0, false
	}
	constraint, is := textOf(in[0].v), textOf(in[1].v)
	if f != "semverCompare" && suffixed.MatchString(constraint) {
		return 0, false
	}
	texts := []string{is}
	for _, own := range r.versions {
		if len(own) < 2 || !strings.Contains(is, own[1:]) {
			continue
		}
		parsed, err := semver.NewVersion(own)
		if err != nil {
			return 0, false
		}
		for _, n := range append(numbers.FindAllString(constraint, 16), "0", "99") {
			patch, err := semver.NewVersion("1.0." + strings.TrimLeft(n, "0") + "0"[:max(0, 1-len(strings.TrimLeft(n, "0")))])
			if err != nil {
				return 0, false
			}
			for _, p := range []uint64{patch.Patch() - min(1, patch.Patch()), patch.Patch(), patch.Patch() + 1} {
				other := semver.New(parsed.Major(), parsed.Minor(), p, "", "")
				texts = append(texts, strings.ReplaceAll(is, own[1:], other.String()))
			}
		}
	}
	if len(texts) == 1 && (d.has(byKubeDetail) || d.has(byHelm)) && strings.Count(is, ".") > 1 {
		return 0, false
	}
	for _, other := range texts {
		if r.compares(f, constraint, other) != truth(v) {
			return d.chosen(), true
		}
	}
	return (d &^ text(byKubeDetail) &^ text(byHelm)).chosen(), true
}

func (r *run) compares(f, constraint, version string) bool {
	if f != "semverCompare" {
		re, err := r.compile(constraint)
		return err == nil && re.MatchString(version)
	}
	is, err := library()["semverCompare"].(func(string, string) (bool, error))(constraint, version)
	return err == nil && is
}

// use records the value of the variables that a pipeline sets, or of a condition.
func (r *run) use(p *pipe, at seen) {
	s, under := r.frame.scope, doubts(0)
	if p.kids {
		r.frame.kids = nil
	}
	if p.assign {
		under = s.underOf(p.around).chosen()
	}
	if p.heads == nil || p.heads.list == nil {
		for _, x := range p.sets {
			s.vars[x] = seen{v: at.v, d: at.d | under}
		}
	}
	if p.heads != nil {
		r.decide(p, at)
	}
}

// decide records the doubt about the condition of a block.
func (r *run) decide(p *pipe, at seen) {
	s, b, d := r.frame.scope, p.heads, at.decides()
	if b.list != nil {
		s.vars[b.list] = at
	} else if b.dot != nil {
		s.vars[b.dot] = at
	}
	if d == 0 {
		delete(s.decided, b)
		return
	}
	s.decided[b] = d
	is := truth(at.v)
	r.doubtful(p, b.sides, d, [2]bool{is, !is})
	if b.sides[0] || b.sides[1] {
		s.printed |= d
	}
	for _, x := range b.assigned {
		known := s.vars[x]
		known.d |= d.chosen()
		s.vars[x] = known
	}
	r.mayChange(&b.changes, d.unsure(), map[string]bool{})
}

// mayChange records that fields are in doubt which a block sets that may be executed or not.
func (r *run) mayChange(c *changes, d doubts, done map[string]bool) {
	if c == nil {
		return
	}
	for _, key := range c.keys {
		r.doubts.names[key] |= d
	}
	if c.any {
		r.doubts.any |= d
	}
	calls := c.calls
	if c.text {
		if calls = sortedKeys(r.bodies); r.mutable {
			r.doubts.any |= d
		}
	}
	for _, name := range calls {
		if !done[name] {
			done[name] = true
			r.mayChange(r.bodies[name], d, done)
		}
	}
}

// hookEach sees the dot and the variables of each turn of a loop.
func (r *run) hookEach(n int, dot reflect.Value, vars ...reflect.Value) (string, error) {
	src := r.spot(r.frame, n)
	p := src.spots[n-src.base].pipe
	s := r.frame.scope
	list := s.vars[p.heads.list]
	d := (list.d | typed(list.v)) &^ text(byOrder)
	if m := concrete(list.v); m.Kind() == reflect.Map {
		for _, of := range r.doubts.marks[m.UnsafePointer()] {
			d |= of
		}
	}
	s.vars[p.heads.dot] = seen{v: dot, d: d}
	for i, x := range p.sets {
		s.vars[x] = seen{v: vars[i], d: d}
	}
	return "", r.step(1)
}

// printed records the value that an action prints.
func (r *run) printed(p *pipe, v reflect.Value) {
	d := r.follow(p, len(p.cmds)-1, v)
	s := r.frame.scope
	switch concrete(v).Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer:
		d |= r.within(v, 0)
		r.question(p, d)
	}
	s.printed |= d | s.underOf(p.around).unsure()
	if chosen := d >> (2 * degree); chosen != 0 {
		r.doubtful(p, [2]bool{true, false}, chosen<<(2*degree), [2]bool{})
	}
}

// question records the questions that reading a value asks.
func (r *run) question(p *pipe, d doubts) {
	ask := func(subject, assumed string) {
		if assumed != "" {
			r.assumed[assumed] = true
		}
		r.recordQuestion(asked{subject: subject, src: p.src, spot: p.spot + p.src.base})
	}
	if d.has(byUpgrade) {
		ask(render.AsksUpgrade, assumedInstall)
	}
	if d.has(byRevision) {
		ask(render.AsksUpgrade, "")
	}
	if d.has(byVersions) {
		ask(render.AsksAPIs, assumedAPIs)
	}
	if d.has(byLookup) {
		ask(render.AsksLookup, "")
	}
}
