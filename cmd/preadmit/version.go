package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
)

var version = supervise.Version()

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  wants(0, 0, "no arguments", "preadmit version"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), supervise.VersionLine())
			return err
		},
	}
}
