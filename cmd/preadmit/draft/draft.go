// Package draft writes the first configuration file of a repository, from what a run knows about it.
//
// New sets the lines that nobody needs to decide, also in the Options, so that the caller can load
// again with them. File adds suggestions from the report of that run. They are commented out, without
// a blank after the #. A value that a person must find out is left empty, so that the file is refused
// until somebody fills it in.
//
//   - draft.go: the file; files.go: policies and addresses in the tree; suggest.go: the rest
package draft

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/report"
)

// A Draft is a file before it is written.
type Draft struct {
	options *evaluate.Options
	in      *load.Input
	run     *evaluate.Evaluation
	report  *report.Report
	entries []*entry
}

// An entry is a key of the file with its value, and the reasons for it.
type entry struct {
	key, value string
	reasons    []string
	lines      []string // below the key
	set        bool     // is no suggestion
}

// New returns a Draft with the lines that are set, whose values it adds to the options. again reports
// whether there are any.
func New(o *evaluate.Options, in *load.Input) (d *Draft, again bool) {
	d = &Draft{options: o, in: in}
	d.policies()
	d.repository()
	return d, slices.ContainsFunc(d.entries, func(e *entry) bool { return e.set })
}

// File returns the file, with suggestions from a run with the options.
func (d *Draft) File(in *load.Input, j *evaluate.Evaluation, r *report.Report) []byte {
	d.in, d.run, d.report = in, j, r
	d.pack()
	d.cluster()
	d.deployed()
	d.hidden()
	d.asked()
	d.fetch()
	var b strings.Builder
	b.WriteString(evaluate.SchemaLine("config") + header)
	for _, e := range d.entries {
		b.WriteString("\n")
		for _, reason := range e.reasons {
			comment(&b, reason)
		}
		if !e.set {
			b.WriteString("#")
		}
		b.WriteString(strings.TrimRight(e.key+": "+e.value, " ") + "\n")
		for _, line := range e.lines {
			b.WriteString(line + "\n")
		}
	}
	return []byte(b.String())
}

const header = `# Written by preadmit init, with the reasons of that day. A key after a # without a blank is a
# suggestion: to use it, remove the # of its lines, and fill in the values that are empty.
# preadmit help configuration and preadmit help gitops have more.
`

// width is the length at which comments are wrapped.
const width = 100

// comment writes a text of unknown origin as a comment of YAML.
func comment(b *strings.Builder, text string) {
	line := "#"
	for _, word := range strings.Fields(report.Plain(text)) {
		if line != "#" && utf8.RuneCountInString(line+" "+word) > width {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// set adds lines that nobody needs to decide.
func (d *Draft) set(key, reason string, lines ...string) { d.add(key, reason, lines).set = true }

// suggest adds a suggestion.
func (d *Draft) suggest(key, reason string, lines ...string) *entry {
	for i, line := range lines {
		lines[i] = "#" + strings.ReplaceAll(line, "\n", "\n#")
	}
	return d.add(key, reason, lines)
}

func (d *Draft) add(key, reason string, lines []string) *entry {
	i := slices.IndexFunc(d.entries, func(e *entry) bool { return e.key == key })
	if i < 0 {
		i = len(d.entries)
		d.entries = append(d.entries, &entry{key: key})
	}
	e := d.entries[i]
	if reason != "" {
		e.reasons = append(e.reasons, reason)
	}
	for _, line := range lines {
		if !slices.Contains(e.lines, line) {
			e.lines = append(e.lines, line)
		}
	}
	return e
}

// list returns values as the lines of a list.
func list(values ...string) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = "- " + config.Scalar(v)
	}
	return all
}
