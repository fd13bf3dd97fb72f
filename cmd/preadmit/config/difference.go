package config

import (
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
)

// idle lists the keys that change no result, and those that are compared in another way: the keys
// that decide which failures fail a run, by their values, and exclude, glob by glob.
var idle = []string{
	"color", "jobs", "output", "quiet", "verbose", "fetch", "diff", "exclude",
	"allow-new-suppressions", "fail-on", "only-new", "require-complete", "suppressions", "task-memory", "task-time", "timeout",
}

// Effective returns the keys that can change rendered objects or results.
func Effective(keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return slices.Contains(idle, k) })
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

// FirstLine returns the line of the first of some keys, or 1 if there is none.
func FirstLine(config *yaml.Node, keys ...string) int {
	first := 0
	for _, key := range keys {
		if line, _ := entryAt(config, key); line > 0 && (first == 0 || line < first) {
			first = line
		}
	}
	return max(first, 1)
}

// entryAt returns the line and the value of a key in a mapping; 0 and nil if it has no such key.
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

// Readable returns all without the sources outside of the repository that f does not have too, so
// that a change can't choose files to read there.
func (f *File) Readable(all []Source) []Source {
	return slices.DeleteFunc(slices.Clone(all), func(x Source) bool {
		local := filepath.IsLocal(filepath.FromSlash(x.Path)) || x.Path == "."
		return !local && !slices.ContainsFunc(f.Sources, func(have Source) bool { return have.Path == x.Path })
	})
}

// Excludes returns the globs that a tree's configuration file excludes.
func Excludes(t Tree, file string) []*yaml.Node {
	data, err := render.ReadFile(t, file)
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

// Deploys returns the line of a configuration file that declares deployments of paths.
func Deploys(paths []string) string {
	all := make([]string, len(paths))
	for i, p := range paths {
		all[i] = DeployedPath(p)
	}
	return "deployments: [{path: " + strings.Join(all, "}, {path: ") + "}]"
}

// DeployedPath returns the path of a deployment, which may be a glob, as YAML.
func DeployedPath(name string) string {
	if strings.ContainsAny(name, "*?[") {
		name = GlobOf(name)
	}
	return Scalar(name)
}

// GlobOf returns a glob that matches a path alone.
func GlobOf(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

// Leaves returns the line of a configuration file that leaves out paths.
func Leaves(paths []string) string { return "exclude: " + List(paths) }

// List returns a list of YAML on one line.
func List(values []string) string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = Scalar(v)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// plainScalar matches texts that need no quotes in YAML, except words such as true.
var plainScalar = regexp.MustCompile(`^(https?://)?[A-Za-z./][A-Za-z0-9._/-]*$`)

// Scalar returns a string as YAML on one line, with escapes for all that a screen does not show.
func Scalar(s string) string {
	var v any
	if plainScalar.MatchString(s) && yaml.Unmarshal([]byte(s), &v) == nil && v == s {
		return s
	}
	return strconv.Quote(s)
}
