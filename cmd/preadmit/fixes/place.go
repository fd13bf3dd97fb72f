package fixes

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/yamledit"
)

// An edit is an edit of a document of a file.
type edit struct {
	file     string
	document int
	render.Edit
	patch *patch // of an overlay, in which the edit is made; nil for the edit of a field that is there
}

// A placer translates changes of objects to edits of files.
type placer struct {
	in    *load.Input
	files map[string]*places                    // of the files that may be edited; empty for others
	texts map[string][]byte                     // of these files
	made  map[render.Span][]*render.Object      // objects by the place of their manifest
	fails map[[2]string]map[*render.Object]bool // those that fail, by policy and rule
	ways  map[[2]string][]string                // known results of layers
}

// places are the documents of a file, with the field at each place.
type places struct {
	documents []render.Document
	fields    map[render.Span]yamledit.Place
}

// all returns the edits that may make a fix of a finding, the best first: where the field is written, and
// in a patch of an overlay. The patch comes first if it changes only objects with the finding.
func (p *placer) all(f *Finding, x policy.Fix) []edit {
	there, _ := p.edits(f.object, x)
	patches, wide := p.overlays(f.object, x, p.fails[[2]string{f.Result.Policy, f.Result.Rule}])
	if wide {
		return append(patches, there...)
	}
	return append(there, patches...)
}

// edits returns the edits that may make a fix, each in another place of those that determine the
// field, the nearest first. If a template writes it, those are the values of the chart whose names end
// with that of the field or of a parent. ok is false if there are none.
func (p *placer) edits(o *render.Object, f policy.Fix) (all []edit, ok bool) {
	field, appends := strings.CutSuffix(f.Pointer, "/-")
	for _, at := range o.At(field) {
		if at.Role != render.Manifest && at.Role != render.Patch && at.Role != render.Value {
			continue
		}
		place, ok := p.places(at.File).fields[yamledit.WithoutFile(at.Span)]
		if !ok {
			continue
		}
		pointer, value := place.Pointer, place.Value
		path, operation := patched(place)
		below, ok := aligned(path, render.Path(field))
		if at.Role == render.Value {
			below, ok = valueBelow(render.Path(place.Below), render.Path(field), value)
		}
		if !ok || len(below) > 0 && value != nil && render.IsScalar(value) {
			continue
		}
		e := edit{file: at.File, document: place.Document, Edit: f.Edit}
		e.Pointer = pointer + render.PathPointer(below)
		if _, isText := f.Value.(string); f.Source == policy.FixType && isText {
			e.Value = written(p.texts[at.File], at.Span) // n and on are also texts
		}
		was, _ := render.Lookup(o.Object, field)
		switch {
		case appends:
			e.Pointer += "/-"
		case at.Role != render.Value && !operation || len(below) > 0:
		case f.Delete && value == true: // a template may test it, and an operation needs a value
			e.Delete, e.Value = false, false
		case f.Delete && operation:
			e.Pointer = strings.TrimSuffix(pointer, "/value")
		case operation:
		case render.IsScalar(was) && was != nil && !render.Equal(was, value):
			continue // the value is one part of the field
		}
		if !slices.ContainsFunc(all, func(x edit) bool { return x.file == e.file && x.Pointer == e.Pointer }) {
			all = append(all, e)
		}
	}
	if len(all) == 0 && !f.Delete && o.Unit.Kind == "helm" {
		all = p.chartValues(o, f, render.Path(field))
	}
	return all, len(all) > 0
}

// patched returns the path of a place in the object that its file is about. For the value of an
// operation of a JSON patch that is the operation's path, and whole is true.
func patched(place yamledit.Place) (path []string, whole bool) {
	path = render.Path(place.Below)
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == "value" && isIndex(path[i-1]) {
			at, _ := render.Lookup(place.Root, render.PathPointer(path[:i])+"/path")
			if text, ok := at.(string); ok {
				return append(render.Path(text), path[i+1:]...), i == len(path)-1
			}
		}
	}
	return path, false
}

// written returns the text of a place on one line.
func written(data []byte, at render.Span) string {
	lines := strings.Split(string(data), "\n")
	if at.Line > len(lines) {
		return ""
	}
	line := []rune(strings.TrimSuffix(lines[at.Line-1], "\r"))
	return string(line[min(at.Column-1, len(line)):min(at.EndColumn-1, len(line))])
}

