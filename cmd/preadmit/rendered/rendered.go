// Package rendered prints the objects that a tree renders: as YAML, as JSON, and as diffs
// from their rendered to their stored form, or from the base to the change.
package rendered

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/report/objects"
)

// Change prints a unified diff for each object that a change creates, updates or
// deletes.
func Change(w io.Writer, in *load.Input, d *evaluate.Difference, revision string) error {
	for _, r := range d.Requests {
		o := r.Subject()
		was, now := d.Shown(&r)
		var texts [2][]byte
		for i, side := range []*render.Object{was, now} {
			if side == nil {
				continue
			}
			var err error
			if texts[i], err = marshalObject(side.Object); err != nil {
				return err
			}
		}
		name := report.Plain(objectName(o))
		_, err := fmt.Fprintf(w, "# %s %s\n%s%s", o.Unit.Kind, report.Plain(in.Tree.Display(o.Unit.Identity())), placeLine(in.Tree, d.Origins(r, "")),
			objects.UnifiedDiff(name+" at "+report.Plain(revision), texts[0], name, texts[1]))
		if err != nil {
			return err
		}
	}
	return nil
}

// ChangeJSON prints an array with one changed object per line.
func ChangeJSON(w io.Writer, in *load.Input, d *evaluate.Difference) error {
	var lines []renderedObject
	for _, r := range d.Requests {
		o := r.Subject()
		line := renderedObject{Operation: r.Operation, Unit: in.Tree.Display(o.Unit.Identity()), Kind: o.Unit.Kind, Origins: report.Displayed(d.Origins(r, ""), in.Tree.Display), Assumed: o.Assumed}
		if r.Object != nil {
			line.Object = r.Object.Object
		}
		if r.OldObject != nil {
			line.Old = r.OldObject.Object
		}
		lines = append(lines, line)
	}
	return printArray(w, slices.Values(lines))
}

