package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// version is set by the release build (-ldflags -X main.version=...).
var version = "0.1.0"

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  wants(0, 0, "no arguments", "preadmit version"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "preadmit %s %s/%s %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.Version())
			return err
		},
	}
}
