package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestFlagGroups holds that each flag of check has a place in the groups of --help, and that each
// flag there exists.
func TestFlagGroups(t *testing.T) {
	t.Parallel()
	var code int
	root := newRootCommand(&code)
	all := make(map[string]bool)
	for _, c := range root.Commands() {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { all[f.Name] = true })
	}
	check, _, err := root.Find([]string{"check"})
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, g := range flagGroups {
		for _, name := range g.flags {
			if !all[name] {
				t.Errorf("%s: no command has --%s", g.title, name)
			}
			if slices.Contains(listed, name) {
				t.Errorf("--%s is in two groups", name)
			}
			listed = append(listed, name)
		}
	}
	check.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(listed, f.Name) && f.Name != "help" {
			t.Errorf("--%s of check is in no group", f.Name)
		}
	})
	for from, to := range flagsElsewhere {
		flag, ours := strings.CutPrefix(strings.FieldsFunc(to, func(r rune) bool { return strings.ContainsRune(" ,:", r) })[0], "--")
		if ours && !all[flag] || all[from] && check.LocalFlags().Lookup(from) != nil {
			t.Errorf("--%s: %s", from, to)
		}
	}
}

// TestHelpFits holds that help is no wider than its width, except words that can't be broken.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	var code int
	root := newRootCommand(&code)
	var out strings.Builder
	root.SetOut(&out)
	root.SetArgs([]string{"check", "--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > helpWidth+1 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}
