package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestManPages makes the man pages, in PREADMIT_MAN where that names a
// directory, as the release does. There is one for each command.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if to := os.Getenv("PREADMIT_MAN"); to != "" {
		dir = filepath.Join("../..", to)
		rendertest.OK(t, os.MkdirAll(dir, 0o777))
	}
	var code int
	root := newRootCommand(&code)
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "preadmit", Manual: "preadmit", Date: new(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))}
	rendertest.OK(t, doc.GenManTree(root, header, dir))
	check := func(c *cobra.Command) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		page, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(page), ".TH") || c.Short != "" && !strings.Contains(string(page), ".SH NAME") {
			t.Errorf("%s:\n%s", name, page)
		}
	}
	check(root)
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			check(c)
		}
	}
}
