package load

import (
	"bytes"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

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
