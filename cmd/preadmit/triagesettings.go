package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/tui"
)

// triageSettings are a person's own: the keys and the editor of triage. They are
// never read from the repository, which may be somebody else's.
type triageSettings struct {
	editor string
	theme  string
	keys   tui.Keys
}

// settingsFile stands in the user's configuration directory.
const settingsFile = "preadmit/triage.yaml"

// readTriageSettings reads the file that is given, which must be there, or else
// the user's own.
func readTriageSettings(given string) (triageSettings, error) {
	name := given
	if name == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return triageSettings{}, nil // nobody's
		}
		name = filepath.Join(dir, filepath.FromSlash(settingsFile))
	}
	data, err := readRegular(name)
	switch {
	case given == "" && errors.Is(err, fs.ErrNotExist):
		return triageSettings{}, nil
	case given != "" && err != nil:
		return triageSettings{}, fmt.Errorf("--settings: %w", err)
	case err != nil:
		return triageSettings{}, err
	}
	return parseTriageSettings(name, data)
}

func parseTriageSettings(file string, data []byte) (s triageSettings, err error) {
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
			s.keys, err = parseKeys(value, at)
			return err
		case key.Value != "editor" && key.Value != "theme":
			return at(key, "unknown key %q; %s", key.Value, render.Instead(key.Value, []string{"editor", "keys", "theme"}))
		case value.Kind != yaml.ScalarNode:
			return at(value, "%s: want text", key.Value)
		}
		if err := s.set(key.Value, value.Value); err != nil {
			return at(value, "%w", err)
		}
		return nil
	})
	return s, err
}

// set sets the editor or the theme.
func (s *triageSettings) set(key, value string) (err error) {
	if key == "theme" {
		s.theme = value
		return flagOneOf(key, value, themes...)
	}
	s.editor = value
	_, err = editorWords(key, value)
	return err
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
			return at(key, "%s stands here twice", key.Value)
		}
		seen[key.Value] = true
		if err := f(key, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// parseKeys reads the keys of actions: one, or a list.
func parseKeys(n *yaml.Node, at func(*yaml.Node, string, ...any) error) (tui.Keys, error) {
	keys, lines := make(tui.Keys), make(map[string]*yaml.Node)
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
	var wrong *tui.KeyError
	if err := keys.Check(names); errors.As(err, &wrong) {
		if !tui.IsAction(wrong.Action) {
			return nil, at(lines[wrong.Action], "keys: unknown action %q; %s", wrong.Action, render.Instead(wrong.Action, tui.Actions()))
		}
		return nil, at(lines[wrong.Action], "keys: %w", wrong)
	}
	return keys, nil
}
