package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/cmd/preadmit/docs"
	"github.com/preadmit/preadmit/render"
)

// oneOf returns an error unless the value is one of the names.
func oneOf(value string, names ...string) error {
	if slices.Contains(names, value) {
		return nil
	}
	err := fmt.Errorf("%q is none of %s", value, strings.Join(names, ", "))
	if meant := render.DidYouMean(value, names); meant != "" {
		err = fmt.Errorf("%w; %s", err, meant)
	}
	return err
}

// flagOneOf is oneOf for a flag whose Set method does not check the value.
func flagOneOf(flag, value string, names ...string) error {
	if err := oneOf(value, names...); err != nil {
		return fmt.Errorf("--%s %w", flag, err)
	}
	return nil
}

// wants returns a check for the number of arguments: from least to most, or any number for most -1.
// Its error contains what, the arguments that the command takes, and an example.
func wants(least, most int, what, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		only := ""
		if len(args) > 0 && len(args) < least {
			only = "only "
		}
		return fmt.Errorf("%s takes %s, and %s%s given; for example: %s", cmd.Name(), what, only, given(args), example)
	}
}

func given(args []string) string {
	switch len(args) {
	case 0:
		return "nothing is"
	case 1:
		return strconv.Quote(args[0]) + " is"
	default:
		return fmt.Sprintf("%d arguments are", len(args))
	}
}

// noSuchCommand returns an error for an unknown command, with the command that was
// probably meant.
func noSuchCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
		if slices.Contains(c.SuggestFor, args[0]) {
			return fmt.Errorf("there is no command %q; did you mean preadmit %s?", args[0], c.Name())
		}
	}
	if meant := render.Nearest(args[0], names); meant != "" {
		return fmt.Errorf("there is no command %q; did you mean preadmit %s?", args[0], meant)
	}
	if _, err := os.Stat(args[0]); err == nil {
		return fmt.Errorf("%s is a path; give a command before it: preadmit check %[1]s", args[0])
	}
	return fmt.Errorf("there is no command %q; there are %s", args[0], strings.Join(names, ", "))
}

// suggestCommands sets the names of similar commands of other tools, for suggestions.
func suggestCommands(root *cobra.Command) {
	names := map[string][]string{
		"check":    {"lint", "validate", "scan", "apply", "analyze", "run", "evaluate", "vet"},
		"render":   {"template", "build", "kustomize", "helm", "manifests"},
		"init":     {"setup", "configure", "config", "new"},
		"fix":      {"autofix", "repair", "patch"},
		"graph":    {"tree", "inventory", "list", "ls"},
		"explain":  {"why", "describe", "debug", "trace"},
		"triage":   {"ui", "tui", "review"},
		"packs":    {"rules"},
		"policies": {"policy", "unused", "audit"},
	}
	for _, c := range root.Commands() {
		c.SuggestFor = names[c.Name()]
		switch c.Name() {
		case "completion":
			c.Args, c.RunE = cobra.ArbitraryArgs, noSuchShell
		case "help":
			c.Use, c.Short = "help [COMMAND | TOPIC]", "Show the help of a command, or a page of the documentation"
			c.Run, c.RunE = nil, helpOn
		default:
			if c.Args == nil {
				c.Args = cobra.ArbitraryArgs
			}
		}
	}
}

func noSuchShell(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var shells []string
	for _, c := range cmd.Commands() {
		shells = append(shells, c.Name())
	}
	return fmt.Errorf("there is no completion for %q; %s", args[0], render.Instead(args[0], shells))
}

// helpOn writes the help of the command that arguments name, or the page of a topic.
func helpOn(cmd *cobra.Command, args []string) error {
	for _, p := range docs.Pages() {
		if len(args) == 1 && args[0] == p.Topic {
			_, err := io.WriteString(cmd.OutOrStdout(), p.Text)
			return err
		}
	}
	c, rest, err := cmd.Root().Find(args)
	if err == nil && c == cmd.Root() {
		err = noSuchCommand(c, rest)
	}
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	return c.Help()
}

