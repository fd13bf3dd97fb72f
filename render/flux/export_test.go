package flux

import (
	"github.com/preadmit/preadmit/render"
)

// ArtifactFiles returns the files of an ExternalArtifact as o sees them.
func ArtifactFiles(o *render.Object, w *render.World, namespace, name string) (map[string]string, error) {
	t := &task{world: w, object: o}
	a, err := t.source("/spec", reference{Kind: "ExternalArtifact", Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	files := make(map[string]string)
	err = eachFile(a.fsys, a.root, func(name string) error {
		data, err := render.ReadFile(a.fsys, name)
		files[relative(a.root, name)] = string(data)
		return err
	})
	return files, err
}
