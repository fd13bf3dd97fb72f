package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// documentWords describes the states of documents that are not deployed.
var documentWords = map[render.DocumentState]string{
	render.DocDeleted:     "deleted by patches",
	render.DocLocalConfig: "left out by kustomize as local configuration",
	render.DocSkipped:     "not applied by their controller",
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
