package config

import (
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
)

// decodeStrictly decodes a node. Keys that the type does not have and values of another type are
// errors. at is the field's name in errors.
func decodeStrictly(n *yaml.Node, to reflect.Value, at string) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch to.Kind() {
	case reflect.Struct:
		return decodeStruct(n, to, at)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
				return Errorf(n.Line, "%s: want a list, such as [%s]", at, n.Value)
			}
			return Errorf(n.Line, "%s: want a list", at)
		}
		for _, item := range n.Content {
			v := reflect.New(to.Type().Elem()).Elem()
			if err := decodeStrictly(item, v, at); err != nil {
				return err
			}
			to.Set(reflect.Append(to, v))
		}
		return nil
	case reflect.Map:
		if n.Kind != yaml.MappingNode {
			return Errorf(n.Line, "%s: want a mapping", at)
		}
	case reflect.String:
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			return Errorf(n.Line, "%s: want a text", at)
		}
		to.SetString(n.Value)
		return nil
	}
	if err := n.Decode(to.Addr().Interface()); err != nil {
		return Errorf(n.Line, "%s: %s", at, strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
	}
	return nil
}

func decodeStruct(n *yaml.Node, to reflect.Value, at string) error {
	if n.Kind != yaml.MappingNode {
		return Errorf(n.Line, "%s: want a mapping", at)
	}
	if line := to.FieldByName("Line"); line.IsValid() {
		line.SetInt(int64(n.Line))
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		field, ok := to.Type().FieldByNameFunc(func(name string) bool {
			f, _ := to.Type().FieldByName(name)
			return f.Tag.Get("yaml") == key.Value
		})
		name := strings.TrimPrefix(at+"."+key.Value, ".")
		switch {
		case !ok || key.Value == "" || key.Value == "-":
			return Errorf(key.Line, "unknown key %q; %s", name, render.Instead(key.Value, keysOf(to.Type())))
		case seen[key.Value]:
			return Errorf(key.Line, "%s is set twice", name)
		}
		seen[key.Value] = true
		if err := decodeStrictly(n.Content[i+1], to.FieldByIndex(field.Index), name); err != nil {
			return err
		}
		if at := to.FieldByName(field.Name + "At"); at.IsValid() {
			at.Set(reflect.ValueOf(valueSpans(n.Content[i+1])))
		}
	}
	return nil
}

// valueSpans returns the positions of the values of a mapping.
func valueSpans(n *yaml.Node) map[string]render.Span {
	spans := make(map[string]render.Span)
	for i := 0; i+1 < len(n.Content); i += 2 {
		v := n.Content[i+1]
		spans[n.Content[i].Value] = render.Span{Line: v.Line, Column: v.Column, EndLine: v.Line, EndColumn: v.Column + utf8.RuneCountInString(v.Value)}
	}
	return spans
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "-" && key != "" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
