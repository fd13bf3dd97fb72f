package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/download"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/store"
	"github.com/preadmit/preadmit/report"
)

// newFetchCommand returns the command fetch. This file alone imports package
// download, the only package that uses the network.
func newFetchCommand(code *int) *cobra.Command {
	o := &fetchOptions{}
	cmd := &cobra.Command{
		Use:   "fetch [PATH ...]",
		Short: "Download the charts, artifacts and repositories that are not in the tree, and lock them",
		Long: `Download the sources that units at each PATH (default: the current directory) need
and that are not in the repository: charts from Helm repositories and OCI
registries, OCI artifacts, other Git repositories, files at URLs, and the
policies and CRDs that the configuration names by their addresses.
.preadmit/lock.yaml records the version and digest of each source, and
.preadmit/vendor its content, where all other commands read it. Commit both, or
keep the content in another directory with --store.

This is the only command that uses the network. Logins are taken from docker's
and Helm's configuration and from netrc, and sent to their own hosts alone. If
.preadmit/config.yaml has fetch.hosts, no other host is asked. Hosts with private
addresses are asked only if they are named there.

Exit codes: 0 complete, 1 with --check when the lock is incomplete or has entries
that nothing needs, 2 bad command line or configuration, 3 something could not be
fetched, or differs from the lock; everything else is kept.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.discovery = passedOn(cmd.Flags(), o.own)
			if err := o.check(); err != nil {
				return err
			}
			c, err := runFetch(cmd.Context(), o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
			*code = c
			return err
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// fetchOptions are the flags of fetch.
type fetchOptions struct {
	checkOptions
	locked, checkOnly, dryRun, git, keep bool
	update                               string
	format                               string

	own       *pflag.FlagSet // flags that only fetch has
	discovery []string       // all other flags, which are passed on to graph
}

func (o *fetchOptions) addFlags(f *pflag.FlagSet) {
	o.addSourceFlags(f)
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringArrayVarP(&o.Policies, "policy", "p", nil, "fetch the policies, or data for Rego, at `oci://REGISTRY/NAME:TAG` or a URL, besides those that the configuration names (repeatable)")
	own.StringArrayVar(&o.With, "with", nil, "fetch the objects, such as CRDs, at `URL`, besides those that the configuration names (repeatable)")
	own.BoolVar(&o.locked, "locked", false, "fetch only what the lock names, and do not change the lock")
	own.StringVar(&o.update, "update", "", "resolve tags and ranges of versions again: all of them, or those of sources with `NAME` in their name or address")
	own.Lookup("update").NoOptDefVal = "*"
	own.BoolVar(&o.checkOnly, "check", false, "without fetching, exit 1 if the lock is incomplete or has entries that nothing needs")
	own.BoolVar(&o.dryRun, "dry-run", false, "without fetching, list what would be fetched")
	own.StringVarP(&o.format, "output", "o", "text", "`FORMAT` of --dry-run: text or json")
	own.BoolVar(&o.keep, "keep", false, "keep entries of the lock that nothing needs")
	own.BoolVar(&o.git, "git", false, "clone with the git program, its credential helpers and ssh")
	own.StringVar(&o.Base, "base", "", "ask only hosts that the configuration (fetch.hosts) or the lock names at git revision `REV`; with --locked, also fetch what is locked there")
	o.own = own
	f.AddFlagSet(own)
	f.Lookup("store").Usage = "keep the content in `DIR`, which may be an OCI image layout, instead of .preadmit/vendor"
}

func (o *fetchOptions) check() error {
	modes := 0
	for _, set := range []bool{o.locked, o.update != "", o.checkOnly, o.dryRun && o.update == ""} {
		if set {
			modes++
		}
	}
	switch {
	case modes > 1:
		return errors.New("use only one of --locked, --update, --check and --dry-run")
	case o.format != "text" && o.format != "json":
		return fmt.Errorf("--output %q: no such format; there are text, json", o.format)
	case o.Timeout <= 0:
		return fmt.Errorf("--timeout %s: must be longer than 0", o.Timeout)
	}
	return nil
}

// passedOn returns the given flags that other commands have too.
func passedOn(flags, own *pflag.FlagSet) []string {
	var args []string
	flags.Visit(func(f *pflag.Flag) {
		if own.Lookup(f.Name) != nil || f.Name == "verbose" || f.Name == "quiet" {
			return
		}
		values := []string{f.Value.String()}
		if s, ok := f.Value.(pflag.SliceValue); ok {
			values = s.GetSlice()
		}
		for _, v := range values {
			args = append(args, "--"+f.Name+"="+v)
		}
	})
	return args
}

// runFetch runs fetch and returns the exit code.
func runFetch(ctx context.Context, o *fetchOptions, args []string, stdout, stderr io.Writer) (int, error) {
	if slices.Contains(args, "-") {
		return 0, errors.New("a lock is for the files of a repository, not for standard input")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("not done after --timeout %s", o.Timeout))
	defer cancel()
	t, err := load.Open(args)
	if err != nil {
		return 0, err
	}
	defer t.Close()
	f := o.newFetch(t, args, stdout, stderr)
	if !o.checkOnly && !o.dryRun {
		release, err := f.Alone(ctx)
		if err != nil {
			return 0, err
		}
		defer release()
	}
	if f.Lock, err = store.ReadLock(t.Repository()); err != nil {
		return 0, err
	}
	switch {
	case o.checkOnly:
		return o.checkLock(ctx, f, t)
	case o.dryRun:
		return exitOK, o.list(ctx, f, stdout)
	case o.locked && f.Lock == nil:
		return 0, fmt.Errorf("--locked: there is no %s; `preadmit fetch` writes it", store.LockFile)
	}
	if err := o.trust(f, t); err != nil {
		return 0, err
	}
	done, err := f.Run(ctx)
	if err != nil {
		return 0, err
	}
	for _, why := range done.Failed {
		fmt.Fprintf(stderr, "preadmit: %s\n", report.Plain(why))
	}
	f.Say(fmt.Sprintf("%s needed, %d fetched, %d failed", policy.Plural(done.Needed, "source"), done.Fetched, len(done.Failed)))
	if len(done.Failed) > 0 {
		return exitIncomplete, nil
	}
	return exitOK, nil
}

// newFetch returns a Fetch for the flags and paths. The caller must set its
// lock and trust.
func (o *fetchOptions) newFetch(t *load.Tree, args []string, stdout, stderr io.Writer) *download.Fetch {
	vendor := filepath.Join(t.Dir, filepath.FromSlash(store.VendorDir))
	f := &download.Fetch{
		Dir: t.Dir, Content: vendor, Graph: slices.Concat(o.discovery, args), Addresses: o.addresses(),
		Whole:  t.HoldsAll(args) && !slices.ContainsFunc(o.discovery, narrows),
		Locked: o.locked, Keep: o.keep, Git: o.git, Update: o.update, Header: evaluate.SchemaLine("lock"),
		Path: os.Getenv(editorPath), Stderr: stderr, Quiet: o.quiet, Plain: report.Plain,
		Say: func(parts ...string) {
			if !o.quiet {
				fmt.Fprintln(stdout, report.Plain(strings.Join(parts, "")))
			}
		},
	}
	f.Dirs = store.Dirs{os.DirFS(vendor)}
	if o.Store != "" { // content that is committed to the repository is not fetched again
		f.Content, f.Shared = filepath.Join(o.Store, store.ContentDir(os.DirFS(o.Store))), true
		f.Dirs = store.Dirs{os.DirFS(f.Content), f.Dirs[0]}
	}
	return f
}

// narrows reports whether a flag leaves out a part of the repository.
func narrows(flag string) bool {
	name, _, _ := strings.Cut(flag, "=")
	return slices.Contains([]string{"--cluster", "--exclude", "--gitops"}, name)
}

// trust reads from the configuration the hosts that may be contacted and the
// keys that must sign content. With --base it reads the base's configuration
// and lock, so that a change can't choose which hosts and keys are trusted.
func (o *fetchOptions) trust(f *download.Fetch, t *load.Tree) error {
	if o.Base != "" {
		b, err := load.OpenBase(t, o.Base)
		if err != nil {
			return err
		}
		defer b.Repo.Close()
		t = b.Tree
		if f.Base, err = store.ReadLock(t.Repository()); err != nil {
			return fmt.Errorf("--base: %w", err)
		}
	}
	s, err := config.Read(t, configFile)
	if err != nil {
		return err
	}
	f.Hosts, f.Only, f.Trust = s.Fetch.Hosts, len(s.Fetch.Hosts) > 0 || o.Base != "", s.Trust
	return nil
}

// checkLock prints whether the lock is complete and current, and returns the
// exit code.
func (o *fetchOptions) checkLock(ctx context.Context, f *download.Fetch, t *load.Tree) (int, error) {
	needs, err := f.Needs(ctx)
	if err != nil {
		return 0, err
	}
	if err := o.trust(f, t); err != nil {
		return 0, err
	}
	code := exitOK
	for _, n := range needs {
		switch e := f.Lock.Find(&n.Remote); {
		case e == nil:
			f.Say("not locked: ", n.String())
			code = exitDenied
		case e.Signature == "" && f.Trust.Of(&n.Remote) != nil:
			f.Say("not verified: ", n.String(), ", by ", f.Trust.Of(&n.Remote).KeyFile)
			code = exitDenied
		}
	}
	for _, e := range f.Stale(needs) {
		f.Say("not needed: ", e.Remote().String())
		code = exitDenied
	}
	absent := slices.ContainsFunc(needs, func(n store.Need) bool { return n.State == store.NotInStore })
	switch {
	case code != exitOK:
		f.Say("the lock is not current: run `preadmit fetch`")
	case absent:
		f.Say("the lock is complete as far as known, but content is missing from the store: run `preadmit fetch --locked`")
	default:
		f.Say("the lock is complete: ", policy.Plural(len(needs), "source"))
	}
	return code, nil
}

// list prints the sources that fetch would download.
func (o *fetchOptions) list(ctx context.Context, f *download.Fetch, stdout io.Writer) error {
	needs, err := f.Needs(ctx)
	if err != nil {
		return err
	}
	needs = slices.DeleteFunc(needs, func(n store.Need) bool { return n.State == store.Fetched && !f.Updates(&n.Remote) })
	if o.format == "json" {
		e := json.NewEncoder(stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		return e.Encode(map[string]any{"schema": "preadmit.fetch/v1", "remotes": needs})
	}
	for _, n := range needs {
		f.Say(n.String())
	}
	return nil
}
