package policy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
)

// A Suppression is a person's decision to accept results for a time.
type Suppression struct {
	Rule    string `json:"rule"`           // policy or policy/rule; * and ** match
	Object  string `json:"object"`         // group/Kind/namespace/name; * and ** match
	Path    string `json:"path,omitempty"` // of the unit, or of the first origin's file; * and ** match
	Reason  string `json:"reason"`
	Expires string `json:"expires"` // the last day on which it applies, UTC
	Owner   string `json:"owner,omitempty"`
	Line    int    `json:"line,omitempty"` // of a comment in the file Path: the line whose results it accepts

	Origin render.Span `json:"origin,omitzero"` // place of its entry in the file, or of the comment
}

// Unplaced returns the suppression without the place where it is written.
func (s Suppression) Unplaced() Suppression {
	s.Origin = render.Span{}
	return s
}

// dateFormat is the format of Suppression.Expires.
const dateFormat = time.DateOnly

// ParseSuppressions reads a suppressions file. The errors, joined, are
// *render.Error values, each at its line, for unknown, missing or wrong keys of
// an entry. On error it returns no entries.
func ParseSuppressions(file string, data []byte) ([]Suppression, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, render.SyntaxError(file, data, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	if err := render.OneDocument(file, data); err != nil {
		return nil, err
	}
	p := suppressionParser{file: file}
	p.document(doc.Content[0])
	return p.found, errors.Join(p.errs...)
}

type suppressionParser struct {
	file  string
	found []Suppression
	errs  []error
}

func (s *suppressionParser) fail(n *yaml.Node, format string, args ...any) {
	span := render.Span{File: s.file, Line: n.Line, Column: n.Column}
	s.errs = append(s.errs, &render.Error{Span: span, Rule: "suppression", Err: fmt.Errorf(format, args...)})
}

func (s *suppressionParser) document(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		s.fail(n, "want the key suppressions and a list")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case i > 0 && key.Value == "suppressions":
			s.fail(key, "suppressions is set twice")
		case key.Value != "suppressions":
			s.fail(key, "unknown key %q; there is suppressions", key.Value)
		case value.Kind == yaml.ScalarNode && value.Tag == "!!null":
		case value.Kind != yaml.SequenceNode:
			s.fail(value, "suppressions: want a list")
		default:
			for _, entry := range value.Content {
				s.entry(entry)
			}
		}
	}
}

func (s *suppressionParser) entry(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		s.fail(n, "want a suppression: rule, object, reason, expires")
		return
	}
	before := len(s.errs)
	sup := Suppression{Origin: render.Span{File: s.file, Line: n.Line, Column: n.Column}}
	fields := map[string]*string{
		"rule": &sup.Rule, "object": &sup.Object, "path": &sup.Path, "reason": &sup.Reason, "expires": &sup.Expires, "owner": &sup.Owner,
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field := fields[key.Value]
		switch {
		case field == nil:
			s.fail(key, "unknown key %q; %s", key.Value, render.Instead(key.Value, suppressionKeys))
			seen[render.Nearest(key.Value, suppressionKeys)] = true // don't report the key that was meant as missing
		case seen[key.Value]:
			s.fail(key, "%s is set twice", key.Value)
		case value.Kind != yaml.ScalarNode:
			s.fail(value, "%s: want text", key.Value)
		default:
			*field = strings.TrimSpace(value.Value)
		}
		seen[key.Value] = true
	}
	for _, name := range []string{"rule", "object", "reason", "expires"} {
		if *fields[name] == "" && (!seen[name] || len(s.errs) == before) {
			s.fail(n, "%s is required", name)
		}
	}
	if _, err := time.Parse(dateFormat, sup.Expires); err != nil && sup.Expires != "" {
		s.fail(n, "expires: %q is not a date such as 2027-03-31", sup.Expires)
	}
	if len(s.errs) == before {
		s.found = append(s.found, sup)
	}
}

var suppressionKeys = []string{"rule", "object", "path", "reason", "expires", "owner"}

// Malformed reports whether the suppression can't match: its object is not written as
// group/Kind/namespace/name, or it is a comment that is not written as CommentForm.
func (s *Suppression) Malformed() bool {
	return s.Rule == "" || !strings.Contains(s.Object, "**") && strings.Count(s.Object, "/") != 3
}

// expired reports whether the last day of the suppression is over.
func (s *Suppression) expired(today time.Time) bool {
	last, err := time.Parse(dateFormat, s.Expires)
	return err != nil || !today.UTC().Before(last.AddDate(0, 0, 1))
}

