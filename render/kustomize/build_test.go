package kustomize

import (
	"reflect"
	"sync"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestPrintedBlocks holds that printing and parsing does not change a literal scalar
// that is taken for simple: all of up to four characters out of those that YAML's syntax
// knows. Folded ones change.
func TestPrintedBlocks(t *testing.T) {
	t.Parallel()
	const alphabet = "a \n#:-|"
	simple, changed := 0, 0
	var try func(value string, style yaml.Style)
	try = func(value string, style yaml.Style) {
		scalar := func() *yaml.Node {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Style: style}
		}
		key := func(name string) *yaml.Node {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, HeadComment: "# above " + name, FootComment: "# below " + name}
		}
		list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{scalar(), scalar()}, HeadComment: "# list"}
		node := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{key("a"), scalar(), key("b"), list, key("c"), scalar()}}
		var direct, printed any
		rendertest.OK(t, node.Decode(&direct))
		text, err := yaml.String(node)
		if err == nil {
			err = yaml.Unmarshal([]byte(text), &printed)
		}
		same := err == nil && reflect.DeepEqual(direct, printed)
		switch {
		case !same:
			changed++
			if !printChanges(node, false) {
				t.Errorf("%q is taken for simple, but changes: %v\n%s", value, err, text)
			}
		case !printChanges(node, false):
			simple++
		}
		if len(value) < 4 {
			for i := range len(alphabet) {
				try(value+alphabet[i:i+1], style)
			}
		}
	}
	try("", yaml.LiteralStyle)
	try("", yaml.FoldedStyle)
	if simple == 0 || changed == 0 {
		t.Errorf("%d simple scalars and %d that change: nothing compared", simple, changed)
	}
}

// ShareSchema is for tests that run kustomize itself beside the renderer.
var ShareSchema = shareSchema

// ResetSchema has the next build parse kyaml's schema again.
func ResetSchema() {
	schema.Lock()
	defer schema.Unlock()
	openapi.ResetOpenAPI()
	schemaParsed = false
}

// TestSchemaIsParsedAlone builds, side by side, a patch that needs kyaml's schema and
// objects that look up whether their kinds are namespaced. The race detector sees a
// lookup while the schema is parsed; without it the lookup may end the process.
func TestSchemaIsParsedAlone(t *testing.T) {
	tree := fstest.MapFS{
		"patched/kustomization.yaml": {Data: []byte("resources: [d.yaml]\npatches:\n- patch: |-\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: d}\n    spec: {replicas: 2}\n")},
		"patched/d.yaml":             {Data: []byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 1}\n")},
		"custom/kustomization.yaml":  {Data: []byte("namePrefix: a-\nresources: [c.yaml]\n")},
		"custom/c.yaml":              {Data: []byte("apiVersion: e.com/v1\nkind: Custom\nmetadata: {name: c}\n---\napiVersion: e.com/v1\nkind: Other\nmetadata: {name: o}\n")},
	}
	for range 10 {
		ResetSchema()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				_, err := New(Options{}).Render(t.Context(), render.Source{FS: tree, Path: []string{"patched", "custom"}[i%2], Kind: "kustomize"})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}
