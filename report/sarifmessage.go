package report

import (
	"cmp"
	"fmt"
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
	messages, _ := (&group{results: a.results}).otherMessages(maxOthers)
	for _, other := range messages {
		m.sentence("Also: " + unlinked(visible(prose(other), maxSARIFMessage/4)))
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

// notes lists the kinds of notification, sorted by id. An id and its name have
// to differ by more than letter case: rule SARIF1001 of the validator.
var notes = []struct{ id, name, doc, level string }{
	{"deployed", "DeployedUnits", "The number of units that Argo CD and Flux deploy, and of those that could not be followed.", "note"},
	{"no-place", "NoPlace", "A result has no place in this repository.", "warning"},
	{"not-compiled", "NotCompiled", "A policy can't be used as it is written, so it checked nothing.", "error"},
	{"not-decided", "NotDecided", "A rule depends on something that only a live cluster knows.", "warning"},
	{"not-rendered", "NotRendered", "A source could not be rendered, so its objects were not checked.", "error"},
	{"omitted", "ResultsOmitted", "There are more results than a file may hold.", "warning"},
	{"rule-error", "RuleError", "A rule broke while it ran.", "error"},
}

func noteDescriptors() []sarif.Descriptor {
	var all []sarif.Descriptor
	for _, n := range notes {
		all = append(all, sarif.Descriptor{
			ID: n.id, Name: n.name,
			ShortDescription:     &sarif.Text{Text: n.doc},
			FullDescription:      &sarif.Text{Text: n.doc},
			Help:                 &sarif.Text{Text: n.doc},
			DefaultConfiguration: &sarif.Configuration{Level: n.level},
		})
	}
	return all
}

// descriptorOf returns the kind of notification for a result about something that was
// not evaluated.
func descriptorOf(x *policy.Result) string {
	switch {
	case x.Outcome == policy.Unknown:
		return "not-decided"
	case x.Engine == policy.EngineRender:
		return "not-rendered"
	case x.Engine == policy.EngineCompile:
		return "not-compiled"
	default:
		return "rule-error"
	}
}

// notify adds a notification of an alert, with its place if it has one.
func (s *sarifRun) notify(id string, a *alert) {
	s.notifyText(id, levelOf(a.class), s.headline(a)+more(a.results.len()))
	n := &s.notifications[len(s.notifications)-1]
	if a.at.File != "" {
		n.Locations = []sarif.Location{s.src.location(a.at, a.results.at(0).Object)}
	}
	n.AssociatedRule = &sarif.Reference{ID: a.id}
	if s.notRendered == nil {
		s.notRendered = make(map[string]bool)
	}
	if a.results.at(0).Engine == policy.EngineRender {
		for _, x := range a.results.all() {
			s.notRendered[x.Object.Unit] = true
		}
	}
}

func more(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(" (%d times)", n)
}

func (s *sarifRun) notifyText(id, level, text string) {
	ref := sarif.Reference{ID: id}
	for i, n := range notes {
		if n.id == id {
			ref.Index = i
		}
	}
	s.notifications = append(s.notifications, sarif.Notification{Descriptor: ref, Level: level, Message: sarif.Text{Text: text}})
}

// notifyFirst is notifyText before all other notifications.
func (s *sarifRun) notifyFirst(id, level, text string) {
	others := s.notifications
	s.notifications = nil
	s.notifyText(id, level, text)
	s.notifications = append(s.notifications, others...)
}

// units notifies of units that were not rendered and that have no result about it.
func (s *sarifRun) units(r *Report) {
	for _, u := range r.Units {
		if !u.missing() || s.notRendered[u.Identity()] {
			continue
		}
		s.notifyText("not-rendered", "error", visible(u.Identity(), maxMessage)+" was not rendered"+reason(u))
		if file := s.src.nearest(u.Path); file != "" {
			n := &s.notifications[len(s.notifications)-1]
			n.Locations = []sarif.Location{s.src.location(render.Origin{Span: render.Span{File: file}}, render.Key{})}
		}
	}
}

// capped returns the notifications. If there are too many, the last one counts those left
// out. It sets the indices of rules, which are known only now.
func (s *sarifRun) capped() []sarif.Notification {
	if n := len(s.notifications); n > maxNotifications {
		s.notifications = s.notifications[:maxNotifications]
		s.notifyText("omitted", "warning", fmt.Sprintf("%d more notifications are left out", n-maxNotifications))
	}
	all := []sarif.Notification{}
	for _, n := range s.notifications {
		if r := n.AssociatedRule; r != nil {
			var listed bool
			if r.Index, listed = s.rules.index[r.ID]; !listed {
				n.AssociatedRule = nil
			}
		}
		all = append(all, n)
	}
	return all
}

var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$`)

func (s *sarifRun) driver(r *Report) sarif.Driver {
	d := sarif.Driver{
		Name: "preadmit", Version: name(cmp.Or(r.Tool.Version, "0.0.0")), InformationURI: homepage,
		Rules: s.rules.descriptors(), Notifications: noteDescriptors(),
	}
	if semver.MatchString(r.Tool.Version) {
		d.SemanticVersion = r.Tool.Version
	}
	return d
}
