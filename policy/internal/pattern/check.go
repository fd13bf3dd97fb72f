package pattern

import (
	"maps"
	"slices"
)

// A Problem is a mistake in a pattern, and where it is.
type Problem struct{ Pointer, Message string }

// Check returns the mistakes for which Kyverno refuses a pattern, in the order
// of its keys. mutate is true for patchStrategicMerge, where any anchor is
// allowed.
func Check(p any, mutate bool) []Problem {
	var c checker
	if !mutate {
		c.anchors(p, "", maxDepth)
		c.metadata(p)
	}
	return c.problems
}

type checker struct{ problems []Problem }

func (c *checker) add(pointer, message string) {
	c.problems = append(c.problems, Problem{Pointer: pointer, Message: message})
}

func (c *checker) anchors(p any, pointer string, depth int) {
	if depth == 0 {
		c.add(pointer, "the pattern nests too deep")
		return
	}
	switch p := p.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(p)) {
			at := pointer + pointerTo(segment{key: key, index: -1})
			c.anchor(key, p[key], at)
			c.anchors(p[key], at, depth-1)
		}
	case []any:
		for i, v := range p {
			c.anchors(v, pointer+pointerTo(segment{index: i}), depth-1)
		}
	}
}

func (c *checker) anchor(key string, value any, at string) {
	switch a, _ := ParseKey(key); a {
	case Addition:
		c.add(at, "unsupported anchor "+key+": only mutate rules add fields")
	case Existence:
		if list, ok := value.([]any); !ok {
			c.add(at, "an existence anchor needs a list")
		} else if len(list) == 0 {
			c.add(at, "an existence anchor needs a list of at least one element")
		}
	}
}

// metadata checks labels and annotations where a whole object has them.
func (c *checker) metadata(p any) {
	root, _ := p.(map[string]any)
	metadata, _ := root["metadata"].(map[string]any)
	for _, tag := range []string{"annotations", "labels"} {
		tags, _ := metadata[tag].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			if _, ok := tags[key].(string); !ok {
				at := pointerTo(segment{key: key, index: -1})
				c.add("/metadata/"+tag+at, "labels and annotations are strings: put the value in double quotes")
			}
		}
	}
}
