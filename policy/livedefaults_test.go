package policy

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

func TestKeepDefaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ was, live, applied, admitted, want string }{
		"a default stays": {
			`{c: [{name: a, image: "x:latest"}]}`, `{c: [{name: a, image: "x:latest", pull: Always}], n: 1}`,
			`{c: [{name: a, image: "x:2"}]}`, `{c: [{name: a, image: "x:2", pull: IfNotPresent}], n: 1}`,
			`{c: [{name: a, image: "x:2", pull: Always}], n: 1}`,
		},
		"what the manifest says counts": {`{}`, `{n: 1}`, `{n: 2}`, `{n: 2}`, `{n: 2}`},
		"what it says no more is defaulted again": {
			`{n: 5}`, `{n: 5}`, `{}`, `{n: 1}`, `{n: 1}`,
		},
		"elements go by name": {
			`{c: [{name: a}, {name: b}]}`, `{c: [{name: a, p: 1}, {name: b, p: 2}]}`,
			`{c: [{name: b}, {name: a}, {name: new}]}`, `{c: [{name: b, p: 9}, {name: a, p: 9}, {name: new, p: 9}]}`,
			`{c: [{name: b, p: 2}, {name: a, p: 1}, {name: new, p: 9}]}`,
		},
		"a list that mutation made longer is left alone": {
			`{c: [{name: a}]}`, `{c: [{name: a, p: 1}]}`, `{c: [{name: a}]}`, `{c: [{name: a, p: 9}, {name: side, p: 9}]}`,
			`{c: [{name: a, p: 9}, {name: side, p: 9}]}`,
		},
		"nested defaults":              {`{}`, `{s: {a: 1, b: 2}}`, `{}`, `{s: {a: 3, b: 2, c: 4}}`, `{s: {a: 1, b: 2, c: 4}}`},
		"a value that nobody sets now": {`{p: 1}`, `{p: 1, n: 1, u: {m: 1}}`, `{p: 2}`, `{p: 2}`, `{p: 2, n: 1, u: {m: 1}}`},
		"a list that nobody sets":      {`{}`, `{a: [1], b: [{name: x}]}`, `{}`, `{a: [2]}`, `{a: [1], b: [{name: x}]}`},
		"a map that the manifest had":  {`{m: {a: 1}}`, `{m: {a: 1, b: 2}}`, `{}`, `{}`, `{}`},
		"the fields of a strategy": {
			`{}`, `{strategy: {type: R, rolling: {n: 1}}}`, `{strategy: {type: S}}`, `{strategy: {type: S}}`, `{strategy: {type: S}}`,
		},
		"the fields of a volume": {
			`{volumes: [{name: v}]}`, `{volumes: [{name: v, emptyDir: {}}]}`, `{volumes: [{name: v, secret: {}}]}`, `{volumes: [{name: v, secret: {mode: 1}}]}`,
			`{volumes: [{name: v, secret: {mode: 1}}]}`,
		},
		"another shape": {`{}`, `{s: [1]}`, `{}`, `{s: {a: 3}}`, `{s: {a: 3}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := make([]any, 5)
			for i, text := range []string{c.admitted, c.live, c.applied, c.was, c.want} {
				rendertest.OK(t, yaml.Unmarshal([]byte(text), &values[i]))
			}
			keepDefaults(values[0], values[1], values[2], values[3], false)
			rendertest.Equal(t, values[4], values[0])
		})
	}
}
