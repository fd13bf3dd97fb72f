package tui

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
)

// Settings are a person's own keys, editor and theme.
type Settings struct {
	Editor string
	Theme  string
	Keys   Keys
}

// ParseSettings parses the settings in data; errors name file and the line. check returns
// an error if the value of editor or theme is wrong.
func ParseSettings(file string, data []byte, check func(key, value string) error) (s Settings, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return s, render.SyntaxError(file, data, err)
	}
	if len(doc.Content) == 0 {
		return s, nil
	}
	at := func(n *yaml.Node, format string, args ...any) error {
		return fmt.Errorf("%s:%d: %w", file, n.Line, fmt.Errorf(format, args...))
	}
	err = eachKey(doc.Content[0], at, func(key, value *yaml.Node) error {
		switch {
		case key.Value == "keys":
			s.Keys, err = parseKeys(value, at)
			return err
		case key.Value != "editor" && key.Value != "theme":
			return at(key, "unknown key %q; %s", key.Value, render.Instead(key.Value, []string{"editor", "keys", "theme"}))
		case value.Kind != yaml.ScalarNode:
			return at(value, "%s: want text", key.Value)
		}
		if err := check(key.Value, value.Value); err != nil {
			return at(value, "%w", err)
		}
		if key.Value == "theme" {
			s.Theme = value.Value
		} else {
			s.Editor = value.Value
		}
		return nil
	})
	return s, err
}

// eachKey calls f for each key of a mapping. A key that is there twice is an error.
func eachKey(n *yaml.Node, at func(*yaml.Node, string, ...any) error, f func(key, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return at(n, "want keys with values")
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if seen[key.Value] {
			return at(key, "%s is set twice", key.Value)
		}
		seen[key.Value] = true
		if err := f(key, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// parseKeys reads the keys of actions: one, or a list.
func parseKeys(n *yaml.Node, at func(*yaml.Node, string, ...any) error) (Keys, error) {
	keys, lines := make(Keys), make(map[string]*yaml.Node)
	var names []string
	err := eachKey(n, at, func(action, value *yaml.Node) error {
		list := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			list = value.Content
		}
		keys[action.Value] = []string{}
		for _, k := range list {
			if k.Kind != yaml.ScalarNode {
				return at(k, "%s: want a key or a list of keys", action.Value)
			}
			keys[action.Value] = append(keys[action.Value], k.Value)
		}
		names, lines[action.Value] = append(names, action.Value), action
		return nil
	})
	if err != nil {
		return nil, err
	}
	var wrong *KeyError
	if err := keys.Check(names); errors.As(err, &wrong) {
		if !IsAction(wrong.Action) {
			return nil, at(lines[wrong.Action], "keys: unknown action %q; %s", wrong.Action, render.Instead(wrong.Action, Actions()))
		}
		return nil, at(lines[wrong.Action], "keys: %w", wrong)
	}
	return keys, nil
}
