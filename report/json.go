package report

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// The JSON report is a contract: the keys and their order are those of the
// structs, arrays are never null, an element stands on a line of its own. It
// is written element by element, so a hundred thousand results need no second
// copy of the file in memory.

func writeJSON(w io.Writer, r *Report, _ Options) error {
	j := newJSONWriter(w)
	j.text("{\n  \"schema\": ")
	j.value(Schema)
	j.text(",\n  \"tool\": ")
	j.value(r.Tool)
	j.text(",\n  \"units\": ")
	elements(j, r.Units, func(u *Unit) any { return u })
	j.text(",\n  \"summary\": ")
	j.value(r.Summary)
	j.text(",\n  \"results\": ")
	j.results(r.all())
	j.text(",\n  \"rules\": ")
	elements(j, sortedRules(r), func(x *policy.Rule) any { return x })
	j.text(",\n  \"notes\": ")
	elements(j, r.Notes, func(s *string) any { return s })
	if len(r.Documents) > 0 {
		j.text(",\n  \"documents\": ")
		elements(j, r.Documents, func(d *Document) any { return d })
	}
	if r.Base != nil {
		j.text(",\n  \"base\": ")
		j.value(r.Base)
		j.text(",\n  \"changes\": ")
		elements(j, r.Changes, func(c *Change) any { return c })
		j.text(",\n  \"proposed\": ")
		elements(j, r.Proposed, func(x *policy.Result) any { return whole(*x) })
	}
	if r.Rehearsal != nil {
		j.text(",\n  \"rehearsal\": ")
		j.value(r.Rehearsal)
	}
	if r.Shard != nil {
		j.text(",\n  \"shard\": ")
		j.value(r.Shard)
	}
	j.text("\n}\n")
	return j.flush()
}

// whole returns a result without null arrays.
func whole(x policy.Result) *policy.Result {
	if x.Fields == nil {
		x.Fields = []string{}
	}
	if x.Origins == nil {
		x.Origins = []render.Origin{}
	}
	if x.Assumed == nil {
		x.Assumed = []string{}
	}
	return &x
}

// sortedRules returns a sorted copy of the report's rules.
func sortedRules(r *Report) []policy.Rule {
	rules := slices.Clone(r.Rules)
	slices.SortStableFunc(rules, compareRules)
	return rules
}

// Read reads a report that the JSON format wrote. It returns an error for anything
// else, for a report of another version, and for a result with an unknown outcome or
// action, which no format would show. It ignores unknown keys.
func Read(r io.Reader) (*Report, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if err := checkSchema(data); err != nil {
		return nil, err
	}
	rep := &Report{}
	if err := json.Unmarshal(data, rep); err != nil {
		return nil, readError(data, err)
	}
	if err := rep.check(); err != nil {
		return nil, err
	}
	rep.fill()
	return rep, nil
}

