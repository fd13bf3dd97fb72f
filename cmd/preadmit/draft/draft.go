// Package draft writes the first configuration file of a repository, from what a run knows about it.
//
// File returns it. All lines are suggestions, commented out without a blank after the #: none takes effect
// before a person has read its reason. A value that a person must find out is left empty, so that the
// file is refused until somebody fills it in.
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

// A draft is a file before it is written.
type draft struct {
	options *evaluate.Options
	in      *load.Input
	run     *evaluate.Evaluation
	report  *report.Report
	entries []*entry
}

// An entry is a key of the file with its value.
type entry struct {
	key, value string
	reasons    []string // for the key
	parts      []part
}

// A part is lines below a key, with the reason for them.
type part struct {
	reason string
	lines  []string
}

// File returns the file, with suggestions from a run with the options.
func File(o *evaluate.Options, in *load.Input, j *evaluate.Evaluation, r *report.Report) []byte {
	d := &draft{options: o, in: in, run: j, report: r}
	d.policies()
	d.repository()
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
		if len(e.parts) == 0 {
			e.parts = []part{{}}
		}
		for i, p := range e.parts {
			comment(&b, p.reason)
			if i == 0 {
				b.WriteString(strings.TrimRight("#"+e.key+": "+e.value, " ") + "\n")
			}
			for _, line := range p.lines {
				b.WriteString("#" + strings.ReplaceAll(line, "\n", "\n#") + "\n")
			}
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
	if text == "" {
		return
	}
	for _, word := range strings.Fields(report.Plain(text)) {
		if line != "#" && utf8.RuneCountInString(line+" "+word) > width {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// suggest adds a suggestion. Lines that are there already are left out.
func (d *draft) suggest(key, reason string, lines ...string) *entry {
	i := slices.IndexFunc(d.entries, func(e *entry) bool { return e.key == key })
	if i < 0 {
		i = len(d.entries)
		d.entries = append(d.entries, &entry{key: key})
	}
	e := d.entries[i]
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return slices.ContainsFunc(e.parts, func(p part) bool { return slices.Contains(p.lines, line) })
	})
	if len(lines) == 0 {
		e.reasons = append(e.reasons, reason)
	} else {
		e.parts = append(e.parts, part{reason, lines})
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