// Covers reports whether the suppression matches a result, expired or not. An
// error of rendering or compiling hides other results, so only a suppression
// that names its rule in full, without a wildcard, covers it.
func (s *Suppression) Covers(r *Result) bool { return s.covers(r, 0) }

// covers is Covers at one of the result's places.
func (s *Suppression) covers(r *Result, place int) bool {
	if s.Line > 0 && (s.Rule == "" || place >= len(r.Origins) || r.Origins[place].File != s.Path || r.Origins[place].Line != s.Line) {
		return false // quickly, since there may be many comments
	}
	if r.Undecided() && (r.Engine == EngineRender || r.Engine == EngineCompile) && strings.Contains(s.Rule, "*") {
		return false
	}
	if !render.Glob(s.Rule, r.Policy) && !render.Glob(s.Rule, r.Policy+"/"+r.Rule) {
		return false
	}
	o := r.Object
	if !render.Glob(s.Object, ObjectPattern(o)) {
		return false
	}
	if s.Line > 0 || s.Path == "" || render.Glob(s.Path, o.Unit) {
		return true
	}
	return len(r.Origins) > 0 && render.Glob(s.Path, r.Origins[0].File)
}

// Suppress marks the results that suppressions accept, which stay in the lists.
// It returns the expired suppressions and those that accept nothing. If several
// cover a result, the first counts, the suppressions file before comments. Only failures and
// undecided results are marked.
func Suppress(results []Result, held *CompactList, s *Suppressions, today time.Time) (over, unused []Suppression) {
	used := make(map[*Suppression]bool)
	first := func(list []Suppression, r *Result, place int) (found *Suppression) {
		for j := range list {
			if x := &list[j]; x.covers(r, place) {
				used[x] = true
				if found == nil && !x.expired(today) {
					found = x
				}
			}
		}
		return found
	}
	accept := func(r *Result) bool {
		if r.Outcome == Pass || r.Outcome == Skip {
			return false
		}
		comment, hint := s.comment(r, first)
		switch x := cmp.Or(first(s.Listed, r, 0), comment); {
		case r.Suppression != nil:
			return false
		case x != nil:
			r.Suppression = x
		case hint != "":
			r.Hint = hint
		default:
			return false
		}
		return true
	}
	for i := range results {
		accept(&results[i])
	}
	if len(s.Listed) > 0 || held != nil && slices.ContainsFunc(held.files.all, func(file string) bool { return len(s.In(file)) > 0 }) {
		held.replace(accept)
	}
	for _, list := range s.lists() {
		for j := range list {
			switch x := &list[j]; {
			case x.Rule == "": // malformed
			case x.expired(today):
				over = append(over, *x)
			case !used[x]:
				unused = append(unused, *x)
			}
		}
	}
	return over, unused
}

// WriteSuppressions is the inverse of ParseSuppressions: it returns YAML with
// the keys of entries in the documented order.
func WriteSuppressions(suppressions []Suppression) []byte {
	var b strings.Builder
	b.WriteString("suppressions:\n")
	if len(suppressions) == 0 {
		return []byte("suppressions: []\n")
	}
	for _, s := range suppressions {
		lead := "- "
		for _, f := range [][2]string{
			{"rule", s.Rule}, {"object", s.Object}, {"path", s.Path}, {"reason", s.Reason}, {"expires", s.Expires}, {"owner", s.Owner},
		} {
			if f[1] == "" {
				continue
			}
			fmt.Fprintf(&b, "%s%s: %s\n", lead, f[0], yamlScalar(f[0], f[1]))
			lead = "  "
		}
	}
	return []byte(b.String())
}

