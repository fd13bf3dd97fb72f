package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

func newPacksCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "packs [NAME [RULE]]",
		Short: "List the embedded policy packs, the rules of one, or describe a rule",
		Args:  wants(0, 2, "at most a pack and a rule", "preadmit packs best-practices"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listPacks(cmd.OutOrStdout())
			}
			if !slices.Contains(engines.PackNames(), args[0]) {
				return fmt.Errorf("there is no pack %q; %s", args[0], render.Instead(args[0], engines.PackNames()))
			}
			rules, err := engines.PackRules(args[0])
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return documentRules(cmd.OutOrStdout(), args[0], args[1], rules)
			}
			return listRules(cmd.OutOrStdout(), rules)
		},
	}
}

func listPacks(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, p := range engines.Packs() {
		fmt.Fprintf(tw, "%s\t%s\n", p.Name, p.Doc)
	}
	return tw.Flush()
}

func listRules(w io.Writer, rules []policy.Rule) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, r := range rules {
		fmt.Fprintf(tw, "%s/%s\t%s\t%s\t%s\n", r.Policy, r.Name, r.Action, r.Severity, r.Title)
	}
	return tw.Flush()
}

// documentRules writes the documentation of the rules that a name selects: a
// rule, a policy, or both separated by a slash. The pack's name may be left
// out. A policy's text is written once.
func documentRules(w io.Writer, pack, name string, rules []policy.Rule) error {
	said := make(map[string]bool)
	for _, r := range rules {
		names := []string{r.Name, r.Policy, r.Policy + "/" + r.Name}
		if !slices.Contains(names, name) && !slices.Contains(names, pack+"-"+name) || said[r.Policy+r.Title] {
			continue
		}
		said[r.Policy+r.Title] = true
		fmt.Fprintf(w, "# %s\n\n%s/%s, %s, %s\n\n%s\n\n%s\n\n%s\n", r.Title, r.Policy, r.Name, r.Action, r.Severity, r.Description, strings.TrimSpace(r.Help), r.URL)
	}
	if len(said) == 0 {
		return fmt.Errorf("%s has no rule %s; see preadmit packs %s", pack, name, pack)
	}
	return nil
}
