package flux

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"reflect"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
)

// generate adds to an artifact the kustomization.yaml that the controller
// builds: the directory's own, or one with all manifests in and below the
// directory, both with the fields of the spec.
func (t *task) generate(a artifact, dir string, spec *kustomizationSpec) (artifact, error) {
	g, err := newGenerated(a, dir, t.object)
	if err != nil {
		return artifact{}, err
	}
	if err := g.apply(a, dir, spec); err != nil {
		return artifact{}, err
	}
	overlay, over := a.over()
	return over, overlay.WriteFrom(g.name, value(&g.spec), g)
}

// value returns a kustomization in the form that is written to a file.
func value(k *types.Kustomization) any {
	data, _ := yaml.Marshal(k)
	var v any
	_ = yaml.Unmarshal(data, &v)
	return v
}

// A generated is a kustomization that knows where its fields are written: in
// the file that it was made from, or in the spec of a Flux object.
type generated struct {
	name   string
	spec   types.Kustomization
	file   *render.Object    // its fields; nil if all of them are generated
	object *render.Object    // the Flux object
	moved  map[string]string // by pointer in the file: the pointer in the Flux object
}

func newGenerated(a artifact, dir string, o *render.Object) (*generated, error) {
	g := &generated{object: o, moved: make(map[string]string)}
	g.spec.APIVersion, g.spec.Kind = types.KustomizationVersion, types.KustomizationKind
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		g.name = path.Join(dir, base)
		if info, err := fs.Stat(a.fsys, g.name); err == nil && !info.IsDir() {
			return g, g.read(a)
		}
	}
	g.name = path.Join(dir, konfig.DefaultKustomizationFileName())
	return g, g.scan(a, dir)
}

// read reads the directory's own kustomization. Like the controller it drops
// fields that kustomize does not have.
func (g *generated) read(a artifact) error {
	data, err := render.ReadFile(a.fsys, g.name)
	if err != nil {
		return a.errors(err)
	}
	docs, err := render.Documents(g.name, data, render.YAML11)
	if len(render.Failures(err)) > 0 {
		return a.errors(err)
	}
	if len(docs) > 0 {
		g.file = &render.Object{Provenance: a.provenance(docs[0].Positions)}
	}
	if err := yaml.Unmarshal(data, &g.spec); err != nil {
		if len(docs) > 0 && reflect.TypeOf(docs[0].Value) != reflect.TypeFor[map[string]any]() {
			return a.errors(&render.Error{Span: docs[0].Span, Rule: "not-a-kustomization", Err: errors.New("kustomization is not an object: does a key lack its colon?")})
		}
		return a.errors(&render.Error{Span: render.Span{File: g.name}, Rule: "not-a-kustomization", Err: errors.New("kustomization has a field of the wrong type")})
	}
	if len(g.spec.Resources) == 0 {
		g.spec.BuildMetadata = []string{types.OriginAnnotations}
	}
	return nil
}

// scan lists the manifests in and below a directory. A directory with a
// kustomization is listed as such.
func (g *generated) scan(a artifact, dir string) error {
	err := fs.WalkDir(a.fsys, dir, func(name string, d fs.DirEntry, err error) error {
		switch ext := path.Ext(name); {
		case err != nil || name == dir:
			return err
		case d.IsDir() && hasKustomization(a.fsys, name):
			g.spec.Resources = append(g.spec.Resources, "./"+relative(dir, name))
			return fs.SkipDir
		case !d.IsDir() && (ext == ".yaml" || ext == ".yml"):
			g.spec.Resources = append(g.spec.Resources, "./"+relative(dir, name))
		}
		return nil
	})
	if err != nil {
		return &render.Error{Span: render.Span{File: dir}, Rule: "unreadable", Err: errors.New("directory can't be read")}
	}
	if len(g.spec.Resources) == 0 {
		g.spec.Namespace = "_placeholder" // as the controller does, since kustomize refuses an empty file
	}
	return nil
}

