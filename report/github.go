package report

import (
	"bufio"
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// The github format is workflow commands, which become annotations of a pull
// request, and after them the text format's summary for the log. As GitHub had
// it in November 2026:
//
//   - Of each kind it shows ten a step and drops the rest in silence. So there
//     are ten of each at most, the worst first, and a line that counts the others.
//   - Columns are only taken where a line ends on itself, count from 1, and the
//     end is exclusive (github/docs#40038): every annotation has one line.
//   - A command ends with its line; "%", CR and LF are escaped, and in
//     properties ":" and "," too (runner source, ActionCommand.cs).
//   - A file that is not in the repository has no place to show, so then the
//     annotation has none, and names it in its text.
const (
	maxAnnotations = 10
	maxAnnotation  = 4 << 10 // bytes of an annotation's message
	maxTitle       = 255
)

// annotationKinds are the commands, the worst first, as levelOf has them.
var annotationKinds = []struct{ level, command string }{{"error", "error"}, {"warning", "warning"}, {"note", "notice"}}

func writeGitHub(w io.Writer, r *Report, _ Options) error {
	p := &printer{Options: Options{Width: defaultWidth}, out: bufio.NewWriterSize(w, 64<<10), src: newSource(r), embedded: true}
	results := newList(r)
	if r.followed() {
		p.line("deployed: ", r.Summary.Completeness())
	}
	byLevel := make(map[string][]*group)
	found, missing := splitMissing(groupBy(results, open))
	for _, g := range found {
		byLevel[annotationLevel(g)] = append(byLevel[annotationLevel(g)], g)
	}
	for _, l := range missing {
		p.line(classes[l.class].word, ": ", l.headline())
		p.missingDetails(l)
	}
	p.reported, p.before = unitsReported(results, open), unitsReported(results, unchanged)
	var left []string
	for _, kind := range annotationKinds {
		found := byLevel[kind.level]
		slices.SortStableFunc(found, worseFirst)
		for _, g := range found[:min(maxAnnotations, len(found))] {
			p.annotation(kind.command, g)
		}
		if n := len(found) - maxAnnotations; n > 0 {
			left = append(left, policy.Plural(n, kind.command))
		}
	}
	if len(left) > 0 {
		p.line(strings.Join(left, ", "), " more in the summary (-o markdown): GitHub shows ten of a kind")
	}
	p.summary(r, results)
	return p.out.Flush()
}

// annotationLevel returns the SARIF level of a finding for its annotation. An undecided finding has
// at most the level of its action.
func annotationLevel(g *group) string {
	level := levelOf(g.class)
	if x := g.first(); x.Undecided() {
		return actionLevel(x.Action, level)
	}
	return level
}

// worseFirst orders groups of one level.
func worseFirst(a, b *group) int {
	return cmp.Or(
		cmp.Compare(a.class, b.class),
		cmp.Compare(severityRank(a.severity), severityRank(b.severity)),
	)
}

// annotation writes one command. It alone writes lines that begin with "::".
func (p *printer) annotation(command string, g *group) {
	x := g.first()
	at, exact, ok := p.src.locate(x)
	ok = ok && visible(at.File, maxMessage) == at.File
	title := classes[g.class].word + ": " + ruleName(x.Engine, x.Policy, x.Rule)
	shown := map[line]bool{}
	var props []string
	if ok {
		shown[line{at.File, at.Line}] = exact
		props = append(props, "file="+commandProperty.Replace(at.File))
		props = append(props, regionProperties(p.src, at, x.Object)...)
	}
	props = append(props, "title="+commandProperty.Replace(render.Cut(title, maxTitle)))
	out := "::" + command + " " + strings.Join(props, ",") + "::" + commandData.Replace(render.Cut(p.annotationText(g, shown), maxAnnotation))
	p.out.WriteString(strings.ReplaceAll(out, "##[", "##%5B"))
	p.out.WriteByte('\n')
}

func regionProperties(src *source, at render.Origin, object render.Key) []string {
	r := src.region(at.Span, object)
	props := []string{"line=" + strconv.Itoa(r.StartLine), "endLine=" + strconv.Itoa(r.EndLine)}
	if r.StartColumn > 0 {
		props = append(props, "col="+strconv.Itoa(r.StartColumn))
	}
	if r.EndColumn > r.StartColumn {
		props = append(props, "endColumn="+strconv.Itoa(r.EndColumn))
	}
	return props
}

// annotationText returns the text beside the line: the failure, its object, the places
// that lead to it, without the lines that are shown, and the next step.
func (p *printer) annotationText(g *group, shown map[line]bool) string {
	x := g.first()
	var text []string
	add := func(label, s string) {
		if s != "" {
			text = append(text, label+s)
		}
	}
	add("", headlineOf(x))
	add("", strings.TrimSuffix(subject(x.Object), ": "))
	if n := len(objects(g.results)); n > 1 {
		add("and ", policy.Plural(n-1, "more object"))
	}
	add("", refused(g.results))
	for _, o := range x.Origins {
		if key := (line{o.File, o.Line}); o.File != "" && !shown[key] && len(shown) <= maxRelated {
			shown[key] = true
			add(relatedLabel(o.Role)+" ", p.place(o.Span))
		}
	}
	for _, a := range assumptions(g.results, maxOthers) {
		add("assumed: ", prose(a))
	}
	add("help: ", prose(x.Hint))
	add("fix: ", p.fix(g))
	return strings.Join(text, "\n")
}

// The runner's escapes.
var (
	commandData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)
