package policy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
)

// A SuppressionEdit adds suppressions to a file and removes others.
type SuppressionEdit struct {
	Add, Remove []Suppression
	Header      string // the first line of a new file, with its line end
}

// Apply returns a suppressions file after the edit. Comments and order stay. Added
// entries come last, and replace those for the same results. Removing an entry that is
// not there is no error.
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
	for _, make := range []func() ([]byte, error){
		func() ([]byte, error) { return s.text(data, old, gone), nil },
		func() ([]byte, error) { return s.nodes(data, gone) },
		func() ([]byte, error) { return WriteSuppressions(want), nil },
	} {
		after, err := make()
		if err == nil && after != nil && holds(file, after, want) {
			return after, nil
		}
	}
	return nil, errors.New("the decisions can't be written as YAML")
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
	sup.Origin = render.Span{}
	return slices.ContainsFunc(s.Remove, func(r Suppression) bool {
		r.Origin = render.Span{}
		return r == sup
	}) || slices.ContainsFunc(s.Add, func(a Suppression) bool {
		return a.Rule == sup.Rule && a.Object == sup.Object && a.Path == sup.Path
	})
}

// holds reports whether a file holds these suppressions, in this order.
func holds(file string, data []byte, want []Suppression) bool {
	got, err := ParseSuppressions(file, data)
	return err == nil && slices.EqualFunc(got, want, func(a, b Suppression) bool {
		a.Origin, b.Origin = render.Span{}, render.Span{}
		return a == b
	})
}

// text removes entries from the lines of a file, adds others after the last one with the same
// indentation, and changes nothing else. It returns nil if that is not possible. The caller must
// check the result.
func (s SuppressionEdit) text(data []byte, old []Suppression, gone []bool) []byte {
	add := s.Add
	if len(old) == 0 {
		if contentEnd(strings.Split("\n"+string(data), "\n"), 0, strings.Count(string(data), "\n")+2) > 1 {
			return nil
		}
		return firstSuppressions(data, add, s.Header)
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
		writeLines(&out, lines[next:from])
		if !gone[i] {
			writeLines(&out, lines[from:to])
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
	writeLines(&out, lines[next:])
	return []byte(out.String())
}

func newlineAfter(data []byte) string {
	if len(data) == 0 || bytes.HasSuffix(data, []byte("\n")) {
		return ""
	}
	return "\n"
}

// contentEnd returns where an entry ends: the comments and blank lines below belong to
// the next one.
func contentEnd(lines []string, from, to int) int {
	for to > from+1 {
		l := strings.TrimSpace(lines[to-1])
		if l != "" && l[0] != '#' {
			break
		}
		to--
	}
	return to
}

func writeLines(out *strings.Builder, lines []string) {
	for _, l := range lines {
		out.WriteString(l)
	}
}

// nodes makes the edit in the YAML's node tree, which keeps comments but not the layout.
func (s SuppressionEdit) nodes(data []byte, gone []bool) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if list := suppressionNodes(&doc); list != nil && len(list.Content) == len(gone) {
		var kept []*yaml.Node
		for i, n := range list.Content {
			if !gone[i] {
				kept = append(kept, n)
			}
		}
		list.Content = kept
		var b bytes.Buffer
		e := yaml.NewEncoder(&b)
		e.SetIndent(2)
		if err := errors.Join(e.Encode(&doc), e.Close()); err != nil {
			return nil, err
		}
		data = b.Bytes()
	}
	if len(s.Add) == 0 {
		return data, nil
	}
	return AddSuppressions(data, s.Add, s.Header)
}

// AddSuppressions appends suppressions to a file's, with its comments. data must have
// been read as suppressions, or be empty: a new file begins with the header.
func AddSuppressions(data []byte, more []Suppression, header string) ([]byte, error) {
	var doc, added yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(WriteSuppressions(more), &added); err != nil {
		return nil, err
	}
	entries := added.Content[0].Content[1]
	list := suppressionNodes(&doc)
	if list == nil {
		return firstSuppressions(data, more, header), nil
	}
	list.Content = append(list.Content, entries.Content...)
	list.Style &^= yaml.FlowStyle
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(&doc), e.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// suppressionNodes returns the list of a suppressions file, and adds an empty one if there is none.
// It returns nil for a file that holds nothing or comments alone.
func suppressionNodes(doc *yaml.Node) *yaml.Node {
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	root := doc.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "suppressions" {
			if value := root.Content[i+1]; value.Kind != yaml.SequenceNode {
				*value = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
			}
			return root.Content[i+1]
		}
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "suppressions"}, list)
	return list
}

// firstSuppressions writes suppressions to a file that has none, below its
// comments, if it has any. A new file begins with the header.
func firstSuppressions(data []byte, all []Suppression, header string) []byte {
	if len(data) == 0 {
		data = []byte(header)
	}
	return slices.Concat(data, []byte(newlineAfter(data)), WriteSuppressions(all))
}
