package kustomize

import (
	"errors"
	"strings"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// A patch is one entry of patches or patchesJson6902 that names a target.
type patch struct {
	target *types.Selector
	at     []any
}

// A mergePatch is a strategic merge patch that finds its target by its own
// kind and name.
type mergePatch struct {
	kind, name string
	at         []any
}

// patchFile checks a patch in a file.
func (w *walk) patchFile(n *node, r ref, real string, data []byte) {
	for _, doc := range w.yaml(real, data, render.YAML12) {
		w.copies += copiesIn(doc.Value)
		n.merges = append(n.merges, mergePatch{kindOf(doc), text(doc.Value, "metadata", "name"), r.at})
	}
}

// patchText checks a patch written within another file.
func (w *walk) patchText(n *node, at render.Span, patch string) error {
	_, err := w.patchDocs(n, at, patch)
	return err
}

func (w *walk) patchDocs(n *node, at render.Span, patch string) ([]render.Document, error) {
	docs, err := render.Documents(n.name, []byte(patch), render.YAML12)
	for _, doc := range docs {
		w.copies += copiesIn(doc.Value)
	}
	return docs, relocate(err, at)
}

// copiesIn counts the operations of a JSON patch that make objects grow by
// what they already hold.
func copiesIn(value any) int {
	ops, _ := value.([]any)
	n := 0
	for _, op := range ops {
		if strings.EqualFold(text(op, "op"), "copy") {
			n++
		}
	}
	return n
}

// inlinePatches checks the patches that stand in the kustomization itself, and
// notes which of them have targets.
func (w *walk) inlinePatches(n *node) error {
	var errs []error
	for i, p := range n.spec.Patches {
		if p.Patch != "" {
			docs, err := w.patchDocs(n, n.at("patches", i, "patch"), p.Patch)
			errs = append(errs, err)
			for _, doc := range docs {
				n.merges = append(n.merges, mergePatch{kindOf(doc), text(doc.Value, "metadata", "name"), []any{"patches", i, "patch"}})
			}
		}
		if p.Target != nil {
			n.patches = append(n.patches, &patch{p.Target, []any{"patches", i, "target"}})
		}
	}
	for i, p := range n.spec.PatchesJson6902 {
		if p.Patch != "" {
			errs = append(errs, w.patchText(n, n.at("patchesJson6902", i, "patch"), p.Patch))
		}
		if p.Target != nil {
			n.patches = append(n.patches, &patch{p.Target, []any{"patchesJson6902", i, "target"}})
		}
	}
	return errors.Join(errs...)
}

// unmatched warns of patches with a target that selects nothing, of which
// kustomize says nothing.
func (w *walk) unmatched() error {
	return nil
}
