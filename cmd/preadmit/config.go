package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
)

// configFile holds a repository's defaults for flags, under the flags' names.
const configFile = config.Path

// configure sets flags that are not on the command line from the repository's
// configuration file, or from the one that --config names. Paths in it are
// relative to the repository's root. With --base the file of the base is read,
// so that a change can't choose how it is evaluated.
func configure(flags *pflag.FlagSet, args []string) error {
	dir, file, node, err := configuration(flags, args)
	if err != nil || node == nil {
		return err
	}
	if err := config.InFile(file, new(config.File).Decode(node)); err != nil {
		return err
	}
	return configureFrom(flags, dir, file, node)
}

// configuration returns the repository's directory, and the name and content of its configuration file.
// The content is nil if there is no such file.
func configuration(flags *pflag.FlagSet, args []string) (dir, file string, node *yaml.Node, err error) {
	t, err := load.Open(args)
	if err != nil {
		return "", "", nil, err
	}
	defer t.Close()
	name, given := configFile, flags.Lookup("config")
	if given != nil && given.Changed {
		if name, err = load.ConfigName(t, given.Value.String()); err != nil {
			return "", "", nil, fmt.Errorf("--config: %w", err)
		}
	}
	if base := flags.Lookup("base"); base != nil && base.Value.String() != "" {
		b, err := load.OpenBase(t, base.Value.String())
		if err != nil {
			return "", "", nil, err
		}
		defer b.Repo.Close()
		t = b.Tree
	}
	node, err = config.ReadNode(t, name)
	return t.Dir, t.Display(name), node, err
}

func configureFrom(flags *pflag.FlagSet, root, file string, node *yaml.Node) error {
	seen := make(map[string]bool)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if seen[key.Value] {
			return fmt.Errorf("%s:%d: %s is set twice", file, key.Line, key.Value)
		}
		seen[key.Value] = true
		if slices.Contains(config.Keys(), key.Value) {
			continue
		}
		if err := setFlag(flags, root, file, key, value); err != nil {
			return err
		}
	}
	return nil
}

func setFlag(flags *pflag.FlagSet, root, file string, key, value *yaml.Node) error {
	if key.Value == "triage" {
		return fmt.Errorf("%s:%d: triage: the keys and the editor are each person's own: they go to %s in the user's configuration directory", file, key.Line, settingsFile)
	}
	if !slices.Contains(configurable, key.Value) {
		return fmt.Errorf("%s:%d: unknown key %q; %s", file, key.Line, key.Value, render.Instead(key.Value, slices.Sorted(slices.Values(slices.Concat(configurable, config.Keys())))))
	}
	if slices.Contains(trusted, key.Value) && (flags.Lookup("base") == nil || flags.Lookup("base").Value.String() == "") {
		return fmt.Errorf("%s:%d: %s: set it with the flag, or in the configuration at --base", configFile, key.Line, key.Value)
	}
	return setValues(flags, root, file, key, value, rooted)
}

// setValues sets a flag, unless it is on the command line. locate converts its paths.
func setValues(flags *pflag.FlagSet, root, file string, key, value *yaml.Node, locate func(root, flag, value string) (string, error)) error {
	flag := flags.Lookup(key.Value)
	if flag == nil || flag.Changed {
		return nil // of another command, or overridden
	}
	values := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		values = value.Content
	}
	for _, v := range values {
		if v.Kind != yaml.ScalarNode {
			return fmt.Errorf("%s:%d: %s: want a value or a list of values", file, v.Line, key.Value)
		}
		rootedValue, err := locate(root, key.Value, v.Value)
		if err == nil {
			err = held(flags, key.Value, v.Value, rootedValue)
		}
		if err == nil {
			err = valueError(flag, v.Value, flag.Value.Set(rootedValue))
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %s: %w", file, v.Line, key.Value, err)
		}
	}
	return nil
}

// configureEditor sets flags from the settings of an editor, a JSON object with the keys of the
// configuration file and base. They win over that file, and flags of the command line win over them. Only
// the editor gives them, so paths may be absolute, and lead out of the repository then.
func configureEditor(flags *pflag.FlagSet, args []string, settings string) error {
	const file = "the editor's settings"
	given, err := config.Parse(file, []byte(settings))
	if err != nil || given == nil {
		return err
	}
	root, err := load.Root(args)
	if err != nil {
		return err
	}
	keys := append([]string{"base"}, configurable...)
	for i := 0; i+1 < len(given.Content); i += 2 {
		key := given.Content[i]
		switch {
		case slices.Contains(config.Keys(), key.Value):
			err = fmt.Errorf("%s: %s is about the repository, so it belongs to %s", file, key.Value, configFile)
		case !slices.Contains(keys, key.Value):
			err = fmt.Errorf("%s: unknown key %q; %s", file, key.Value, render.Instead(key.Value, slices.Sorted(slices.Values(keys))))
		default:
			err = setValues(flags, root, file, key, given.Content[i+1], func(root, flag, value string) (string, error) {
				if filepath.IsAbs(value) {
					return value, nil
				}
				return rooted(root, flag, value)
			})
		}
		if err != nil {
			return errors.New(strings.Replace(err.Error(), file+":1:", file+":", 1)) // they are one line
		}
	}
	for i := 0; i+1 < len(given.Content); i += 2 {
		if flag := flags.Lookup(given.Content[i].Value); flag != nil {
			flag.Changed = true
		}
	}
	return nil
}

