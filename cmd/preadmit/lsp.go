package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/lsp"
	"github.com/preadmit/preadmit/cmd/preadmit/triage"
)

func newLSPCommand(code *int) *cobra.Command {
	var o triageOptions
	cmd := &cobra.Command{
		Use:   "lsp [PATH ...]",
		Short: "Show the results in an editor: a language server on standard input and output",
		Long: `Evaluate as check does, and show the results in an editor, at the lines to edit,
while a person types. An editor starts this; the README has the settings for
Neovim, Helix and VS Code.

Open files are checked with their unsaved text, all others as saved. Changes to
the configuration apply once it is saved. Hover shows the rule and the value after
rendering, go to definition leads to the policy, and code actions accept a result
in the suppressions file or explain it.

One server checks one repository: that of the first folder that the editor opened.
Each PATH, and each path of a flag, is relative to that folder.`,
		Args: func(_ *cobra.Command, args []string) error {
			if slices.Contains(args, "-") {
				return errors.New("lsp can't read a path from standard input (-), because the editor uses it")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			end, isChild := cmd.OutOrStdout().(*childStdout)
			if !isChild {
				*code = lsp.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), lsp.Options{Version: version, Open: triage.Opener(args)})
				return nil
			}
			if err := o.prepare(cmd.Flags(), args); err != nil {
				return err
			}
			h := triage.NewEditorHost(&o.Options, args)
			return h.Serve(cmd.Context(), end.end.asked, end.end.to)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}
