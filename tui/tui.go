// Package tui is the interactive triage of a report: it returns the user's
// decisions.
//
// The package draws the screen and handles input. Everything else is done by
// its [Host], which cmd implements: rendering objects, explaining results,
// reading and writing files, and opening the editor.
//
// model.go holds the screen, update.go changes it, and view.go only draws it. session.go
// has the results, and with decide.go the decisions, for the screen and for the dialogue
// of plain.go. arrange.go and list.go are the list, panes.go and
// fetch.go the previews, form.go the input, graph.go the units. keys.go lists the keys and their
// actions (actions.go), which palette.go offers by name, with the settings.
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

// A Host does the work for the screen. Its methods are called from several
// goroutines, but Evaluate never twice at the same time. The screen makes the
// texts that they return safe to show. Errors are shown on the status line and
// should be one sentence.
type Host interface {
	// Evaluate renders and evaluates, or reads the saved report again. It calls progress as it
	// goes, with the results so far if there are new ones.
	Evaluate(ctx context.Context, progress func(Progress)) (*report.Report, error)
	// Watch returns nil once a file has changed since the last Evaluate began.
	Watch(ctx context.Context) error
	// Object returns the rendered object of a result, and its difference from
	// the base.
	Object(ctx context.Context, x *policy.Result) (*Rendered, error)
	// Explain returns a step-by-step explanation of the result.
	Explain(ctx context.Context, x *policy.Result) (string, error)
	// Lines returns the lines of a file of the report's tree, with secret
	// values left out. It returns an error if there is no such file.
	Lines(ctx context.Context, file string) ([]string, error)
	// Propose returns the change that decisions would make to the suppressions
	// file.
	Propose(d Decisions) (*Change, error)
	// Fix returns the proved change of files that removes a result, and those of its rule at its
	// line. The error says why there is none.
	Fix(ctx context.Context, x *policy.Result) (*Change, error)
	// Write makes the change, completely or not at all. If the file has changed
	// since Propose, it writes nothing and returns ErrChanged. If a file of a fix has changed, it
	// writes nothing and returns an error that names the file.
	Write(c *Change) error
	// Edit returns the user's editor for a place.
	Edit(at render.Span) (*Editor, error)
}

// ErrChanged reports that a write would overwrite somebody else's changes.
var ErrChanged = errors.New("the suppressions file was changed meanwhile")

// Progress describes the progress of an evaluation.
type Progress struct {
	Step        string // "rendering", "evaluating"
	Done, Total int
	Report      *report.Report // the results so far; nil if there are no new ones
}

// Rendered is an object as YAML.
type Rendered struct {
	Note  string // a note to show, such as the place it comes from
	Lines []Line
	Diff  string // unified diff from the base; "" without a base
}

// A Line is one line of YAML with the place where a person would edit it.
type Line struct {
	Text    string
	Pointer string // JSON pointer of the innermost field written there
	Place   string
}

// Decisions holds suppressions to add and to remove.
type Decisions struct {
	Add, Remove []policy.Suppression
}

// Len returns the number of decisions.
func (d Decisions) Len() int { return len(d.Add) + len(d.Remove) }

// A Change is a change of a file by decisions, or of files by a fix.
type Change struct {
	File          string // its name as shown
	Diff          string // unified diff, of all files
	Before, After []byte // nil if there is no file

	Fix  string    // says what a fix does; "" for decisions
	More []*Change // of the other files of a fix
}

// reverse returns the change that undoes c.
func (c *Change) reverse() *Change {
	back := &Change{File: c.File, Before: c.After, After: c.Before, Fix: c.Fix}
	for _, x := range c.More {
		back.More = append(back.More, x.reverse())
	}
	return back
}

// files names the files of the change.
func (c *Change) files() string {
	if len(c.More) > 0 {
		return c.File + " and " + policy.Plural(len(c.More), "other file")
	}
	return c.File
}

// An Editor is a command to run. An editor with a window of its own does not
// use the terminal.
type Editor struct {
	Cmd    *exec.Cmd
	Window bool
	Note   string // addition to the message, such as that the line is unknown
}

// Options configure the screen.
type Options struct {
	Today    time.Time // the day for which suppressions are checked
	Theme    string    // "auto" ("" too), "light" or "dark"
	ReadOnly bool      // disables decisions and the editor
	Watch    bool      // evaluate again when files change
	Filter   string    // initial filter
	Keys     Keys      // override the default keys

	Input       io.Reader
	Output      io.Writer
	Environment []string // values of NO_COLOR, TERM and similar variables
}

// Run shows the screen until the user leaves it. It returns the staged
// decisions that are neither written nor discarded, even if it returns an
// error.
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
