package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// A Ref is the argument OBJECT.
type Ref struct {
	text           string
	group          string
	hasGroup       bool
	kind, name     string
	namespace      string
	namesNamespace bool
}

func ParseRef(s string) (Ref, error) {
	r := Ref{text: s}
	switch parts := strings.Split(s, "/"); len(parts) {
	case 2:
		r.kind, r.name = parts[0], parts[1]
	case 3:
		r.namespace, r.namesNamespace, r.kind, r.name = parts[0], true, parts[1], parts[2]
		if parts[0] != strings.ToLower(parts[0]) { // the names of namespaces are in lower case
			r.kind, r.namespace = parts[0], parts[1]
		}
	case 4:
		r.group, r.hasGroup, r.kind = parts[0], true, parts[1]
		r.namespace, r.namesNamespace, r.name = parts[2], true, parts[3]
	default:
		return r, fmt.Errorf("%q is no OBJECT: want kind/name, namespace/kind/name, Kind/namespace/name or group/Kind/namespace/name", s)
	}
	if !r.hasGroup {
		r.kind, r.group, r.hasGroup = strings.Cut(r.kind, ".")
	}
	if r.kind == "" || r.name == "" {
		return r, fmt.Errorf("%q is no OBJECT: the kind or the name is missing", s)
	}
	return r, nil
}

// means reports whether the reference is to an object, whose effective namespace is
// given.
func (r Ref) means(o *render.Object, resource policy.Resource, namespace string) bool {
	gvk := o.GroupVersionKind()
	return o.Key().Name == r.name &&
		(strings.EqualFold(r.kind, gvk.Kind) || strings.EqualFold(r.kind, resource.Resource)) &&
		(!r.hasGroup || r.group == gvk.Group) &&
		(!r.namesNamespace || r.namespace == namespace)
}

// FindObject returns the only object that ref refers to, in the unit if it is not "".
func FindObject(in *load.Input, s engines.Options, ref Ref, unit string) (*render.Object, error) {
	kinds, err := kinds(in, s)
	if err != nil {
		return nil, err
	}
	namespace := func(o *render.Object) string {
		if !kinds.Resource(o.GroupVersionKind()).Namespaced {
			return ""
		}
		return o.EffectiveNamespace()
	}
	var found []*render.Object
	var like, units []string
	for _, o := range slices.Concat(render.Objects(in.Head), render.Variants(in.Head)) {
		meant, at := ref.means(o, kinds.Resource(o.GroupVersionKind()), namespace(o)), in.Tree.Display(o.Unit.Identity())
		switch {
		case unit != "" && at != strings.TrimSuffix(unit, "/"):
			if meant && !slices.Contains(units, at) {
				units = append(units, at)
			}
		case meant:
			if o.Variant.IsDefault() || len(found) == 0 { // another variant of it is used only if there is no default one
				found = append(found, o)
			}
		case o.Key().Name == ref.name || strings.EqualFold(o.GetKind(), ref.kind):
			like = append(like, refText(o, namespace(o)))
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, newSeveral(in, ref, found, namespace)
	case len(units) > 0:
		return nil, fmt.Errorf("no object %s%s; it is in %s", ref.text, evaluate.InUnit(unit), policy.Few(units))
	case len(like) > 0:
		return nil, fmt.Errorf("no object %s%s; %s", ref.text, evaluate.InUnit(unit), policy.Instead(ref.text, like))
	}
	var all []string
	for _, o := range render.Objects(in.Head) {
		all = append(all, refText(o, o.GetNamespace()))
	}
	hint := ""
	if len(all) > 0 {
		hint = "; " + policy.Instead(ref.text, all)
	}
	if n := len(unrendered(in)); n > 0 {
		hint = " (" + policy.Plural(n, "problem") + " kept something from being rendered: see preadmit check)"
	}
	return nil, fmt.Errorf("no object %s%s among %d rendered%s", ref.text, evaluate.InUnit(unit), len(render.Objects(in.Head)), hint)
}

func unrendered(in *load.Input) []policy.Result {
	return slices.DeleteFunc(slices.Clone(in.Found), func(r policy.Result) bool { return !r.Undecided() })
}

// refText returns a reference to an object, as group/Kind/namespace/name.
func refText(o *render.Object, namespace string) string {
	return strings.Join([]string{o.GroupVersionKind().Group, o.GetKind(), namespace, o.Key().Name}, "/")
}

// SeveralObjects is the error for a reference to more than one object.
type SeveralObjects struct {
	ref   string
	lines []string
	unit  string // of the first object, if all have one name
}

func (s *SeveralObjects) Error() string {
	if s.unit != "" {
		return fmt.Sprintf("%s is in %d units: choose one, as with --unit %s", s.ref, len(s.lines), s.unit)
	}
	return fmt.Sprintf("%s is %d objects: say which by group/Kind/namespace/name, --unit or PATH", s.ref, len(s.lines))
}

func (s *SeveralObjects) List(w io.Writer) {
	for _, l := range s.lines {
		fmt.Fprintf(w, "  %s\n", report.Plain(l))
	}
}

func newSeveral(in *load.Input, ref Ref, found []*render.Object, namespace func(*render.Object) string) error {
	e := &SeveralObjects{ref: ref.text, unit: report.Plain(in.Tree.Display(found[0].Unit.Identity()))}
	for _, o := range found {
		if refText(o, namespace(o)) != refText(found[0], namespace(found[0])) || o != found[0] && o.Unit == found[0].Unit {
			e.unit = ""
		}
		line := refText(o, namespace(o)) + " in unit " + in.Tree.Display(o.Unit.Identity())
		if at := o.At(""); len(at) > 0 {
			s := at[0].Span
			s.File = in.Tree.Display(s.File)
			line += " at " + s.String()
		}
		e.lines = append(e.lines, line)
	}
	return e
}
