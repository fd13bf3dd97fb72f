package kyverno

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/image"
	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

// podPaths holds the path of the pod spec in each built-in kind.
var podPaths = map[string]string{
	"Pod": "", "CronJob": "/spec/jobTemplate/spec/template",
	"DaemonSet": "/spec/template", "Deployment": "/spec/template", "Job": "/spec/template",
	"ReplicaSet": "/spec/template", "ReplicationController": "/spec/template", "StatefulSet": "/spec/template",
}

var containerLists = []string{"initContainers", "containers", "ephemeralContainers"}

// imagesOf returns the variable images for a rule: images by group, then by
// name.
func (r *review) imagesOf(rule *Rule) (any, bool, error) {
	if !r.imagesDone || len(rule.ImageExtractors) > 0 || len(r.imagesFor.ImageExtractors) > 0 {
		r.images, r.imagesErr = r.extract(rule)
		r.imagesDone, r.imagesFor = true, rule
	}
	return r.images, len(r.images) > 0 || r.imagesErr != nil, r.imagesErr
}

// extract returns the images at the paths of the rule's extractors, or else at
// the paths known for the kind. A DELETE has none.
func (r *review) extract(rule *Rule) (map[string]any, error) {
	object := r.object
	if object == nil {
		return nil, nil
	}
	found := &imageFinder{groups: map[string]any{}, search: &r.search}
	if custom := rule.ImageExtractors[r.req.Kind.Kind]; custom != nil {
		for _, x := range custom {
			if err := found.custom(object, x); err != nil {
				return nil, err
			}
		}
		return found.groups, nil
	}
	at, ok := podPaths[r.req.Kind.Kind]
	if !ok {
		return nil, nil
	}
	for _, list := range containerLists {
		x := document.ImageExtractor{Path: at + "/spec/" + list + "/*", Value: "image", Key: "name", Name: list}
		if err := found.custom(object, x); err != nil {
			return nil, err
		}
	}
	return found.groups, nil
}

type imageFinder struct {
	groups map[string]any
	search *jmespath.Options
}

// custom follows an extractor's path to the value that holds an image. In the
// path, * means every item of a list or map.
func (i *imageFinder) custom(object map[string]any, x document.ImageExtractor) error {
	path := strings.Split(strings.Trim(x.Path, "/"), "/")
	if x.Value == "" && len(path) > 0 {
		x.Value, path = path[len(path)-1], path[:len(path)-1]
	}
	return i.walk(object, path, "", x)
}

func (i *imageFinder) walk(v any, path []string, at string, x document.ImageExtractor) error {
	if list, ok := v.([]any); ok && (len(path) == 0 || path[0] != "*") {
		path = append([]string{"*"}, path...)
		v = list
	}
	if len(path) == 0 {
		return i.take(v, at, x)
	}
	switch t := v.(type) {
	case []any:
		for elem, e := range t {
			if err := i.walk(e, path[1:], at+"/"+strconv.Itoa(elem), x); err != nil {
				return err
			}
		}
	case map[string]any:
		if path[0] != "*" {
			return i.walk(t[path[0]], path[1:], at+render.Pointer(path[0]), x)
		}
		for _, k := range slices.Sorted(maps.Keys(t)) {
			if err := i.walk(t[k], path[1:], at+render.Pointer(k), x); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i *imageFinder) take(v any, at string, x document.ImageExtractor) error {
	holder, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	value, ok := holder[x.Value]
	if !ok {
		return nil
	}
	text, ok := value.(string)
	if x.JMESPath != "" && ok {
		expr, err := jmespath.Compile(x.JMESPath)
		if err != nil {
			return err
		}
		if value, err = expr.Search(value, i.search); err != nil {
			return err
		}
		text, ok = value.(string)
	}
	if !ok {
		return fmt.Errorf("the image at %s is not a string", at+render.Pointer(x.Value))
	}
	if strings.TrimSpace(text) == "" {
		return nil // Kyverno skips empty strings
	}
	parts, err := parseImage(text)
	if err != nil {
		return err
	}
	parts["jsonPointer"] = at + render.Pointer(x.Value)
	i.put(at, holder, x, parts)
	return nil
}

// put adds an image to its group, under the value of its key or else under its
// path.
func (i *imageFinder) put(at string, holder map[string]any, x document.ImageExtractor, parts map[string]any) {
	name, ok := holder[x.Key].(string)
	if !ok || x.Key == "" {
		name = at + render.Pointer(x.Value)
	}
	group := cmp.Or(x.Name, "custom")
	in, ok := i.groups[group].(map[string]any)
	if !ok {
		in = map[string]any{}
		i.groups[group] = in
	}
	in[name] = parts
}

// parseImage returns the parts of an image reference as the variable images has them.
func parseImage(text string) (map[string]any, error) {
	r, err := image.Parse(text)
	if err != nil {
		return nil, err
	}
	m := map[string]any{
		"registry": r.Registry, "path": r.Path, "name": r.Name,
		"reference": r.String(), "referenceWithTag": r.Registry + "/" + r.Path + ":" + r.Tag,
	}
	if r.Tag != "" {
		m["tag"] = r.Tag
	}
	if r.Digest != "" {
		m["digest"] = r.Digest
	}
	return m, nil
}
