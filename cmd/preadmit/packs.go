package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/packs"
	"github.com/preadmit/preadmit/policy/podsecurity"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
)

// A pack is a set of policies that is in the binary.
type pack struct{ name, level, doc string }

const (
	defaultPack    = "pod-security-baseline"
	restrictedPack = "pod-security-restricted"
)

// embedded lists the packs: those of an engine of their own, and those of
// policies like anybody's.
func embedded() []pack {
	all := []pack{
		{defaultPack, "baseline", "Pod Security Standards, baseline: prevents known privilege escalations"},
		{restrictedPack, "restricted", "Pod Security Standards, restricted: current hardening practice; includes baseline"},
	}
	for _, p := range packs.All {
		all = append(all, pack{name: p.Name, doc: p.Doc})
	}
	return all
}

func packNames() []string {
	var names []string
	for _, p := range embedded() {
		names = append(names, p.name)
	}
	return names
}

// checkPacks says which of the names is no pack.
func checkPacks(names []string) error {
	for _, name := range names {
		if !slices.Contains(packNames(), name) {
			return fmt.Errorf("--pack %q: no such pack; %s", name, render.Instead(name, packNames()))
		}
	}
	return nil
}

// newPack returns the engine of a pack. Failures only warn if --pack does not name it.
func newPack(name string, s *engineSettings, kinds policy.Kinds, cluster *policy.Cluster) (policy.Validator, error) {
	all := embedded()
	i := slices.IndexFunc(all, func(p pack) bool { return p.name == name })
	if i < 0 {
		return nil, checkPacks([]string{name})
	}
	if level := all[i].level; level != "" {
		return podsecurity.New(podsecurity.Options{
			Level: level, KubeVersion: s.KubeVersion, Cluster: cluster, Implied: !slices.Contains(s.Packs, name),
		})
	}
	policies, err := packs.Objects(name, s.KubeVersion)
	if err != nil {
		return nil, err
	}
	return admission.New(policies, admission.Options{Cluster: cluster, Kinds: kinds, KubeVersion: s.KubeVersion})
}

// withoutRepeats leaves out what was named twice, and baseline beside
// restricted, which includes it.
func withoutRepeats(names []string) []string {
	var once []string
	for _, n := range names {
		if slices.Contains(once, n) || n == defaultPack && slices.Contains(names, restrictedPack) {
			continue
		}
		once = append(once, n)
	}
	return once
}

func newPacksCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "packs [NAME [RULE]]",
		Short: "List the embedded policy packs, the rules of one, or describe a rule",
		Args:  wants(0, 2, "at most a pack and a rule", "preadmit packs best-practices"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listPacks(cmd.OutOrStdout())
			}
			if !slices.Contains(packNames(), args[0]) {
				return fmt.Errorf("there is no pack %q; %s", args[0], render.Instead(args[0], packNames()))
			}
			rules, err := packRules(args[0])
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

func packRules(name string) ([]policy.Rule, error) {
	kinds, err := schema.New(nil, schema.Options{})
	if err != nil {
		return nil, err
	}
	engine, err := newPack(name, &engineSettings{Packs: []string{name}}, kinds, policy.NewCluster())
	if err != nil {
		return nil, err
	}
	return engine.Rules(), nil
}

func listPacks(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, p := range embedded() {
		fmt.Fprintf(tw, "%s\t%s\n", p.name, p.doc)
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
// rule's, its policy's, or both with a slash; the pack's name may be left out.
// A policy's text is written once.
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
