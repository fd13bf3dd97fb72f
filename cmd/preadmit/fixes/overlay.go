package fixes

import (
	"cmp"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/yamledit"
)

// A patch is a strategic merge patch for one object, in a file or inline in a kustomization.
type patch struct {
	inline bool           // in the field patches of the edit's file, added where there is none
	object map[string]any // the fields by which the patch names its object
	keys   []string       // by segment of the edit's pointer: the merge key, if the segment names an element of a list
}

// overlays returns the edits that make a fix by a patch in a kustomization between the object and its manifest,
// the one nearest to the manifest first. Kustomizations that also bring objects without the failure are left
// out. wide is true if there is such an object, so that an edit of the manifest would change it, too.
func (p *placer) overlays(o *render.Object, f policy.Fix, fails map[*render.Object]bool) (all []edit, wide bool) {
	if cmp.Or(o.Unit.Renderer, o.Unit.Kind) != "kustomize" || f.Key != "" || f.Source == policy.FixType || f.Source == policy.FixSchema {
		return nil, false
	}
	from := manifest(o)
	reached := make(map[string]bool) // the kustomizations that bring an object without the failure
	for _, other := range p.made[from] {
		if !fails[other] && from.Line > 0 {
			wide = true
			for _, dir := range p.layers(other.Unit.Path, from.File) {
				reached[dir] = true
			}
		}
	}
	for _, dir := range slices.Backward(p.layers(o.Unit.Path, from.File)) {
		if reached[dir] {
			continue
		}
		if e, ok := p.patch(dir, o, f); ok {
			all = append(all, e)
		}
	}
	return all, wide
}

// manifest returns the place of the manifest that an object is made of.
func manifest(o *render.Object) render.Span {
	for _, at := range o.At("/kind") {
		if at.Role == render.Manifest {
			return at.Span
		}
	}
	return render.Span{}
}

// layers returns the directories of the kustomizations from dir to the one above that which has file among
// its own resources. If dir itself has it, or none is found to, that is dir alone.
func (p *placer) layers(dir, file string) []string {
	key := [2]string{dir, file}
	if p.ways[key] == nil {
		p.ways[key] = []string{dir}
		if found := p.way(dir, file, make(map[string]bool)); len(found) > 1 {
			p.ways[key] = found[:len(found)-1]
		}
	}
	return p.ways[key]
}

// way returns the directories from dir to the one that has file among its own resources, without those
// that were seen.
func (p *placer) way(dir, file string, seen map[string]bool) []string {
	spec, _ := p.kustomization(dir)
	if spec == nil || seen[dir] {
		return nil
	}
	seen[dir] = true
	for _, resource := range slices.Concat(texts(spec["resources"]), texts(spec["bases"])) {
		at := path.Join(dir, resource)
		if at == file {
			return []string{dir}
		}
		if below := p.way(at, file, seen); below != nil {
			return append([]string{dir}, below...)
		}
	}
	return nil
}

// kustomization returns the content and the name of a directory's kustomization that may be edited.
func (p *placer) kustomization(dir string) (spec map[string]any, file string) {
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		file = path.Join(dir, base)
		if d := p.places(file).documents; len(d) == 1 {
			spec, _ = d[0].Value.(map[string]any)
			return spec, file
		}
	}
	return nil, ""
}

