package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/helm"
)

// start checks the flags and sets the number of jobs, which is at most the number of processors
// because more would only use more memory.
func (o *checkOptions) start() error {
	switch {
	case o.jobs < 0:
		return fmt.Errorf("--jobs %d is negative; 0 is the number of processors", o.jobs)
	case o.Timeout <= 0:
		return fmt.Errorf("--timeout %s: must be longer than 0", o.Timeout)
	}
	if err := o.Limits.Check(); err != nil {
		return err
	}
	if o.Namespace != "" {
		if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
			return fmt.Errorf("--namespace %q can't be the name of a Namespace: small letters, digits and dashes, at most 63, with a letter or digit at both ends", o.Namespace)
		}
	}
	if err := helm.CheckSet(o.Set, o.SetString); err != nil {
		return err
	}
	if o.jobs > 0 {
		runtime.GOMAXPROCS(min(o.jobs, runtime.NumCPU()))
	}
	return nil
}

// addresses returns the values of --policy, --data and --with that are
// addresses instead of paths.
func (o *checkOptions) addresses() []string {
	return slices.DeleteFunc(slices.Concat(o.Policies, o.Data, o.With), func(p string) bool { return !render.IsAddress(p) })
}

// checkRehearsal returns an error if the flags of a rehearsal can't be combined.
func (o *checkOptions) checkRehearsal() error {
	switch {
	case o.FromKubeVersion != "" && o.Base != "":
		return errors.New("--from-kube-version compares two API servers, --base two trees: a difference could come from either, so run check once with each")
	case len(o.Enforce) > 0 && o.Base != "":
		return errors.New("--enforce compares policies before and after they deny, --base two trees: run check once with each; for a change that may break no policy at all, use --base with --fail-on audit")
	case len(o.Enforce) > 0 && o.FromKubeVersion != "":
		return errors.New("--enforce and --from-kube-version change two things: a denial could come from either, so run check once with each")
	case o.EnforceBy != "" && len(o.Enforce) == 0:
		return errors.New("--enforce-by counts what --enforce denies, so it needs --enforce")
	case o.FromKubeVersion != "" && evaluate.Release(o.FromKubeVersion) == evaluate.Release(o.KubeVersion):
		return fmt.Errorf("--from-kube-version and --kube-version are both %s", evaluate.Release(o.KubeVersion))
	}
	return nil
}

// openShard reads --shard and refuses flags that need all results in one process.
func (o *checkOptions) openShard() (err error) {
	if o.Part, err = evaluate.ParseShard(o.shard); err != nil {
		return err
	}
	if o.Part != nil && o.Combine {
		return errors.New("--combine evaluates all objects together, which --shard divides: use one of them")
	}
	if o.Part != nil && o.FromKubeVersion != "" {
		return errors.New("--from-kube-version compares two whole runs: use it without --shard")
	}
	return nil
}

// checkOptions are the flags of check.
type checkOptions struct {
	evaluate.Options
	coverageFlags
	outputs
	failOn          string // an action, or "never"
	requireComplete bool
	shard           string
	jobs            int
	quiet           bool
}
