package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// How many lines are listed, but for -v.
const (
	maxUnits    = 20 // units that were not rendered
	maxProposed = 20 // results of changed policies
	maxNotes    = 50 // notes in a log, which has no -v
	maxSkips    = 3  // reasons for which a policy's rules were skipped
)

// summary writes the units that were not evaluated, and then the counts. With -q it
// writes nothing if there are no problems.
func (p *printer) summary(r *Report, results *list) {
	before := p.units(r)
	p.proposed(r)
	if p.Verbose {
		p.policies(results, r.Passes)
		p.costs(results)
		p.documents(r)
	}
	if p.Quiet {
		return
	}
	p.fixed(r, results)
	p.clusterChanges(r)
	if n := len(before); n > 0 {
		p.remark("not rendered, or only partly", policy.Plural(n, "unit")+", as before the change: "+strings.Join(p.few(before), ", "))
	}
	p.verdict(r, results)
	for _, a := range mostRepeated(p.repeated) {
		p.remark("assumed", prose(a)+" ("+policy.Plural(p.repeated[a], "finding")+")")
	}
	for i, n := range r.Notes {
		if i == maxNotes && p.embedded {
			p.line(policy.Plural(len(r.Notes)-i, "more note"))
			break
		}
		p.remark("note", prose(n))
	}
	if r.nothing() {
		p.line(p.paint(yellow, "nothing was checked"), ": this says nothing about what is in the tree")
	}
}

// nothing reports whether nothing was evaluated, so that the report can't be taken
// for a clean one.
func (r *Report) nothing() bool { return r.Summary.Objects == 0 || r.Summary.Rules == 0 }

// verdict writes the numbers of evaluated objects and of results.
func (p *printer) verdict(r *Report, results *list) {
	if p.Quiet {
		return
	}
	t, s := newTally(results, r.Passes), r.Summary
	p.remark("checked", policy.Plural(s.Objects, "object")+" of "+policy.Plural(s.Rendered+s.Unreached, "unit")+ofAll(s)+
		" by "+r.evaluators())
	if r.Base != nil {
		p.changeSummary(r)
	}
	p.rehearsal(r)
	p.remark("result", p.paint(t.colour(), t.String()))
}

// proposed writes the results that changed policies add or remove.
func (p *printer) proposed(r *Report) {
	const label = "proposed policies: "
	all := proposals(r)
	for i := range all {
		if i == maxProposed && !p.Verbose {
			p.line(p.paint(blue, label), unlisted(len(all)-i)+p.flag("lists them"))
			return
		}
		for k, x := range all[i].results {
			more := ""
			if !p.Verbose {
				more = all[i].others()
			}
			if k > 0 && !p.Verbose {
				break
			}
			p.line(p.paint(blue, label+all[i].word), ": ", subject(x.Object), prose(x.Message),
				" [", ruleName(x.Engine, x.Policy, x.Rule), "]", at(p.place(place(x).Span)), more)
		}
	}
}

// units writes the units that were not rendered, or only partly, with the
// reason unless it is shown already. It returns those that were not rendered
// before the change either.
func (p *printer) units(r *Report) (before []string) {
	reported, unreached := 0, 0
	var left []string // units to list, by their line
	names := make(map[string][]string)
	for _, u := range r.Units {
		switch {
		case !u.missing() && u.Reason == "":
			continue
		case !p.Verbose && p.reported[u.Identity()]:
			reported++
			continue
		case !p.Verbose && p.before[u.Identity()]:
			before = append(before, u.Identity())
			continue
		case !p.Verbose && u.unreached():
			unreached++
			continue
		}
		line := u.Status + "\x00" + u.Kind + "\x00" + u.Reason
		if names[line] == nil {
			left = append(left, line)
		}
		names[line] = append(names[line], u.Identity())
	}
	for i, line := range left {
		if i == maxUnits && !p.Verbose {
			p.line(p.paint(yellow, "not rendered: "), unlisted(len(left)-i)+p.flag("lists them"))
			break
		}
		p.unit(line, names[line])
	}
	if reported > 0 {
		p.remark("not rendered, or only partly", policy.Plural(reported, "unit")+", for the reasons above"+p.flag("lists them"))
	}
	if unreached > 0 {
		p.remark("partly rendered", policy.Plural(unreached, "unit")+" that nothing found here deploys"+p.flag("lists them"))
	}
	return before
}

// unit writes a line about units that were not rendered for one reason.
func (p *printer) unit(line string, units []string) {
	parts := strings.Split(line, "\x00")
	u := Unit{Status: parts[0], Kind: parts[1], Reason: parts[2]}
	word := "not rendered: "
	switch {
	case u.Status == string(render.Suspended):
		word = "not deployed: "
	case !u.missing():
		word = "partly rendered: "
	}
	state := " (" + name(u.Kind) + ", " + name(u.Status) + ")"
	if len(units) == 1 {
		p.line(p.paint(yellow, word), visible(units[0], maxMessage), state, reason(u))
		return
	}
	p.line(p.paint(yellow, word), policy.Plural(len(units), "unit"), state, reason(u), ": ", strings.Join(p.few(units), ", "))
}

