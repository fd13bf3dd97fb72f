package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/lsp"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/triage"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/tui"
)

var themes = []string{"auto", "light", "dark"}

// triageOptions are the flags of check, except those for reports, and the flags
// for the screen.
type triageOptions struct {
	checkOptions
	plain    bool
	readOnly bool
	watch    bool
	theme    string
	filter   string
	editor   string
	settings string
}

// addFlags adds the flags of check that triage and lsp share.
func (o *triageOptions) addFlags(f *pflag.FlagSet) {
	o.addSourceFlags(f)
	o.addPolicyFlags(f)
	o.addUserFlags(f)
	o.addChangeFlags(f)
	o.addSuppressionFlags(f)
	o.addCacheFlags(f)
}

func newTriageCommand() *cobra.Command {
	var o triageOptions
	cmd := &cobra.Command{
		Use:   "triage [PATH ... | REPORT.json]",
		Short: "Go through the results on a screen: look, edit, accept with a reason",
		Long: `Evaluate as check does, or read a report saved by check -o json, and show the
results on a screen: what is wrong, why, and the line to edit. Fix it in the
editor ($VISUAL or $EDITOR) or, where a fix is proved, by the key f, or accept
it with a reason and a last day. Accepted results are staged, shown as a diff,
and then written to the suppressions file; u undoes staged decisions first, then
written ones.

Press ? for the keys and : for commands. preadmit/triage.yaml in your configuration
directory, such as ~/.config, sets keys, editor and theme:

  editor: myed +{line} {file}    # instead of $VISUAL and $EDITOR
  theme: light
  keys: {accept: [a, f2], mark-all: A}

--plain prints numbered lists and asks questions instead, for screen readers and
pipes.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if end, ok := cmd.OutOrStdout().(*childStdout); ok {
				if err := o.prepare(cmd.Flags(), args); err != nil {
					return err
				}
				host, err := triage.NewHost(&o.Options, o.readOnly, args, cmd.InOrStdin())
				if err != nil {
					return err
				}
				return host.Serve(cmd.Context(), end.end.asked, end.end.to)
			}
			return runTriage(cmd.Context(), &o, cmd.Flags(), args, stdio{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()})
		},
	}
	f := cmd.Flags()
	o.addFlags(f)
	f.BoolVar(&o.plain, "plain", false, "no screen: numbered lists and questions on standard input")
	f.BoolVar(&o.readOnly, "readonly", false, "look only: accept, write and edit nothing")
	f.BoolVar(&o.watch, "watch", true, "evaluate again when files change")
	f.StringVar(&o.theme, "theme", "auto", "colours for a `BACKGROUND`: auto, light or dark")
	f.StringVar(&o.editor, "editor", "", "open files with `COMMAND`, with the place instead of {file}, {line} and {column} (default: $VISUAL, $EDITOR or vi)")
	f.StringVar(&o.settings, "settings", "", "read keys, editor and theme from `FILE` (default: "+settingsFile+" in the user's configuration directory, if it exists)")
	f.StringVar(&o.filter, "filter", "", "begin with the filter `WORDS`, as / sets it")
	return cmd
}

// prepare reads the configuration and checks the flags for evaluation.
func (o *triageOptions) prepare(flags *pflag.FlagSet, args []string) error {
	if err := configure(without(flags, "output"), triage.RepositoryPaths(args)); err != nil {
		return err
	}
	o.AllowNew = true // the person at the screen decides about suppressions in the work tree
	if err := engines.CheckPacks(o.Packs); err != nil {
		return err
	}
	return o.start()
}

// readTriageSettings reads the given file, or without one the user's own if it exists.
func readTriageSettings(given string) (tui.Settings, error) {
	name := given
	if name == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return tui.Settings{}, nil // there is no user configuration
		}
		name = filepath.Join(dir, filepath.FromSlash(settingsFile))
	}
	data, err := load.ReadRegular(name)
	switch {
	case given == "" && errors.Is(err, fs.ErrNotExist):
		return tui.Settings{}, nil
	case given != "" && errors.Is(err, fs.ErrNotExist):
		return tui.Settings{}, fmt.Errorf("--settings %s: there is no such file; it sets keys, editor and theme, see preadmit triage --help", given)
	case given != "" && err != nil:
		return tui.Settings{}, fmt.Errorf("--settings: %w", err)
	case err != nil:
		return tui.Settings{}, err
	}
	return tui.ParseSettings(name, data, checkSetting)
}

// checkSetting checks the value of a setting.
func checkSetting(key, value string) error {
	if key == "theme" {
		return flagOneOf(key, value, themes...)
	}
	_, err := tui.EditorWords(key, value)
	return err
}

// editorCommand returns the user's editor, with the environment that preadmit was started with.
func editorCommand(command string) tui.EditorCommand {
	environ := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == "PATH" || name == editorPath
	})
	return tui.EditorCommand{Command: command, Environ: append(environ, "PATH="+os.Getenv(editorPath))}
}

// personal reads the user's settings and checks the flags that override them.
func (o *triageOptions) personal() (tui.Options, tui.EditorCommand, error) {
	show := tui.Options{Today: o.Day(), Theme: o.theme, ReadOnly: o.readOnly, Watch: o.watch, Filter: o.filter, Environment: os.Environ()}
	if err := flagOneOf("theme", o.theme, themes...); err != nil {
		return show, tui.EditorCommand{}, err
	}
	own, err := readTriageSettings(o.settings)
	if err != nil {
		return show, tui.EditorCommand{}, err
	}
	if _, err := tui.EditorWords("--editor", cmp.Or(o.editor, "vi")); err != nil {
		return show, tui.EditorCommand{}, err
	}
	if o.theme == "auto" {
		show.Theme = cmp.Or(own.Theme, o.theme)
	}
	show.Keys = own.Keys
	return show, editorCommand(cmp.Or(o.editor, own.Editor)), nil
}

func runTriage(ctx context.Context, o *triageOptions, flags *pflag.FlagSet, args []string, std stdio) error {
	show, ed, err := o.personal()
	if err != nil {
		return err
	}
	data, input, err := inputs(args, std.in)
	if err != nil {
		return err
	}
	show.Input, show.Output = input, std.out
	run := tui.Run
	switch {
	case o.plain:
		run = tui.RunPlain
	case !canDraw(input, std.out):
		return errors.New("triage needs a terminal, and this is none (or TERM is dumb): use --plain, or preadmit check")
	}
	host, done, err := o.host(ctx, flags, args, data, ed)
	if err != nil {
		return err
	}
	defer done()
	last := &lastReport{Host: host}
	left, err := run(ctx, last, show)
	handBack(left, std.out, std.err)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = nil // the user quit
	}
	if err == nil && last.unfinished.Load() {
		err = &supervise.Incomplete{Err: errors.New("the run is incomplete")}
	}
	return err
}

// A lastReport is a host that records whether its last evaluation was complete.
type lastReport struct {
	tui.Host
	unfinished atomic.Bool
}

// Evaluate implements tui.Host.
func (l *lastReport) Evaluate(ctx context.Context, tell func(tui.Progress)) (*report.Report, error) {
	r, err := l.Host.Evaluate(ctx, tell)
	if err == nil {
		l.unfinished.Store(slices.ContainsFunc(r.Results, func(x policy.Result) bool { return x.CutShort() }))
	}
	return r, err
}

// host returns a host that reads the repository in a child process, or in this process if no child
// can be started.
func (o *triageOptions) host(ctx context.Context, flags *pflag.FlagSet, args []string, stdin []byte, ed tui.EditorCommand) (tui.Host, func(), error) {
	if supervise.CanServe() {
		h, err := triage.NewRemote(ctx, o.readOnly, args, stdin, ed)
		if err != nil {
			return nil, nil, err
		}
		return h, h.Close, nil
	}
	if err := o.prepare(flags, args); err != nil {
		return nil, nil, err
	}
	h, err := triage.NewHost(&o.Options, o.readOnly, args, bytes.NewReader(stdin))
	if err != nil {
		return nil, nil, err
	}
	h.Editor = ed
	return h, func() {}, nil
}

// canDraw reports whether input and output are a terminal that can show a screen.
func canDraw(in io.Reader, out io.Writer) bool {
	w, ok := in.(io.Writer)
	return ok && isTerminal(w) && isTerminal(out) && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// handBack prints the decisions that were not written, so that nothing a person
// typed is lost.
func handBack(left tui.Decisions, stdout, stderr io.Writer) {
	if left.Len() == 0 {
		return
	}
	fmt.Fprintf(stderr, "preadmit: not written to the suppressions file: %s\n", policy.Plural(left.Len(), "decision"))
	if len(left.Add) > 0 {
		fmt.Fprintf(stdout, "# to add:\n%s", policy.WriteSuppressions(left.Add))
	}
	if len(left.Remove) > 0 {
		fmt.Fprintf(stdout, "# to remove:\n%s", policy.WriteSuppressions(left.Remove))
	}
}

// inputs returns the content of standard input, if a path is -, and the reader
// for keys, which is then the terminal.
func inputs(args []string, stdin io.Reader) (data []byte, keys io.Reader, err error) {
	if !slices.Contains(args, "-") {
		return nil, stdin, nil
	}
	if data, err = io.ReadAll(io.LimitReader(stdin, load.MaxReport)); err != nil {
		return nil, nil, fmt.Errorf("standard input: %w", err)
	}
	if tty, err := os.Open("/dev/tty"); err == nil {
		return data, tty, nil
	}
	return data, eof{}, nil
}

// eof is an empty input.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

func newLSPCommand(code *int) *cobra.Command {
	var o triageOptions
	var settings string
	cmd := &cobra.Command{
		Use:   "lsp [PATH ...]",
		Short: "Show the results in an editor: a language server on standard input and output",
		Long: `Evaluate as check does, and show the results in an editor, at the lines to edit,
while a person types. An editor starts this; "preadmit help editors" has the settings
for Neovim and Helix, and there is an extension of VS Code.

Open files are checked with their unsaved text, all others as saved. Changes to
the configuration apply once it is saved. Hover shows the rule, and what a value
becomes after rendering. Go to definition leads to the policy, or to the other lines
that make the value, and find references from a policy to what it matches. Code actions
fix a result, accept it in the suppressions file or explain it. A fix is offered once another
evaluation with it has proved that the result is gone and nothing else fails.

One server checks each repository that the editor has a folder of. Each PATH, and each
path of a flag, is relative to every one of these folders.`,
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
			if err := configureEditor(cmd.Flags(), args, settings); err != nil {
				return err
			}
			configured := func() string {
				_, _, node, err := configuration(cmd.Flags(), args)
				text, _ := yaml.Marshal(node)
				return fmt.Sprint(string(text), err)
			}
			was := configured()
			if err := o.prepare(cmd.Flags(), args); err != nil {
				return err
			}
			h := triage.NewEditorHost(&o.Options, args, func() bool { return configured() == was })
			return h.Serve(cmd.Context(), end.end.asked, end.end.to)
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&settings, triage.SettingsFlag, "", "settings of the editor, a `JSON` object")
	ignored(cmd.Flags(), triage.SettingsFlag)
	return cmd
}
