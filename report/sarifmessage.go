package report

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report/internal/sarif"
)

// message returns the text of an alert and the locations that it links to. The first sentence,
// which GitHub uses as the title, names the object.
func (s *sarifRun) message(a *alert) ([]sarif.Location, string) {
	x := a.results.at(0)
	m := &linked{src: s.src, object: x.Object, seen: map[line]bool{{a.at.File, a.at.Line}: true}}
	m.sentence(s.headline(a))
	m.sentence(others(a))
	m.sentence(sentenceStart(refused(a.results)))
	for _, other := range differing(a.results)[:min(maxOthers, len(differing(a.results)))] {
		m.sentence("Also: " + unlinked(other))
	}
	if !a.exact {
		m.sentence("The line is not in this repository, so this stands at the nearest file that is")
	}
	for _, y := range a.results.all() {
		m.origins(y.Origins)
	}
	m.link("The rule is written at", render.Origin{Span: x.PolicyOrigin})
	if all := assumptions(a.results, maxOthers); len(all) > 0 {
		m.sentence("Assumed: " + unlinked(strings.Join(proses(all), "; ")))
	}
	if x.Hint != "" {
		m.sentence("Help: " + unlinked(visible(prose(x.Hint), maxSARIFMessage/2)))
	}
	return m.locations, m.text.String()
}

// headline returns the failure and its object.
func (s *sarifRun) headline(a *alert) string {
	x := a.results.at(0)
	text := unlinked(visible(cmp.Or(prose(x.Message), "the rule gives no message"), maxSARIFMessage))
	if x.Object.Kind != "" {
		text = unlinked(short(x.Object)) + ": " + text
	}
	switch {
	case x.Outcome == policy.Unknown:
		return "Not decided: " + text
	case x.Outcome == policy.Error && x.Engine == policy.EngineRender:
		return "Not rendered: " + text
	case x.Outcome == policy.Error && x.Engine == policy.EngineCompile:
		return "Not usable as a policy: " + text
	case x.Outcome == policy.Error:
		return "In error: " + text
	default:
		return text
	}
}

func others(a *alert) string {
	keys := objects(a.results)
	if len(keys) < 2 {
		return ""
	}
	rest := keys[1:]
	var names []string
	for _, k := range rest[:min(maxSpots, len(rest))] {
		names = append(names, short(k))
	}
	if len(rest) > maxSpots {
		names = append(names, "…")
	}
	return unlinked("And " + policy.Plural(len(rest), "more object") + ": " + strings.Join(names, ", "))
}

// differing returns the messages that differ from the first result's, safe to show.
func differing(s selection) []string {
	var all []string
	seen := map[string]bool{s.at(0).Message: true}
	for _, x := range s.all() {
		if !seen[x.Message] {
			seen[x.Message] = true
			all = append(all, visible(prose(x.Message), maxSARIFMessage/4))
		}
	}
	return all
}

// A linked text is a message that links to locations by their ids.
type linked struct {
	src       *source
	object    render.Key
	text      strings.Builder
	locations []sarif.Location
	seen      map[line]bool
}

func (l *linked) sentence(s string) {
	if s == "" {
		return
	}
	if l.text.Len() > 0 {
		l.text.WriteByte(' ')
	}
	l.text.WriteString(s)
	if !strings.ContainsAny(s[len(s)-1:], ".!?") {
		l.text.WriteByte('.')
	}
}

// origins links the places that made the field, in sentences by role.
func (l *linked) origins(origins []render.Origin) {
	for _, o := range origins {
		l.link(sentenceStart(relatedLabel(o.Role)), o)
	}
}

func sentenceStart(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }

func (l *linked) link(words string, o render.Origin) {
	o, ok := l.src.within(o)
	key := line{o.File, o.Line}
	if !ok || l.seen[key] || len(l.locations) == maxLinked {
		return
	}
	l.seen[key] = true
	loc := l.src.location(o, l.object)
	loc.ID = len(l.locations) + 1
	loc.Message = &sarif.Text{Text: cmp.Or(primaryLabel(o.Role), "written here")}
	l.locations = append(l.locations, loc)
	sp := render.Span{File: visible(o.File, maxMessage), Line: o.Line}
	l.sentence(words + " [" + linkText.Replace(sp.String()) + "](" + strconv.Itoa(loc.ID) + ")")
}

// linkText escapes the words of a link (SARIF 2.1.0, 3.11.6).
var linkText = strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`)

var linkLike = regexp.MustCompile(`\]\(`)

// unlinked keeps text from being a link.
func unlinked(s string) string { return linkLike.ReplaceAllString(s, "] (") }
