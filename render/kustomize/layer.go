package kustomize

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// transformed returns the origin of a value that a kustomization's field sets,
// whatever the earlier value was: JSON patches, replacements, namespace,
// labels, annotations, replicas, images and generators. The entry counts if its
// value is the object's.
func (f *field) transformed() []render.Origin {
	if !render.IsScalar(f.value) {
		return nil
	}
	for _, n := range f.p.chain {
		for _, ask := range []func(*field, *node) []render.Origin{
			(*field).replacement, (*field).image, (*field).replicas, (*field).jsonPatch, (*field).label,
			(*field).namespace, (*field).generated, (*field).plugged,
		} {
			if found := ask(f, n); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

func (f *field) patchAt(n *node, at ...any) []render.Origin {
	return []render.Origin{{Span: n.at(at...), Role: render.Patch}}
}

func (f *field) generated(n *node) []render.Origin {
	g := n.generator(f.p.value)
	if g == nil || f.p.base != nil && f.path[0] != "data" && f.path[0] != "binaryData" {
		return nil
	}
	return g.field(f.p.o.w, n, f)
}

// plugged does what label and namespace do, for transformers that are
// configured as plugins.
func (f *field) plugged(n *node) []render.Origin {
	for _, p := range slices.Backward(n.plugins) {
		var at []any
		switch kindOf(p.doc) {
		case "LabelTransformer":
			at = []any{"labels", f.last()}
		case "AnnotationsTransformer":
			at = []any{"annotations", f.last()}
		case "NamespaceTransformer":
			at = []any{"metadata", "namespace"}
		}
		v, ok := render.Lookup(p.doc.Value, render.Pointer(at...))
		if ok && at != nil && equal(v, f.value) && (f.pointer == "/metadata/namespace" || at[0] == "labels" && f.above() != "annotations" || f.above() == at[0]) {
			return []render.Origin{{Span: p.at(at...), Role: render.Patch}}
		}
	}
	return nil
}

// namespace covers the places that kustomize's NamespaceTransformer sets.
func (f *field) namespace(n *node) []render.Origin {
	ns := n.spec.Namespace
	if ns == "" || f.value != ns || f.p.base != nil && f.p.base.chart != nil {
		return nil
	}
	object := f.pointer == "/metadata/namespace" || f.pointer == "/metadata/name" && text(f.p.value, "kind") == "Namespace"
	subject := f.last() == "namespace" && (f.path[0] == "subjects" || f.above() == "service")
	if !object && !(subject && f.moved(n)) {
		return nil
	}
	return f.patchAt(n, "namespace")
}

// moved reports whether a kustomization set the namespace in a reference along
// with the namespace of the object that it refers to. kustomize does so if the
// kustomization contains that object in the namespace that the reference names,
// and for the default ServiceAccount.
func (f *field) moved(n *node) bool {
	src, at := f.original()
	if src == nil {
		return true
	}
	if v, _ := render.Lookup(src.doc.Value, at); v != f.value {
		return true
	}
	ref, _ := render.Lookup(f.p.value, parent(f.pointer))
	kind, name := text(ref, "kind"), text(ref, "name")
	if kind == "" {
		kind = "Service"
	} else if name == "default" {
		return true
	}
	return slices.ContainsFunc(f.p.o.objects, func(p *provenance) bool {
		if text(p.value, "kind") != kind || text(p.value, "metadata", "name") != name || text(p.value, "metadata", "namespace") != f.value {
			return false
		}
		p.prepare()
		if p.base == nil || !slices.Contains(p.chain, n) {
			return false
		}
		was, _ := render.Lookup(p.base.doc.Value, p.base.object(p.value))
		return text(was, "metadata", "namespace") == f.value
	})
}

func (f *field) label(n *node) []render.Origin {
	v, ok := f.value.(string)
	if !ok || len(f.path) < 2 {
		return nil
	}
	key, above := f.last(), f.above()
	meta := len(f.path) == 3 && f.path[0] == "metadata"
	if above == "annotations" && n.spec.CommonAnnotations[key] == v {
		return f.patchAt(n, "commonAnnotations", key)
	}
	if above != "labels" && above != "matchLabels" && above != "selector" {
		return nil
	}
	if have, ok := n.spec.CommonLabels[key]; ok && have == v {
		return f.patchAt(n, "commonLabels", key)
	}
	for i, l := range slices.Backward(n.spec.Labels) {
		have, ok := l.Pairs[key]
		reaches := meta || l.IncludeSelectors || above == "labels" && (l.IncludeTemplates || l.IncludeVolumeClaimTemplates) || len(l.FieldSpecs) > 0
		if ok && have == v && reaches {
			return f.patchAt(n, "labels", i, "pairs", key)
		}
	}
	return nil
}

func (f *field) replicas(n *node) []render.Origin {
	if f.pointer != "/spec/replicas" {
		return nil
	}
	for i, r := range slices.Backward(n.spec.Replicas) {
		if equal(f.value, r.Count) && slices.Contains(f.p.candidate().names, r.Name) {
			return f.patchAt(n, "replicas", i, "count")
		}
	}
	return nil
}

// image returns the origin of an image: the entry's tag or digest, or its name
// if only the name is new, and then the line with the image itself.
func (f *field) image(n *node) []render.Origin {
	image, ok := f.value.(string)
	if !ok || f.last() != "image" && f.last() != "reference" {
		return nil
	}
	src, at := f.original()
	before := ""
	if src != nil {
		v, _ := render.Lookup(src.doc.Value, at)
		before, _ = v.(string)
	}
	field, entries := "images", n.spec.Images
	if len(entries) == 0 {
		field, entries = "imageTags", n.spec.ImageTags
	}
	for i, im := range slices.Backward(entries) {
		if part := imagePart(im, image, before); part != "" {
			found := f.patchAt(n, field, i, part)
			if src != nil {
				found = append(found, src.origins(at)...)
			}
			return found
		}
	}
	return nil
}

// imagePart returns the field of an images entry that explains how an image
// changed.
func imagePart(im types.Image, image, before string) string {
	name := im.Name
	if im.NewName != "" {
		name = im.NewName
	}
	rest, ok := strings.CutPrefix(image, name)
	if !ok || before != "" && imageName(before) != im.Name || rest != "" && rest[0] != ':' && rest[0] != '@' {
		return ""
	}
	switch {
	case im.Digest != "" && strings.HasSuffix(rest, "@"+im.Digest):
		return "digest"
	case im.NewTag != "" && rest == ":"+im.NewTag:
		return "newTag"
	case im.TagSuffix != "" && strings.HasSuffix(rest, im.TagSuffix):
		return "tagSuffix"
	case im.NewName != "" && im.NewTag == "" && im.Digest == "":
		return "newName"
	}
	return ""
}

func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	slash := strings.LastIndexByte(image, '/')
	if colon := strings.LastIndexByte(image, ':'); colon > slash {
		image = image[:colon]
	}
	return image
}

// affixes returns the namePrefix and nameSuffix entries that turn was into now.
func (f *field) affixes(now, was string) []render.Origin {
	before, after, ok := strings.Cut(now, was)
	if !ok || now == was {
		return nil
	}
	var found []render.Origin
	for _, n := range f.p.chain {
		if s := n.spec.NamePrefix; s != "" && strings.Contains(before, s) {
			found = append(found, f.patchAt(n, "namePrefix")...)
		}
		if s := n.spec.NameSuffix; s != "" && strings.Contains(after, s) {
			found = append(found, f.patchAt(n, "nameSuffix")...)
		}
	}
	return found
}

// jsonPatch finds the operation that wrote a value, by its path and value.
func (f *field) jsonPatch(n *node) []render.Origin { return f.operation(n, exactly) }

// patched does what jsonPatch does if later operations may have moved items of
// lists.
func (f *field) patched() []render.Origin {
	for _, n := range f.p.chain {
		if found := f.operation(n, anyIndex); len(found) > 0 {
			return found
		}
	}
	return nil
}

func exactly(a, b string) bool { return a == b || a == "-" && isIndex(b) }

func anyIndex(a, b string) bool { return a == b || (a == "-" || isIndex(a)) && isIndex(b) }

func isIndex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// operation returns the JSON patch operation that best explains the field or a
// value around it. Items that are added to lists at "-" are identified by their
// values, and equal items by their order. Otherwise the last operation wins.
func (f *field) operation(n *node, same func(a, b string) bool) []render.Origin {
	var best []writing
	for _, p := range slices.Backward(n.patches) {
		if !p.json() || !f.p.selects(p) {
			continue
		}
		for _, doc := range slices.Backward(p.docs) {
			ops, _ := doc.Value.([]any)
			for i, op := range slices.Backward(ops) {
				w, ok := f.writtenBy(op, same)
				switch {
				case !ok || len(best) > 0 && w.score < best[0].score:
					continue
				case len(best) > 0 && w.score > best[0].score:
					best = nil
				}
				w.source = &source{doc: doc, owner: n, patch: p, shifted: p.text != ""}
				w.at = fmt.Sprint("/", i, w.at)
				best = append(best, w)
			}
		}
	}
	if len(best) == 0 {
		return nil
	}
	w := best[f.rank(best)]
	return w.source.origins(w.at)
}

// A writing is an operation that may have written a field.
type writing struct {
	source *source
	at     string // of the value in the patch
	depth  int    // depth of the written value, in elements of the field's path
	score  int
}

// How certain it is that an operation wrote the value around a field.
const (
	otherName = iota // it has the same value for the field, in an item of another name
	sameField        // the value around the field has no name
	sameName         // the merge keys are equal too
	sameValue        // and so is everything in it
)

// writtenBy reports whether an operation gave the field its value, and at which
// place inside the operation.
func (f *field) writtenBy(op any, same func(a, b string) bool) (writing, bool) {
	path := render.Path(text(op, "path"))
	if len(path) > len(f.path) {
		return writing{}, false
	}
	for i := range path {
		if !same(path[i], f.path[i]) {
			return writing{}, false
		}
	}
	m, _ := op.(map[string]any)
	switch text(op, "op") {
	case "add", "replace":
	case "copy", "move":
		return writing{at: "/from", depth: len(path)}, text(op, "from") != ""
	default:
		return writing{}, false
	}
	w := writing{depth: len(path), score: f.likeness(m["value"], len(path))}
	at := ""
	for _, key := range f.path[len(path):] {
		at += render.Pointer(key)
	}
	v, ok := render.Lookup(m["value"], at)
	w.at = "/value" + at
	return w, ok && (render.IsScalar(f.value) && equal(v, f.value) || !render.IsScalar(f.value) && !render.IsScalar(v))
}

// likeness compares the value that an operation wrote with the current value.
func (f *field) likeness(wrote any, depth int) int {
	now, _ := render.Lookup(f.p.value, render.PathPointer(f.path[:depth]))
	if render.IsScalar(wrote) && equal(wrote, now) || reflect.DeepEqual(wrote, now) {
		return sameValue
	}
	a, _ := wrote.(map[string]any)
	b, _ := now.(map[string]any)
	for _, key := range mergeKeys {
		if v, ok := a[key]; ok && render.IsScalar(v) {
			if equal(v, b[key]) {
				return sameName
			}
			return otherName
		}
	}
	return sameField
}

// rank returns the index of the operation to choose. The last operation comes
// first. Equal items appended to a list are in the order of their operations.
func (f *field) rank(all []writing) int {
	w := all[0]
	if w.score < sameValue || w.depth == 0 || !isIndex(f.path[w.depth-1]) {
		return 0
	}
	v, _ := render.Lookup(f.p.value, render.PathPointer(f.path[:w.depth-1]))
	list, _ := v.([]any)
	i, err := strconv.Atoi(f.path[w.depth-1])
	if err != nil || i >= len(list) {
		return 0
	}
	after := 0
	for _, item := range list[i+1:] {
		if reflect.DeepEqual(item, list[i]) {
			after++
		}
	}
	return min(after, len(all)-1)
}
