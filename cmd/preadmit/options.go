package main

import (
	"fmt"
	"runtime"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/helm"
)

// start checks the flags that can be wrong by themselves, and applies --jobs, up
// to the number of processors: more would only take memory.
func (o *checkOptions) start() error {
	switch {
	case o.jobs < 0:
		return fmt.Errorf("--jobs %d is negative; 0 is the number of processors", o.jobs)
	case o.Timeout <= 0:
		return fmt.Errorf("--timeout %s is no time to run in", o.Timeout)
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

// addresses are those among the policies, their data and the objects of the
// cluster that are not paths.
func (o *checkOptions) addresses() []string {
	return slices.DeleteFunc(slices.Concat(o.Policies, o.Data, o.With), func(p string) bool { return !render.IsAddress(p) })
}
