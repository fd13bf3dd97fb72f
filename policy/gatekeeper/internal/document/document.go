package document

import (
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// The annotations that document a constraint, its template or a mutator. Of those in a
// list, the first that has a text counts:
//
//	metadata.gatekeeper.sh/title   one line
//	description                    what it is about, and why
//	metadata.gatekeeper.sh/severity, and those of preadmit.dev
var (
	titleKeys       = []string{"preadmit.dev/title", "metadata.gatekeeper.sh/title"}
	severityKeys    = []string{"preadmit.dev/severity", "metadata.gatekeeper.sh/severity", "severity"}
	descriptionKeys = []string{"preadmit.dev/description", "description", "metadata.gatekeeper.sh/description"}
	urlKeys         = []string{"preadmit.dev/url", "metadata.gatekeeper.sh/url"}
)

// MaxDocument is the most bytes of a template's code that are kept.
const MaxDocument = 16 << 10

// Describe sets a rule's title, description, help and URL by annotations.
func Describe(r *policy.Rule, notes policy.Notes) {
	r.Title, r.Description = policy.FirstLine(notes.Text(titleKeys...)), notes.Text(descriptionKeys...)
	r.Help, r.URL = notes.Help(), notes.Text(urlKeys...)
}

// Severity returns the severity that annotations give.
func Severity(notes policy.Notes) policy.Severity {
	return policy.SeverityOf(strings.ToLower(notes.Text(severityKeys...)))
}
