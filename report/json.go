package report

import (
	"bufio"
	"bytes"
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
