package explain

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/runtime"
)

// What became of a failure when its culprits were changed.
type effect int

const (
	unmoved effect = iota
	moved          // it fails still, but by other culprits
	fixed
)

type perturbation struct {
	t      *testing.T
	e      *Explainer
	roots  map[string]any
	before Explanation
}

// values are what a culprit is changed to. nil removes it; the last removes
// the list element that it belongs to.
var values = []any{
	nil, true, false, int64(0), int64(1), int64(100000), "", "x", "registry.corp/x:1.2", "100m", "RuntimeDefault", "1.2.3.4", "v1.2.3", "https://x",
	map[string]any{"x": "y"},
	[]any{},
	[]any{"ALL"},
	[]any{map[string]any{"name": "x"}},
	map[string]any{"limits": map[string]any{"memory": "1Gi", "cpu": "1"}, "requests": map[string]any{"memory": "1Gi", "cpu": "1"}},
	removeElement{},
}

type removeElement struct{}

func (p *perturbation) try(culprits []Culprit) effect {
	best := unmoved
	for _, v := range slices.Concat(values, p.literals()) {
		roots := make(map[string]any, len(p.roots))
		for name, r := range p.roots {
			roots[name] = r
			if m, ok := r.(map[string]any); ok {
				roots[name] = runtime.DeepCopyJSON(m)
			}
		}
		for i := len(culprits) - 1; i >= 0; i-- {
			k := culprits[i]
			roots[k.Root] = set(roots[k.Root], tokens(k.Pointer, v), v)
		}
		ex, err := p.e.Explain(p.t.Context(), Input{Roots: roots, Want: true})
		switch {
		case err != nil:
			p.t.Fatal(err)
		case len(ex.Culprits) == 0:
			return fixed
		case !slices.Equal(blamed(ex), blamed(p.before)):
			best = moved
		}
	}
	return best
}

// literals are the strings of the expression, which it is likely to want.
func (p *perturbation) literals() []any {
	var found []any
	var walk func(x *code)
	walk = func(x *code) {
		if x == nil {
			return
		}
		if s, ok := x.val.(types.String); ok && x.op == opConst {
			found = append(found, string(s), []any{string(s)}, string(s)+"x", "x"+string(s))
		}
		for _, a := range x.args {
			walk(a)
		}
	}
	for _, v := range p.e.programs {
		if v != nil {
			walk(v.top)
		}
	}
	return found
}

// blamed is what must change for an explanation to be another.
func blamed(ex Explanation) []string {
	var out []string
	for _, c := range ex.Culprits {
		out = append(out, c.Root+"#"+c.Pointer+" "+c.Text)
	}
	return out
}

// tokens splits a pointer; to remove an element, up to the innermost index.
func tokens(pointer string, v any) []string {
	parts := strings.Split(pointer, "/")[1:]
	for i := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
	}
	if _, ok := v.(removeElement); ok {
		for i := len(parts) - 1; i >= 0; i-- {
			if _, err := strconv.Atoi(parts[i]); err == nil {
				return parts[:i+1]
			}
		}
	}
	return parts
}

// set changes what stands at a path, making what is missing on the way.
func set(in any, path []string, v any) any {
	if len(path) == 0 {
		if _, ok := v.(removeElement); ok {
			return nil
		}
		return runtime.DeepCopyJSONValue(v)
	}
	remove := v == nil || v == removeElement{}
	switch c := in.(type) {
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i >= len(c) {
			return in
		}
		if len(path) == 1 && remove {
			return slices.Delete(c, i, i+1)
		}
		c[i] = set(c[i], path[1:], v)
		return c
	case nil:
		in = map[string]any{}
	}
	m, ok := in.(map[string]any)
	if !ok {
		return in
	}
	if len(path) == 1 && remove {
		delete(m, path[0])
		return m
	}
	m[path[0]] = set(m[path[0]], path[1:], v)
	return m
}
