// Command preadmit predicts the API server's answers if a change of a GitOps repository were
// merged.
//
// This package contains the command lines, the lists of renderers and resolvers (lists.go), and the
// writing of output files. main.go lists the commands; each command has a file with its name
// (check.go, render.go, explain.go, policiescmd.go with packs, testcmd.go, fix.go with package
// fixes, init.go with package draft, graph.go, fetch.go with package download, triage.go with lsp,
// mcp.go). A run uses
//
//   - flags.go, config.go: the flags, --timeout too; package config: the configuration file
//   - usage.go, completion.go: help, errors and completion
//   - package load: rendering, and finding out what is deployed to which cluster
//   - package engines: the list of engines; package evaluate: the results of a tree or of a change
//   - outputs.go, coverage.go: reports
//   - child.go: the child process that does the work; package tasks: its limits; package confine:
//     its restrictions by the kernel
//
// The program that a user starts is the parent (package supervise). It starts itself again as a
// child process, which runs the code of this package, except for the screen of triage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

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
		newFixCommand(code),
		newInitCommand(code),
		newBaselineCommand(code),
		newRenderCommand(code),
		newGraphCommand(code),
		newFetchCommand(code),
		newTriageCommand(),
		newLSPCommand(code),
		newMCPCommand(),
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
	groupFlags(root)
	return root
}

const rootLong = `preadmit renders everything that a GitOps repository would deploy (Helm charts,
kustomizations, plain manifests), evaluates every admission policy offline, and
points at the line to edit.

  preadmit check            the current directory, with the policies in it
  preadmit check charts/web -f charts/web/values-prod.yaml

Exit codes: 0 nothing denied, 1 denied, 2 bad command line or configuration,
3 something could not be rendered, compiled or decided, 130 interrupted.`

// The exit codes, one table for all commands.
const (
	exitOK          = 0   // nothing denied
	exitDenied      = 1   // denied: a failure at or above --fail-on
	exitUsage       = 2   // bad command line or configuration
	exitIncomplete  = 3   // something could not be rendered, compiled or decided
	exitInterrupted = 130 // SIGINT
)

// stdio holds the streams of a command.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var ended *supervise.Ended
	var incomplete *supervise.Incomplete
	switch {
	case errors.As(err, &ended):
		return ended.Code
	case errors.As(err, &incomplete):
		return exitIncomplete
	}
	return exitUsage
}

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

// quietLibraries redirects what libraries write to standard error, and returns
// the real standard error. Everything that a user must know is a result.
// kustomize writes to os.Stderr directly.
func quietLibraries() *os.File {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	log.SetOutput(io.Discard)
	stderr := os.Stderr
	if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		os.Stderr = null
	}
	return stderr
}

// cutOff is a second safeguard for offline work. Renderers refuse remote references before any
// library sees them. A library that tries anyway finds no HTTP transport and no program in PATH.
// PATH is kept in another variable for the editor, the only program that triage may run.
func cutOff() {
	http.DefaultTransport = refuse{}
	os.Setenv(editorPath, os.Getenv("PATH"))
	os.Setenv("PATH", "")
}

type refuse struct{}

func (refuse) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, errors.New("preadmit opens no connection: " + r.URL.Redacted())
}

// editorPath is the environment variable that holds the original PATH. PATH
// itself is emptied, so that only the editor can start programs.
const editorPath = "PREADMIT_EDITOR_PATH"
