package kustomize

import (
	"reflect"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/yaml"
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
		if err := node.Decode(&direct); err != nil {
			t.Fatal(err)
		}
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
