package evaluate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render"
)

// controllers lists the service accounts with which GitOps controllers apply
// objects, by the API group of the objects that identify the controller.
var controllers = []struct{ group, user string }{
	{"kustomize.toolkit.fluxcd.io", "system:serviceaccount:flux-system:kustomize-controller"},
	{"helm.toolkit.fluxcd.io", "system:serviceaccount:flux-system:helm-controller"},
	{"argoproj.io", "system:serviceaccount:argocd:argocd-application-controller"},
}

// requester returns the user of all requests: the one of --as or --as-file,
// else the controller that the tree's objects identify. Otherwise the user is
// unknown, and results that depend on request.userInfo are undecided. assumed
// is a note about it.
func (o *Options) requester(in *load.Input) (u policy.UserInfo, assumed string, err error) {
	given := policy.UserInfo{Username: o.As, Groups: slices.Clone(o.AsGroups)}
	switch {
	case o.AsFile != "":
		u, err = o.userFile(in)
		return u, "", err
	case o.As != "" || len(o.AsGroups) > 0:
		return authz.Complete(given), "", nil
	}
	if c := controller(render.Objects(in.Head)); c != "" {
		return authz.Complete(policy.UserInfo{Username: c}), "request.userInfo: assumed to be " + c + "; set it with --as", nil
	}
	return policy.UserInfo{}, "", nil
}

func controller(head []*render.Object) string {
	for _, c := range controllers {
		if slices.ContainsFunc(head, func(o *render.Object) bool { return o.GroupVersionKind().Group == c.group }) {
			return c.user
		}
	}
	return ""
}

// impersonated returns the service accounts that the tree names to apply units, as namespace:name.
func impersonated(head []*render.Unit) (accounts []string) {
	for _, u := range head {
		if u.Impersonates && u.State != render.Unreached {
			accounts = append(accounts, strings.TrimPrefix(u.User, "system:serviceaccount:"))
		}
	}
	return unique(accounts)
}

// impersonated returns the failures that pass only because the change makes another user apply a
// unit, such as by spec.serviceAccountName. For units that the change adds they are warnings,
// because each unit must name some user. found are the results with the head's users.
func (b *base) impersonated(ctx context.Context, s engines.Options, v *reviews, found []iter.Seq[*policy.Result]) ([]policy.Result, error) {
	if len(b.asOthers(s, v.requests())) == 0 {
		return nil, nil
	}
	reqs, err := v.stored(ctx)
	if err != nil {
		return nil, err
	}
	was := render.ByIdentity(b.in.Head)
	var all []policy.Result
	for _, asOther := range b.asOthers(s, reqs) {
		results, err := v.chain.Review(ctx, asOther)
		if err != nil {
			return nil, err
		}
		u := asOther[0].Object.Unit
		results = change.Exempted(results, []policy.Request{{Object: u.Owner}}, found...)
		for i := range results {
			if was[u.Identity()] == nil && results[i].Action == policy.Deny {
				results[i].Action = policy.Warn
			}
		}
		all = append(all, results...)
	}
	return all, nil
}

// asOthers returns, for each unit that another user applies after the change, the requests by the
// base's user.
func (b *base) asOthers(s engines.Options, reqs []policy.Request) [][]policy.Request {
	if s.UserGiven {
		return nil
	}
	was := render.ByIdentity(b.in.Head)
	of := make(map[*render.Unit]int)
	var all [][]policy.Request
	for _, r := range reqs {
		u := r.Subject().Unit
		if r.Object == nil || u == nil || u.Owner == nil || u.User == "" {
			continue
		}
		user := controller([]*render.Object{u.Owner})
		if old := was[u.Identity()]; old != nil {
			user = old.User
		}
		if user == "" || user == u.User || u.Owner.GetKind() == "ApplicationSet" {
			continue
		}
		i, ok := of[u]
		if !ok {
			i = len(all)
			of[u], all = i, append(all, nil)
		}
		r.UserInfo = authz.Complete(policy.UserInfo{Username: user})
		all[i] = append(all[i], r)
	}
	return all
}

// authorizerFile reads the file of rules that --authorizer names.
func (o *Options) authorizerFile(in *load.Input) (display string, data []byte, err error) {
	name, data, err := in.File(o.Authorizer)
	if name == "" {
		return "", nil, fmt.Errorf("--authorizer %q is neither a file of rules nor one of %s", o.Authorizer, strings.Join(authz.Modes, ", "))
	}
	if err != nil {
		return "", nil, fmt.Errorf("--authorizer: %w", load.Places(in.Tree, err))
	}
	return in.Tree.Display(name), data, nil
}

// userFile returns the user in the file of --as-file.
func (o *Options) userFile(in *load.Input) (policy.UserInfo, error) {
	if o.As != "" || len(o.AsGroups) > 0 {
		return policy.UserInfo{}, errors.New("--as-file names a user with groups: --as and --as-group can't be given with it")
	}
	name, data, err := in.File(o.AsFile)
	if err != nil {
		return policy.UserInfo{}, fmt.Errorf("--as-file: %w", load.Places(in.Tree, err))
	}
	u, err := authz.ParseUser(in.Tree.Display(name), data)
	if err != nil {
		return policy.UserInfo{}, fmt.Errorf("--as-file: %w", load.Places(nil, err))
	}
	return u, nil
}