func hasKustomization(fsys fs.FS, dir string) bool {
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		if info, err := fs.Stat(fsys, path.Join(dir, base)); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

// apply sets the fields of a spec in the kustomization.
func (g *generated) apply(a artifact, dir string, spec *kustomizationSpec) error {
	g.replace("namespace", &g.spec.Namespace, "targetNamespace", spec.TargetNamespace)
	g.replace("namePrefix", &g.spec.NamePrefix, "namePrefix", spec.NamePrefix)
	g.replace("nameSuffix", &g.spec.NameSuffix, "nameSuffix", spec.NameSuffix)
	g.patches(spec)
	for i, c := range spec.Components {
		switch {
		case !local(c):
			return errorAt(g.object, render.Pointer("spec", "components", i), "outside-tree", "component %s must be a relative path", c)
		case spec.IgnoreMissingComponents && !exists(a.fsys, path.Join(dir, c)):
			continue
		}
		g.move("components", len(g.spec.Components), "components", i)
		g.spec.Components = append(g.spec.Components, c)
	}
	g.images(spec.Images)
	if len(spec.BuildMetadata) > 0 {
		g.spec.BuildMetadata = spec.BuildMetadata
		g.moved["/buildMetadata"] = "/spec/buildMetadata"
	}
	return nil
}

func exists(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return err == nil
}

// local reports whether a component is a relative path, not a URL or an
// absolute path.
func local(name string) bool {
	lower := strings.ToLower(name)
	for _, prefix := range []string{"git::", "gh:", "ssh://", "https://", "http://", "git@", "github.com:", "github.com/"} {
		if len(name) > len(prefix) && strings.HasPrefix(lower, prefix) {
			return false
		}
	}
	return !path.IsAbs(name) && !path.IsAbs(strings.TrimPrefix(lower, "file://"))
}

func (g *generated) replace(field string, to *string, from, v string) {
	if v != "" {
		*to = v
		g.moved["/"+field] = "/spec/" + from
	}
}

// move records that an entry of a list comes from the spec.
func (g *generated) move(field string, i int, from string, j int) {
	g.moved[render.Pointer(field, i)] = render.Pointer("spec", from, j)
}

func (g *generated) patches(spec *kustomizationSpec) {
	for i, p := range spec.Patches {
		g.move("patches", len(g.spec.Patches), "patches", i)
		g.spec.Patches = append(g.spec.Patches, types.Patch{Patch: p.Patch, Target: p.Target.kustomize()})
	}
	for i, p := range spec.PatchesStrategicMerge {
		g.move("patchesStrategicMerge", len(g.spec.PatchesStrategicMerge), "patchesStrategicMerge", i)
		g.spec.PatchesStrategicMerge = append(g.spec.PatchesStrategicMerge, types.PatchStrategicMerge(asText(p)))
	}
	for i, p := range spec.PatchesJSON6902 {
		g.move("patchesJson6902", len(g.spec.PatchesJson6902), "patchesJson6902", i)
		g.spec.PatchesJson6902 = append(g.spec.PatchesJson6902, types.Patch{Patch: string(p.Patch), Target: p.Target.kustomize()})
	}
}

// asText returns a patch as text: JSON if it is an object, else the string.
func asText(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	return string(data)
}

// images merges images into those of the kustomization by name. A tag replaces
// a digest and a digest a tag.
func (g *generated) images(images []types.Image) {
	for i, image := range images {
		at := 0
		for at < len(g.spec.Images) && g.spec.Images[at].Name != image.Name {
			at++
		}
		if at == len(g.spec.Images) {
			g.move("images", at, "images", i)
			g.spec.Images = append(g.spec.Images, types.Image{Name: image.Name, NewName: image.NewName, NewTag: image.NewTag, Digest: image.Digest})
			continue
		}
		have := &g.spec.Images[at]
		if image.NewName != "" {
			have.NewName = image.NewName
			g.moved[render.Pointer("images", at, "newName")] = render.Pointer("spec", "images", i, "newName")
		}
		if image.NewTag != "" || image.Digest != "" {
			have.NewTag, have.Digest = image.NewTag, image.Digest
			for _, field := range []string{"newTag", "digest"} {
				g.moved[render.Pointer("images", at, field)] = render.Pointer("spec", "images", i, field)
			}
		}
	}
}

// where returns the object in which a field of the kustomization is written, and
// its pointer there.
func (g *generated) where(pointer string) (*render.Object, string) {
	for above := pointer; above != ""; above = above[:strings.LastIndexByte(above, '/')] {
		if at, ok := g.moved[above]; ok {
			return g.object, at + strings.TrimPrefix(pointer, above)
		}
	}
	if g.file != nil {
		return g.file, pointer
	}
	return g.object, cmp.Or(g.moved[""], "/spec/path")
}

// At implements render.Provenance.
func (g *generated) At(pointer string) []render.Origin {
	o, at := g.where(pointer)
	return o.At(at)
}

// Line is called by [render.Object.Line].
func (g *generated) Line(pointer string, n int) []render.Origin {
	o, at := g.where(pointer)
	return o.Line(at, n)
}
