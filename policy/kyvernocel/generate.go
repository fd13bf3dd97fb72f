package kyvernocel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	yaml "go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/kyvernocel/internal/kyvernolib"
	"github.com/preadmit/preadmit/render"
)

// A generator is a compiled entry of generate: an expression or a template.
type generator struct {
	expression *cel.Expression
	documents  []*templateNode
	rule       string
}

// A templateNode is a node of a template. A node without placeholders is a plain
// value.
type templateNode struct {
	value    any
	keys     []string        // of a mapping
	children []*templateNode // of a mapping or a list
	kind     yaml.Kind
	pieces   []piece // of a string with placeholders
}

// A piece is a literal text or an expression.
type piece struct {
	text string
	e    *cel.Expression
}

// generator lists the expressions of an entry, to be compiled later.
func (c *compiled) generator(i int, g generation) *generator {
	m := &generator{rule: fmt.Sprintf("generate[%d]", i)}
	if g.Template == nil {
		m.expression = c.add(cel.Expression{Rule: m.rule, Pointer: render.Pointer("spec", "generate", i, "expression"), Source: g.Expression})
		return m
	}
	pointer := render.Pointer("spec", "generate", i, "template", "value")
	if len(g.Template.Value) > kyvernolib.MaxData {
		c.broken = append(c.broken, policy.ErrorAt(c.policy.Object, pointer, m.rule, errors.New("template is too large")))
		return m
	}
	t := &templateReader{c: c, rule: m.rule, pointer: pointer, interpolate: g.Template.Interpolate == "cel"}
	for d := yaml.NewDecoder(strings.NewReader(g.Template.Value)); ; {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && len(doc.Content) > 0 && doc.Content[0].Tag != "!!null" {
			var p *templateNode
			if p, err = t.part(doc.Content[0]); err == nil {
				m.documents = append(m.documents, p)
			}
		}
		if err != nil {
			c.broken = append(c.broken, policy.ErrorAt(c.policy.Object, pointer, m.rule, fmt.Errorf("%s.template.value: %w", m.rule, err)))
			break
		}
	}
	if len(m.documents) == 0 && len(c.broken) == 0 {
		c.broken = append(c.broken, policy.ErrorAt(c.policy.Object, pointer, m.rule, errors.New("template must contain at least one YAML document")))
	}
	return m
}

// A templateReader reads the template of an entry.
type templateReader struct {
	c             *compiled
	rule, pointer string
	interpolate   bool
	depth, nodes  int
}

// Limits on templates, because YAML aliases can multiply them.
const (
	maxTemplateDepth = 100
	maxTemplateNodes = 20_000
)

func (t *templateReader) part(n *yaml.Node) (*templateNode, error) {
	if t.depth++; t.depth > maxTemplateDepth {
		return nil, errors.New("is nested too deep")
	}
	defer func() { t.depth-- }()
	if t.nodes++; t.nodes > maxTemplateNodes {
		return nil, errors.New("is too large")
	}
	switch n.Kind {
	case yaml.AliasNode:
		return t.part(n.Alias)
	case yaml.MappingNode:
		p := &templateNode{kind: yaml.MappingNode}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if t.interpolate && strings.Contains(n.Content[i].Value, "((") {
				return nil, fmt.Errorf("line %d: placeholders are not supported in mapping keys", n.Content[i].Line)
			}
			child, err := t.part(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			p.keys, p.children = append(p.keys, n.Content[i].Value), append(p.children, child)
		}
		return p, nil
	case yaml.SequenceNode:
		p := &templateNode{kind: yaml.SequenceNode}
		for _, item := range n.Content {
			child, err := t.part(item)
			if err != nil {
				return nil, err
			}
			p.children = append(p.children, child)
		}
		return p, nil
	}
	if t.interpolate && strings.Contains(n.Value, "((") {
		pieces, err := t.pieces(n.Value)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Line, err)
		}
		return &templateNode{kind: yaml.ScalarNode, pieces: pieces}, nil
	}
	p := &templateNode{kind: yaml.ScalarNode}
	if err := n.Decode(&p.value); err != nil {
		return nil, fmt.Errorf("line %d: no value", n.Line)
	}
	if i, ok := p.value.(int); ok {
		p.value = int64(i)
	}
	return p, nil
}

// pieces splits a string into literals and placeholders (( expression )). \(( is
// a literal ((.
func (t *templateReader) pieces(s string) (all []piece, err error) {
	text := ""
	for s != "" {
		switch {
		case strings.HasPrefix(s, `\((`):
			text, s = text+"((", s[3:]
		case strings.HasPrefix(s, "(("):
			source, rest, ok := placeholder(s[2:])
			if !ok {
				return nil, errors.New("a placeholder is not closed")
			}
			if text != "" {
				all = append(all, piece{text: text})
			}
			e := t.c.add(cel.Expression{Rule: t.rule, Pointer: t.pointer, Source: strings.TrimSpace(source)})
			all, text, s = append(all, piece{e: e}), "", rest
		default:
			text, s = text+s[:1], s[1:]
		}
	}
	if text != "" {
		all = append(all, piece{text: text})
	}
	return all, nil
}

// placeholder splits s, the text after ((, at the parentheses that close it.
// Parentheses within the expression and its strings do not count.
func placeholder(s string) (expression, rest string, ok bool) {
	depth, quote := 0, byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case c == ')':
			return s[:i], strings.TrimPrefix(s[i+1:], ")"), strings.HasPrefix(s[i+1:], ")")
		}
	}
	return "", "", false
}