// YAML prints the objects, each below a comment with its unit and place. With origins each
// line has its place before it.
func YAML(w io.Writer, in *load.Input, origins bool) error {
	for _, u := range in.Head {
		for _, o := range whole(u) {
			data, err := marshalObject(o.Object)
			if err != nil {
				return err
			}
			head := fmt.Sprintf("---\n# %s %s\n%s", u.Kind, report.Plain(in.Tree.Display(u.Identity())), sourceLine(in.Tree, o))
			if _, err := io.WriteString(w, head); err != nil {
				return err
			}
			if origins {
				err = writeLines(w, objects.Lines(o, data, in.Tree.Display))
			} else {
				_, err = w.Write(data)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// whole returns the objects of a unit, none if sources that are not in the tree may change them.
func whole(u *render.Unit) []*render.Object {
	if s := render.State(u.Status()); s == render.NotRendered || s == render.Foreign {
		return nil
	}
	return u.Objects
}

// marshalObject writes an object as YAML. The first library does not quote the key `<<`,
// which would merge its value into the map around it, and does not write keys of more
// than 1024 bytes; the other one does.
func marshalObject(object map[string]any) ([]byte, error) {
	data, err := yaml.Marshal(object)
	if err != nil || bytes.Contains(data, []byte("<<:")) {
		return yamlv3.Marshal(object)
	}
	return data, nil
}

func sourceLine(t *load.Tree, o *render.Object) string { return placeLine(t, o.At("")) }

func placeLine(t *load.Tree, at []render.Origin) string {
	if len(at) == 0 {
		return ""
	}
	s := at[0].Span
	s.File = t.Display(s.File)
	return "# Source: " + report.Plain(s.String()) + "\n"
}

// A renderedObject is one line of render's JSON output.
type renderedObject struct {
	// Operation is the change of the object, with --base.
	Operation policy.Operation `json:"operation,omitempty"`

	Unit    string          `json:"unit"`
	Kind    string          `json:"kind"`
	Origins []render.Origin `json:"origins"`
	Assumed []string        `json:"assumed,omitempty"`
	Object  map[string]any  `json:"object"`           // null for a DELETE
	Old     map[string]any  `json:"old,omitempty"`    // with --base
	Stored  map[string]any  `json:"stored,omitempty"` // with --admitted
	// Fields holds the places of each scalar by JSON pointer, with --origins.
	Fields map[string][]render.Origin `json:"fields,omitempty"`
}

// JSON prints an array with one object per line.
func JSON(w io.Writer, in *load.Input, stored *evaluate.Admitted, origins bool) error {
	return printArray(w, func(yield func(renderedObject) bool) {
		for _, u := range in.Head {
			for _, o := range whole(u) {
				r := renderedObject{Unit: in.Tree.Display(u.Identity()), Kind: u.Kind, Origins: report.Displayed(o.At(""), in.Tree.Display), Assumed: o.Assumed, Object: o.Object, Stored: stored.Tree(o)}
				if origins {
					r.Fields = objects.FieldOrigins(o, in.Tree.Display)
				}
				if !yield(r) {
					return
				}
			}
		}
	})
}

// printArray prints a JSON array with one object per line.
func printArray(w io.Writer, all iter.Seq[renderedObject]) error {
	separator := "[\n"
	for r := range all {
		data, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s%s", separator, data); err != nil {
			return err
		}
		separator = ",\n"
	}
	if separator == "[\n" {
		_, err := io.WriteString(w, "[]\n")
		return err
	}
	_, err := io.WriteString(w, "\n]\n")
	return err
}

// writeLines writes the lines of an object with the place of each before it, as `git
// blame` does.
func writeLines(w io.Writer, lines []objects.Line) error {
	places := make([]string, len(lines))
	width := 0
	for i := range lines {
		places[i] = report.Plain(lines[i].Place.String())
		width = max(width, utf8.RuneCountInString(places[i]))
	}
	for i := range lines {
		if _, err := fmt.Fprintf(w, "%-*s | %s\n", width, places[i], lines[i].Text); err != nil {
			return err
		}
	}
	return nil
}

// Diffs prints a unified diff for each object, from its rendered to its stored form, below the list
// of the mutations that change it.
func Diffs(w io.Writer, in *load.Input, a *evaluate.Admitted) error {
	for _, u := range in.Head {
		for _, o := range whole(u) {
			if _, err := fmt.Fprintf(w, "# %s %s\n%s", u.Kind, report.Plain(in.Tree.Display(u.Identity())), sourceLine(in.Tree, o)); err != nil {
				return err
			}
			if err := printDiff(w, in, a, o); err != nil {
				return err
			}
		}
	}
	return nil
}

func printDiff(w io.Writer, in *load.Input, a *evaluate.Admitted, o *render.Object) error {
	key := o.Key()
	key.Namespace = ""
	for _, r := range a.Steps[key] {
		r.PolicyOrigin.File = in.Tree.Display(r.PolicyOrigin.File)
		if _, err := fmt.Fprintf(w, "# %s/%s %s (%s)\n", report.Plain(r.Policy), r.Rule, report.Plain(r.Message), report.Plain(r.PolicyOrigin.String())); err != nil {
			return err
		}
	}
	before, err := yaml.Marshal(o.Object)
	if err != nil {
		return err
	}
	after, err := yaml.Marshal(a.Tree(o))
	if err != nil {
		return err
	}
	name := report.Plain(objectName(o))
	text := objects.UnifiedDiff(name, before, name+" as stored", after)
	if text == "" {
		_, err = fmt.Fprintf(w, "# %s is stored as it is\n", name)
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// objectName describes an object by its kind, name and place.
func objectName(o *render.Object) string {
	key := o.Key()
	if key.Namespace == "" {
		return fmt.Sprintf("%s %s %s", key.APIVersion, key.Kind, key.Name)
	}
	return fmt.Sprintf("%s %s %s/%s", key.APIVersion, key.Kind, key.Namespace, key.Name)
}
