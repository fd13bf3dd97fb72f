package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/lsp"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/tui"
)

func newLSPCommand(code *int) *cobra.Command {
	var o triageOptions
	cmd := &cobra.Command{
		Use:   "lsp [PATH ...]",
		Short: "Show the results in an editor: a language server on standard input and output",
		Long: `Evaluate as check does, and show the results in an editor, at the lines to edit,
while a person types. An editor starts this; the README has the settings for
Neovim, Helix and VS Code.

What is open counts as it is on the screen, everything else as it is saved. The
configuration counts once it is saved. Hover shows the rule and the value after
rendering, go to definition leads to the policy, and code actions accept a result
in the suppressions file or explain it.

One server checks one repository: that of the first folder that the editor opened.
Each PATH, and each path of a flag, is relative to that folder.`,
		Args: func(_ *cobra.Command, args []string) error {
			if slices.Contains(args, "-") {
				return errors.New("lsp has the editor on standard input: - is no path here")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			end, isChild := cmd.OutOrStdout().(*childStdout)
			if !isChild {
				*code = lsp.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), lsp.Options{Version: version, Open: opener(args)})
				return nil
			}
			if err := o.prepare(cmd.Flags(), args); err != nil {
				return err
			}
			h := &triageHost{watcher: watcher{args: args}, options: &o, quiet: true}
			return h.serve(cmd.Context(), end.end)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// opener returns a function that makes the host for a folder of the editor, which
// becomes the working directory.
func opener(args []string) func(string, lsp.Encoding, func(string)) (lsp.Host, string, error) {
	return func(folder string, e lsp.Encoding, log func(string)) (lsp.Host, string, error) {
		if !supervise.CanServe() {
			return nil, "", errors.New("no process of its own can be started")
		}
		if folder != "" {
			if err := os.Chdir(folder); err != nil {
				return nil, "", err
			}
		}
		dir, err := load.Root(args)
		return &lspHost{triageRemote{watcher: watcher{args: args}, line: os.Args[1:]}, e, log}, dir, err
	}
}

// An lspHost has a child evaluate the repository, a new one each time.
type lspHost struct {
	triageRemote
	encoding lsp.Encoding
	log      func(string)
}

// Evaluate implements lsp.Host.
func (h *lspHost) Evaluate(ctx context.Context, texts map[string]string, tell func(lsp.Progress)) ([]lsp.Finding, error) {
	before, err := h.look()
	if err != nil {
		return nil, err
	}
	h.begun(before)
	s, err := supervise.NewService(h.line, nil)
	if err != nil {
		return nil, err
	}
	s.Died = func(why string) { h.log("the process that evaluates ended, and is started again: " + why) }
	var found lspFindings
	if err = h.findings(ctx, s, texts, tell, &found); err != nil {
		s.Close()
		return nil, err
	}
	h.use(s)
	for _, text := range found.Placeless {
		h.log(text)
	}
	return found.Findings, nil
}

// maxAnswer bounds the findings of a child: maxFindings are far smaller.
const maxAnswer = 256 << 20

func (h *lspHost) findings(ctx context.Context, s *supervise.Service, texts map[string]string, tell func(lsp.Progress), found *lspFindings) error {
	data, err := s.Ask(ctx, supervise.Question{Text: triageQuestion{Do: "facts"}, Limit: lookLimit})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &h.facts); err != nil {
		return err
	}
	data, err = s.Ask(ctx, supervise.Question{
		Text: triageQuestion{Do: "findings", Texts: texts, Encoding: h.encoding}, Limit: h.facts.Timeout + time.Minute, Most: maxAnswer,
		News: func(message []byte) {
			var n triageNews
			head, _, _ := bytes.Cut(message, []byte("\n"))
			if json.Unmarshal(head, &n) == nil {
				tell(lsp.Progress{Step: n.Step, Done: n.Done})
			}
		},
	})
	if err != nil {
		return err
	}
	return json.Unmarshal(data, found)
}

// askNow has the child of the last evaluation answer.
func (h *lspHost) askNow(ctx context.Context, q triageQuestion, answer any) error {
	s := h.current()
	if s == nil {
		return errors.New("nothing is rendered yet")
	}
	q.Encoding = h.encoding
	data, err := s.Ask(ctx, supervise.Question{Text: q, Limit: max(lookLimit, h.facts.Timeout+tasks.Grace)})
	if err != nil {
		return err
	}
	return json.Unmarshal(data, answer)
}

// Explain implements lsp.Host.
func (h *lspHost) Explain(ctx context.Context, f *lsp.Finding, texts map[string]string) (text string, err error) {
	return text, h.askNow(ctx, triageQuestion{Do: "explain", Result: f.Result, Texts: texts}, &text)
}

// Accept implements lsp.Host.
func (h *lspHost) Accept(ctx context.Context, x policy.Suppression, texts map[string]string) (c *lsp.Change, err error) {
	if err = h.askNow(ctx, triageQuestion{Do: "accept", Decisions: &tui.Decisions{Add: []policy.Suppression{x}}, Texts: texts}, &c); err == nil && c == nil {
		err = fmt.Errorf("nothing is proposed")
	}
	return c, err
}
