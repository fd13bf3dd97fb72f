package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
)

// newFetchCommand is the only way to the files named fetch*.go, and these the
// only way to the network.
func newFetchCommand(code *int) *cobra.Command {
	o := &fetchOptions{}
	cmd := &cobra.Command{
		Use:   "fetch [PATH ...]",
		Short: "Download the charts, artifacts and repositories that are not in the tree, and lock them",
		Long: `Download what the units at each PATH (default: the current directory) need but
the repository does not contain: charts from Helm repositories and OCI
registries, OCI artifacts, other Git repositories, files at URLs, and the
policies and CRDs that the configuration names by their addresses.
.preadmit/lock.yaml records the version and digest of each source, and
.preadmit/vendor its content, where all other commands read it. Commit both, or
keep the content in another directory with --store.

This is the only command that uses the network. Logins are taken from docker's
and Helm's configuration and from netrc, and sent to their own hosts alone. With
fetch.hosts in .preadmit/config.yaml no other host is asked. Hosts with private
addresses are asked only if they are named there.

Exit codes: 0 complete, 1 with --check when the lock is incomplete or has entries
that nothing needs, 2 bad command line or configuration, 3 something could not be
fetched or is not what is locked (what could, is kept).`,
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
	locked, checkOnly, dryRun, git bool
	update                         string
	format                         string

	own       *pflag.FlagSet // those of fetch alone
	discovery []string       // the others, as they are passed on to graph
}

func (o *fetchOptions) addFlags(f *pflag.FlagSet) {
	o.sources.addFlags(f)
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringArrayVarP(&o.policies, "policy", "p", nil, "fetch the policies, or data for Rego, at `oci://REGISTRY/NAME:TAG` or a URL, besides those that the configuration names (repeatable)")
	own.StringArrayVar(&o.with, "with", nil, "fetch the objects, such as CRDs, at `URL`, besides those that the configuration names (repeatable)")
	own.BoolVar(&o.locked, "locked", false, "bring exactly what is locked, and lock nothing")
	own.StringVar(&o.update, "update", "", "look again which version an address and range stand for: of all, or of those with `NAME` in their name or address")
	own.Lookup("update").NoOptDefVal = "*"
	own.BoolVar(&o.checkOnly, "check", false, "without fetching, exit 1 if the lock lacks something, or has something that nothing needs")
	own.BoolVar(&o.dryRun, "dry-run", false, "without fetching, list what would be fetched")
	own.StringVarP(&o.format, "output", "o", "text", "`FORMAT` of --dry-run: text or json")
	own.BoolVar(&o.git, "git", false, "clone with the git program, its credential helpers and ssh")
	own.StringVar(&o.base, "base", "", "ask no hosts but those that the configuration (fetch.hosts) and the lock at this git revision name, `REV`; with --locked, bring what is locked there, too")
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
		return errors.New("--locked, --update, --check and --dry-run: take one")
	case o.format != "text" && o.format != "json":
		return fmt.Errorf("--output %q: no such format; there are text, json", o.format)
	case o.timeout <= 0:
		return fmt.Errorf("--timeout %s is no time to run in", o.timeout)
	}
	return nil
}

// passedOn are the flags that were given, but for those of fetch alone.
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

// A fetching is one run of fetch.
type fetching struct {
	o              *fetchOptions
	args           []string
	stdout, stderr io.Writer
	tree           *tree
	lock           *store.Lock
	dir            string // of the content
	dirs           store.Dirs
	trust          store.Trust // see trusted
	failed         []string
	brought        int
}

func runFetch(ctx context.Context, o *fetchOptions, args []string, stdout, stderr io.Writer) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done after --timeout %s", o.timeout))
	defer cancel()
	t, err := openTree(args)
	if err != nil {
		return 0, err
	}
	defer t.Close()
	f := &fetching{o: o, args: args, stdout: stdout, stderr: stderr, tree: t, dir: o.store}
	if f.dir != "" {
		f.dir = filepath.Join(f.dir, store.ContentDir(os.DirFS(f.dir)))
	} else {
		f.dir = filepath.Join(t.Dir, filepath.FromSlash(store.VendorDir))
	}
	f.dirs = store.Dirs{os.DirFS(f.dir)}
	if o.store != "" { // what is committed need not come again
		f.dirs = append(f.dirs, os.DirFS(filepath.Join(t.Dir, filepath.FromSlash(store.VendorDir))))
	}
	if !o.checkOnly && !o.dryRun {
		release, err := f.alone(ctx)
		if err != nil {
			return 0, err
		}
		defer release()
	}
	if f.lock, err = store.ReadLock(t.Repository()); err != nil {
		return 0, err
	}
	switch {
	case o.checkOnly:
		return f.checked(ctx)
	case o.dryRun:
		return f.listed(ctx)
	case o.locked:
		return f.fetchLocked(ctx)
	}
	return f.fetchAll(ctx)
}

