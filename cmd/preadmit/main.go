// Command preadmit answers what the API server would say if a change of a
// GitOps repository were merged.
//
// It holds command lines, the lists of renderers and resolvers (lists.go), and output
// files. main.go lists the commands; a command has a file of its name (check.go,
// render.go, explain.go, policiescmd.go, packscmd.go, testcmd.go with testwrite.go and
// mutate.go, graph.go, fetch.go with package download, triage.go, lsp.go). A run goes
// through
//
//   - options.go, flags.go, config.go: its flags, and package config: the configuration file
//   - deadline.go: the time that it may take; exit.go: its exit code
//   - package load: rendering, and what is deployed where
//   - package engines: the list of engines; package evaluate: their results, alone or as a change
//   - outputs.go, coverage.go: reports
//   - child.go: the child that does the work, package tasks: its limits, and package
//     confine: what the kernel lets it do
//
// The one thing to know: the program that a user starts is the parent (package
// supervise). It starts itself again as a child, which does everything here, but
// for the screen of triage.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/report"
)

func main() {
	if os.Args[0] == supervise.Marker {
		os.Exit(runChild())
	}
	tasks.CollectLate()
	stderr := quietLibraries()
	cutOff()
	supervise.IgnorePipe()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(load.WithUserCache(ctx), os.Args[1:], os.Stdin, os.Stdout, stderr)
	stop()
	os.Exit(code)
}

// run runs the program and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	code := exitOK
	root := newRootCommand(&code)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case ctx.Err() != nil && context.Cause(ctx) != tasks.ErrTerminated:
		fmt.Fprintln(stderr, "preadmit: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "preadmit: %s\n", report.Plain(oneDash(root, args, err).Error()))
		return exitCode(err)
	}
	return code
}

// newRootCommand returns the root command with all commands. A command that
// completes sets code to its exit code. An error is a usage error unless it has
// an exit code.
func newRootCommand(code *int) *cobra.Command {
	root := &cobra.Command{
		Use:           "preadmit",
		Short:         "What would the API server say if this change were merged?",
		Long:          rootLong,
		Version:       version,
		Args:          noSuchCommand,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(
		newCheckCommand(code),
		newBaselineCommand(code),
		newRenderCommand(code),
		newGraphCommand(code),
		newFetchCommand(code),
		newTriageCommand(),
		newLSPCommand(code),
		newConvertCommand(),
		newExplainCommand(code),
		newPoliciesCommand(code),
		newTestCommand(code),
		newVerifyCommand(code),
		newPacksCommand(),
		newVersionCommand(),
	)
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	suggestCommands(root)
	completions(root)
	return root
}

const rootLong = `preadmit renders everything that a GitOps repository would deploy (Helm charts,
kustomizations, plain manifests), evaluates every admission policy offline, and
points at the line to edit.

  preadmit check            the current directory, with the policies in it
  preadmit check charts/web -f charts/web/values-prod.yaml

Exit codes: 0 nothing denied, 1 denied, 2 bad command line or configuration,
3 something could not be rendered, compiled or decided, 130 interrupted.`
