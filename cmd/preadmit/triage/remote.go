package triage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/tui"
)

// A Remote is a host that reads the repository in child processes. It writes the suppressions file
// and starts the editor itself.
type Remote struct {
	watcher
	line     []string // command line for the child
	stdin    []byte
	editor   tui.EditorCommand
	readOnly bool
	facts    facts

	mu      sync.Mutex
	service *supervise.Service // of the last evaluation
	fresh   bool               // the service has evaluated nothing yet
}

// lookLimit is the time limit for one request to the child.
const lookLimit = 2 * time.Minute

// NewRemote starts the child. An *Ended error holds the child's message about
// a wrong command line or configuration.
func NewRemote(ctx context.Context, readOnly bool, args []string, stdin []byte, ed tui.EditorCommand) (*Remote, error) {
	h := &Remote{watcher: watcher{args: args}, line: os.Args[1:], stdin: stdin, editor: ed, readOnly: readOnly, fresh: true}
	var err error
	if h.service, err = supervise.NewService("", h.line, stdin); err != nil {
		return nil, err
	}
	err = h.ask(ctx, question{Do: "facts"}, &h.facts)
	if h.saved = h.facts.Saved; h.saved != "" {
		h.args = nil
	}
	return h, err
}

// Close ends the child.
func (h *Remote) Close() {
	if s := h.current(); s != nil {
		s.Close()
	}
}

// current returns the service of the last evaluation.
func (h *Remote) current() *supervise.Service {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.service
}

// ask asks the child of the last evaluation and decodes its answer.
func (h *Remote) ask(ctx context.Context, q question, answer any) error {
	return h.askOf(ctx, h.current(), q, answer)
}

// askOf asks a child and decodes its answer.
func (h *Remote) askOf(ctx context.Context, s *supervise.Service, q question, answer any) error {
	data, err := s.Ask(ctx, supervise.Question{Text: q, Limit: max(lookLimit, h.facts.Timeout+tasks.Grace)})
	if err != nil {
		return err
	}
	return json.Unmarshal(data, answer)
}

// stepsOf returns a function that decodes progress messages of a child and passes them to tell.
func stepsOf(tell func(n step, results []byte)) func([]byte) {
	return func(message []byte) {
		var n step
		head, results, _ := bytes.Cut(message, []byte("\n"))
		if json.Unmarshal(head, &n) == nil {
			tell(n, results)
		}
	}
}

// Evaluate starts a child that evaluates. When it is done, it replaces the previous child for
// requests about results.
func (h *Remote) Evaluate(ctx context.Context, tell func(tui.Progress)) (*report.Report, error) {
	before, err := h.look()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	s, fresh := h.service, h.fresh
	h.fresh = false
	h.mu.Unlock()
	if !fresh {
		if s, err = supervise.NewService("", h.line, h.stdin); err != nil {
			return nil, err
		}
	}
	r, err := h.evaluate(ctx, s, tell)
	if err != nil {
		if !fresh {
			s.Close()
		}
		return nil, err
	}
	h.use(s)
	h.begun(before)
	return r, nil
}

// use makes a service the current one, and closes the previous one.
func (h *Remote) use(s *supervise.Service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if was := h.service; was != nil && was != s {
		was.Close()
	}
	h.service = s
}

func (h *Remote) evaluate(ctx context.Context, s *supervise.Service, tell func(tui.Progress)) (*report.Report, error) {
	const reporting = time.Minute
	data, err := s.Ask(ctx, supervise.Question{
		Text: question{Do: "evaluate"}, Limit: h.facts.Timeout + reporting, Most: load.MaxReport,
		News: stepsOf(func(n step, results []byte) {
			p := tui.Progress{Step: n.Step, Done: n.Done, Total: n.Total}
			if len(results) > 0 {
				p.Report, _ = report.Read(bytes.NewReader(results))
			}
			tell(p)
		}),
	})
	if err != nil {
		return nil, err
	}
	return report.Read(bytes.NewReader(data))
}

// Object implements tui.Host.
func (h *Remote) Object(ctx context.Context, x *policy.Result) (r *tui.Rendered, err error) {
	return r, h.ask(ctx, question{Do: "object", Result: x}, &r)
}

// Explain implements tui.Host.
func (h *Remote) Explain(ctx context.Context, x *policy.Result) (text string, err error) {
	return text, h.ask(ctx, question{Do: "explain", Result: x}, &text)
}

// Lines implements tui.Host.
func (h *Remote) Lines(ctx context.Context, file string) (lines []string, err error) {
	return lines, h.ask(ctx, question{Do: "lines", File: file}, &lines)
}

// Propose asks the child for the file's new content. The diff is made in this process,
// so that it shows exactly the bytes that would be written.
func (h *Remote) Propose(d tui.Decisions) (c *tui.Change, err error) {
	if err := h.ask(context.Background(), question{Do: "propose", Decisions: &d}, &c); err != nil {
		return nil, err
	}
	if c == nil {
		return nil, errors.New("nothing is proposed")
	}
	return withDiff(c), nil
}

// Fix implements tui.Host. As for Propose, the diff is made in this process.
func (h *Remote) Fix(ctx context.Context, x *policy.Result) (c *tui.Change, err error) {
	if err := h.ask(ctx, question{Do: "fix", Result: x}, &c); err != nil {
		return nil, err
	}
	if c == nil || c.Fix == "" {
		return nil, errors.New("no fix is known")
	}
	return withDiff(c), nil
}

// Write implements tui.Host. It writes only a file of the command line or in the repository.
func (h *Remote) Write(c *tui.Change) error {
	switch {
	case h.readOnly:
		return errors.New("--readonly: nothing is written")
	case c.Fix != "":
		return writeFix(h.args, c)
	case !h.current().MayWrite(h.facts.Path):
		return fmt.Errorf("%s is neither named on the command line nor in the repository", h.facts.Path)
	}
	return writeChange(h.facts.Path, c)
}

// Edit returns the editor command for a place in the repository or in sources beside it.
func (h *Remote) Edit(at render.Span) (*tui.Editor, error) {
	if at.File == "" {
		return nil, errors.New("no file is known for this")
	}
	var file string
	if err := h.ask(context.Background(), question{Do: "real", File: at.File}, &file); err != nil {
		return nil, err
	}
	if info, err := os.Stat(file); err != nil || !filepath.IsAbs(file) || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: there is no such file here to edit", at.File)
	}
	return h.editor.Open(file, at)
}
