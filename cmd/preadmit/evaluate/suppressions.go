package evaluate

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
)

// SuppressionsFile is the path of a repository's suppressions.
const SuppressionsFile = ".preadmit/suppressions.yaml"

// SchemaURL returns the URL of the JSON Schema of a kind of file.
func SchemaURL(name string) string {
	return "https://raw.githubusercontent.com/preadmit/preadmit/main/.github/schema/" + name + ".json"
}

// SchemaLine returns the comment that names a YAML file's schema for editors.
func SchemaLine(name string) string {
	return "# yaml-language-server: $schema=" + SchemaURL(name) + "\n"
}

// maxCommentNotes limits the notes about comments; the others are counted.
const maxCommentNotes = 20

// suppress marks suppressed results, and adds notes about suppressions that have expired, are malformed
// or match nothing. With a base, the base's suppressions apply, so that a change can't suppress
// its own failures.
func (e *Evaluation) suppress(o *Options, base, in *load.Input, whole bool) error {
	in.Documents() // finds the files with comments
	held, err := ReadSuppressions(o, in)
	if err != nil {
		return err
	}
	comments := 0
	note := func(s policy.Suppression, text string) {
		if s.Line > 0 {
			comments++
		}
		if comments <= maxCommentNotes || s.Line == 0 {
			e.notes = append(e.notes, text)
		}
	}
	defer func() {
		if more := comments - maxCommentNotes; more > 0 {
			e.notes = append(e.notes, policy.Plural(more, "more note")+" about comments")
		}
	}()
	if base != nil {
		was, err := ReadSuppressions(o, base)
		if err != nil {
			return fmt.Errorf("--base: %w", err)
		}
		added := missingFrom(was.Listed, held.Listed)
		if !o.AllowNew {
			held.Listed, held.Paired = was.Listed, true
		} else {
			held.Listed = slices.Concat(was.Listed, added)
		}
		for _, s := range held.InComments() {
			if !s.Malformed() {
				added = append(added, missingFrom(was.In(s.Path), []policy.Suppression{s})...)
			}
		}
		for _, s := range added {
			but := ", which does not count (--allow-new-suppressions)"
			if s.Line > 0 {
				but = ", which counts only where the base has one (--allow-new-suppressions)"
			}
			if o.AllowNew {
				but = ""
			}
			note(s, "the change adds "+described(s)+but)
		}
	}
	over, unused := policy.Suppress(e.Results, e.held, held, o.Day())
	for _, s := range over {
		note(s, fmt.Sprintf("%s expired on %s and accepts nothing more", described(s), s.Expires))
	}
	for _, s := range held.InComments() {
		if s.Malformed() {
			note(s, described(s)+" accepts nothing: write it as "+policy.CommentForm)
		}
	}
	if !whole || base != nil {
		return nil // objects of unused suppressions may not have been evaluated
	}
	for _, s := range unused {
		if s.Malformed() {
			note(s, described(s)+" accepts nothing: write its object as group/Kind/namespace/name, such as apps/Deployment/shop/web, or /ConfigMap/shop/settings for the core group")
		} else {
			note(s, described(s)+" accepts nothing: remove it")
		}
	}
	return nil
}

// described returns a description of a suppression with its place.
func described(s policy.Suppression) string {
	if s.Line > 0 {
		return fmt.Sprintf("the comment %s (%s:%d)", strings.TrimSpace(render.IgnoreMark+" "+s.Rule), s.Path, s.Origin.Line)
	}
	return fmt.Sprintf("the suppression of %s for %s (%s:%d)", s.Rule, s.Object, s.Origin.File, s.Origin.Line)
}

// missingFrom returns the suppressions of head that base does not have. Lines don't count.
func missingFrom(base, head []policy.Suppression) []policy.Suppression {
	return slices.DeleteFunc(slices.Clone(head), func(s policy.Suppression) bool {
		return slices.ContainsFunc(base, func(t policy.Suppression) bool {
			t.Line = s.Line
			return s.Unplaced() == t.Unplaced()
		})
	})
}

// comments returns the suppressions in comments of the repository's files.
func comments(in *load.Input) *policy.Suppressions {
	return policy.NewSuppressions(in.Marked, func(file string) []byte {
		if strings.HasPrefix(file, disk.Outside+"/") {
			return nil
		}
		data, _ := render.ReadFile(in.Tree, file) // what can't be read is reported by the unit that reads it
		return data
	})
}

// ReadSuppressions reads the file named by --suppressions, or the tree's own. Comments are read later.
func ReadSuppressions(o *Options, in *load.Input) (*policy.Suppressions, error) {
	held := comments(in)
	name := SuppressionsFile
	if o.Suppressions != "" {
		if o.Accepts {
			if o.Suppressions == "-" {
				return nil, errors.New("--suppressions -: suppressions are written to a file, not to standard input")
			}
			if _, err := in.Tree.Name(o.Suppressions, nil); errors.Is(err, fs.ErrNotExist) {
				return held, nil
			}
		}
		var err error
		if name, err = in.Tree.NameOf(o.Suppressions, in.Stdin); err != nil {
			return nil, fmt.Errorf("--suppressions: %w", err)
		}
	}
	data, err := render.ReadFile(in.Tree, name)
	if errors.Is(err, fs.ErrNotExist) && (o.Suppressions == "" || in.Tree.Paired) {
		return held, nil
	}
	if err != nil {
		return nil, load.Places(in.Tree, err)
	}
	if held.Listed, err = policy.ParseSuppressions(in.Tree.Display(name), data); err != nil {
		return nil, load.Places(nil, err)
	}
	return held, nil
}
