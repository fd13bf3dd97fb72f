package report

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A pageFinding is a group as the page shows it, safe to show.
type pageFinding struct {
	Class, Word, Message, Place, Link string
	Unit, Rule                        string // by which the page can group findings
	Open                              bool

	// The source line, if it is at hand.
	HasLine                            bool
	Number, Before, Mark, After, Label string

	Facts []pageFact
}

// A pageFact is a fact about a finding. If it names a place, Place is linked to Link, and Rest
// follows it.
type pageFact struct {
	Label, Text       string
	Mono              bool
	Place, Link, Rest string
}

func (p *pageFinding) add(label, text string) {
	if text != "" {
		p.Facts = append(p.Facts, pageFact{Label: label, Text: text})
	}
}

func (p *pageFinding) mono(label, text string) {
	if text != "" {
		p.Facts = append(p.Facts, pageFact{Label: label, Text: text, Mono: true})
	}
}

// at adds a fact that names a place, with text before and after the place.
func (p *pageWriter) at(f *pageFinding, label, before string, s render.Span, after string) {
	f.Facts = append(f.Facts, pageFact{Label: label, Text: before, Mono: true, Place: p.text.place(s), Link: p.links.to(s), Rest: after})
}

// finding returns the facts of a group, as text.finding does.
func (p *pageWriter) finding(g *group) *pageFinding {
	x, spots := g.first(), g.spots()
	at := spots[0].Origin
	f := &pageFinding{
		Class: classes[g.class].word, Word: classes[g.class].word, Message: headlineOf(x),
		Place: p.text.place(at.Span), Link: p.links.to(at.Span), Open: g.class <= undecided,
	}
	if units := unitsOf(g.results); len(units) == 1 {
		f.Unit = visible(units[0], maxMessage)
	} else if len(units) > 1 {
		f.Unit = "several units"
	}
	if at.File == "" && x.Object != (render.Key{}) {
		f.Place = "no line is known for this"
	}
	p.sourceLine(f, at, x)
	p.objects(f, x, spots[0])
	p.messages(f, g)
	p.origins(f, x, at)
	f.add("base", refused(g.results))
	f.Rule = ruleName(x.Engine, x.Policy, x.Rule)
	if x.PolicyOrigin == at.Span || x.PolicyOrigin.File == "" {
		f.mono("rule", f.Rule)
	} else {
		p.at(f, "rule", f.Rule+" at ", x.PolicyOrigin, "")
	}
	f.add("severity", name(string(x.Severity)))
	if x.Reason != "Invalid" {
		f.add("reason", name(x.Reason))
	}
	for _, a := range assumptions(g.results, maxFacts) {
		if p.repeated[a] == 0 {
			f.add("assumed", prose(a))
		}
	}
	f.add("help", prose(x.Hint))
	f.add("fix", p.text.fix(g))
	p.places(f, spots[1:])
	return f
}

// sourceLine cuts the line in three, the marked part in the middle.
func (p *pageWriter) sourceLine(f *pageFinding, at render.Origin, x *policy.Result) {
	text, ok := p.text.src.line(at.Span)
	if !ok || at.File == "" {
		return
	}
	sp := at.Span
	if p.text.src.hidden(sp, x.Object) {
		text, sp.Column = mask(text), 0
	}
	e := newExcerpt(text, sp, 2*defaultWidth)
	f.HasLine, f.Number, f.Label = true, strconv.Itoa(at.Line), primaryLabel(at.Role)
	f.Before, f.Mark, f.After = e.cut()
}

// cut returns the excerpt before its mark, the mark, and the rest.
func (e *excerpt) cut() (before, mark, after string) {
	var parts [3]strings.Builder
	cell := 0
	for _, r := range e.text {
		part := 0
		switch {
		case cell >= e.to:
			part = 2
		case cell >= e.from:
			part = 1
		}
		parts[part].WriteRune(r)
		cell += cells(r)
	}
	return parts[0].String(), parts[1].String(), parts[2].String()
}

func (p *pageWriter) objects(f *pageFinding, x *policy.Result, s *spot) {
	if x.Object.Kind == "" {
		units := unitsOf(s.results)
		for _, u := range units[:min(len(units), maxFacts)] {
			f.mono("unit", visible(u, maxMessage))
		}
		if more := len(units) - maxFacts; more > 0 {
			f.add("and", policy.Plural(more, "more unit"))
		}
		return
	}
	for i, k := range objects(s.results) {
		if i == maxFacts {
			f.add("and", policy.Plural(len(objects(s.results))-i, "more object"))
			return
		}
		f.mono("object", full(k)+inUnit(k.Unit))
	}
}

// messages adds the other messages of the rule at the same line.
func (p *pageWriter) messages(f *pageFinding, g *group) {
	messages, more := g.otherMessages(maxFacts - 1)
	for _, m := range messages {
		f.add("also", prose(m))
	}
	if more > 0 {
		f.add("also", policy.Plural(more, "more message")+" of this rule here")
	}
}

// origins adds the other places that set the field's value.
func (p *pageWriter) origins(f *pageFinding, x *policy.Result, primary render.Origin) {
	origins, more := otherOrigins(x, primary, maxFacts-1)
	for _, o := range origins {
		p.at(f, relatedLabel(o.Role), "", o.Span, p.text.quote(o, x))
	}
	if more > 0 {
		f.add("from", policy.Plural(more, "more place"))
	}
}

// places adds the group's other places.
func (p *pageWriter) places(f *pageFinding, spots []*spot) {
	for i, s := range spots {
		if i == maxFacts {
			f.add("also", "at "+policy.Plural(len(spots)-i, "more place"))
			return
		}
		whose := strings.TrimSuffix(": "+strings.Join(p.text.whose(s), ", "), ": ")
		if s.File == "" {
			f.mono("also at", "where no line is known"+whose)
		} else {
			p.at(f, "also at", "", s.Span, whose)
		}
	}
}

// missing shows the data that undecided findings need, with the names of those that need
// it folded.
func (p *pageWriter) missing() {
	p.section("missing", "Missing", shareMissing, len(p.missingKinds), func(i int) string {
		l := p.missingKinds[i]
		type item struct{ Count, Name, Waiting string }
		var items []item
		for j, t := range l.items {
			if j == maxFolded {
				items = append(items, item{Name: policy.Plural(len(l.items)-j, "more")})
				break
			}
			names := t.neededBy()
			if more := len(names) - maxFacts; more > 0 {
				names = append(names[:maxFacts], "and "+strconv.Itoa(more)+" more")
			}
			items = append(items, item{l.counted(t.results), cmp.Or(t.name, "any"), strings.Join(names, ", ")})
		}
		f := pageFinding{Class: classes[l.class].word, Word: classes[l.class].word, Message: l.headline(), Open: true}
		f.mono("rules", strings.Join(l.rules(), ", "))
		f.add("help", prose(l.hint))
		f.mono("get", l.get())
		f.mono("give", l.give())
		return p.render("missing", map[string]any{"Finding": f, "Items": items})
	})
}
