package load

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kube "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
)

// catalogued adds definitions for custom resources that neither the tree nor
// --with defines, from the first catalogue that has their schema.
func (l *loader) catalogued(kubeVersion string, catalogues []string) {
	if len(catalogues) == 0 {
		return
	}
	versions := l.undefined(kubeVersion)
	for _, kind := range slices.SortedFunc(maps.Keys(versions), func(a, b kube.GroupKind) int { return strings.Compare(a.String(), b.String()) }) {
		schemas, file := make(map[string][]byte), ""
		for _, version := range versions[kind] {
			for _, catalogue := range catalogues {
				if data, name := l.kindSchema(catalogue, kind, version); data != nil {
					schemas[version], file = data, name
					break
				}
			}
		}
		if len(schemas) == 0 {
			continue
		}
		definition, err := crd.Catalogued(kind, schemas)
		if err != nil {
			l.in.Notes = append(l.in.Notes, fmt.Sprintf("%s: not used: %v", l.in.Tree.Display(file), err))
			continue
		}
		u := &render.Unit{Source: render.Source{FS: l.in.Tree, Path: file, Kind: "manifest"}, Name: path.Base(file)}
		u.Objects = []*render.Object{{
			Unstructured: &unstructured.Unstructured{Object: definition}, Unit: u,
			Provenance: render.File(render.Origin{Span: render.Span{File: file, Line: 1}, Role: render.Reference}),
		}}
		l.in.Context = append(l.in.Context, u)
	}
}

// undefined returns the versions of custom resources without a definition, by
// kind.
func (l *loader) undefined(kubeVersion string) map[kube.GroupKind][]string {
	head := render.Objects(l.in.Head)
	definitions := Only(slices.Concat(head, render.Objects(l.in.Context), render.Objects(l.in.Given)), func(o *render.Object) bool { return o.GetKind() == "CustomResourceDefinition" })
	kinds, _ := schema.New(definitions, schema.Options{KubeVersion: kubeVersion})
	if kinds == nil {
		return nil
	}
	defined := make(map[kube.GroupKind]bool)
	for _, o := range definitions {
		group, _ := render.Lookup(o.Object, "/spec/group")
		kind, _ := render.Lookup(o.Object, "/spec/names/kind")
		defined[kube.GroupKind{Group: fmt.Sprint(group), Kind: fmt.Sprint(kind)}] = true
	}
	versions := make(map[kube.GroupKind][]string)
	for _, o := range head {
		gvk := o.GroupVersionKind()
		if isCustom(gvk) && !defined[gvk.GroupKind()] && !lint.IsPart(o) && !kinds.Resource(gvk).Known && !slices.Contains(versions[gvk.GroupKind()], gvk.Version) {
			versions[gvk.GroupKind()] = append(versions[gvk.GroupKind()], gvk.Version)
		}
	}
	return versions
}

// isCustom reports whether a kind may be that of a custom resource, with names that can be part of
// a URL.
func isCustom(gvk kube.GroupVersionKind) bool {
	return strings.Contains(gvk.Group, ".") && len(validation.IsDNS1123Subdomain(gvk.Group))+
		len(validation.IsDNS1035Label(strings.ToLower(gvk.Kind)))+len(validation.IsDNS1035Label(gvk.Version)) == 0
}

// kindSchema reads a schema of a catalogue. It returns nil if the catalogue has none or it is not
// fetched yet.
func (l *loader) kindSchema(catalogue string, kind kube.GroupKind, version string) (data []byte, file string) {
	named := kind.Group + "/" + kind.Kind
	if !render.IsAddress(catalogue) {
		file = path.Join(path.Clean(catalogue), render.SchemaName(named, version))
	} else {
		repo, err := l.in.Tree.Store.Fetched(render.NewRemote(render.KindSchema, catalogue, named, version))
		if err != nil {
			return nil, ""
		}
		file = path.Join(repo.Root, store.SchemaFile)
	}
	data, err := render.ReadFile(l.in.Tree, file)
	if err != nil {
		return nil, ""
	}
	return data, file
}

// clusterResources reads the paths with ClusterResource documents, in which tests of Kyverno's
// policies describe the cluster. It returns their objects as units, and the other paths.
func (l *loader) clusterResources(paths []string) (units []*render.Unit, others []string, err error) {
	for _, p := range paths {
		name, err := l.in.Tree.NameOf(p, l.stdin)
		if err != nil {
			return nil, nil, err
		}
		if objects := clusterResources(l.in.Tree, name); len(objects) > 0 {
			u := &render.Unit{Source: render.Source{FS: l.in.Tree, Path: name, Kind: "manifest"}, Name: path.Base(name)}
			for _, o := range objects {
				o.Unit = u
			}
			u.Objects = objects
			units = append(units, u)
			continue
		}
		others = append(others, p)
	}
	return units, others, nil
}

// clusterResources returns the objects of a file's ClusterResource documents,
// or none for another file.
func clusterResources(t *Tree, name string) []*render.Object {
	info, err := fs.Stat(t, name)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, err := render.ReadFile(t, name)
	if err != nil || !bytes.Contains(data, []byte("cli.kyverno.io/")) {
		return nil
	}
	docs, err := render.Documents(name, data, render.YAML11)
	if err != nil {
		return nil
	}
	var all []*render.Object
	for _, d := range docs {
		m, _ := d.Value.(map[string]any)
		spec, _ := m["spec"].(map[string]any)
		items, _ := spec["resources"].([]any)
		if m["kind"] != "ClusterResource" {
			return nil
		}
		for i, item := range items {
			if tree, ok := item.(map[string]any); ok {
				at := d.Positions.Sub(render.Pointer("spec", "resources", i))
				all = append(all, &render.Object{Unstructured: &unstructured.Unstructured{Object: tree}, Provenance: at})
			}
		}
	}
	return all
}
