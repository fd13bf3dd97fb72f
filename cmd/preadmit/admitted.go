package main

import (
	"context"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// admitted are the objects as the API server would store them.
type admitted struct {
	stored map[*render.Object]*render.Object // by the rendered one
	steps  map[render.Key][]policy.Result    // what was set, by the object
}

// tree is the stored object's; nil for no object.
func (a *admitted) tree(rendered *render.Object) map[string]any {
	if a == nil || a.stored[rendered] == nil {
		return nil
	}
	return a.stored[rendered].Object
}

// admit takes the rendered objects through defaults and mutating policies.
// It adds errors to the input's results.
func admit(ctx context.Context, in *load.Input, o *evaluateOptions) (*admitted, error) {
	s, _, err := o.benchOptions(in)
	if err != nil {
		return nil, err
	}
	a := &admitted{stored: map[*render.Object]*render.Object{}, steps: map[render.Key][]policy.Result{}}
	for _, name := range append(load.ClusterNames(in), "")[:max(1, len(load.ClusterNames(in)))] {
		there, s := s.There(in, name)
		if err := a.admit(ctx, in, there, s); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// admit takes the objects of one cluster, which are a part of in, through what
// evaluates there.
func (a *admitted) admit(ctx context.Context, in, there *load.Input, s engines.Options) error {
	bench, err := engines.New(there, there, s)
	if err != nil {
		return err
	}
	head := render.Objects(there.Head)
	stored, results, err := bench.Chain.Stored(ctx, s.By(policy.Requests(nil, head)))
	if err != nil {
		return err
	}
	for i, o := range head {
		a.stored[o] = stored[i]
	}
	in.Found = appendNew(in.Found, bench.Results)
	for _, r := range results {
		switch {
		case r.Outcome == policy.Pass && len(r.Fields) > 0:
			key := r.Object
			key.Namespace = "" // the result's is the request's
			a.steps[key] = append(a.steps[key], r)
		case r.Outcome == policy.Fail || r.Undecided():
			in.Found = append(in.Found, r)
		}
	}
	return nil
}

// printDiffs prints a unified diff an object: from what was rendered to what
// would be stored, with the mutations that are a part of it.
func printDiffs(w io.Writer, in *load.Input, a *admitted) error {
	for _, u := range in.Head {
		for _, o := range u.Objects {
			if _, err := fmt.Fprintf(w, "# %s %s\n%s", u.Kind, report.Plain(in.Tree.Display(u.Identity())), sourceLine(in.Tree, o)); err != nil {
				return err
			}
			if err := printDiff(w, in, a, o); err != nil {
				return err
			}
		}
	}
	return nil
}

func printDiff(w io.Writer, in *load.Input, a *admitted, o *render.Object) error {
	key := o.Key()
	key.Namespace = ""
	for _, r := range a.steps[key] {
		r.PolicyOrigin.File = in.Tree.Display(r.PolicyOrigin.File)
		if _, err := fmt.Fprintf(w, "# %s/%s %s (%s)\n", report.Plain(r.Policy), r.Rule, report.Plain(r.Message), report.Plain(r.PolicyOrigin.String())); err != nil {
			return err
		}
	}
	before, err := yaml.Marshal(o.Object)
	if err != nil {
		return err
	}
	after, err := yaml.Marshal(a.tree(o))
	if err != nil {
		return err
	}
	name := report.Plain(objectName(o))
	text := report.UnifiedDiff(name, before, name+" as stored", after)
	if text == "" {
		_, err = fmt.Fprintf(w, "# %s is stored as it is\n", name)
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// objectName is an object in words: its kind, and where it is.
func objectName(o *render.Object) string {
	key := o.Key()
	if key.Namespace == "" {
		return fmt.Sprintf("%s %s %s", key.APIVersion, key.Kind, key.Name)
	}
	return fmt.Sprintf("%s %s %s/%s", key.APIVersion, key.Kind, key.Namespace, key.Name)
}
