package kyverno

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/image"
	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/internal/pattern"
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

// verifies is the phase of verifyImages rules. Signatures and attestations need
// a registry and keys, so only checks of the object itself are decided here.
var verifies = phase{
	concerns: func(r *Rule) bool { return len(r.VerifyImages) > 0 },
	run: func(x *run) []Response {
		if x.review.object == nil {
			return nil
		}
		s := x.review.scopeOf(x.program.rule, x.program.entries)
		images, err := x.matchingImages(s)
		switch {
		case err != nil:
			return []Response{x.response(broken("failed to extract images", err))}
		case len(images) == 0:
			return nil
		}
		v, _ := x.admits(s)
		if v == nil {
			v = x.evaluateImages(images)
		}
		return []Response{x.response(v)}
	},
}

// An imageMatch is an image of the object that an entry of verifyImages names.
type imageMatch struct {
	entry *document.VerifyImages
	image map[string]any
}

// matchingImages returns the images that the entries name, in the order of the
// entries.
func (r *run) matchingImages(s *scope) ([]imageMatch, error) {
	images, _, err := s.Lookup("images")
	if err != nil {
		return nil, err
	}
	groups, _ := images.(map[string]any)
	var found []imageMatch
	for _, entry := range r.program.rule.VerifyImages {
		for _, group := range slices.Sorted(maps.Keys(groups)) {
			in, _ := groups[group].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(in)) {
				image, _ := in[name].(map[string]any)
				if ref, _ := image["reference"].(string); pattern.AnyWildcard(entry.ImageReferences, ref) {
					found = append(found, imageMatch{entry, image})
				} else {
					r.review.trace.image(entry, image, nil)
				}
			}
		}
	}
	return found, nil
}

// evaluateImages evaluates the images in order and returns the first verdict
// that is neither a pass nor a skip.
func (r *run) evaluateImages(images []imageMatch) *verdict {
	var result *verdict
	for _, m := range images {
		v := r.evaluateImage(m.entry, m.image)
		r.review.trace.image(m.entry, m.image, v)
		switch {
		case v.status != StatusPass && v.status != StatusSkip:
			return v
		case result == nil || result.status == StatusSkip:
			result = v
		}
	}
	return result
}

func (r *run) evaluateImage(entry *document.VerifyImages, image map[string]any) *verdict {
	ref, _ := image["reference"].(string)
	at, _ := image["jsonPointer"].(string)
	if pattern.AnyWildcard(entry.SkipImageReferences, ref) {
		return &verdict{status: StatusSkip, message: "skipping image verification since image reference " + ref + " is skipped"}
	}
	digest, _ := image["digest"].(string)
	verified := r.verified(ref)
	switch {
	case entry.VerifyDigest && digest == "" && (!entry.MutateDigest || r.review.engine.options.CLI):
		return &verdict{status: StatusFail, message: "missing digest for " + ref, fields: []string{at}}
	case entry.MutateDigest && digest == "" && !r.review.engine.options.CLI:
		return r.unverifiable(fmt.Sprintf("image %s: its digest is in the registry", ref), at)
	case entry.Attestors+entry.Attestations > 0 && !verified:
		return r.unverifiable("image "+ref, at)
	case entry.Required && !verified:
		return &verdict{status: StatusFail, message: "unverified image " + ref, fields: []string{at}}
	}
	return &verdict{status: StatusPass, message: "image verified"}
}

const verifiedAnnotation = "kyverno.io/verify-images"

// verified reports whether the object's annotation records that an image was
// verified. In a cluster Kyverno alone writes it, so the annotation in a
// manifest does not count.
func (r *run) verified(ref string) bool {
	if !r.review.engine.options.CLI {
		return false
	}
	v, _ := lookup(r.review.object, "metadata", "annotations", verifiedAnnotation)
	text, _ := v.(string)
	var all map[string]any
	if json.Unmarshal([]byte(text), &all) != nil {
		return false
	}
	for name, state := range all {
		if pattern.Wildcard(name, ref) && (state == "pass" || state == true) {
			return true
		}
	}
	return false
}
