package report

import (
	"cmp"
	"fmt"
	"regexp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report/internal/sarif"
)

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
		for _, x := range a.results.outlines() {
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
