package objects

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// A Line is a line of an object's YAML. Its texts are not safe to show.
type Line struct {
	Text    string
	Pointer string      // JSON pointer of the innermost field written there
	Place   render.Span // the line that a person would edit, without a column
}

// Lines returns the lines of data, an object's YAML. display names files.
func Lines(o *render.Object, data []byte, display func(string) string) []Line {
	texts := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	lines := make([]Line, len(texts))
	header := 0
	at := linePointers(data, len(lines))
	for i, pointer := range at {
		if i == 0 || at[i-1] != pointer {
			header = i
		}
		lines[i] = Line{Text: texts[i], Pointer: pointer}
		if origins := lineOrigins(o, pointer, i-header-1); len(origins) > 0 {
			lines[i].Place = origins[0].Span
			lines[i].Place.File, lines[i].Place.Column = display(origins[0].File), 0
		}
	}
	return lines
}

// lineOrigins returns the places of a field, or of one of its lines, from 0, if it is
// a text whose lines have places of their own.
func lineOrigins(o *render.Object, pointer string, line int) []render.Origin {
	if line >= 0 {
		if origins := o.Line(pointer, line); len(origins) > 0 {
			return origins
		}
	}
	return o.At(pointer)
}

// linePointers returns for each line of an object's YAML the deepest field written
// there. A value of several lines, such as a block scalar, goes on until the next
// field.
func linePointers(data []byte, n int) []string {
	at := make([]string, n)
	docs, err := render.Documents("", slices.Clone(data), render.YAML11)
	if err != nil || len(docs) != 1 {
		return at
	}
	for pointer := range render.Fields(docs[0].Value, "") {
		key, value, _ := docs[0].Positions.Field(pointer)
		line := key.Line
		if line == 0 {
			line = value.Line // an item of a list
		}
		if line > 0 && line <= n && pointer != "" {
			at[line-1] = pointer
		}
	}
	for i := 1; i < n; i++ {
		if at[i] == "" {
			at[i] = at[i-1]
		}
	}
	return at
}

// FieldOrigins returns the places of an object's scalars, and of its empty maps and
// lists, by JSON pointer. display names files.
func FieldOrigins(o *render.Object, display func(string) string) map[string][]render.Origin {
	all := make(map[string][]render.Origin)
	for pointer, v := range render.Fields(o.Object, "") {
		m, _ := v.(map[string]any)
		list, _ := v.([]any)
		if len(m)+len(list) == 0 {
			all[pointer] = report.Displayed(o.At(pointer), display)
		}
	}
	return all
}

// WithoutLines returns notes about fields whose file, but not whose line, is known: those of
// charts in archives, and those that templates make in ways that can't be traced.
func WithoutLines(units []*render.Unit, display func(string) string) []string {
	type place struct{ unit, file string }
	counts := make(map[place]int)
	for _, u := range units {
		for _, o := range u.Objects {
			for pointer, v := range render.Fields(o.Object, "") {
				if at := o.At(pointer); pointer != "" && render.IsScalar(v) && len(at) > 0 && at[0].Line == 0 {
					counts[place{display(u.Identity()), display(at[0].File)}]++
				}
			}
		}
	}
	var notes []string
	for at, n := range counts {
		notes = append(notes, fmt.Sprintf("%s: fields of %s that come from this file, at an unknown line: %d", at.file, at.unit, n))
	}
	slices.Sort(notes)
	return notes
}

// An Ignored names fields of objects whose changes reports leave out, as in an entry of Argo CD's
// spec.ignoreDifferences. Group and Kind may be globs.
type Ignored struct {
	Group             string   `yaml:"group" json:"group"`
	Kind              string   `yaml:"kind" json:"kind"`
	Namespace         string   `yaml:"namespace" json:"namespace"`
	Name              string   `yaml:"name" json:"name"`
	JSONPointers      []string `yaml:"jsonPointers" json:"jsonPointers"`
	JQPathExpressions []string `yaml:"jqPathExpressions" json:"jqPathExpressions"`
}

// selects follows Argo CD's ignoreNormalizer.Normalize (util/argo/normalizers, v3.4).
func (i *Ignored) selects(o *render.Object) bool {
	gk := o.GroupVersionKind().GroupKind()
	group, _ := path.Match(i.Group, gk.Group)
	kind, _ := path.Match(i.Kind, gk.Kind)
	return group && kind && cmp.Or(i.Name, o.GetName()) == o.GetName() && cmp.Or(i.Namespace, o.EffectiveNamespace()) == o.EffectiveNamespace()
}

// jqPath matches jq expressions that select one field; jqStep matches a step of them.
var (
	jqPath = regexp.MustCompile(`^(\.[A-Za-z_]\w*|\.?\["[^"\\]+"\]|\."[^"\\]+"|\.?\[\d+\])+$`)
	jqStep = regexp.MustCompile(`"[^"]+"|[^."\[\]]+`)
)

// Shown returns the objects of a request, and those of an update without the fields whose changes are left
// out: by the configuration, or by the ignoreDifferences of the Application that deploys the object at the
// base. It adds notes about jq expressions that it does not read to notes, which may be nil.
func (s Sides) Shown(r *policy.Request, notes map[string]bool) (was, now *render.Object) {
	if r.Object == nil || r.OldObject == nil {
		return r.OldObject, r.Object
	}
	return s.without(r.OldObject, r.OldObject, notes), s.without(r.Object, r.OldObject, notes)
}

func (s Sides) without(o, was *render.Object, notes map[string]bool) *render.Object {
	ignored := slices.Clone(s.Ignore)
	for i := range ignored {
		ignored[i].Group = cmp.Or(ignored[i].Group, "*") // in the configuration a kind is enough
	}
	if app := was.Unit; app != nil && app.Owner != nil && app.Owner.GetKind() == "Application" {
		list, _ := render.Lookup(app.Owner.Object, "/spec/ignoreDifferences")
		items, _ := list.([]any)
		for _, item := range items {
			var own Ignored
			m, _ := item.(map[string]any)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &own); err == nil {
				ignored = append(ignored, own)
			}
		}
	}
	rest := *o
	rest.Unstructured = &unstructured.Unstructured{Object: o.Object}
	for _, i := range ignored {
		if !i.selects(o) {
			continue
		}
		pointers := i.JSONPointers
		for _, x := range i.JQPathExpressions {
			if !jqPath.MatchString(x) {
				if notes != nil {
					notes["changes of "+x+" are shown, although ignoreDifferences or diff.ignore names them: of jq expressions only paths to one field, such as .spec.replicas, are read"] = true
				}
				continue
			}
			var steps []string
			for _, step := range jqStep.FindAllString(x, -1) {
				steps = append(steps, strings.Trim(step, `"`))
			}
			pointers = append(slices.Clip(pointers), render.PathPointer(steps))
		}
		for _, pointer := range pointers {
			if v, err := (render.Edit{Pointer: pointer, Delete: true}).Apply(rest.Object); err == nil && pointer != "" {
				rest.Unstructured = &unstructured.Unstructured{Object: v.(map[string]any)}
			}
		}
	}
	return &rest
}
