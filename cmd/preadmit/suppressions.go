package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// suppressionsFile holds a repository's suppressions.
const suppressionsFile = ".preadmit/suppressions.yaml"

// schemaURL is where editors find the JSON Schema of a kind of file.
func schemaURL(name string) string {
	return "https://raw.githubusercontent.com/preadmit/preadmit/main/.github/schema/" + name + ".json"
}

// schemaLine is the comment that names a YAML file's schema for editors.
func schemaLine(name string) string {
	return "# yaml-language-server: $schema=" + schemaURL(name) + "\n"
}

// suppressionFlags say which results people accept.
type suppressionFlags struct {
	suppressions string
	allowNew     bool
	date         date
}

func (s *suppressionFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&s.suppressions, "suppressions", "", "read suppressions from `FILE` (default: "+suppressionsFile+", if there is one)")
	f.BoolVar(&s.allowNew, "allow-new-suppressions", false, "with --base, also apply suppressions that the change adds")
	f.Var(&s.date, "date", "evaluate suppressions, exceptions and policies as if today were `DAY`, such as 2027-03-31 (default: today, UTC)")
}

// A date is the value of a flag that is a day; the zero value is today.
type date struct{ time.Time }

func (d *date) Type() string { return "DAY" }
func (d *date) String() string {
	if d.IsZero() {
		return ""
	}
	return d.Format(time.DateOnly)
}

func (d *date) Set(s string) (err error) {
	if d.Time, err = time.Parse(time.DateOnly, s); err != nil {
		return fmt.Errorf("%q is no date such as 2027-03-31", s)
	}
	return nil
}

// day is the day that suppressions are held against.
func (s *suppressionFlags) day() time.Time {
	if s.date.IsZero() {
		return time.Now()
	}
	return s.date.Time
}

// midnight is when that day begins: the time that policies see, so that
// all runs of a day say the same.
func (s *suppressionFlags) midnight() time.Time { return s.day().UTC().Truncate(24 * time.Hour) }

// suppress marks what is accepted, and notes what is over or accepts nothing.
// With a base its suppressions count: a change can't accept what it brings in.
func (j *evaluation) suppress(o *checkOptions, base, in *input, whole bool) error {
	held, err := readSuppressions(o, in)
	if err != nil {
		return err
	}
	if base != nil {
		was, err := readSuppressions(o, base)
		if err != nil {
			return fmt.Errorf("--base: %w", err)
		}
		added := missingFrom(was, held)
		for _, s := range added {
			if o.allowNew {
				j.notes = append(j.notes, "the change adds "+described(s))
			} else {
				j.notes = append(j.notes, "the change adds "+described(s)+", which does not count (--allow-new-suppressions)")
			}
		}
		if held = was; o.allowNew {
			held = slices.Concat(was, added)
		}
	}
	over, unused := policy.Suppress(j.results, held, o.day())
	for _, s := range over {
		j.notes = append(j.notes, fmt.Sprintf("%s expired on %s and accepts nothing more", described(s), s.Expires))
	}
	if !whole || base != nil {
		return nil // what the others are about was not looked at
	}
	for _, s := range unused {
		if s.Malformed() {
			j.notes = append(j.notes, described(s)+" accepts nothing: write its object as group/Kind/namespace/name, such as apps/Deployment/shop/web, or /ConfigMap/shop/settings for the core group")
		} else {
			j.notes = append(j.notes, described(s)+" accepts nothing: it can go")
		}
	}
	return nil
}

// described names a suppression by its place.
func described(s policy.Suppression) string {
	return fmt.Sprintf("the suppression of %s for %s (%s:%d)", s.Rule, s.Object, s.Origin.File, s.Origin.Line)
}

// missingFrom are the suppressions of head that base has not.
func missingFrom(base, head []policy.Suppression) []policy.Suppression {
	return slices.DeleteFunc(slices.Clone(head), func(s policy.Suppression) bool {
		return slices.ContainsFunc(base, func(t policy.Suppression) bool {
			s.Origin, t.Origin = render.Span{}, render.Span{}
			return s == t
		})
	})
}

// readSuppressions reads the file that is asked for, or the tree's own.
func readSuppressions(o *checkOptions, in *input) ([]policy.Suppression, error) {
	name := suppressionsFile
	if o.suppressions != "" {
		var err error
		if name, err = in.tree.name(o.suppressions, in.stdin); err != nil {
			return nil, fmt.Errorf("--suppressions: %w", err)
		}
	}
	data, err := render.ReadFile(in.tree, name)
	if errors.Is(err, fs.ErrNotExist) && (o.suppressions == "" || in.tree.Paired) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := policy.ParseSuppressions(in.tree.Display(name), data)
	if err != nil {
		return nil, places(nil, err)
	}
	return found, nil
}
