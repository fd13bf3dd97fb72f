package kyverno

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

const yamlShown = `validate:
  foreach:
  - list: request.object.spec.containers
    pattern:
      image: '*:*'
      names:
      - - a
        - '{{ b }}'
      - {}
  message: |-
    two
      lines
  'n': 1
  other: 'it''s ''quoted'': "twice"'
  'yes': true
`

// TestYAMLText holds that a rule's text is YAML of what it is made of.
func TestYAMLText(t *testing.T) {
	t.Parallel()
	value := map[string]any{"validate": map[string]any{
		"message": "two\n  lines", "n": int64(1), "yes": true, "other": `it's 'quoted': "twice"`,
		"foreach": []any{map[string]any{
			"list":    "request.object.spec.containers",
			"pattern": map[string]any{"image": "*:*", "names": []any{[]any{"a", "{{ b }}"}, map[string]any{}}},
		}},
	}}
	rendertest.Equal(t, yamlShown, yamlText(value, 1<<20))
	for _, v := range []any{
		value, "plain", "", " ", "a b", "no", "~", "1", "0x1f", "1.5", "1e3", ".5", ".inf", "- a", "? b", "a: b", "a #b", "#", "'", `"`, "\\", "a\\b", "!x", "&x", "*x", "%x", "@x", "`x",
		"|", ">", "a\nb", "a\nb\n", "a\nb\n\n", " a\nb", "\ta", "\x00", "é", "a:", ":a", "-", "--- a", "...", "2001-01-01", "null", "True", "$(x)", "<<", "=",
		nil,
		[]any{},
		map[string]any{},
		map[string]any{"": "", "a b": []any{}, "1": nil, "on": map[string]any{"x": []any{"a\nb", map[string]any{"c": "d\ne", "f": 0.5}}}},
	} {
		doc := map[string]any{"v": v, "w": []any{v}}
		want, err := yaml.Marshal(doc)
		rendertest.OK(t, err)
		var a, b any
		if err := yaml.Unmarshal([]byte(yamlText(doc, 1<<20)), &a); err != nil {
			t.Errorf("%#v: %v in\n%s", v, err, yamlText(doc, 1<<20))
		}
		_ = yaml.Unmarshal(want, &b)
		if diff := cmp.Diff(b, a); diff != "" {
			t.Errorf("%#v: (-want +got)\n%s\nin\n%s", v, diff, yamlText(doc, 1<<20))
		}
	}
}
