package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// A pack is a set of policies that is in the binary.
type pack struct{ name, level, doc string }

const defaultPack = "pod-security-baseline"

var packs = []pack{
	{"pod-security-baseline", "baseline", "Pod Security Standards, baseline: prevents known privilege escalations"},
	{"pod-security-restricted", "restricted", "Pod Security Standards, restricted: current hardening practice; includes baseline"},
}

func packNames() string {
	var names []string
	for _, p := range packs {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// checkPacks says which of the names is no pack.
func checkPacks(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(packs, func(p pack) bool { return p.name == name }) {
			return fmt.Errorf("--pack %q: no such pack; there are %s", name, packNames())
		}
	}
	return nil
}

func newPacksCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "packs [NAME]",
		Short: "The embedded policy packs, or the rules of one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listPacks(cmd.OutOrStdout())
			}
			if err := checkPacks(args); err != nil {
				return err
			}
			return listRules(cmd.OutOrStdout(), args[0])
		},
	}
}

func listPacks(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, p := range packs {
		fmt.Fprintf(tw, "%s\t%s\n", p.name, p.doc)
	}
	return tw.Flush()
}

func listRules(w io.Writer, name string) error {
	engine, err := newPack(name, &checkOptions{}, nil)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, r := range engine.Rules() {
		fmt.Fprintf(tw, "%s/%s\t%s\t%s\n", r.Policy, r.Name, r.Severity, r.Title)
	}
	return tw.Flush()
}