// discover asks a child, in which rendering is confined, what the units need.
// The child is this program, as the command graph.
func (f *fetching) discover(ctx context.Context) ([]graphRemote, error) {
	name, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"preadmit", "graph", "--output=json"}, f.o.discovery, f.args)
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name)
	cmd.Args, cmd.Stdout, cmd.Stderr = args, &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.As(err, &exit) && exit.ExitCode() == exitIncomplete && out.Len() > 0 {
		err = nil // units whose sources are still to be fetched can't be rendered yet
	}
	if err != nil {
		said := strings.TrimPrefix(strings.TrimSpace(errs.String()), "preadmit: ")
		if said == "" {
			said = err.Error()
		}
		return nil, errors.New(said)
	}
	var g struct {
		Remotes []graphRemote `json:"remotes"`
	}
	if err := json.Unmarshal(out.Bytes(), &g); err != nil {
		return nil, fmt.Errorf("what the units need can't be read: %w", err)
	}
	return f.withAddressed(g.Remotes), nil
}

// withAddressed adds what --policy and --with name to what the units need.
func (f *fetching) withAddressed(needs []graphRemote) []graphRemote {
	for _, address := range f.o.addresses() {
		n := graphRemote{Remote: *render.NewAddressed(address), State: store.NotLocked}
		if slices.ContainsFunc(needs, func(x graphRemote) bool { return x.Remote == n.Remote }) {
			continue
		}
		if e := f.lock.Find(&n.Remote); e != nil {
			n.State, n.Resolved, n.Digest, n.Size = store.NotInStore, e.Resolved, e.Digest, e.Size
			if f.dirs.Holds(e, f.trust) {
				n.State = store.Fetched
			}
		}
		needs = append(needs, n)
	}
	return needs
}

// stale are the entries of the lock that nothing needs.
func (f *fetching) stale(needs []graphRemote) []store.Entry {
	if f.lock == nil || !f.whole() {
		return nil
	}
	needed := make(map[render.Remote]bool)
	for _, n := range needs {
		needed[n.Remote] = true
	}
	var all []store.Entry
	for _, e := range f.lock.Entries {
		if !needed[*e.Remote()] {
			all = append(all, e)
		}
	}
	return all
}

// whole reports whether all of the repository was looked at.
func (f *fetching) whole() bool {
	for _, flag := range f.o.discovery {
		name, _, _ := strings.Cut(flag, "=")
		if slices.Contains([]string{"--cluster", "--exclude", "--gitops"}, name) {
			return false
		}
	}
	args := f.args
	if len(args) == 0 {
		args = []string{"."}
	}
	return slices.ContainsFunc(args, func(arg string) bool {
		name, err := f.tree.name(arg, nil)
		return err == nil && name == "."
	})
}

// checked says whether the lock is complete and current.
func (f *fetching) checked(ctx context.Context) (int, error) {
	needs, err := f.discover(ctx)
	if err != nil {
		return 0, err
	}
	if _, _, err := f.trusted(); err != nil {
		return 0, err
	}
	code := exitOK
	for _, n := range needs {
		switch e := f.lock.Find(&n.Remote); {
		case e == nil:
			f.print("not locked: ", n.String())
			code = exitDenied
		case e.Signature == "" && f.trust.Of(&n.Remote) != nil:
			f.print("not verified: ", n.String(), ", by ", f.trust.Of(&n.Remote).KeyFile)
			code = exitDenied
		}
	}
	for _, e := range f.stale(needs) {
		f.print("not needed: ", e.Remote().String())
		code = exitDenied
	}
	absent := slices.ContainsFunc(needs, func(n graphRemote) bool { return n.State == store.NotInStore })
	switch {
	case code != exitOK:
		f.print("the lock is not current: run `preadmit fetch`")
	case absent:
		f.print("the lock has all that is known to be needed; the store lacks content: run `preadmit fetch --locked`")
	default:
		f.print("the lock is complete: ", plural(len(needs), "source"))
	}
	return code, nil
}

// listed says what would be fetched.
func (f *fetching) listed(ctx context.Context) (int, error) {
	needs, err := f.discover(ctx)
	if err != nil {
		return 0, err
	}
	needs = slices.DeleteFunc(needs, func(n graphRemote) bool { return n.State == store.Fetched && !f.updates(&n.Remote) })
	if f.o.format == "json" {
		e := json.NewEncoder(f.stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		return exitOK, e.Encode(map[string]any{"schema": "preadmit.fetch/v1", "remotes": needs})
	}
	for _, n := range needs {
		f.print(n.String())
	}
	return exitOK, nil
}

// updates reports whether --update means a Remote.
func (f *fetching) updates(r *render.Remote) bool {
	u := f.o.update
	return u == "*" || u != "" && (strings.Contains(r.Name, u) || strings.Contains(r.URL, u))
}

func (f *fetching) print(parts ...string) {
	if !f.o.quiet {
		fmt.Fprintln(f.stdout, plain(strings.Join(parts, "")))
	}
}