// yamlScalar writes a value as YAML, unquoted if that reads back the same.
func yamlScalar(key, value string) string {
	if key == "expires" {
		return value
	}
	var n yaml.Node
	n.SetString(value)
	if strings.Contains(value, "\n") || slices.Contains([]string{"rule", "object", "path"}, key) {
		n.Style = yaml.DoubleQuotedStyle
	}
	out, err := yaml.Marshal(&n)
	if err != nil {
		return fmt.Sprintf("%q", value)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// ObjectPattern returns the pattern by which a suppression names one object, whatever its content.
func ObjectPattern(k render.Key) string {
	return strings.Join([]string{group(k.APIVersion), k.Kind, k.Namespace, lastingName(k)}, "/")
}

// A SuppressionEdit adds suppressions to a file and removes others.
type SuppressionEdit struct {
	Add, Remove []Suppression
	Header      string // the first line of a new file, with its line end
}

// Apply returns a suppressions file after the edit. Comments and order stay; of a file that
// has its entries in one line, only the comments above them do. Added entries come last, and
// replace those for the same results. Removing an entry that is not there is no error.
func (s SuppressionEdit) Apply(file string, data []byte) ([]byte, error) {
	old, err := ParseSuppressions(file, data)
	if err != nil {
		return nil, fmt.Errorf("nothing can be added until this is fixed: %w", firstOf(err))
	}
	gone := make([]bool, len(old))
	var want []Suppression
	for i, sup := range old {
		gone[i] = s.removes(sup)
		if !gone[i] {
			want = append(want, sup)
		}
	}
	if len(want) == len(old) && len(s.Add) == 0 {
		return data, nil
	}
	want = append(want, s.Add...)
	after := s.text(data, old, gone)
	if !holds(file, after, want) {
		after = below(leadingComments(data), want)
	}
	if !holds(file, after, want) {
		return nil, errors.New("the decisions can't be written as YAML")
	}
	return after, nil
}

func firstOf(err error) error {
	if all := render.Errors(err); len(all) > 0 {
		return all[0]
	}
	return err
}

// removes reports whether the edit takes an entry out: it is to be removed, or is
// added anew.
func (s SuppressionEdit) removes(sup Suppression) bool {
	return slices.ContainsFunc(s.Remove, func(r Suppression) bool { return r.Unplaced() == sup.Unplaced() }) || slices.ContainsFunc(s.Add, func(a Suppression) bool {
		return a.Rule == sup.Rule && a.Object == sup.Object && a.Path == sup.Path
	})
}

// holds reports whether a file holds these suppressions, in this order.
func holds(file string, data []byte, want []Suppression) bool {
	got, err := ParseSuppressions(file, data)
	return err == nil && slices.EqualFunc(got, want, func(a, b Suppression) bool { return a.Unplaced() == b.Unplaced() })
}

// text removes entries from the lines of a file, adds others after the last one with the same
// indentation, and changes nothing else. It returns nil if that is not possible. The caller must
// check the result.
func (s SuppressionEdit) text(data []byte, old []Suppression, gone []bool) []byte {
	add := s.Add
	switch {
	case len(data) == 0:
		return below([]byte(s.Header), add)
	case len(old) == 0:
		return below(data, add)
	}
	newline := "\n"
	if bytes.Contains(data, []byte("\r\n")) {
		newline = "\r\n"
	}
	lines := strings.SplitAfter(string(data), "\n")
	var out strings.Builder
	next := 0
	for i := range old {
		from, to := old[i].Origin.Line-1, len(lines)
		if i+1 < len(old) {
			to = old[i+1].Origin.Line - 1
		}
		if from < next || to > len(lines) || from >= to {
			return nil
		}
		to = contentEnd(lines, from, to)
		out.WriteString(strings.Join(lines[next:from], ""))
		if !gone[i] {
			out.WriteString(strings.Join(lines[from:to], ""))
		}
		next = to
	}
	if len(add) > 0 {
		if !strings.HasSuffix(out.String(), "\n") {
			out.WriteString(newline)
		}
		dash := lines[old[0].Origin.Line-1]
		indent := dash[:len(dash)-len(strings.TrimLeft(dash, " "))]
		for l := range strings.Lines(strings.TrimPrefix(string(WriteSuppressions(add)), "suppressions:\n")) {
			out.WriteString(indent + strings.TrimSuffix(l, "\n") + newline)
		}
	}
	out.WriteString(strings.Join(lines[next:], ""))
	return []byte(out.String())
}

// contentEnd returns where an entry ends: the comments and blank lines below belong to
// the next one.
func contentEnd(lines []string, from, to int) int {
	for to > from+1 {
		if l := strings.TrimSpace(lines[to-1]); l != "" && l[0] != '#' {
			break
		}
		to--
	}
	return to
}

// below writes suppressions below the comments of a file that has no others.
func below(comments []byte, all []Suppression) []byte {
	if len(comments) > 0 && !bytes.HasSuffix(comments, []byte("\n")) {
		comments = append(slices.Clone(comments), '\n')
	}
	return slices.Concat(comments, WriteSuppressions(all))
}

// leadingComments returns the comments and blank lines at the beginning of a file.
func leadingComments(data []byte) []byte {
	n := 0
	for line := range bytes.Lines(data) {
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' {
			break
		}
		n += len(line)
	}
	return data[:n]
}
