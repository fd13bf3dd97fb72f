package evaluate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
	"github.com/preadmit/preadmit/report"
)

// configurationChange returns results about a changed configuration file. A run with
// --base uses the base's file, so it can't see what the new one leaves out. Each
// result names objects that are checked now, and are not once the change is merged.
func (b *base) configurationChange(ctx context.Context, o *Options, head *load.Input, args []string, stdin io.Reader) (results []policy.Result, notes []string) {
	file := config.Path
	if o.Config != "" {
		var err error
		if file, err = load.ConfigName(head.Tree, o.Config); err != nil {
			return nil, nil // configure has reported it
		}
	}
	was, err := config.ReadNode(b.in.Tree, file)
	if err != nil {
		return nil, nil // as before
	}
	now, err := config.ReadNode(head.Tree, file)
	if err != nil {
		return b.unusable(file, 1, err), nil
	}
	if config.Same(was, now) {
		return nil, nil
	}
	line, graph := config.FirstDifference(was, now)
	then, err := o.after(head.Tree, file, was, now)
	if err != nil {
		return b.unusable(file, line, err), nil
	}
	if !graph {
		return nil, []string{otherwise(file, config.Changed(was, now), nil)}
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	later, err := load.From(ctx, &then.Sources, head.Tree, args, stdin)
	if err != nil {
		return b.unusable(file, line, err), nil
	}
	gone, other := change.Missing(head.Head, later.Head)
	if len(gone) == 0 {
		return nil, []string{otherwise(file, config.Changed(was, now), other)}
	}
	return []policy.Result{b.configured("newly-unjudged", file, line, fmt.Sprintf(
		"no longer checked once this change of the configuration is merged: %s checked today, the first %s", policy.Plural(len(gone), "object"), change.Where(gone[0])))}, nil
}

// unusable returns the result about a configuration that the next run can't
// use.
func (b *base) unusable(file string, line int, err error) []policy.Result {
	return []policy.Result{b.configured("unusable-configuration", file, line, "once this change is merged, no run can use this configuration: "+report.Plain(err.Error()))}
}

func (b *base) configured(rule, file string, line int, message string) policy.Result {
	return policy.Result{
		Engine: policy.EngineRender, Policy: "documents", Rule: rule, Operation: policy.Update,
		Outcome: policy.Unknown, Action: policy.Deny, Baseline: policy.New, Message: message,
		Origins: []render.Origin{{Span: render.Span{File: file, Line: line, Column: 1, EndLine: line, EndColumn: 1}, Role: render.Value}},
	}.Fingerprinted()
}

// after returns the options of a run without a base once the configuration now
// is merged in place of was. What the command line gave stays.
func (o *Options) after(t *load.Tree, file string, was, now *yaml.Node) (*Options, error) {
	s := &config.File{Name: t.Display(file)}
	if now != nil {
		if err := config.InFile(s.Name, s.Decode(now)); err != nil {
			return nil, err
		}
		if err := o.Configurable(t.Dir, s.Name, now); err != nil {
			return nil, err
		}
	}
	s.Sources = o.Configuration.Readable(s.Sources)
	then := *o
	then.Configuration, then.Memory, then.Rendered = s, nil, nil
	if value, given := config.Flag(was, "gitops"); o.GitOps == value || !given && o.GitOps == load.GitOpsAuto {
		then.GitOps = load.GitOpsAuto
		if value, given := config.Flag(now, "gitops"); given {
			then.GitOps = value
		}
	}
	if value, _ := config.Flag(was, "include-hidden"); value == "true" && o.Selection.Hidden {
		value, _ := config.Flag(now, "include-hidden")
		then.Selection.Hidden = value == "true"
	}
	if value, _ := config.Flag(was, "include-crds"); (value != "false") == o.IncludeCRDs {
		value, _ := config.Flag(now, "include-crds")
		then.IncludeCRDs = value != "false"
	}
	return &then, nil
}

// otherwise is the note about a changed configuration that leaves out nothing.
func otherwise(file string, keys []string, other []*render.Object) string {
	note := fmt.Sprintf("%s is changed (%s): this run used the base's", file, report.Plain(strings.Join(keys, ", ")))
	if len(other) == 0 {
		return note
	}
	return note + fmt.Sprintf("; the changed one renders %s differently, the first %s", policy.Plural(len(other), "object"), change.Where(other[0]))
}

// replacedContent returns results about locked content that is another while its version is
// the same.
func (b *base) replacedContent(head *load.Input) []policy.Result {
	was, _ := store.ReadLock(b.in.Tree.Repository())
	now, _ := store.ReadLock(head.Tree.Repository())
	data, _ := render.ReadFile(head.Tree, store.LockFile)
	var results []policy.Result
	for _, e := range now.Replaced(was) {
		line := 1 + bytes.Count(data[:max(0, bytes.Index(data, []byte(e.Digest)))], []byte("\n"))
		results = append(results, b.configured("swapped-content", store.LockFile, line,
			e.Label()+" is locked to other content than at the base, and its version is the same: "+
				"a cluster gets what the repository has for that version. Ask it by `preadmit fetch --update`, and review why it changed"))
	}
	return results
}
