package document

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed shapes.yaml
var shapesYAML []byte

// shapes returns the shapes of Kyverno's kinds: policy, policyV2beta1 and exception.
var shapes = sync.OnceValue(func() map[string]*shape {
	var all map[string]any
	if err := yaml.Unmarshal(shapesYAML, &all); err != nil {
		panic(err) // the file is part of the program
	}
	return shapeOf(all).fields
})

// shapeOf reads the notation of shapes.yaml.
func shapeOf(written any) *shape {
	switch w := written.(type) {
	case []any:
		return &shape{kind: aList, items: shapeOf(w[0])}
	case map[string]any:
		if items, ok := w["*"]; ok {
			return &shape{kind: aMap, items: shapeOf(items)}
		}
		s := &shape{kind: aMap, fields: map[string]*shape{}}
		for name, field := range w {
			if name == "!" {
				s.needs = strings.Fields(field.(string))
			} else {
				s.fields[name] = shapeOf(field)
			}
		}
		return s
	}
	text := written.(string)
	switch {
	case strings.Contains(text, " | "):
		return &shape{kind: aString, enum: strings.Split(text, " | ")}
	case strings.HasPrefix(text, "nested "):
		return &shape{nested: strings.TrimPrefix(text, "nested ")}
	}
	s := &shape{}
	if n, _ := fmt.Sscanf(text, "text up to %d", &s.max); n == 1 {
		text = "text"
	}
	kind, ok := map[string]string{"text": aString, "flag": aBoolean, "number": aNumber, "any": ""}[text]
	if !ok {
		panic("shapes.yaml: unknown shape " + text)
	}
	s.kind = kind
	return s
}
