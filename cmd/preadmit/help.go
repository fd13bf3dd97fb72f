package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/cmd/preadmit/docs"
)

// flagGroups are the headings of --help with their flags, in order. Flags of a command that are in
// no group come last.
var flagGroups = []struct {
	title string
	flags []string
}{
	{"What to check", []string{"values", "set", "set-string", "set-file", "release", "namespace", "include-crds", "api-versions", "exclude", "include-hidden", "gitops", "cluster", "repository", "config", "store", "shard"}},
	{"Policies", []string{"policy", "pack", "no-tree-policies", "data", "rego-namespace", "combine", "suppressions", "allow-new-suppressions"}},
	{"Cluster and user", []string{"kube-version", "with", "as", "as-group", "as-file", "authorizer", "date"}},
	{"A change", []string{"base", "only-new", "require-complete", "fail-on", "from-kube-version", "enforce", "enforce-by"}},
	{"Report", []string{"output", "summary", "verbose", "quiet", "color", "category", "link-prefix", "markdown-limit", "coverage", "coverage-add", "fail-under"}},
	{"Limits and cache", []string{"jobs", "timeout", "task-memory", "task-time", "sandbox", "cache", "no-cache"}},
}

// minGrouped is the number of flags from which a command's help has groups.
const minGrouped = 20

// helpWidth is the width of help that does not go to a terminal.
const helpWidth = 100

// groupFlags makes the help of commands with many flags list these by flagGroups, and fit all help
// into the width of the terminal.
func groupFlags(root *cobra.Command) {
	plain := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		if c == root {
			return errors.Join(plain(c), listTopics(c.OutOrStdout()))
		}
		if c.HasAvailableSubCommands() {
			return plain(c)
		}
		columns := cmp.Or(width(c.OutOrStdout()), helpWidth)
		fmt.Fprintf(c.OutOrStdout(), "Usage:\n  %s\n", c.UseLine())
		for _, part := range grouped(c.LocalFlags()) {
			fmt.Fprintf(c.OutOrStdout(), "\n%s:\n%s", part.title, part.flags.FlagUsagesWrapped(columns))
		}
		return nil
	})
}

// listTopics lists the pages that preadmit help prints.
func listTopics(w io.Writer) error {
	fmt.Fprint(w, "\nTopics, for preadmit help TOPIC:\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range docs.Pages() {
		fmt.Fprintf(t, "  %s\t%s\n", p.Topic, p.Title)
	}
	return t.Flush()
}

// A flagGroup is a group of one command's flags.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// grouped returns the flags by flagGroups, or all in one group if they are few.
func grouped(all *pflag.FlagSet) (groups []flagGroup) {
	n := 0
	all.VisitAll(func(*pflag.Flag) { n++ })
	taken := make(map[string]bool)
	add := func(title string, of func(*pflag.Flag) bool) {
		part := pflag.NewFlagSet(title, pflag.ContinueOnError)
		all.VisitAll(func(f *pflag.Flag) {
			if !taken[f.Name] && of(f) {
				part.AddFlag(f)
				taken[f.Name] = true
			}
		})
		if part.HasAvailableFlags() {
			groups = append(groups, flagGroup{title, part})
		}
	}
	if n < minGrouped {
		add("Flags", func(*pflag.Flag) bool { return true })
		return groups
	}
	for _, g := range flagGroups {
		add(g.title, func(f *pflag.Flag) bool { return slices.Contains(g.flags, f.Name) })
	}
	add("Other flags", func(*pflag.Flag) bool { return true })
	return groups
}

// flagsElsewhere are flags of similar tools, with what preadmit has for their purpose.
var flagsElsewhere = map[string]string{
	"format":       "--output",
	"out":          "--output",
	"report":       "--output",
	"ignore":       "--exclude, or a suppression in .preadmit/suppressions.yaml",
	"skip":         "--exclude, or a suppression in .preadmit/suppressions.yaml",
	"exit-zero":    "--fail-on never",
	"soft-fail":    "--fail-on never",
	"no-fail":      "--fail-on never",
	"resource":     "PATH as an argument, without a flag",
	"policies":     "--policy",
	"context":      "--with FILE: preadmit asks no cluster",
	"kubeconfig":   "--with FILE: preadmit asks no cluster",
	"show-only":    "PATH as an argument, without a flag",
	"release-name": "--release",
	"user":         "--as",
}

// elsewhere returns preadmit's way to do what a flag of another tool does, or "".
func elsewhere(flag string) string { return flagsElsewhere[strings.ToLower(flag)] }
