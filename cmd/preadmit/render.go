package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

var renderFormats = []string{"yaml", "json"}

func newRenderCommand(code *int) *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "render [PATH ...]",
		Short: "Print the rendered objects, each with its source",
		Long: `Print the objects that each PATH renders (default: the current directory), each
with its source. Values of Secrets are printed as they are rendered.

With --base REV only deployed objects that differ from those of REV are printed,
as a diff. Deleted objects that their GitOps controller leaves on the cluster are
notes on standard error.`,
		RunE: runs(code, o.runRender),
	}
	o.addSourceFlags(cmd.Flags())
	o.addPolicyFlags(cmd.Flags())
	o.addUserFlags(cmd.Flags())
	o.addBaseFlag(cmd.Flags())
	cmd.Flags().StringVarP(&o.format, "output", "o", "yaml", "`FORMAT` of the objects: yaml or json")
	cmd.Flags().BoolVar(&o.admitted, "admitted", false, "show what defaults and mutating policies would make of each object, as a diff")
	cmd.Flags().BoolVar(&o.origins, "origins", false, "put the line to edit before each line, as git blame does; in JSON the places of each field")
	return cmd
}

// renderOptions are the flags of check that are about what is rendered, and how objects
// are o.
type renderOptions struct {
	checkOptions
	format   string
	admitted bool // as they would be stored
	origins  bool // with the place of each field
}

func (o *renderOptions) runRender(ctx context.Context, args []string, std stdio) (int, error) {
	if err := checkFormat(o.format, renderFormats...); err != nil {
		return 0, err
	}
	if o.admitted && o.origins && o.format == "yaml" {
		return 0, errors.New("--origins: a diff of --admitted has no lines that are written somewhere; use -o json, or one of them")
	}
	if o.Base != "" && (o.admitted || o.origins) {
		return 0, errors.New("--base prints what a change makes of the rendered objects; use it without --admitted and --origins")
	}
	if !o.admitted {
		o.Policies, o.With, o.Data = nil, nil, nil // only admission asks them
	}
	o.Flat = true // whoever applies the objects must not apply twice what they hold
	ctx, cancel, in, err := o.load(ctx, args, std)
	if err != nil {
		return 0, err
	}
	defer cancel()
	if o.Base != "" {
		return o.renderChange(ctx, in, args, std)
	}
	var stored *evaluate.Admitted
	if o.admitted {
		if stored, err = evaluate.Admit(ctx, in, &o.Options); err != nil {
			return 0, evaluate.TimedOut(ctx, err)
		}
	}
	evaluate.Relabel(in.Tree, in.Found)
	w := bufio.NewWriter(std.out)
	switch {
	case o.format == "json":
		err = printJSON(w, in, stored, o.origins)
	case stored != nil:
		err = printDiffs(w, in, stored)
	default:
		err = printYAML(w, in, o.origins)
	}
	if err == nil {
		err = w.Flush()
	}
	if err := brokenPipe(err); err != nil {
		return 0, err
	}
	if o.origins && o.Verbose {
		for _, note := range report.WithoutLines(in.Head, in.Tree.Display) {
			fmt.Fprintf(std.err, "note: %s\n", report.Plain(note))
		}
	}
	return complain(std.err, in.Found), nil
}

// renderChange prints the objects that differ from those of the base.
func (o *renderOptions) renderChange(ctx context.Context, in *load.Input, args []string, std stdio) (int, error) {
	d, err := evaluate.Compare(ctx, &o.Options, in, args, std.in)
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	evaluate.Relabel(in.Tree, d.Found)
	w := bufio.NewWriter(std.out)
	if o.format == "json" {
		err = printChangeJSON(w, in, d)
	} else {
		err = printChange(w, in, d, o.Base)
	}
	if err == nil {
		err = w.Flush()
	}
	if err := brokenPipe(err); err != nil {
		return 0, err
	}
	for _, note := range d.Notes {
		fmt.Fprintf(std.err, "note: %s\n", report.Plain(note))
	}
	return complain(std.err, d.Found), nil
}

// printChange prints a unified diff for each object that a change creates, updates or
// deletes.
func printChange(w io.Writer, in *load.Input, d *evaluate.Difference, revision string) error {
	for _, r := range d.Requests {
		o := r.Subject()
		var texts [2][]byte
		for i, side := range []*render.Object{r.OldObject, r.Object} {
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
			report.UnifiedDiff(name+" at "+report.Plain(revision), texts[0], name, texts[1]))
		if err != nil {
			return err
		}
	}
	return nil
}

// printChangeJSON prints an array with an object that changes a line.
func printChangeJSON(w io.Writer, in *load.Input, d *evaluate.Difference) error {
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

// complain prints the errors of rendering and returns the exit code.
func complain(w io.Writer, results []policy.Result) int {
	code := exitOK
	for _, r := range results {
		severity := "warning"
		if r.Undecided() || r.Outcome == policy.Fail && r.Action == policy.Deny {
			severity, code = "error", exitIncomplete
		}
		place := ""
		if len(r.Origins) > 0 {
			place = r.Origins[0].String() + ": "
		}
		rule := r.Rule
		if r.Object.Kind != "" { // a policy's
			rule = r.Policy + "/" + rule
		}
		fmt.Fprintf(w, "%s%s: %s [%s]\n", report.Plain(place), severity, report.Plain(r.Message), report.Plain(rule))
		if r.Hint != "" {
			fmt.Fprintf(w, "  help: %s\n", report.Plain(r.Hint))
		}
	}
	return code
}

func printYAML(w io.Writer, in *load.Input, origins bool) error {
	for _, u := range in.Head {
		for _, o := range u.Objects {
			data, err := marshalObject(o.Object)
			if err != nil {
				return err
			}
			head := fmt.Sprintf("---\n# %s %s\n%s", u.Kind, report.Plain(in.Tree.Display(u.Identity())), sourceLine(in.Tree, o))
			if _, err := io.WriteString(w, head); err != nil {
				return err
			}
			if origins {
				err = writeLines(w, report.ObjectLines(o, data, in.Tree.Display))
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
	// Operation is what the change does to the object, with --base.
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

// printJSON prints an array with an object a line.
func printJSON(w io.Writer, in *load.Input, stored *evaluate.Admitted, origins bool) error {
	return printArray(w, func(yield func(renderedObject) bool) {
		for _, u := range in.Head {
			for _, o := range u.Objects {
				r := renderedObject{Unit: in.Tree.Display(u.Identity()), Kind: u.Kind, Origins: report.Displayed(o.At(""), in.Tree.Display), Assumed: o.Assumed, Object: o.Object, Stored: stored.Tree(o)}
				if origins {
					r.Fields = report.FieldOrigins(o, in.Tree.Display)
				}
				if !yield(r) {
					return
				}
			}
		}
	})
}

// printArray prints a JSON array with an object a line.
func printArray(w io.Writer, objects iter.Seq[renderedObject]) error {
	separator := "[\n"
	for r := range objects {
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
func writeLines(w io.Writer, lines []report.ObjectLine) error {
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

// printDiffs prints a unified diff for each object, from its rendered to its
// stored form, with the mutations that are part of it.
func printDiffs(w io.Writer, in *load.Input, a *evaluate.Admitted) error {
	for _, u := range in.Head {
		for _, o := range u.Objects {
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
	text := report.UnifiedDiff(name, before, name+" as stored", after)
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
