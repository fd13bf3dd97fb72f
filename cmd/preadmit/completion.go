package main

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/graph"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/suites"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/git"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/report/explanation"
)

// completions registers shell completions for the values of flags and arguments.
func completions(root *cobra.Command) {
	formats := map[string][]string{"explain": explanation.Formats.Names(), "test": suites.Formats.Names(), "render": renderFormats, "graph": graph.Formats.Names(), "policies": report.PoliciesFormats.Names()}
	for _, c := range root.Commands() {
		values := map[string]cobra.CompletionFunc{
			"color": among(colorModes), "theme": among(themes), "sandbox": among(tasks.SandboxModes), "gitops": among(load.GitOpsModes),
			"fail-on": among(failActions()), "pack": among(engines.PackNames()), "kube-version": among(schema.Versions()),
			"coverage":          among(report.CoverageFormats.Names()),
			"mutate":            among(report.MutationFormats.Names()),
			"from-kube-version": among(schema.Versions()), "enforce": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return writtenPolicies(), cobra.ShellCompDirectiveNoFileComp
			},
			"base": completeRevision, "output": among(formats[c.Name()]),
			"authorizer": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return authz.Modes, cobra.ShellCompDirectiveDefault // or a file
			},
		}
		if c.Name() == "policies" {
			values["fail-on"] = among(failOnFindings)
		}
		if formats[c.Name()] == nil {
			values["output"] = among(report.Formats.Names())
		}
		for flag, f := range values {
			if c.Flags().Lookup(flag) != nil {
				c.RegisterFlagCompletionFunc(flag, f) // fails only for flags that do not exist
			}
		}
		switch c.Name() {
		case "packs":
			c.ValidArgsFunction = completePack
		case "explain":
			c.ValidArgsFunction = completeExplained
		}
	}
}

func among(names []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
}

// completePack offers the packs, and the rules of one.
func completePack(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := engines.PackNames()
	if len(args) > 0 {
		names = nil
		rules, _ := engines.PackRules(args[0])
		for _, r := range rules {
			names = append(names, r.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeRevision offers branches and tags.
func completeRevision(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	t, err := load.Open(nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer t.Close()
	repo, err := git.Open(t.Dir)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer repo.Close()
	return append([]string{"HEAD"}, repo.Names()...), cobra.ShellCompDirectiveNoFileComp
}

// completeExplained offers the policies of the tree, then nothing for the
// object, then paths.
func completeExplained(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return writtenPolicies(), cobra.ShellCompDirectiveNoFileComp
	case 1:
		return nil, cobra.ShellCompDirectiveNoFileComp
	default:
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// mostCompleted is the most files that are read for a completion.
const mostCompleted = 2000

// writtenPolicies returns the names of policies in the tree's files. It renders
// nothing.
func writtenPolicies() []string {
	t, err := load.Open(nil)
	if err != nil {
		return nil
	}
	defer t.Close()
	var names []string
	read := 0
	fs.WalkDir(t, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != ".":
			return fs.SkipDir
		case d.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)):
			return nil
		case read == mostCompleted:
			return fs.SkipAll
		}
		read++
		names = append(names, policiesOf(t, name)...)
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names)
}

func policiesOf(t *load.Tree, name string) []string {
	data, err := render.ReadFile(t, name)
	if err != nil || !slices.ContainsFunc(lint.Groups(), func(g string) bool { return strings.Contains(string(data), g) }) {
		return nil
	}
	docs, _ := render.Documents(name, data, render.YAML11)
	var names []string
	for _, d := range docs {
		apiVersion, _ := render.Lookup(d.Value, "/apiVersion")
		kind, _ := render.Lookup(d.Value, "/kind")
		named, _ := render.Lookup(d.Value, "/metadata/name")
		group, _, _ := strings.Cut(text(apiVersion), "/")
		if slices.Contains(lint.Groups(), group) && !strings.HasSuffix(text(kind), "Binding") && text(named) != "" {
			names = append(names, text(named))
		}
	}
	return names
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