// chartValues returns the edits of mappings among a chart's values that a template may put at a field.
func (p *placer) chartValues(o *render.Object, f policy.Fix, field []string) (all []edit) {
	files := []string{path.Join(o.Unit.Path, "values.yaml")}
	if o.Unit.Helm != nil {
		files = append(files, o.Unit.Helm.ValueFiles...)
	}
	template := p.template(o, field)
	inContainer := strings.Contains(strings.ToLower(f.Pointer), "containers/")
	for _, file := range slices.Backward(files) {
		for _, d := range p.places(file).documents {
			for pointer, v := range render.Fields(d.Value, "") {
				m, isMap := v.(map[string]any)
				place := render.Path(pointer)
				below, ok := valueBelow(place, field, map[string]any{})
				if !ok || len(below) == 0 || !isMap && v != nil || !strings.Contains(template, "."+place[len(place)-1]) {
					continue
				}
				e := edit{file: file, document: d.Index, Edit: f.Edit}
				e.Pointer = pointer + render.PathPointer(below) + strings.TrimPrefix(f.Pointer, render.PathPointer(field))
				if forPod := strings.HasPrefix(strings.ToLower(place[len(place)-1]), "pod"); forPod == inContainer || m == nil {
					all = append(all, e)
				} else {
					all = slices.Insert(all, 0, e)
				}
			}
		}
	}
	return all[:min(len(all), maxPlaces)]
}

// template returns the text of the templates that write a field.
func (p *placer) template(o *render.Object, field []string) string {
	var b strings.Builder
	for _, at := range o.At(render.PathPointer(field)) {
		if data, err := render.ReadFile(p.in.Tree, at.File); err == nil && at.Role == render.Template {
			b.Write(data)
		}
	}
	return b.String()
}

// maxPlaces limits the values that are tried for a field.
const maxPlaces = 3

// places returns the documents of a file of the work tree that may be edited. It returns none for
// files of git and preadmit, files outside of the repository, and links.
func (p *placer) places(file string) *places {
	if known := p.files[file]; known != nil {
		return known
	}
	found := &places{}
	p.files[file] = found
	if Reserved(file) || !p.in.Tree.WorkTree() || linked(p.in.Tree, file) {
		return found
	}
	if info, err := p.in.Tree.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return found
	}
	data, err := render.ReadFile(p.in.Tree, file)
	if err != nil {
		return found
	}
	found.documents, _ = render.Documents(file, data, render.YAML11)
	found.fields, p.texts[file] = yamledit.Places(found.documents), data
	return found
}

// linked reports whether a directory on the way to a file is a link.
func linked(tree *load.Tree, file string) bool {
	for i, c := range file {
		if c != '/' {
			continue
		}
		if info, err := tree.Lstat(file[:i]); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// aligned returns what remains of a field's path below a place in a manifest or patch, whose own
// path ends like a beginning of the field's. Indices may differ.
func aligned(place, field []string) (below []string, ok bool) {
	keys := named(place)
	for i := len(field); i > 0; i-- {
		if above := named(field[:i]); len(above) <= len(keys) && slices.Equal(above, keys[len(keys)-len(above):]) && isIndex(field[i-1]) == isIndex(place[len(place)-1]) {
			return field[i:], true
		}
	}
	return nil, false
}

// valueBelow is aligned for a value of a chart, which a template puts at a field whose name is that of
// the value, or ends it, such as podSecurityContext.
func valueBelow(place, field []string, value any) (below []string, ok bool) {
	if len(place) == 0 {
		return nil, false
	}
	name := strings.ToLower(place[len(place)-1])
	for i := len(field); i > 0; i-- {
		if strings.HasSuffix(name, strings.ToLower(field[i-1])) && !isIndex(field[i-1]) {
			return field[i:], true
		}
	}
	return nil, value != nil && render.IsScalar(value) // the field itself, under another name
}

func named(path []string) []string { return slices.DeleteFunc(slices.Clone(path), isIndex) }

func isIndex(segment string) bool {
	_, err := strconv.Atoi(segment)
	return err == nil
}
