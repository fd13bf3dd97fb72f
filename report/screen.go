package report

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Functions for a screen that shows a report with the words, places, escapes
// and hidden lines of the text format.

// Message makes text safe to show on one line; see prose.
func Message(s string) string { return prose(s) }

// Guard keeps a line of text from being a command to a CI runner.
func Guard(line string) string { return guard(line) }

// Name makes an identifier safe to show.
func Name(s string) string { return name(s) }

// Visible makes a line of text safe to show, cut at limit bytes.
func Visible(s string, limit int) string { return visible(s, limit) }

// Line writes a line. The texts among args are made fit for a terminal.
func Line(w io.Writer, format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = Plain(s)
		}
	}
	fmt.Fprintf(w, format+"\n", args...)
}

// RuleName returns policy/rule, or the part that is known, safe to show.
func RuleName(x *policy.Result) string { return ruleName(x.Engine, x.Policy, x.Rule) }

// ObjectName returns the object's kind and name, safe to show. For a result
// about no object it returns the unit's name.
func ObjectName(k render.Key) string {
	if k.Kind == "" {
		return name(k.Unit)
	}
	return short(k)
}

// Place returns the place at which a result is shown: the line that a person
// would edit first. The zero Origin is an unknown place.
func Place(x *policy.Result) render.Origin { return place(x) }

// RoleLabel says how a line set the value of a field.
func RoleLabel(r render.Role) string { return relatedLabel(r) }

// Open reports whether a result counts: it is neither suppressed nor unchanged.
func Open(x *policy.Result) bool { return open(x) }

// Class returns the word for a finding and its rank, 0 being the worst. ok is
// false for a pass or a skip.
func Class(x *policy.Result) (word string, rank int, ok bool) {
	c, ok := classOf(x)
	if !ok {
		return string(x.Outcome), int(numClasses), false
	}
	return classes[c].word, int(c), true
}

// Excerpt shows the part of a source line around the span in at most width
// cells; the cells from to to are to be marked, none when they are equal.
func Excerpt(text string, sp render.Span, width int) (shown string, from, to int) {
	e := newExcerpt(text, sp, width)
	return e.text, e.from, e.to
}

// Unrendered returns results for the units that were not rendered and have no
// result that says so.
func Unrendered(r *Report) []policy.Result {
	reported := make(map[string]bool)
	for x := range r.Others() {
		if x.Engine == policy.EngineRender && x.Undecided() {
			reported[x.Object.Unit] = true
		}
	}
	var results []policy.Result
	for _, u := range r.Units {
		if u.missing() && !reported[u.Identity()] {
			results = append(results, unrendered(u))
		}
	}
	return results
}

// A Source reads the files of a report's tree. It is not safe for concurrent use.
type Source struct{ src *source }

// NewSource reads from the tree of r.
func NewSource(r *Report) *Source { return &Source{newSource(r)} }

// Lines returns a file's lines. Lines that may hold a secret show only their
// key. ok is false if there is no such file. The lines are not safe to show
// yet: see Excerpt and Visible.
func (s *Source) Lines(file string) (lines []string, ok bool) {
	f := s.src.file(file)
	if f == nil {
		return nil, false
	}
	lines = append([]string{}, f.lines...)
	for start := 0; start < len(lines); {
		end := start + 1
		for end < len(lines) && !strings.HasPrefix(lines[end], "---") {
			end++
		}
		s.maskIn(f, lines, start, end)
		start = end
	}
	return lines, true
}

// maskIn masks lines of a document: all lines of a Secret, and elsewhere those
// that are known to supply one.
func (s *Source) maskIn(f *file, lines []string, start, end int) {
	secret := s.src.secret[line{f.path, 0}] || f.secret && hasSecret(strings.Join(lines[start:end], "\n"))
	for i := start; i < end; i++ {
		if (secret && !harmless.MatchString(lines[i]) && !s.src.public[line{f.path, i + 1}]) || s.src.secret[line{f.path, i + 1}] {
			lines[i] = mask(lines[i])
		}
	}
}

// harmless matches lines of a Secret that can't hold a value: apiVersion, kind
// and type, separators, comments without text, and empty lines.
var harmless = regexp.MustCompile(`^(---.*|(apiVersion|kind|type):\s.*|\s*#?\s*)$`)

func unrendered(u Unit) policy.Result {
	return policy.Result{
		Engine: policy.EngineRender, Policy: u.Kind, Rule: u.Status, Object: render.Key{Unit: u.Identity()},
		Outcome: policy.Error, Action: policy.Deny, Message: cmp.Or(u.Reason, "the unit was not rendered"),
	}
}

// Displayed returns origins with the names that display gives their files.
func Displayed(origins []render.Origin, display func(string) string) []render.Origin {
	origins = slices.Clone(origins)
	for i := range origins {
		origins[i].File = display(origins[i].File)
	}
	return origins
}

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

