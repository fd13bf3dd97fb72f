package suites

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// Drafts writes the files of tests, and prints the cases that each test has and that are missing.
type Drafts struct {
	Out                       io.Writer
	Tree                      *load.Tree
	Write                     func(file string, data []byte) error
	Overwrite, Quiet, Verbose bool

	written, kept, refused int
	rules, both            int
}

// Put writes the tests and prints a summary. Existing tests are kept unless Overwrite is set.
func (d *Drafts) Put(all []policytest.Draft) error {
	for i := range all {
		if err := d.put(&all[i]); err != nil {
			return err
		}
	}
	d.line("%s written, %d kept, %d not written; %d of %s with each result that a test can expect", policy.Plural(d.written, "test"), d.kept, d.refused, d.both, policy.Plural(d.rules, "rule"))
	return nil
}

func (d *Drafts) line(format string, args ...any) { report.Line(d.Out, format, args...) }

func (d *Drafts) at(s render.Span) string {
	s.File = d.Tree.Display(s.File)
	return s.String()
}

// put writes the files of one test.
func (d *Drafts) put(t *policytest.Draft) error {
	if t.Refused != "" {
		d.refused++
		d.line("not written: %s %s at %s: %s", t.Kind, t.Policy, d.at(t.Origin), t.Refused)
		return nil
	}
	if !d.Overwrite {
		for _, f := range t.Files {
			if _, err := os.Lstat(d.path(f.Name)); err == nil {
				d.kept++
				d.line("kept: %s is there already; --overwrite replaces it", d.Tree.Display(f.Name))
				return nil
			}
		}
	}
	for _, f := range t.Files {
		if err := d.Write(d.path(f.Name), f.Data); err != nil {
			return err
		}
	}
	d.written++
	d.draft(t)
	return nil
}

func (d *Drafts) path(name string) string {
	return filepath.Join(d.Tree.Dir, filepath.FromSlash(name))
}

// draft prints the cases of a test, and the results and branches that are missing.
func (d *Drafts) draft(t *policytest.Draft) {
	both := 0
	for _, r := range t.Rules {
		if len(r.Missing) == 0 {
			both++
		}
	}
	d.rules, d.both = d.rules+len(t.Rules), d.both+both
	branches := ""
	if t.Branches > 0 {
		branches = fmt.Sprintf(", %d of %d branches", t.Covered, t.Branches)
	}
	d.line("written: %s: %s of %s %s: %d of %s complete%s", d.Tree.Display(t.File), policy.Plural(t.Cases, "case"), t.Kind, t.Policy, both, policy.Plural(len(t.Rules), "rule"), branches)
	if d.Verbose {
		for _, e := range t.Edits {
			d.line("  changed: %s", e)
		}
	}
	if d.Quiet {
		return
	}
	for _, r := range t.Rules {
		if len(r.Missing) > 0 {
			d.line("  missing: %s: no object here gives %s", cmp.Or(r.Name, t.Policy), strings.Join(r.Missing, " or "))
		}
	}
	for _, b := range t.Untaken {
		d.line("  missing: %s: never %s: %s", d.at(b.Origin), b.Case, cutText(b.Part))
	}
}

// cutText returns text on one line of at most 100 characters.
func cutText(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 100 {
		return string(r[:100]) + "…"
	}
	return text
}
