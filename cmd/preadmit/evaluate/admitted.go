package evaluate

import (
	"context"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Admitted holds the objects as the API server would store them.
type Admitted struct {
	stored map[*render.Object]*render.Object // by rendered object
	Steps  map[render.Key][]policy.Result    // mutations of each object
}

// Tree returns the stored form of a rendered object, or nil if there is none.
func (a *Admitted) Tree(rendered *render.Object) map[string]any {
	if a == nil || a.stored[rendered] == nil {
		return nil
	}
	return a.stored[rendered].Object
}

// Admit applies defaults and mutating policies to the rendered objects. It adds errors to the
// input's results.
func Admit(ctx context.Context, in *load.Input, o *Options) (*Admitted, error) {
	s, _, err := o.EngineOptions(in)
	if err != nil {
		return nil, err
	}
	a := &Admitted{stored: map[*render.Object]*render.Object{}, Steps: map[render.Key][]policy.Result{}}
	for _, name := range append(load.ClusterNames(in), "")[:max(1, len(load.ClusterNames(in)))] {
		there, s := s.ForCluster(in, name)
		if err := a.admit(ctx, in, there, s); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// admit adds the objects of one cluster, a part of in, as the API server there
// would store them.
func (a *Admitted) admit(ctx context.Context, in, there *load.Input, s engines.Options) error {
	set, err := engines.New(there, there, s)
	if err != nil {
		return err
	}
	head := render.Objects(there.Head)
	stored, results, err := set.Chain.Stored(ctx, s.By(policy.Requests(nil, head)))
	if err != nil {
		return err
	}
	for i, o := range head {
		a.stored[o] = stored[i]
	}
	in.Found = appendNew(in.Found, set.Results)
	for _, r := range results {
		switch {
		case r.Outcome == policy.Pass && len(r.Fields) > 0:
			key := r.Object
			key.Namespace = "" // results have the request's namespace
			a.Steps[key] = append(a.Steps[key], r)
		case r.Outcome == policy.Fail || r.Undecided():
			in.Found = append(in.Found, r)
		}
	}
	return nil
}
