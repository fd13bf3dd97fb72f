package download

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
)

// incomplete is the exit code of graph if something could not be rendered.
const incomplete = 3

// Needs returns the sources that the units need. It runs the command graph of this program as a
// confined child process.
func (f *Fetch) Needs(ctx context.Context) ([]store.Need, error) {
	name, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"preadmit", "graph", "--output=json"}, f.Graph...)
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name)
	cmd.Args, cmd.Stdout, cmd.Stderr = args, &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.As(err, &exit) && exit.ExitCode() == incomplete && out.Len() > 0 {
		err = nil // units whose sources are not fetched yet can't be rendered
	}
	if err != nil {
		said := strings.TrimPrefix(strings.TrimSpace(errs.String()), "preadmit: ")
		if said == "" {
			said = err.Error()
		}
		return nil, errors.New(said)
	}
	var g struct {
		Remotes []store.Need `json:"remotes"`
	}
	if err := json.Unmarshal(out.Bytes(), &g); err != nil {
		return nil, fmt.Errorf("the list of needed sources can't be read: %w", err)
	}
	return f.withAddressed(g.Remotes), nil
}

// withAddressed adds the sources in Addresses.
func (f *Fetch) withAddressed(needs []store.Need) []store.Need {
	for _, address := range f.Addresses {
		n := store.Need{Remote: *render.NewAddressed(address), State: store.NotLocked}
		if slices.ContainsFunc(needs, func(x store.Need) bool { return x.Remote == n.Remote }) {
			continue
		}
		if e := f.Lock.Find(&n.Remote); e != nil {
			n.State, n.Resolved, n.Digest, n.Size = store.NotInStore, e.Resolved, e.Digest, e.Size
			if f.Dirs.Holds(e, f.Trust) {
				n.State = store.Fetched
			}
		}
		needs = append(needs, n)
	}
	return needs
}

// Stale returns the entries of the lock that nothing needs. It returns none unless the whole
// repository was searched.
func (f *Fetch) Stale(needs []store.Need) []store.Entry {
	if f.Lock == nil || !f.Whole {
		return nil
	}
	needed := make(map[render.Remote]bool)
	for _, n := range needs {
		needed[n.Remote] = true
	}
	var all []store.Entry
	for _, e := range f.Lock.Entries {
		if !needed[*e.Remote()] {
			all = append(all, e)
		}
	}
	return all
}

// Updates reports whether Update selects a Remote.
func (f *Fetch) Updates(r *render.Remote) bool {
	u := f.Update
	return u == "*" || u != "" && (strings.Contains(r.Name, u) || strings.Contains(r.URL, u))
}