func texts(list any) (all []string) {
	items, _ := list.([]any)
	for _, item := range items {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// untargeted yields those of a kustomization's patches that name their object themselves, by their index.
func untargeted(kustomization any) iter.Seq2[int, map[string]any] {
	return func(yield func(int, map[string]any) bool) {
		all, _ := render.Lookup(kustomization, "/patches")
		items, _ := all.([]any)
		for i, item := range items {
			if item, ok := item.(map[string]any); ok && item["target"] == nil && !yield(i, item) {
				return
			}
		}
	}
}

// patch returns the edit that makes a fix in a patch of a directory's kustomization: in the first of its
// files that patches the object, else in the kustomization itself. ok is false if a strategic merge patch
// can't make it.
func (p *placer) patch(dir string, o *render.Object, f policy.Fix) (e edit, ok bool) {
	spec, file := p.kustomization(dir)
	if spec == nil {
		return e, false
	}
	e = edit{file: file, Edit: f.Edit, patch: &patch{inline: true, object: p.identity(o)}}
	files := texts(spec["patchesStrategicMerge"])
	for _, item := range untargeted(spec) {
		name, _ := item["path"].(string)
		files = append(files, name)
	}
	for _, name := range files {
		name = path.Join(dir, name)
		for _, d := range p.places(name).documents {
			if (dir == "." || strings.HasPrefix(name, dir+"/")) && e.patch.of(d.Value) {
				e.file, e.document, e.patch.inline = name, d.Index, false
				return e, e.merge(o, f)
			}
		}
	}
	return e, e.merge(o, f)
}

// identity returns the fields by which a patch names an object: its kind, and the name and namespace of its manifest.
func (p *placer) identity(o *render.Object) map[string]any {
	from, metadata := o.Object, map[string]any{}
	at := manifest(o)
	if place, ok := p.places(at.File).fields[yamledit.WithoutFile(at)]; ok {
		from, _ = place.Root.(map[string]any)
	}
	for _, field := range []string{"name", "namespace"} {
		if v, ok := render.Lookup(from, "/metadata/"+field); ok {
			metadata[field] = v
		}
	}
	return map[string]any{"apiVersion": from["apiVersion"], "kind": from["kind"], "metadata": metadata}
}

// of reports whether a document is a patch for the object.
func (x *patch) of(document any) bool {
	for _, field := range []string{"/kind", "/metadata/name", "/metadata/namespace"} {
		was, _ := render.Lookup(document, field)
		if want, _ := render.Lookup(x.object, field); !render.Equal(was, want) {
			return false
		}
	}
	return true
}

// merge turns the edit into one of a strategic merge patch: elements of a list are named by their merge key, and
// a list of scalars is written as a whole. It reports whether that is possible.
func (e *edit) merge(o *render.Object, f policy.Fix) bool {
	fixed, err := f.Apply(o.Object)
	if err != nil {
		return false
	}
	var fields strategicpatch.LookupPatchMeta // nil where they are not known
	if typed, err := scheme.Scheme.New(o.GroupVersionKind()); err == nil {
		fields, _ = strategicpatch.NewPatchMetaFromStruct(typed)
	}
	path := render.Path(f.Pointer)
	var value any = o.Object
	var list string // the merge key of the list that value is
	for i, segment := range path {
		elements, isList := value.([]any)
		switch {
		case isList && !slices.ContainsFunc(elements, func(v any) bool { return !render.IsScalar(v) }):
			e.Pointer, e.Delete = render.PathPointer(path[:i]), false
			e.Value, _ = render.Lookup(fixed, render.PathPointer(render.Path(f.Pointer)[:i]))
			return true
		case isList:
			element, _ := render.Lookup(value, render.Pointer(segment))
			name, _ := render.Lookup(element, render.Pointer(list))
			text, ok := name.(string)
			if !ok || list == "" || f.Delete && i == len(path)-1 {
				return false
			}
			path[i], value = text, element
			e.patch.keys = append(e.patch.keys, list)
			continue
		}
		e.patch.keys, list = append(e.patch.keys, ""), ""
		value, _ = render.Lookup(value, render.Pointer(segment))
		if fields == nil {
			continue
		}
		var meta strategicpatch.PatchMeta
		if _, isList := value.([]any); isList {
			fields, meta, err = fields.LookupPatchMetadataForSlice(segment)
			list = meta.GetPatchMergeKey()
		} else {
			fields, _, err = fields.LookupPatchMetadataForStruct(segment)
		}
		if err != nil {
			fields = nil
		}
	}
	e.Pointer, e.Delete = render.PathPointer(path), false // null deletes
	return true
}

// apply returns the text of the edit's file with the edit.
func (e edit) apply(data []byte) ([]byte, error) {
	x := e.patch
	if x == nil {
		return yamledit.Apply(e.file, data, e.document, e.Edit)
	}
	docs, err := render.Documents(e.file, data, render.YAML11)
	if err != nil {
		return nil, err
	}
	var content any
	for _, d := range docs {
		if d.Index == e.document {
			content = d.Value
		}
	}
	if !x.inline {
		return yamledit.Apply(e.file, data, e.document, x.within(content, e.Edit))
	}
	for i, item := range untargeted(content) {
		text, _ := item["patch"].(string)
		inner, err := render.Documents("", []byte(text), render.YAML11)
		if err == nil && len(inner) == 1 && x.of(inner[0].Value) {
			edited := x.within(inner[0].Value, e.Edit)
			edited.Pointer = "/patches/" + strconv.Itoa(i) + "/patch" + edited.Pointer
			return yamledit.Apply(e.file, data, e.document, edited)
		}
	}
	whole, err := x.within(x.object, e.Edit).Apply(x.object)
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(whole)
	if err != nil {
		return nil, err
	}
	return yamledit.Apply(e.file, data, e.document, render.Edit{Pointer: "/patches/-", Value: map[string]any{"patch": strings.TrimSuffix(string(text), "\n")}})
}

// within returns the edit with the places of the list elements in the content of a patch. An element that
// the patch does not have is added.
func (x *patch) within(content any, e render.Edit) render.Edit {
	path := render.Path(e.Pointer)
	for i := range path {
		list, _ := render.Lookup(content, render.PathPointer(path[:i]))
		if x.keys[i] == "" {
			continue
		}
		elements, _ := list.([]any)
		n := slices.IndexFunc(elements, func(v any) bool {
			element, _ := v.(map[string]any)
			return element[x.keys[i]] == path[i]
		})
		if n >= 0 {
			path[i] = strconv.Itoa(n)
			continue
		}
		return render.Edit{Pointer: render.PathPointer(path[:i]) + "/-", Value: x.element(path, i, e.Value)}
	}
	e.Pointer = render.PathPointer(path)
	return e
}

// element returns a new list element for the segment of a path at i, with a value at the path's end.
func (x *patch) element(path []string, i int, value any) any {
	for j := len(path) - 1; ; j-- {
		if x.keys[j] == "" {
			value = map[string]any{path[j]: value}
			continue
		}
		fields, _ := value.(map[string]any)
		element := map[string]any{x.keys[j]: path[j]}
		maps.Copy(element, fields)
		if j == i {
			return element
		}
		value = []any{element}
	}
}
