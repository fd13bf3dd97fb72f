package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"github.com/preadmit/preadmit/cmd/preadmit/confine"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
)

// runChild runs a command as the child of a parent process, which is implemented in package
// supervise. It sends output and the events of tasks to the parent.
func runChild() int {
	to, from := supervise.NewPipe(os.Stdout), supervise.NewReader(os.Stdin)
	order, err := readOrder(from)
	if err != nil {
		fmt.Fprintf(os.Stderr, "preadmit: in a child process: %v\n", err)
		return exitUsage
	}
	if os.Getenv(supervise.CollectLate) != "" {
		os.Unsetenv("GOGC")
		os.Unsetenv(supervise.CollectLate)
	}
	signal.Ignore(os.Interrupt) // the parent handles it
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		os.Stdout, os.Stdin = null, null // libraries must not use them
	}
	tasks.CollectLate()
	quietLibraries()
	cutOff()
	ctx, stop := context.WithCancelCause(context.Background())
	p := &parentEnd{to: to, order: order, written: make(chan string), stdin: make(chan []byte), asked: make(chan []byte, maxAsked), stop: stop}
	go p.listen(from)
	w := tasks.New(to, order)
	if n := w.Jobs(runtime.GOMAXPROCS(0)); n < runtime.GOMAXPROCS(0) && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(n)
	}
	w.ConfineCalls(os.Args[1:])
	debug.SetMaxStack(maxStack)
	confine.NoCore()
	go w.KeepLimits()
	code := run(tasks.With(load.WithUserCache(ctx), w), os.Args[1:], &childStdin{end: p}, &childStdout{p, supervise.Stdout}, &childStdout{p, supervise.Stderr})
	w.Close()
	to.Send(supervise.Exit, []byte{byte(code)})
	return code
}

// maxStack is enough for all inputs that are not made to overflow a stack, and
// ends those early.
const maxStack = 128 << 20

func readOrder(from *supervise.Reader) (supervise.Order, error) {
	var order supervise.Order
	kind, payload, err := from.Next()
	if err == nil && kind == supervise.Hello {
		err = json.Unmarshal(payload, &order)
	}
	if err != nil || order.Magic != supervise.Magic {
		return order, errors.New("the parent sent no command")
	}
	return order, nil
}

// A parentEnd is a child's connection to its parent.
type parentEnd struct {
	to      *supervise.Pipe
	order   supervise.Order
	written chan string
	stdin   chan []byte
	asked   chan []byte // requests, for a command that answers them
	stop    context.CancelCauseFunc
}

// maxAsked limits the requests that wait until a command begins to answer.
const maxAsked = 64

// listen receives the parent's frames. The process exits if the parent is gone.
func (p *parentEnd) listen(from *supervise.Reader) {
	for {
		kind, payload, err := from.Next()
		if err != nil {
			os.Exit(exitIncomplete)
		}
		switch kind {
		case supervise.Written:
			p.written <- string(payload)
		case supervise.Stdin:
			p.stdin <- payload
		case supervise.Ask:
			p.asked <- payload
		case supervise.Terminate:
			p.stop(tasks.ErrTerminated)
		}
	}
}

// childStdout writes to the parent's standard output or error.
type childStdout struct {
	end  *parentEnd
	kind supervise.Kind
}

func (c *childStdout) Write(data []byte) (int, error) {
	return len(data), c.end.to.Send(c.kind, data)
}

// WriteFile makes the parent replace a file.
func (c *childStdout) WriteFile(name string, content func(io.Writer) error) error {
	if err := c.end.to.Send(supervise.Create, []byte(name)); err != nil {
		return err
	}
	w := bufio.NewWriterSize(&childStdout{c.end, supervise.Data}, 64<<10)
	if err := content(w); err != nil {
		return err // the parent drops what was written so far
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := c.end.to.Send(supervise.Commit, nil); err != nil {
		return err
	}
	if why := <-c.end.written; why != "" {
		return errors.New(why)
	}
	return nil
}

// Columns returns the width of the terminal on the parent's standard output, or
// 0 if that is not a terminal.
func (c *childStdout) Columns() int {
	if c.kind != supervise.Stdout {
		return 0
	}
	return c.end.order.Columns
}

// childStdin reads the parent's standard input, which the parent sends on
// demand.
type childStdin struct {
	end  *parentEnd
	data *bytes.Reader
}

func (c *childStdin) Read(p []byte) (int, error) {
	if c.data == nil {
		if err := c.end.to.Send(supervise.AskIn, nil); err != nil {
			return 0, err
		}
		c.data = bytes.NewReader(<-c.end.stdin)
	}
	return c.data.Read(p)
}

// A fileWriter is an output that replaces files through another process.
type fileWriter interface {
	WriteFile(name string, content func(io.Writer) error) error
}

var _ io.Writer = (*childStdout)(nil)
