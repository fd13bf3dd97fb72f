package triage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/lsp"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/tui"
)

// Opener returns a function that returns the host for a folder of the editor, and makes the folder
// the working directory.
func Opener(args []string) func(string, lsp.Encoding, func(string)) (lsp.Host, string, error) {
	return func(folder string, e lsp.Encoding, log func(string)) (lsp.Host, string, error) {
		if !supervise.CanServe() {
			return nil, "", errors.New("no child process can be started")
		}
		if folder != "" {
			if err := os.Chdir(folder); err != nil {
				return nil, "", err
			}
		}
		dir, err := load.Root(args)
		return &editorHost{Remote{watcher: watcher{args: args}, line: os.Args[1:]}, e, log}, dir, err
	}
}

// An editorHost evaluates the repository in a new child process each time.
type editorHost struct {
	Remote
	encoding lsp.Encoding
	log      func(string)
}

// Evaluate implements lsp.Host.
func (e *editorHost) Evaluate(ctx context.Context, texts map[string]string, tell func(lsp.Progress)) ([]lsp.Finding, error) {
	before, err := e.look()
	if err != nil {
		return nil, err
	}
	e.begun(before)
	s, err := supervise.NewService(e.line, nil)
	if err != nil {
		return nil, err
	}
	s.Died = func(why string) { e.log("the process that evaluates ended, and is started again: " + why) }
	var found editorFindings
	if err = e.findings(ctx, s, texts, tell, &found); err != nil {
		s.Close()
		return nil, err
	}
	e.use(s)
	for _, text := range found.Placeless {
		e.log(text)
	}
	return found.Findings, nil
}

// maxAnswer limits the size of a child's answer. maxFindings findings are far smaller.
const maxAnswer = 256 << 20

func (e *editorHost) findings(ctx context.Context, s *supervise.Service, texts map[string]string, tell func(lsp.Progress), found *editorFindings) error {
	if err := e.askOf(ctx, s, question{Do: "facts"}, &e.facts); err != nil {
		return err
	}
	data, err := s.Ask(ctx, supervise.Question{
		Text: question{Do: "findings", Texts: texts, Encoding: e.encoding}, Limit: e.facts.Timeout + time.Minute, Most: maxAnswer,
		News: stepsOf(func(n step, _ []byte) { tell(lsp.Progress{Step: n.Step, Done: n.Done}) }),
	})
	if err != nil {
		return err
	}
	return json.Unmarshal(data, found)
}

// askNow asks the child of the last evaluation.
func (e *editorHost) askNow(ctx context.Context, q question, answer any) error {
	if e.current() == nil {
		return errors.New("nothing is rendered yet")
	}
	q.Encoding = e.encoding
	return e.ask(ctx, q, answer)
}

// Explain implements lsp.Host.
func (e *editorHost) Explain(ctx context.Context, f *lsp.Finding, texts map[string]string) (text string, err error) {
	return text, e.askNow(ctx, question{Do: "explain", Result: f.Result, Texts: texts}, &text)
}

// Accept implements lsp.Host.
func (e *editorHost) Accept(ctx context.Context, x policy.Suppression, texts map[string]string) (c *lsp.Change, err error) {
	if err = e.askNow(ctx, question{Do: "accept", Decisions: &tui.Decisions{Add: []policy.Suppression{x}}, Texts: texts}, &c); err == nil && c == nil {
		err = fmt.Errorf("nothing is proposed")
	}
	return c, err
}
