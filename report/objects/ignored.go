package objects

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/render"
)

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

// without returns an object without the fields whose changes are left out: by the configuration, or by the
// ignoreDifferences of the Application that deploys it, as was, at the base. It notes jq expressions that
// it does not read.
func (c *changeDiffs) without(o, was *render.Object) *render.Object {
	ignored := slices.Clone(c.sides.Ignore)
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
				c.notes["changes of "+x+" are shown, although ignoreDifferences or diff.ignore names them: of jq expressions only paths to one field, such as .spec.replicas, are read"] = true
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
