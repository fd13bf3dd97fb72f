// Package tui is the interactive triage: it takes a report and returns a person's
// decisions.
//
// It shows and asks. What it shows beyond the report (the rendered object, an
// explanation) and what follows from an answer (a file that is written, an
// editor that is opened) its [Host] does, which cmd implements: nothing here
// renders, reads a file or writes one.
package tui

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// A Host does what the person at the screen asks for. Its methods are called
// from several goroutines, Evaluate never twice at once. Text in what they
// return need not be safe to show. An error is a sentence for the status line.
type Host interface {
	// Evaluate renders and evaluates, or reads the saved report again. It tells how far it
	// is, with the results so far where there are some.
	Evaluate(ctx context.Context, tell func(Progress)) (*report.Report, error)
	// Watch returns nil once a file has changed since the last Evaluate began.
	Watch(ctx context.Context) error
	// Object is the rendered object of a result, and how it differs from base.
	Object(ctx context.Context, x *policy.Result) (*Rendered, error)
	// Explain tells step by step how the result came about.
	Explain(ctx context.Context, x *policy.Result) (string, error)
	// Lines are those of a file of the report's tree, without what may be secret.
	// An error says that there is no such file.
	Lines(ctx context.Context, file string) ([]string, error)
	// Propose is what decisions would make of the suppressions file.
	Propose(d Decisions) (*Change, error)
	// Write does it, as a whole or not at all. When the file is not any more
	// what the change was made from, it is ErrChanged and nothing is written.
	Write(c *Change) error
	// Edit is the person's editor at a place.
	Edit(at render.Span) (*Editor, error)
}

// ErrChanged is the error of a Host that would overwrite somebody's work.
var ErrChanged = errors.New("the suppressions file was changed meanwhile")

// Progress is how far an evaluation is.
type Progress struct {
	Step        string // "rendering", "evaluating"
	Done, Total int
	Report      *report.Report // the results so far; nil when nothing is new
}

// Rendered is an object as lines of YAML.
type Rendered struct {
	Note  string // what to know about it, such as where it is from
	Lines []Line
	Diff  string // unified, from the object at base; "" without a base
}

// A Line is one line of YAML with the place that a person would edit for it.
type Line struct {
	Text    string
	Pointer string // the JSON pointer of the deepest field that is written there
	Place   string
}

// Decisions are suppressions to add and to remove.
type Decisions struct {
	Add, Remove []policy.Suppression
}

// Len counts the decisions.
func (d Decisions) Len() int { return len(d.Add) + len(d.Remove) }

// A Change is what decisions would make of a file.
type Change struct {
	File          string // as it is shown
	Diff          string // unified
	Before, After []byte // nil where there is no file
}

// reverse takes a change back.
func (c *Change) reverse() *Change { return &Change{File: c.File, Before: c.After, After: c.Before} }

// An Editor is a program to run. One that opens a window of its own leaves the
// screen alone.
type Editor struct {
	Cmd    *exec.Cmd
	Window bool
	Note   string // to add to the message about it, such as that it is at no line
}

// Options say how to show.
type Options struct {
	Today    time.Time // the day that suppressions are held against
	Theme    string    // "auto" ("" too), "light" or "dark"
	ReadOnly bool      // decide and edit nothing
	Watch    bool      // evaluate again when files change
	Owner    string    // prefilled in forms
	Filter   string    // to begin with
	Keys     Keys      // instead of those that actions have

	Input       io.Reader
	Output      io.Writer
	Environment []string // NO_COLOR, TERM and their like
}

// Run shows the screen until the person leaves it, and returns the decisions
// that are staged and neither written nor discarded, also with an error.
func Run(ctx context.Context, host Host, o Options) (Decisions, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, host, o)
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.Input), tea.WithOutput(o.Output), tea.WithEnvironment(o.Environment))
	m.send = func(msg tea.Msg) { go p.Send(msg) }
	_, err := p.Run()
	if errors.Is(err, tea.ErrInterrupted) || errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		err = context.Canceled
	}
	return m.session.staged.Decisions, err
}
