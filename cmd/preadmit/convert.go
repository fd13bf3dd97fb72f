package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
)

func newConvertCommand() *cobra.Command {
	var o outputs
	var verbose bool
	cmd := &cobra.Command{
		Use:   "convert REPORT.json ... -o FORMAT[=FILE]",
		Short: "Write a saved JSON report in another format, or join the parts of a run",
		Long: `Write a report saved by check -o json in another format. Source lines are read
from the repository around the working directory, if it has the files.

Several reports must be the parts of one run, one of each check --shard NUMBER/OF.
The joined report is the one that a run without --shard would have written.`,
		Args: wants(1, evaluate.MaxShards, "a REPORT.json, which check -o json writes, or those of all parts of a run", "preadmit convert report.json -o html=report.html"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runConvert(&o, args, verbose, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "also report passes")
	return cmd
}

func runConvert(o *outputs, files []string, verbose bool, stdin io.Reader, stdout io.Writer) error {
	outs, err := o.parse()
	if err != nil {
		return err
	}
	var parts []report.Part
	for _, file := range files {
		r, err := readReport(file, stdin)
		if err != nil {
			return err
		}
		parts = append(parts, report.Part{File: file, Report: r})
	}
	r := parts[0].Report
	if len(parts) > 1 || r.Shard != nil {
		if r, err = report.Join(parts); err != nil {
			return err
		}
		r.Notes = append(r.Notes, evaluate.BrokenPasses(r)...)
	}
	t, err := load.Open(nil)
	if err != nil {
		return err
	}
	r.Tree = disk.Shown{Tree: t.Tree}
	return o.write(stdout, r, outs, writing{verbose: verbose, failOn: policy.Deny})
}

func readReport(file string, stdin io.Reader) (*report.Report, error) {
	data, err := readArgument(file, stdin)
	if err != nil {
		return nil, err
	}
	r, err := report.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

func newVerifyCommand(code *int) *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE.sarif",
		Short: "Check that a SARIF file's locations, snippets, fingerprints and links match this tree",
		Long: `Check a SARIF file of any tool against the files of the repository around
the working directory: each URI, line, column, snippet, line hash, link and
limit that GitHub code scanning relies on. The exit code is 1 if
something in it is wrong.`,
		Args: wants(1, 1, "one SARIF file", "preadmit verify preadmit.sarif"),
		RunE: func(cmd *cobra.Command, args []string) error {
			problems, err := runVerify(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			for _, p := range problems {
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n", report.Plain(p.String()))
			}
			if len(problems) > 0 {
				*code = exitDenied
				fmt.Fprintf(cmd.ErrOrStderr(), "preadmit: %s in %s\n", policy.Plural(len(problems), "problem"), args[0])
			}
			return nil
		},
	}
}

func runVerify(file string, stdin io.Reader) ([]report.Problem, error) {
	data, err := readArgument(file, stdin)
	if err != nil {
		return nil, err
	}
	t, err := load.Open(nil)
	if err != nil {
		return nil, err
	}
	problems := report.Verify(data, t)
	if len(problems) > 0 {
		if _, err := report.Read(bytes.NewReader(data)); err == nil {
			return nil, fmt.Errorf("%s is a report that check -o json writes, and verify checks SARIF: preadmit convert %s -o sarif=preadmit.sarif", file, file)
		}
	}
	return problems, nil
}

// readArgument reads a file that the command line names, "-" being standard input.
func readArgument(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	data, err := load.ReadRegular(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, load.NotFound(file, file)
	}
	return data, err
}
