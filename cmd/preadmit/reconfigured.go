package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
)

// reconfigured returns results about a changed configuration file. A run with
// --base uses the base's file, so it can't see what the new one leaves out. Each
// result names objects that are checked now, and are not once the change is merged.
func (b *base) reconfigured(ctx context.Context, o *checkOptions, head *input, args []string, stdin io.Reader) (results []policy.Result, notes []string) {
	file := configFile
	if o.config != "" {
		var err error
		if file, err = configName(head.tree, o.config); err != nil {
			return nil, nil // configure has said so
		}
	}
	was, err := readConfig(b.in.tree, file)
	if err != nil {
		return nil, nil // as before
	}
	now, err := readConfig(head.tree, file)
	if err != nil {
		return b.unusable(file, 1, err), nil
	}
	line, differs := firstDifference(was, now)
	then, err := o.after(head.tree, file, was, now)
	if err != nil && !sameNode(was, now) {
		return b.unusable(file, line, err), nil
	}
	if err != nil || !differs {
		return nil, nil
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	later, err := loadFrom(ctx, then, head.tree, args, stdin)
	if err != nil {
		return b.unusable(file, line, err), nil
	}
	gone, other := change.Missing(head.head, later.head)
	if len(gone) == 0 {
		return nil, otherwise(file, other)
	}
	return []policy.Result{b.configured("newly-unjudged", file, line, fmt.Sprintf(
		"no longer checked once this change of the configuration is merged: %d objects that are checked today, the first %s", len(gone), change.Where(gone[0])))}, nil
}

// unusable is the result about a configuration that the next run can't use.
func (b *base) unusable(file string, line int, err error) []policy.Result {
	return []policy.Result{b.configured("unusable-configuration", file, line, "once this change is merged, no run can use this configuration: "+plain(err.Error()))}
}

func (b *base) configured(rule, file string, line int, message string) policy.Result {
	return policy.Result{
		Engine: policy.EngineRender, Policy: "documents", Rule: rule, Operation: policy.Update,
		Outcome: policy.Unknown, Action: policy.Deny, Baseline: policy.New, Message: message,
		Origins: []render.Origin{{Span: render.Span{File: file, Line: line, Column: 1, EndLine: line, EndColumn: 1}, Role: render.Value}},
	}.Fingerprinted()
}

// graphKeys are the keys of a configuration that say what is deployed, besides
// exclude, whose globs newlyExcluded reports one by one.
func graphKeys() []string {
	return append(slices.DeleteFunc(sectionKeys(), func(k string) bool { return k == "fetch" }), "gitops", "include-hidden")
}

// firstDifference returns the line of the first entry that is not the same in
// both configurations and says what is deployed. One that is removed has line 1.
func firstDifference(was, now *yaml.Node) (line int, differs bool) {
	for _, key := range graphKeys() {
		_, before := entryAt(was, key)
		at, after := entryAt(now, key)
		if sameNode(before, after) {
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

// sameNode compares nodes without their places and comments.
func sameNode(a, b *yaml.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	var x, y any
	return a.Decode(&x) == nil && b.Decode(&y) == nil && reflect.DeepEqual(x, y)
}

// after returns the options of a run without a base once the configuration now
// is merged in place of was. What the command line gave stays.
func (o *checkOptions) after(t *tree, file string, was, now *yaml.Node) (*checkOptions, error) {
	s := &sections{file: t.Display(file)}
	if now != nil {
		if err := inFile(s.file, s.decode(now)); err != nil {
			return nil, err
		}
		if err := configureFrom(newCheckCommand(new(int)).Flags(), t.Dir, s.file, withoutTrusted(now)); err != nil {
			return nil, err
		}
	}
	s.Sources = o.sections.readable(s.Sources)
	then := *o
	then.sections, then.memory, then.head = s, nil, nil
	if value, given := configuredFlag(was, "gitops"); o.gitops == gitopsMode(value) || !given && o.gitops == gitopsAuto {
		then.gitops = gitopsAuto
		if value, given := configuredFlag(now, "gitops"); given {
			then.gitops = gitopsMode(value)
		}
	}
	if value, _ := configuredFlag(was, "include-hidden"); value == "true" && o.selection.Hidden {
		value, _ := configuredFlag(now, "include-hidden")
		then.selection.Hidden = value == "true"
	}
	return &then, nil
}

// withoutTrusted leaves out the entries that only a base's configuration may have.
func withoutTrusted(config *yaml.Node) *yaml.Node {
	own := *config
	own.Content = nil
	for i := 0; i+1 < len(config.Content); i += 2 {
		if !slices.Contains(trusted, config.Content[i].Value) {
			own.Content = append(own.Content, config.Content[i], config.Content[i+1])
		}
	}
	return &own
}

func configuredFlag(config *yaml.Node, key string) (value string, given bool) {
	_, n := entryAt(config, key)
	if n == nil {
		return "", false
	}
	return n.Value, true
}

// readable leaves out sources outside of the repository which s does not have: a
// change does not choose what is read there.
func (s *sections) readable(all []sourceSection) []sourceSection {
	return slices.DeleteFunc(slices.Clone(all), func(x sourceSection) bool {
		local := filepath.IsLocal(filepath.FromSlash(x.Path)) || x.Path == "."
		return !local && !slices.ContainsFunc(s.Sources, func(have sourceSection) bool { return have.Path == x.Path })
	})
}

func otherwise(file string, other []*render.Object) []string {
	if len(other) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s is changed: the base's was used, and once this one is merged %d objects are rendered otherwise, the first %s", file, len(other), change.Where(other[0]))}
}

// swapped are results about locked content that is another while its version is
// the same.
func (b *base) swapped(head *input) []policy.Result {
	was, _ := store.ReadLock(b.in.tree.Repository())
	now, _ := store.ReadLock(head.tree.Repository())
	data, _ := render.ReadFile(head.tree, store.LockFile)
	var results []policy.Result
	for _, e := range now.Swapped(was) {
		line := 1 + bytes.Count(data[:max(0, bytes.Index(data, []byte(e.Digest)))], []byte("\n"))
		results = append(results, b.configured("swapped-content", store.LockFile, line,
			e.Label()+" is locked to other content than at the base, and its version is the same: "+
				"a cluster gets what the repository has for that version. Ask it by `preadmit fetch --update`, and review why it changed"))
	}
	return results
}