// flagError explains an error in a flag of the command line.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var needs *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &value):
		return fmt.Errorf("--%s %w", value.GetFlag().Name, valueError(value.GetFlag(), value.GetValue(), value.Unwrap()))
	case errors.As(err, &needs):
		name, _ := pflag.UnquoteUsage(needs.GetFlag())
		return fmt.Errorf("--%s needs a value: --%[1]s %s", needs.GetFlag().Name, name)
	}
	return err
}

func unknownFlag(cmd *cobra.Command, e *pflag.NotExistError) error {
	name := "--" + e.GetSpecifiedName()
	if letters := e.GetSpecifiedShortnames(); letters != "" {
		name = "-" + e.GetSpecifiedName()
		if len(letters) > 1 {
			name += " in -" + letters
		}
	}
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, "--"+f.Name) })
	switch meant := render.Nearest(name, flags); {
	case e.GetSpecifiedShortnames() == "" && meant != "":
		return fmt.Errorf("unknown flag %s; did you mean %s?", name, meant)
	case e.GetSpecifiedShortnames() == "" && elsewhere(e.GetSpecifiedName()) != "":
		return fmt.Errorf("unknown flag %s; here it is %s", name, elsewhere(e.GetSpecifiedName()))
	case e.GetSpecifiedShortnames() == "" && otherCommand(cmd, e.GetSpecifiedName()) != "":
		return fmt.Errorf("unknown flag %s; it is one of preadmit %s", name, otherCommand(cmd, e.GetSpecifiedName()))
	}
	return fmt.Errorf("unknown flag %s; see %s --help", name, cmd.CommandPath())
}

// otherCommand returns the first command that has a flag.
func otherCommand(cmd *cobra.Command, flag string) string {
	for _, c := range cmd.Root().Commands() {
		if c.Flags().Lookup(flag) != nil {
			return c.Name()
		}
	}
	return ""
}

// valueError explains why a flag does not accept a value.
func valueError(f *pflag.Flag, value string, err error) error {
	if err == nil {
		return nil
	}
	switch f.Value.Type() {
	case "int":
		return fmt.Errorf("%q is not a whole number", value)
	case "bool":
		return fmt.Errorf("%q is neither true nor false", value)
	case "duration":
		return fmt.Errorf("%q is not a duration such as 30s, 10m or 1h30m", value)
	}
	return err
}

// oneDash adds to an error that a long flag was written with one dash, which
// makes its first letter a short flag and the rest that one's value.
func oneDash(root *cobra.Command, args []string, err error) error {
	cmd, _, findErr := root.Find(args)
	if findErr != nil || exitCode(err) != exitUsage {
		return err
	}
	for _, a := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		if a == "--" {
			break
		}
		if strings.HasPrefix(a, "-") && len(name) > 1 && cmd.Flags().Lookup(name) != nil {
			return fmt.Errorf("-%s is written with two dashes: --%[1]s", name)
		}
	}
	return err
}

// flagGroups are the headings of --help with their flags, in order. Flags of a command that are in
// no group come last.
var flagGroups = []struct {
	title string
	flags []string
}{
	{"What to check", []string{"values", "set", "set-string", "set-file", "release", "namespace", "include-crds", "api-versions", "exclude", "include-hidden", "gitops", "cluster", "repository", "config", "store", "shard"}},
	{"Policies", []string{"policy", "pack", "no-tree-policies", "data", "rego-namespace", "combine", "suppressions", "allow-new-suppressions"}},
	{"Cluster and user", []string{"kube-version", "disable-admission-plugins", "with", "as", "as-group", "as-file", "authorizer", "date"}},
	{"A change", []string{"base", "only-new", "require-complete", "fail-on", "from-kube-version", "enforce"}},
	{"Report", []string{"output", "fixes", "summary", "verbose", "quiet", "color", "category", "link-prefix", "markdown-limit", "coverage", "coverage-add", "fail-under"}},
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
