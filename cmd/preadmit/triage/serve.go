package triage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/lsp"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/tui"
)

// A question is a request from the parent process, which has the screen or editor, to its child.
type question struct {
	Do        string         `json:"do"`
	Result    *policy.Result `json:"result,omitempty"`
	File      string         `json:"file,omitempty"`
	Decisions *tui.Decisions `json:"decisions,omitempty"`

	// An editor also sends the texts of its open files, by name, and the unit
	// in which it counts columns.
	Texts    map[string]string `json:"texts,omitempty"`
	Encoding lsp.Encoding      `json:"encoding,omitempty"`
	At       lsp.Position      `json:"at,omitzero"` // in File
}

// facts are the facts that the parent needs before it starts.
type facts struct {
	Timeout time.Duration
	Path    string // of the suppressions file
	Saved   string // the saved report that is shown instead of evaluating
}

// A step is a progress message. An incomplete report may follow it.
type step struct {
	Step        string
	Done, Total int
}

// Serve answers the parent's questions until the parent ends this process.
func (h *Host) Serve(ctx context.Context, asked <-chan []byte, to *supervise.Pipe) error {
	if tasks.Of(ctx).Order.Careful {
		runtime.GOMAXPROCS(1) // one task at a time
	}
	if _, err := load.Root(h.args); err != nil {
		return err
	}
	for {
		select {
		case payload := <-asked:
			go h.answer(ctx, to, payload)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answer sends the answer to a question, or an error.
func (h *Host) answer(ctx context.Context, to *supervise.Pipe, payload []byte) {
	var q question
	if len(payload) < 4 {
		return
	}
	number := payload[:4]
	answer, err := []byte(nil), json.Unmarshal(payload[4:], &q)
	if err == nil {
		answer, err = h.answerTo(ctx, &q, func(news []byte) { sendMessage(to, supervise.News, number, news) })
	}
	if err != nil {
		sendMessage(to, supervise.Refusal, number, []byte(report.Plain(err.Error())))
		return
	}
	sendMessage(to, supervise.Answer, number, answer)
}

// sendMessage sends a message in parts.
func sendMessage(to *supervise.Pipe, last supervise.Kind, number, message []byte) {
	const most = 1 << 20
	for len(message) > most {
		to.Send(supervise.Part, append(bytes.Clone(number), message[:most]...))
		message = message[most:]
	}
	to.Send(last, append(bytes.Clone(number), message...))
}

func (h *Host) answerTo(ctx context.Context, q *question, news func([]byte)) ([]byte, error) {
	if why := tasks.Of(ctx).Fatal(); why != "" {
		return nil, errors.New(why)
	}
	if q.Do == "propose" && q.Decisions == nil || slices.Contains([]string{"object", "explain", "fix", "fixes"}, q.Do) && q.Result == nil {
		return nil, fmt.Errorf("request %q is incomplete", q.Do)
	}
	if q.Encoding != "" && q.Do != "findings" {
		h.mu.Lock()
		if h.run == nil && !h.evaluating { // evaluated needs them
			h.texts = q.Texts
		}
		h.mu.Unlock()
	}
	switch q.Do {
	case "facts":
		path, _, err := h.suppressionsPath()
		return asJSON(facts{h.options.Timeout, path, h.saved}, err)
	case "evaluate":
		r, err := h.firstOrNext(ctx, news)
		if err != nil {
			return nil, err
		}
		return reportJSON(r)
	case "findings":
		found, err := h.findings(ctx, q, news)
		return asJSON(found, err)
	}
	h.finish() // an answer may look up places, which must be after saving
	switch q.Do {
	case "accept":
		c, err := h.accept(q)
		return asJSON(c, err)
	case "fix":
		c, err := h.Fix(ctx, q.Result)
		return asJSON(c, err)
	case "fixes":
		all, err := h.fixes(ctx, q)
		return asJSON(all, err)
	case "inspect":
		all, err := h.inspect(ctx, q)
		return asJSON(all, err)
	case "propose":
		c, err := h.Propose(*q.Decisions)
		return asJSON(c, err)
	}
	return h.about(ctx, q)
}

// firstOrNext evaluates, and reports progress to news. Until the first evaluation
// ends, the results so far are shown.
func (h *Host) firstOrNext(ctx context.Context, news func([]byte)) (*report.Report, error) {
	h.mu.Lock()
	h.evaluating = true
	h.mu.Unlock()
	r, err := h.Evaluate(ctx, func(p tui.Progress) {
		if p.Report != nil {
			h.mu.Lock()
			h.partial = report.NewSource(p.Report)
			h.mu.Unlock()
		}
		head, _ := json.Marshal(step{p.Step, p.Done, p.Total})
		if body, err := reportJSON(p.Report); err == nil {
			news(append(append(head, '\n'), body...))
		}
	})
	if err != nil {
		h.mu.Lock()
		h.evaluating = false
		h.mu.Unlock()
	}
	return r, err
}

// about answers a question about the results. Each question is a task with limits.
func (h *Host) about(ctx context.Context, q *question) ([]byte, error) {
	name := q.File
	if q.Result != nil {
		name = q.Result.Policy + " " + q.Result.Rule + " " + fmt.Sprint(q.Result.Object)
	}
	if err := h.evaluated(ctx); err != nil {
		return nil, err
	}
	done, err := tasks.Of(ctx).Begin("look "+q.Do+" "+name, true)
	if err != nil {
		return nil, fmt.Errorf("this %w", err)
	}
	defer done()
	switch q.Do {
	case "lines":
		lines, err := h.Lines(ctx, q.File)
		return asJSON(lines, err)
	case "object":
		r, err := h.Object(ctx, q.Result)
		return asJSON(r, err)
	case "explain":
		text, err := h.Explain(ctx, q.Result)
		return asJSON(text, err)
	case "uses", "matches", "complete":
		h.mu.Lock()
		run := h.run
		h.mu.Unlock()
		if run == nil {
			return nil, errors.New("nothing is rendered yet")
		}
		switch q.Do {
		case "matches":
			return asJSON(h.matches(run, q), nil)
		case "complete":
			return asJSON(run.complete(q, h.options.KubeVersion))
		}
		u, err := h.uses(ctx, run, q)
		return asJSON(u, err)
	case "real":
		file, err := h.real(q.File)
		return asJSON(file, err)
	}
	return nil, fmt.Errorf("unknown request %q", q.Do)
}

// evaluated evaluates if this child has no results, because it replaces one that ended.
func (h *Host) evaluated(ctx context.Context) error {
	begun := func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.run != nil || h.evaluating // the response says that there is no result yet
	}
	if begun() {
		return nil
	}
	h.one.Lock()
	defer h.one.Unlock()
	if begun() {
		return nil
	}
	_, err := h.Evaluate(ctx, func(tui.Progress) {})
	return err
}

func asJSON(v any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// reportJSON encodes a report as check -o json does, or returns nothing for
// nil.
func reportJSON(r *report.Report) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	var b bytes.Buffer
	err := report.Write(&b, "json", r, report.Options{})
	return b.Bytes(), err
}