// make evaluates an entry and appends the generated objects to
// review.generated.
func (r *run) make(m *generator) (*cel.Expression, error) {
	if m.expression != nil {
		_, err := r.eval(m.expression)
		return m.expression, err
	}
	for _, d := range m.documents {
		v, e, err := r.fill(d)
		if err != nil {
			return e, err
		}
		object, ok := v.(map[string]any)
		if !ok {
			return e, fmt.Errorf("%s: a document is not an object", m.rule)
		}
		r.generated = append(r.generated, object)
	}
	return nil, nil
}

// fill returns the value of a node with its placeholders evaluated. On error it
// also returns the expression that failed.
func (r *run) fill(p *templateNode) (any, *cel.Expression, error) {
	switch {
	case p.kind == yaml.MappingNode:
		m := make(map[string]any, len(p.keys))
		for i, child := range p.children {
			v, e, err := r.fill(child)
			if err != nil {
				return nil, e, err
			}
			m[p.keys[i]] = v
		}
		return m, nil, nil
	case p.kind == yaml.SequenceNode:
		list := make([]any, len(p.children))
		for i, child := range p.children {
			v, e, err := r.fill(child)
			if err != nil {
				return nil, e, err
			}
			list[i] = v
		}
		return list, nil, nil
	case p.pieces == nil:
		return p.value, nil, nil
	}
	return r.interpolate(p.pieces)
}

// interpolate returns the value of a placeholder that is the whole text, and
// otherwise a string.
func (r *run) interpolate(pieces []piece) (any, *cel.Expression, error) {
	var b strings.Builder
	for _, piece := range pieces {
		if piece.e == nil {
			b.WriteString(piece.text)
			continue
		}
		v, err := r.eval(piece.e)
		if err != nil {
			return nil, piece.e, err
		}
		native, err := nativeOf(v)
		if err != nil {
			return nil, piece.e, err
		}
		if len(pieces) == 1 {
			return native, nil, nil
		}
		switch native.(type) {
		case map[string]any, []any, nil:
			return nil, piece.e, errors.New("a placeholder in a text must evaluate to a scalar")
		}
		fmt.Fprint(&b, native)
	}
	return b.String(), nil, nil
}

// nativeOf converts a CEL value to a JSON value.
func nativeOf(v ref.Val) (any, error) {
	switch t := v.(type) {
	case types.String:
		return string(t), nil
	case types.Int:
		return int64(t), nil
	case types.Uint:
		return int64(t), nil
	case types.Double:
		return float64(t), nil
	case types.Bool:
		return bool(t), nil
	case types.Null:
		return nil, nil
	case traits.Mapper:
		m := map[string]any{}
		for it := t.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			name, ok := key.(types.String)
			if !ok {
				return nil, errors.New("a key is not a string")
			}
			value, err := nativeOf(t.Get(key))
			if err != nil {
				return nil, err
			}
			m[string(name)] = value
		}
		return m, nil
	case traits.Lister:
		list := []any{}
		for it := t.Iterator(); it.HasNext() == types.True; {
			value, err := nativeOf(it.Next())
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case *types.Err:
		return nil, t
	}
	return viaJSON(v)
}

// viaJSON converts other values, such as times, through their JSON form.
func viaJSON(v ref.Val) (any, error) {
	converted, err := v.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(converted.(*structpb.Value).AsInterface())
	if err != nil {
		return nil, err
	}
	var tree any
	return tree, json.Unmarshal(data, &tree)
}

// apply implements generator.Apply: it records the generated objects with their
// namespace. Looked-up lists are replaced by their items.
func (r *review) apply(args []ref.Val) ref.Val {
	namespace := r.policy.Namespace
	if s, ok := args[0].(types.String); ok && namespace == "" {
		namespace = string(s)
	}
	list, err := nativeOf(args[len(args)-1])
	if err != nil {
		return types.WrapErr(err)
	}
	for _, entry := range list.([]any) {
		object, ok := entry.(map[string]any)
		if !ok {
			return types.NewErr("generator.Apply: an element is not an object")
		}
		items := []any{object}
		if kind, _ := object["kind"].(string); strings.HasSuffix(kind, "List") {
			if of, ok := object["items"].([]any); ok {
				items = of
			}
		}
		for _, item := range items {
			if m, ok := item.(map[string]any); ok {
				r.generated = append(r.generated, placed(m, namespace))
			}
		}
		if len(r.generated) > maxGenerated {
			return types.NewErr("generator.Apply: more than %d objects refused", maxGenerated)
		}
	}
	return types.True
}

const maxGenerated = 10_000

// placed returns a copy of an object in a namespace, without the fields that a
// cluster sets. Owners count in their own namespace only.
func placed(object map[string]any, namespace string) map[string]any {
	object = maps.Clone(object)
	given, _ := object["metadata"].(map[string]any)
	metadata := map[string]any{}
	for k, v := range given {
		switch k {
		case "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink":
		default:
			metadata[k] = v
		}
	}
	if from, _ := given["namespace"].(string); from != "" && from != namespace {
		delete(metadata, "ownerReferences")
	}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	object["metadata"] = metadata
	delete(object, "status")
	return object
}
