package crd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/errors"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// ruleName returns the rule name for a place in a definition: "validation"
// outside the schemas, and inside them the path with the version's name.
func ruleName(object map[string]any, pointer string) string {
	for i, name := range versionNames(object) {
		rest, ok := strings.CutPrefix(pointer, schemaPointer(object, i))
		if ok && (rest == "" || rest[0] == '/') {
			return "spec.versions[" + name + "].schema" + schemaPath(rest)
		}
	}
	return validationRule
}

const (
	validationRule = "validation"
	schemaRule     = "schema"
	unknownRule    = "unknown-fields"
	metadataRule   = "metadata"
	limitsRule     = "limits"
)

// schemaPath writes a pointer within a schema as the API server writes paths.
func schemaPath(pointer string) string {
	var b strings.Builder
	named := false // the next step is a property name or an index
	for _, key := range render.Path(pointer) {
		_, err := strconv.Atoi(key)
		if named || err == nil {
			fmt.Fprintf(&b, "[%s]", key)
			named = false
			continue
		}
		b.WriteString("." + key)
		named = slices.Contains([]string{"properties", "patternProperties", "definitions", "dependencies"}, key)
	}
	return b.String()
}

// keywords maps codes of validation errors to schema keywords.
var keywords = map[int32]string{
	errors.InvalidTypeCode: "type", errors.RequiredFailCode: "required", errors.EnumFailCode: "enum",
	errors.TooLongFailCode: "maxLength", errors.TooShortFailCode: "minLength", errors.PatternFailCode: "pattern",
	errors.MultipleOfFailCode: "multipleOf", errors.MaxFailCode: "maximum", errors.MinFailCode: "minimum",
	errors.UniqueFailCode: "uniqueItems", errors.MaxItemsFailCode: "maxItems", errors.MinItemsFailCode: "minItems",
	errors.TooManyPropertiesCode: "maxProperties", errors.TooFewPropertiesCode: "minProperties",
	errors.UnallowedPropertyCode: "additionalProperties", errors.MultipleOfMustBePositiveCode: "multipleOf",
}

// keyword returns the schema keyword that an error is about, or "" if it is
// unknown. An error about a combination of schemas or the range of a number has its
// field only in its text; path returns it.
func keyword(err error) (word, path string) {
	text := err.Error()
	v, ok := err.(*errors.Validation)
	if _, of, is := strings.Cut(text, " value must be of type "); !ok && is { // IsValueValidAgainstRange of kube-openapi
		_, path, _ = strings.Cut(of, " in ")
		return "format", path
	}
	if !ok {
		return combination(text)
	}
	if _, wanted, ok := strings.Cut(text, "must be of type "); ok && v.Code() == errors.InvalidTypeCode {
		wanted, _, _ = strings.Cut(wanted, ":")
		if first, _, _ := strings.Cut(wanted, ","); !slices.Contains(jsonTypes, first) {
			return "format", ""
		}
	}
	return keywords[v.Code()], ""
}

var jsonTypes = []string{"integer", "number", "string", "boolean", "array", "object", "null"}

// combination reads a message such as
// "spec.port" must validate at least one schema (anyOf)
// (k8s.io/kube-openapi/pkg/validation/validate/schema_messages.go).
func combination(text string) (word, path string) {
	path, rest, ok := strings.Cut(strings.TrimPrefix(text, `"`), `" must`)
	if !ok {
		return "", ""
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf", "not"} {
		if strings.Contains(rest, "("+word+")") {
			return word, path
		}
	}
	return "", path
}

// A spot is a node of a schema as written.
type spot struct {
	node    map[string]any
	pointer string
}

// maxSpots bounds how many branches of a schema are looked at for one field.
const maxSpots = 256

// spotOf returns the path of the schema part that validated a field: the
// keyword, if the field's node has it. It searches properties, items and the
// like, and allOf, anyOf, oneOf and not.
func spotOf(root map[string]any, object any, pointer, word string) string {
	path := render.Path(pointer)
	if word == "required" && len(path) > 0 {
		path = path[:len(path)-1]
	}
	last := ""
	spots := spread([]spot{{root, ""}})
	for _, key := range path {
		next := step(spots, object, key)
		if len(next) == 0 {
			break
		}
		spots = spread(next)
		object, _ = render.Lookup(object, render.Pointer(key))
	}
	for _, s := range spots {
		last = cmp.Or(last, s.pointer)
		for _, w := range alternatives(word) {
			if _, ok := s.node[w]; ok {
				return s.pointer + render.Pointer(w)
			}
		}
	}
	return last
}

// alternatives returns the keywords that may have caused an error.
func alternatives(word string) []string {
	if word == "type" {
		return []string{"type", "x-kubernetes-int-or-string"}
	}
	return []string{word}
}

