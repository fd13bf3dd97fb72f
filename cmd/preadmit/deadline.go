package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
)

// begin starts a command: it checks the flags, and returns a context that ends
// at --timeout. The caller must call the returned function. The error is a
// wrong flag, or the reason why the supervised children before this one ended
// without a result.
func (o *checkOptions) begin(ctx context.Context, stderr io.Writer) (context.Context, context.CancelFunc, error) {
	if err := o.start(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := bounded(ctx, o.Timeout, stderr)
	if why := tasks.Of(ctx).Fatal(); why != "" {
		cancel()
		return nil, nil, &supervise.Incomplete{Err: errors.New(why)}
	}
	return ctx, cancel, nil
}

// load begins a command and renders the paths in args.
func (o *checkOptions) load(ctx context.Context, args []string, std stdio) (context.Context, context.CancelFunc, *load.Input, error) {
	ctx, cancel, err := o.begin(ctx, std.err)
	if err != nil {
		return nil, nil, nil, err
	}
	in, err := load.Load(ctx, &o.Sources, args, std.in)
	if err != nil {
		defer cancel()
		return nil, nil, nil, evaluate.TimedOut(ctx, err)
	}
	return ctx, cancel, in, nil
}

// bounded returns a context that ends at --timeout. If the command has not stopped
// within grace of that, or of an interrupt, the process is ended: a library that is
// busy with hostile input may never look at the context.
func bounded(ctx context.Context, timeout time.Duration, stderr io.Writer) (context.Context, context.CancelFunc) {
	if w := tasks.Of(ctx); w != nil {
		return w.Bound(ctx, timeout)
	}
	over := fmt.Errorf("not done after --timeout %s", timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, over)
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-done:
		case <-time.After(tasks.Grace):
			code := exitInterrupted
			if context.Cause(ctx) == over {
				code = exitIncomplete
			}
			fmt.Fprintf(stderr, "preadmit: %v; ended, because a part of the run did not stop\n", context.Cause(ctx))
			os.Exit(code)
		}
	})
	return ctx, sync.OnceFunc(func() {
		close(done)
		stop()
		cancel()
	})
}

// runs returns a command's RunE, which takes defaults from the configuration,
// except for the command's own flags, and calls run.
func runs(code *int, run func(ctx context.Context, args []string, std stdio) (int, error), own ...string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := configure(without(cmd.Flags(), own...), args)
		if err == nil {
			*code, err = run(cmd.Context(), args, stdio{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()})
		}
		return err
	}
}
