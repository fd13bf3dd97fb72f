package config

import (
	"path/filepath"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
)

// graphKeys returns the keys that decide what is deployed. The key exclude is not
// among them: its globs are reported one by one.
func graphKeys() []string {
	return append(slices.DeleteFunc(Keys(), func(k string) bool { return k == "fetch" }), "gitops", "include-crds", "include-hidden")
}

// Changed returns the keys whose values differ between two configurations, sorted.
func Changed(was, now *yaml.Node) (keys []string) {
	for _, node := range []*yaml.Node{was, now} {
		for i := 0; node != nil && i+1 < len(node.Content); i += 2 {
			key := node.Content[i].Value
			_, before := entryAt(was, key)
			if _, after := entryAt(now, key); !Same(before, after) && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// FirstDifference returns the line of the first entry that is not the same in
// both configurations and says what is deployed. One that is removed has line 1.
func FirstDifference(was, now *yaml.Node) (line int, differs bool) {
	for _, key := range graphKeys() {
		_, before := entryAt(was, key)
		at, after := entryAt(now, key)
		if Same(before, after) {
			continue
		}
		differs = true
		if at > 0 && (line == 0 || at < line) {
			line = at
		}
	}
	return max(line, 1), differs
}

// entryAt returns the line of a key in a mapping and its value; nil without it.
func entryAt(mapping *yaml.Node, key string) (line int, value *yaml.Node) {
	if mapping == nil {
		return 0, nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i].Line, mapping.Content[i+1]
		}
	}
	return 0, nil
}

// Same compares nodes without their places and comments.
func Same(a, b *yaml.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	var x, y any
	return a.Decode(&x) == nil && b.Decode(&y) == nil && reflect.DeepEqual(x, y)
}

// Without returns a configuration without the entries of some keys.
func Without(config *yaml.Node, keys ...string) *yaml.Node {
	own := *config
	own.Content = nil
	for i := 0; i+1 < len(config.Content); i += 2 {
		if !slices.Contains(keys, config.Content[i].Value) {
			own.Content = append(own.Content, config.Content[i], config.Content[i+1])
		}
	}
	return &own
}

// Flag returns the value of a flag that a configuration gives.
func Flag(config *yaml.Node, key string) (value string, given bool) {
	_, n := entryAt(config, key)
	if n == nil {
		return "", false
	}
	return n.Value, true
}

// Readable leaves out sources outside of the repository which f does not have: a
// change does not choose what is read there.
func (f *File) Readable(all []Source) []Source {
	return slices.DeleteFunc(slices.Clone(all), func(x Source) bool {
		local := filepath.IsLocal(filepath.FromSlash(x.Path)) || x.Path == "."
		return !local && !slices.ContainsFunc(f.Sources, func(have Source) bool { return have.Path == x.Path })
	})
}

// Excludes returns the globs that a tree's configuration excludes.
func Excludes(t Tree) []*yaml.Node {
	data, err := render.ReadFile(t, Path)
	var doc struct {
		Exclude yaml.Node `yaml:"exclude"`
	}
	if err != nil || yaml.Unmarshal(data, &doc) != nil {
		return nil
	}
	if doc.Exclude.Kind == yaml.SequenceNode {
		return doc.Exclude.Content
	}
	if doc.Exclude.Value == "" {
		return nil
	}
	return []*yaml.Node{&doc.Exclude}
}