// held returns an error if a path does not exist. With --base it may exist on one side only.
func held(flags *pflag.FlagSet, flag, value, rooted string) error {
	base := flags.Lookup("base")
	if !slices.Contains(pathFlags, flag) || value == rooted || base != nil && base.Value.String() != "" {
		return nil
	}
	if _, err := os.Stat(rooted); errors.Is(err, fs.ErrNotExist) {
		return load.NotFound(value, rooted)
	}
	return nil
}

// reconfigured returns the options of a run with another configuration, which may be nil.
// The flags of the command line stay.
func (o *checkOptions) reconfigured(given *pflag.FlagSet, root, file string, node *yaml.Node) (*evaluate.Reconfigured, error) {
	then := new(checkOptions)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	then.addFlags(flags)
	var err error
	given.VisitAll(func(f *pflag.Flag) {
		if to := flags.Lookup(f.Name); f.Changed && to != nil {
			err, to.Changed = errors.Join(err, setAs(to, f)), true
		}
	})
	if err == nil && node != nil {
		err = configureFrom(flags, root, file, node)
	}
	return &evaluate.Reconfigured{Options: then.Options, FailOn: o.failOn, Loosened: o.loosened(then)}, err
}

// setAs copies the value of a flag to another one.
func setAs(to, from *pflag.Flag) error {
	if list, ok := from.Value.(pflag.SliceValue); ok {
		return to.Value.(pflag.SliceValue).Replace(list.GetSlice())
	}
	return to.Value.Set(from.Value.String())
}

// loosened returns the keys whose new values let more failures pass, each with a sentence about the
// change. It leaves out keys that choose objects and policies.
func (o *checkOptions) loosened(then *checkOptions) map[string]string {
	all := make(map[string]string)
	note := func(is bool, key, format string, args ...any) {
		if is {
			all[key] = fmt.Sprintf(format, args...)
		}
	}
	loose := func(failOn string) int { return slices.Index([]string{"audit", "warn", "deny", "never"}, failOn) }
	note(loose(then.failOn) > loose(o.failOn), "fail-on", "fail-on is %s, and was %s", then.failOn, o.failOn)
	note(o.requireComplete && !then.requireComplete, "require-complete", "require-complete is false, and was true")
	note(!o.OnlyNew && then.OnlyNew, "only-new", "only-new is true, and was false")
	note(!o.AllowNew && then.AllowNew, "allow-new-suppressions", "allow-new-suppressions is true, and was false")
	note(then.Suppressions != o.Suppressions, "suppressions", "other suppressions are read")
	note(then.Limits.Memory < o.Limits.Memory, "task-memory", "task-memory is %d, and was %d: units and objects that need more are not evaluated", then.Limits.Memory, o.Limits.Memory)
	note(then.Limits.Time < o.Limits.Time, "task-time", "task-time is %s, and was %s: units and objects that take longer are not evaluated", then.Limits.Time, o.Limits.Time)
	note(then.Timeout < o.Timeout, "timeout", "timeout is %s, and was %s: a run that takes longer is incomplete", then.Timeout, o.Timeout)
	return all
}

// configurable lists the flags that a configuration file may set.
var configurable = []string{
	"allow-new-suppressions", "api-versions", "as", "as-file", "as-group", "authorizer", "color", "combine", "data", "disable-admission-plugins", "exclude", "fail-on", "gitops", "include-crds", "include-hidden", "jobs", "kube-version", "namespace",
	"no-tree-policies", "only-new", "output", "pack", "policy", "quiet", "rego-namespace", "release", "require-complete", "set", "set-file", "set-string",
	"suppressions", "task-memory", "task-time", "timeout", "values", "verbose", "with",
}

// trusted lists the flags that a configuration file may set only if it is not
// part of the change.
var trusted = []string{"task-memory", "task-time"}

// rooted converts a path of the configuration file to one of the command line.
// The path may not lead out of the repository, because a pull request can
// change this file.
func rooted(root, flag, value string) (string, error) {
	prefix, file := "", value
	switch {
	case (flag == "policy" || flag == "data" || flag == "with") && render.IsAddress(value):
		return value, nil
	case flag == "authorizer" && slices.Contains(authz.Modes, value):
		return value, nil
	case flag == "data":
		prefix, file = load.CutData(value)
	case slices.Contains(pathFlags, flag):
	case flag == "set-file", flag == "output":
		var ok bool
		if prefix, file, ok = strings.Cut(value, "="); !ok {
			return value, nil
		}
		prefix += "="
	default:
		return value, nil
	}
	if !filepath.IsLocal(filepath.FromSlash(file)) {
		return "", fmt.Errorf("%q leads out of the repository", file)
	}
	real := filepath.Join(root, filepath.FromSlash(file))
	if dir, err := filepath.EvalSymlinks(filepath.Dir(real)); err == nil {
		if _, ok := disk.Within(root, dir); !ok {
			return "", fmt.Errorf("%q leads out of the repository", file)
		}
	}
	if target, err := filepath.EvalSymlinks(real); err == nil {
		if _, ok := disk.Within(root, target); !ok {
			return "", fmt.Errorf("%q leads out of the repository", file)
		}
	}
	return prefix + real, nil
}

// settingsFile is in the user's configuration directory. Settings in the
// repository are never read, because it may be somebody else's.
const settingsFile = "preadmit/triage.yaml"

// pathFlags lists the flags whose values are paths, relative to the working
// directory on the command line and to the repository's root in the
// configuration file. The value of authorizer is a path unless it is a mode.
var pathFlags = []string{"values", "policy", "with", "as-file", "authorizer", "suppressions"}