// policies counts what passed and was skipped, and says why, policy by policy.
func (p *printer) policies(results *list, passes *policy.Passes) {
	type key struct{ engine, policy string }
	var order []key
	counts := make(map[key]*tally)
	skips := make(map[key][]string)
	of := func(x *policy.Result) *tally {
		k := key{x.Engine, x.Policy}
		if counts[k] == nil {
			counts[k] = &tally{}
			order = append(order, k)
		}
		return counts[k]
	}
	for _, x := range results.all() {
		switch {
		case x.Baseline == policy.Absent:
		case x.Outcome == policy.Pass:
			of(x).passed++
		case x.Outcome == policy.Skip:
			of(x).skipped++
			if k := (key{x.Engine, x.Policy}); x.Message != "" && len(skips[k]) <= maxSkips && !slices.Contains(skips[k], x.Message) {
				skips[k] = append(skips[k], x.Message)
			}
		}
	}
	for x, n := range passes.Rules() {
		of(x).passed += n
	}
	for _, k := range sortedKeys(order, func(k key) string { return k.engine + "\x00" + k.policy }) {
		line := fmt.Sprintf("%s %s: %d passed", name(k.engine), name(k.policy), counts[k].passed)
		if n := counts[k].skipped; n > 0 {
			line += fmt.Sprintf(", %d skipped", n)
		}
		for i, why := range skips[k] {
			if i == maxSkips {
				why = "…"
			}
			line += []string{": ", "; "}[min(i, 1)] + prose(why)
		}
		p.line(line)
	}
}

// accepted lists, a line each, the findings that do not count now.
func (p *printer) accepted(results *list) {
	for _, x := range results.all() {
		c, finding := classOf(x)
		if !finding || open(x) {
			continue
		}
		word := "unchanged"
		if x.Unreached {
			word = "not deployed"
		}
		if x.Baseline == policy.Absent {
			word = "fixed"
		}
		why := ""
		if s := x.Suppression; s != nil {
			word = "suppressed"
			why = " (" + prose(s.Reason) + ", until " + name(s.Expires) + ")"
		}
		p.line(p.paint(blue, word), ": ", classes[c].word, ": ", subject(x.Object), prose(x.Message),
			" [", ruleName(x.Engine, x.Policy, x.Rule), "]", at(p.place(place(x).Span)), why)
	}
}

// documentWords describes the states of documents that are not deployed.
var documentWords = map[render.DocumentState]string{
	render.DocDeleted:     "deleted by patches",
	render.DocLocalConfig: "left out by kustomize as local configuration",
	render.DocSkipped:     "not applied by their controller",
	render.DocLeft:        "left alone by their deployer",
	render.DocData:        "read as data",
	render.DocInChart:     "inside charts that do not render them",
	render.DocFailed:      "of units that could not be rendered",
	render.DocUnused:      "that nothing deploys",
	render.DocExcluded:    "in excluded or hidden directories",
	render.DocFixture:     "used as fixtures by test suites",
	render.DocTemplate:    "with placeholders that something has to fill in",
}

// CountDocuments counts the report's documents by state, and adds a note about
// those that are not deployed.
func (r *Report) CountDocuments() {
	if len(r.Documents) == 0 {
		return
	}
	counts := make(map[render.DocumentState]int, len(render.DocumentStates))
	first := make(map[render.DocumentState]string)
	for _, s := range render.DocumentStates {
		counts[s] = 0
	}
	for _, d := range r.Documents {
		if counts[d.State]++; !d.Usual && first[d.State] == "" {
			first[d.State] = fmt.Sprintf(" (%s:%d)", d.File, d.Line)
		}
	}
	r.Summary.Documents = counts
	if note := undeployed(counts, first); note != "" {
		r.Notes = append(slices.Clone(r.Notes), note)
	}
}

// Undeployed describes the documents that are not deployed, for formats without
// notes. It returns "" if there are none.
func (s *Summary) Undeployed() string { return undeployed(s.Documents, nil) }

// undeployed returns a sentence with the number of documents that are not deployed, by state, with
// the first of each state.
func undeployed(counts map[render.DocumentState]int, first map[render.DocumentState]string) string {
	var parts []string
	total := 0
	for _, s := range render.DocumentStates {
		n := counts[s]
		if total += n; n > 0 && s != render.DocRendered {
			parts = append(parts, fmt.Sprintf("%d %s%s", n, documentWords[s], first[s]))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	n, verb := total-counts[render.DocRendered], "are"
	if n == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%d of %s in the files %s not deployed: %s", n, policy.Plural(total, "Kubernetes object"), verb, strings.Join(parts, ", "))
}

// documents lists the documents that are not deployed.
func (p *printer) documents(r *Report) {
	for _, d := range r.Documents {
		if d.State != render.DocRendered {
			p.line(p.paint(blue, "not deployed: "), visible(d.File, maxMessage), fmt.Sprintf(":%d: ", d.Line), name(d.Kind), ": ", prose(d.Reason))
		}
	}
}