// checkSchema looks at the document's name alone, since the rest of another
// version may not even fit the types.
func checkSchema(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("the report is empty")
	}
	var head struct {
		Schema json.RawMessage `json:"schema"`
		SARIF  json.RawMessage `json:"runs"`
		Tool   json.RawMessage `json:"tool"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return readError(data, err)
	}
	var schema string
	if json.Unmarshal(head.Schema, &schema) == nil && schema == Schema {
		return nil
	}
	family, _, _ := strings.Cut(Schema, "/")
	switch {
	case schema == "" && head.SARIF != nil:
		return fmt.Errorf("this is a SARIF file, not a %s, which check -o json writes; a SARIF file can only be verified", Schema)
	case strings.HasPrefix(schema, family+"/"):
		return fmt.Errorf("this report is a %s%s, and this preadmit reads %s", name(schema), madeBy(head.Tool), Schema)
	case schema != "":
		return fmt.Errorf("this is a %s, not a %s", name(schema), Schema)
	default:
		return fmt.Errorf("this is not a preadmit report: it has no schema %q", Schema)
	}
}

func madeBy(raw json.RawMessage) string {
	var tool Tool
	if json.Unmarshal(raw, &tool) != nil || tool.Name == "" {
		return ""
	}
	return fmt.Sprintf(" made by %s %s", name(tool.Name), name(tool.Version))
}

// readError names the line at which the JSON is broken, and quotes none of its text.
func readError(data []byte, err error) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(data[:max(0, min(int(syntax.Offset), len(data))-1)], []byte("\n"))
		return fmt.Errorf("this is not a preadmit report: line %d is not JSON: %s", line, prose(syntax.Error()))
	case errors.As(err, &typ) && typ.Field == "":
		return fmt.Errorf("this is not a preadmit report: it is a JSON %s", typ.Value)
	case errors.As(err, &typ):
		return fmt.Errorf("the report's %s is a JSON %s, which is not what %s has there", name(typ.Field), name(typ.Value), Schema)
	default:
		return err
	}
}

// fill sets lists that are missing or null to empty ones.
func (r *Report) fill() {
	r.Units, r.Notes = nonNil(r.Units), nonNil(r.Notes)
	r.Rules, r.Results = nonNil(r.Rules), nonNil(r.Results)
	for i := range r.Results {
		r.Results[i] = *whole(r.Results[i])
	}
}

func (r *Report) check() error {
	for i := range r.Results {
		x := &r.Results[i]
		if !slices.Contains(policy.Outcomes, x.Outcome) {
			return fmt.Errorf("the report's results[%d] has the outcome %q, which is none of %v", i, x.Outcome, policy.Outcomes)
		}
		if x.Action != "" && !slices.Contains(policy.Actions, x.Action) {
			return fmt.Errorf("the report's results[%d] has the action %q, which is none of %v", i, x.Action, policy.Actions)
		}
	}
	return nil
}

// A jsonWriter writes JSON piece by piece and remembers the first error.
type jsonWriter struct {
	out *bufio.Writer
	buf bytes.Buffer
	enc *json.Encoder
	err error

	parts partWriter
}

func newJSONWriter(w io.Writer) *jsonWriter {
	j := &jsonWriter{out: bufio.NewWriterSize(w, 64<<10)}
	j.parts.from = []render.Origin{} // not null in JSON
	j.enc = json.NewEncoder(&j.buf)
	j.enc.SetEscapeHTML(false)
	return j
}

func (j *jsonWriter) text(s string) { j.out.WriteString(s) }

func (j *jsonWriter) value(v any) { j.out.Write(j.encoded(v)) }

// encoded returns the value in JSON, in bytes that are valid until the next call.
func (j *jsonWriter) encoded(v any) []byte {
	j.buf.Reset()
	if err := j.enc.Encode(v); err != nil && j.err == nil {
		j.err = err
	}
	return jsonSafe(bytes.TrimSuffix(j.buf.Bytes(), []byte("\n")))
}

func (j *jsonWriter) flush() error {
	if err := j.out.Flush(); j.err == nil {
		j.err = err
	}
	return j.err
}

// results writes an array of results, one a line.
func (j *jsonWriter) results(all iter.Seq[*policy.Result]) {
	lead, end := "[\n    ", "[]"
	for x := range all {
		j.text(lead)
		if !j.inParts(x) {
			j.value(whole(*x))
		}
		lead, end = ",\n    ", "\n  ]"
	}
	j.text(end)
}

// elements writes an array, an element a line.
func elements[T any](j *jsonWriter, s []T, value func(*T) any) {
	j.text("[")
	for i := range s {
		if i > 0 {
			j.text(",")
		}
		j.text("\n    ")
		j.value(value(&s[i]))
	}
	if len(s) > 0 {
		j.text("\n  ")
	}
	j.text("]")
}

// WriteValue writes v as indented JSON, for commands other than check. As in reports,
// characters that control a terminal or a runner are escaped.
func WriteValue(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(jsonSafe(b.Bytes()))
	return err
}

// A partWriter encodes the fields that a rule's results share once, and those that an
// object's results share once. It writes the same bytes as encoding each result whole.
type partWriter struct {
	rules   map[sharedRule]*encodedRule
	last    *encodedRule // that was written last; may be nil
	assumed assumedIDs
	key     render.Key
	object  []byte // of key
	from    []render.Origin
	origins []byte // of from
}

// sharedRule has the fields that are equal in many results of a rule.
type sharedRule struct {
	engine, policy, rule, message, hint, reason, only string

	operation policy.Operation
	outcome   policy.Outcome
	action    policy.Action
	severity  policy.Severity
	baseline  policy.Baseline
	origin    render.Span
	unreached bool
	pods      bool
	made      string
	assumed   int // number of the list
}

// assumedIDs numbers lists of assumptions. Equal lists usually have one number. Results that
// are held compactly share lists, so that most are known by their address.
type assumedIDs struct {
	last  int
	known map[textList]int
	equal map[string]int
}

// A textList is the address of a list that is not empty.
type textList struct {
	first *string
	n     int
}

func (a *assumedIDs) id(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	at := textList{&texts[0], len(texts)}
	id, ok := a.known[at]
	if ok {
		return id
	}
	if a.known == nil || len(a.known) >= maxRules {
		a.known, a.equal = make(map[textList]int), make(map[string]int)
	}
	var key []byte
	for _, text := range texts {
		key = append(binary.AppendUvarint(key, uint64(len(text))), text...)
	}
	if id, ok = a.equal[string(key)]; !ok {
		a.last++
		id = a.last
		a.equal[string(key)] = id
	}
	a.known[at] = id
	return id
}

// encodedRule is an encoded result without its object, fields, origins and fingerprint.
type encodedRule struct {
	key                        sharedRule
	next                       *encodedRule // that was written after it the last time; may be nil
	before, middle, after, end []byte
}

// The values of a result that is cut into an encodedRule. No text of a result can
// have them: it has no quotes that are not escaped.
var (
	noObject      = []byte(`"object":{"apiVersion":"","kind":"","namespace":"","name":"","unit":""}`)
	noFields      = []byte(`"fields":[],"origins":[]`)
	noFingerprint = []byte(`"fingerprint":""`)
)

// inParts writes a result, if it is one of those that are written in parts.
func (j *jsonWriter) inParts(r *policy.Result) bool {
	if len(r.Missing) > 0 || r.Cost != nil || r.Suppression != nil || r.Fix != nil {
		return false
	}
	rule := j.rule(r)
	if rule == nil {
		return false
	}
	p := &j.parts
	if p.object == nil || p.key != r.Object {
		p.key, p.object = r.Object, append(append(p.object[:0], `"object":`...), j.encoded(r.Object)...)
	}
	if p.origins == nil || !slices.Equal(p.from, r.Origins) {
		p.from = append(p.from[:0], r.Origins...)
		p.origins = append(append(p.origins[:0], `,"origins":`...), j.encoded(p.from)...)
	}
	for _, part := range [][]byte{rule.before, p.object, rule.middle, []byte(`"fields":`)} {
		j.out.Write(part)
	}
	if len(r.Fields) == 0 {
		j.text("[]")
	} else {
		j.value(r.Fields)
	}
	j.out.Write(p.origins)
	j.out.Write(rule.after)
	j.text(`"fingerprint":`)
	if strings.Trim(r.Fingerprint, "0123456789abcdef") == "" {
		j.text(`"` + r.Fingerprint + `"`)
	} else {
		j.value(r.Fingerprint)
	}
	j.out.Write(rule.end)
	return true
}

// maxRules bounds how many rules are kept encoded, since each message is one, and how many lists
// of assumptions are known.
const maxRules = 8 << 10

// rule returns nil for a result that can't be cut. Results of similar objects are about the same
// rules in the same order, so it looks first at the rule that came after the last one before.
func (j *jsonWriter) rule(r *policy.Result) *encodedRule {
	key := sharedRule{
		r.Engine, r.Policy, r.Rule, r.Message, r.Hint, r.Reason, r.Only,
		r.Operation, r.Outcome, r.Action, r.Severity, r.Baseline, r.PolicyOrigin, r.Unreached, r.Pods, r.Made, j.parts.assumed.id(r.Assumed),
	}
	last := j.parts.last
	if last != nil && last.next != nil && last.next.key == key {
		j.parts.last = last.next
		return last.next
	}
	e := j.encodedRule(r, key)
	if last != nil {
		last.next = e
	}
	j.parts.last = e
	return e
}

func (j *jsonWriter) encodedRule(r *policy.Result, key sharedRule) *encodedRule {
	if e, ok := j.parts.rules[key]; ok {
		return e
	}
	x := *r
	x.Object, x.Fields, x.Origins, x.Fingerprint = render.Key{}, nil, nil, ""
	data := bytes.Clone(j.encoded(whole(x)))
	e := &encodedRule{key: key}
	var ok, ok2, ok3 bool
	e.before, data, ok = bytes.Cut(data, noObject)
	e.middle, data, ok2 = bytes.Cut(data, noFields)
	e.after, e.end, ok3 = bytes.Cut(data, noFingerprint)
	if !ok || !ok2 || !ok3 {
		e = nil
	}
	if j.parts.rules == nil || len(j.parts.rules) >= maxRules {
		j.parts.rules, j.parts.last = make(map[sharedRule]*encodedRule), nil
	}
	j.parts.rules[key] = e
	return e
}
