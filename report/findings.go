package report

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A Finding is one rule's findings at one line of a file in the tree, in the
// wording of the other formats, for an editor.
type Finding struct {
	At      Marked
	Level   string // error, warning or note
	Rule    string // policy/rule
	URL     string // of the rule's documentation; may be empty
	Text    string // message, object and remedy, in several lines
	Help    string
	Related []Marked
	Written Marked           // the rule's line; without a file if it is not in the tree
	Results []*policy.Result // the one that Text is about comes first
}

// A Marked is a part of a line. Columns count code points from 1, and To is
// exclusive.
type Marked struct {
	File     string
	Line     int
	From, To int
	Text     string // the line, which may hold a secret
	Label    string // how the line set the value of a field
}

// Findings returns the results that are neither passed, suppressed nor fixed, the worst
// first. placeless has a line for each result without a place in the tree.
func Findings(r *Report) (found []Finding, placeless []string) {
	results := newList(r)
	results.addLast(Unrendered(r))
	f := finder{&printer{Options: Options{Width: defaultWidth}, src: newSource(r), embedded: true}, newRuleIDs(r, results)}
	groups := groupBy(results, open)
	slices.SortStableFunc(groups, worseFirst)
	for _, g := range groups {
		at, _, ok := f.src.locate(g.first())
		if !ok {
			placeless = append(placeless, classes[g.class].word+": "+subject(g.first().Object)+headlineOf(g.first()))
			continue
		}
		found = append(found, f.finding(g, at))
	}
	return found, placeless
}

// A finder writes findings.
type finder struct {
	*printer
	rules *ruleIDs
}

func (f *finder) finding(g *group, at render.Origin) Finding {
	x := g.first()
	id := f.rules.id(x)
	rule := f.rules.rules[id]
	n := Finding{At: f.marked(at), Level: findingLevel(g), Rule: id, URL: webURL(rule.URL), Results: make([]*policy.Result, g.results.len())}
	for i := range n.Results {
		n.Results[i] = g.results.at(i)
	}
	n.Help = help(rule, cmp.Or(sentences(rule.Description), sentences(rule.Title), undocumented(rule))).Text
	shown := map[line]bool{{at.File, at.Line}: true}
	for _, y := range n.Results {
		for _, o := range y.Origins {
			if o, ok := f.src.within(o); ok && !shown[line{o.File, o.Line}] && len(n.Related) < maxLinked {
				shown[line{o.File, o.Line}] = true
				n.Related = append(n.Related, f.marked(o))
			}
		}
	}
	if o, ok := f.src.within(render.Origin{Span: x.PolicyOrigin}); ok {
		n.Written = f.marked(o)
		n.Written.Label = "the rule is written here"
	}
	n.Text = f.annotationText(g, shown)
	return n
}

// findingLevel returns the level of an annotation. A finding that only needs
// preadmit fetch is not an error of its line.
func findingLevel(g *group) string {
	level := annotationLevel(g)
	if len(missingKeys(g)) > 0 && level == "error" {
		return "warning"
	}
	return level
}

// marked returns the part of a place on its first line, or without columns the
// line without blanks at its ends.
func (f *finder) marked(o render.Origin) Marked {
	sp := o.Span
	text, _ := f.src.line(sp)
	m := Marked{File: sp.File, Line: max(sp.Line, 1), Text: text, Label: sentenceStart(relatedLabel(o.Role))}
	if sp.Line == 0 {
		text, _ = f.src.line(render.Span{File: sp.File, Line: 1})
		m.Text = text
	}
	n := utf8.RuneCountInString(text)
	m.From, m.To = sp.Column, n+1
	switch {
	case m.From < 1 || m.From > n:
		m.From = n - utf8.RuneCountInString(strings.TrimLeftFunc(text, unicode.IsSpace)) + 1
	case (sp.EndLine == 0 || sp.EndLine == sp.Line) && sp.EndColumn > sp.Column:
		m.To = min(sp.EndColumn, n+1)
	}
	return m
}