// spread adds the branches of each spot after it.
func spread(spots []spot) []spot {
	for i := 0; i < len(spots) && len(spots) < maxSpots; i++ {
		s := spots[i]
		for _, word := range []string{"allOf", "anyOf", "oneOf"} {
			branches, _ := s.node[word].([]any)
			for n, b := range branches {
				if b, ok := b.(map[string]any); ok {
					spots = append(spots, spot{b, s.pointer + render.Pointer(word, n)})
				}
			}
		}
		if not, ok := s.node["not"].(map[string]any); ok {
			spots = append(spots, spot{not, s.pointer + "/not"})
		}
	}
	return spots
}

func step(spots []spot, value any, key string) []spot {
	var next []spot
	for _, s := range spots {
		way := []any{"items"}
		if _, ok := value.([]any); !ok {
			way = []any{"additionalProperties"}
			if properties, ok := s.node["properties"].(map[string]any); ok && properties[key] != nil {
				way = []any{"properties", key}
			}
		}
		pointer := render.Pointer(way...)
		if child, ok := render.Lookup(s.node, pointer); ok {
			if child, ok := child.(map[string]any); ok {
				next = append(next, spot{child, s.pointer + pointer})
			}
		}
	}
	return next
}

// rules returns the documentation of a definition's rules. It keeps their places and those of the
// schemas, because the definition's unit forgets its places once the requests about it are evaluated.
func (d *definition) rules() []policy.Rule {
	named := func(name, title, pointer string) policy.Rule {
		d.spans[pointer] = d.span(pointer)
		return policy.Rule{
			Engine: policy.EngineCRD, Policy: d.object.GetName(), Name: name, Action: policy.Deny,
			Title: title, Origin: d.span(pointer),
		}
	}
	list := []policy.Rule{
		named(schemaRule, d.kind+" objects follow their schema", ""),
		named(unknownRule, d.kind+" objects have no fields that their schema does not know", ""),
		named(metadataRule, d.kind+" objects have valid metadata", ""),
	}
	for _, s := range d.versions {
		d.spans[s.pointer] = d.span(s.pointer)
		s.eachRule(func(pointer string, written map[string]any) {
			expression, _ := written["rule"].(string)
			message, _ := written["message"].(string)
			rule := named(ruleName(d.object.Object, pointer), policy.FirstLine(message, expression), pointer+"/rule")
			rule.Expression = expression
			list = append(list, rule)
		})
	}
	return list
}

// eachRule visits the rules of a version as they are written, with their
// pointers in the definition, in stable order.
func (s *servedVersion) eachRule(visit func(pointer string, written map[string]any)) {
	if s.written == nil {
		return
	}
	walkSpots(spot{s.written, s.pointer}, func(at spot) {
		rules, _ := at.node[validationsKey].([]any)
		for i, r := range rules {
			if r, ok := r.(map[string]any); ok {
				visit(at.pointer+render.Pointer(validationsKey, i), r)
			}
		}
	})
}

// walkSpots visits a schema node and the nodes below it that may have rules, in
// a stable order.
func walkSpots(s spot, visit func(spot)) {
	visit(s)
	all, _ := s.node["allOf"].([]any)
	for i, b := range all {
		if b, ok := b.(map[string]any); ok {
			walkSpots(spot{b, s.pointer + render.Pointer("allOf", i)}, visit)
		}
	}
	for _, c := range children(s.node) {
		walkSpots(spot{c.node, s.pointer + c.pointer}, visit)
	}
}

// spine visits the nodes that give an object its structure, without the
// branches, in stable order.
func spine(s spot, visit func(spot)) {
	visit(s)
	for _, c := range children(s.node) {
		spine(spot{c.node, s.pointer + c.pointer}, visit)
	}
}

// children returns the schemas of a value's fields and items.
func children(node map[string]any) []spot {
	var list []spot
	for _, word := range []string{"additionalProperties", "items"} {
		if child, ok := node[word].(map[string]any); ok {
			list = append(list, spot{child, "/" + word})
		}
	}
	properties, _ := node["properties"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if child, ok := properties[key].(map[string]any); ok {
			list = append(list, spot{child, render.Pointer("properties", key)})
		}
	}
	return list
}

// branches returns the further schemas that apply to the same value: allOf,
// anyOf, oneOf and not.
func branches(node map[string]any) []map[string]any {
	var list []map[string]any
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		all, _ := node[word].([]any)
		for _, b := range all {
			if b, ok := b.(map[string]any); ok {
				list = append(list, b)
			}
		}
	}
	if not, ok := node["not"].(map[string]any); ok {
		list = append(list, not)
	}
	return list
}