// Mark returns the part of a place on its first line. ok is false if the place is not in the tree.
func (s *Source) Mark(o render.Origin) (m Marked, ok bool) {
	if o, ok = s.src.within(o); ok {
		m = s.src.marked(o)
	}
	return m, ok
}

// Matched returns the places of everything that rules matched, each once, in the report's order. Failed
// objects are shown at the field at fault.
func Matched(r *Report, rules []policy.Rule) []render.Origin {
	type key struct{ engine, policy, rule string }
	asked := make(map[key]bool)
	for i := range rules {
		asked[key{rules[i].Engine, rules[i].Policy, rules[i].Name}] = true
	}
	var all []render.Origin
	seen := make(map[render.Span]bool)
	for x := range r.all() {
		if at := place(x); asked[key{x.Engine, x.Policy, x.Rule}] && at.File != "" && !seen[at.Span] {
			seen[at.Span] = true
			all = append(all, at)
		}
	}
	return all
}

// Findings returns the results of a report that count and are neither passed, suppressed nor fixed, the
// worst first. s is its source. placeless has a line for each result without a place in the tree.
func Findings(r *Report, s *Source) (found []Finding, placeless []string) {
	results := newList(r)
	results.addLast(Unrendered(r))
	f := newFinder(r, s, results)
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

// AddUncounted adds notes about the files for which open returns true: findings in units that nothing
// deploys, unless found has the same rule at the same line, and the reasons why documents are not
// deployed, each once. It leaves out patches, and templates of a chart that wrote nothing.
func AddUncounted(found []Finding, r *Report, s *Source, open func(file string) bool) []Finding {
	type ruleAt struct {
		rule string
		line
	}
	counted := make(map[ruleAt]bool)
	for _, n := range found {
		counted[ruleAt{n.Rule, line{n.At.File, n.At.Line}}] = true
	}
	results := newList(r)
	f := newFinder(r, s, results)
	for _, g := range groupBy(results, func(x *policy.Result) bool {
		return x.Unreached && x.Suppression == nil && x.Baseline.Counts() && open(place(x).File)
	}) {
		at, _, ok := s.src.locate(g.first())
		if !ok {
			continue
		}
		if n := f.finding(g, at); !counted[ruleAt{n.Rule, line{n.At.File, n.At.Line}}] {
			n.Level, n.Text = "note", n.Text+"\nThis does not count: nothing found here deploys the unit."
			found = append(found, n)
		}
	}
	type ofFile struct{ file, reason string }
	given := make(map[ofFile]bool)
	for _, d := range r.Documents {
		why := ofFile{d.File, d.Reason}
		if d.State == render.DocRendered || d.Usual || given[why] || !open(d.File) {
			continue
		}
		given[why] = true
		at := f.src.marked(render.Origin{Span: render.Span{File: d.File, Line: d.Line}})
		found = append(found, Finding{
			At: at, Level: "note", Rule: "not-deployed", Text: "not deployed: " + prose(d.Reason), Results: []*policy.Result{{}},
			Help: "`preadmit help gitops` says how units are found and what deploys them.",
		})
	}
	return found
}

// A finder writes findings.
type finder struct {
	*printer
	rules *ruleIDs
}

func newFinder(r *Report, s *Source, results *list) finder {
	return finder{&printer{Options: Options{Width: defaultWidth}, src: s.src, embedded: true}, newRuleIDs(r, results)}
}

func (f *finder) finding(g *group, at render.Origin) Finding {
	x := g.first()
	id := f.rules.id(x)
	rule := f.rules.rules[id]
	n := Finding{At: f.src.marked(at), Level: findingLevel(g), Rule: id, URL: webURL(rule.URL), Results: make([]*policy.Result, g.results.len())}
	for i := range n.Results {
		n.Results[i] = g.results.at(i)
	}
	n.Help = help(rule, cmp.Or(sentences(rule.Description), sentences(rule.Title), undocumented(rule))).Text
	shown := map[line]bool{{at.File, at.Line}: true}
	for _, y := range n.Results {
		for _, o := range y.Origins {
			if o, ok := f.src.within(o); ok && !shown[line{o.File, o.Line}] && len(n.Related) < maxLinked {
				shown[line{o.File, o.Line}] = true
				n.Related = append(n.Related, f.src.marked(o))
			}
		}
	}
	if o, ok := f.src.within(render.Origin{Span: x.PolicyOrigin}); ok {
		n.Written = f.src.marked(o)
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
func (s *source) marked(o render.Origin) Marked {
	sp := o.Span
	text, _ := s.line(sp)
	m := Marked{File: sp.File, Line: max(sp.Line, 1), Text: text, Label: sentenceStart(relatedLabel(o.Role))}
	if sp.Line == 0 {
		text, _ = s.line(render.Span{File: sp.File, Line: 1})
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
