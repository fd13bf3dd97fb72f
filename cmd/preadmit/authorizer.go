package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/render"
)

// newAuthorizer is what --authorizer names. Objects of --with are on the
// cluster before the change.
func newAuthorizer(in *load.Input, s *engineSettings, cluster *policy.Cluster) (*authz.Authorizer, error) {
	given := make(map[*render.Object]bool)
	for _, object := range render.Objects(in.Context) {
		given[object] = true
	}
	if s.AuthorizerFile == "" {
		return authz.New(s.Authorizer, authz.Options{
			Cluster: cluster, KubeVersion: s.KubeVersion,
			Given: func(object *render.Object) bool { return given[object] },
		})
	}
	a, err := authz.Parse(s.AuthorizerFile, s.AuthorizerData)
	if err != nil {
		return nil, fmt.Errorf("--authorizer: %w", places(nil, err))
	}
	return a, nil
}

// authorizerFile reads the file of rules that --authorizer names.
func (o *evaluateOptions) authorizerFile(in *load.Input) (display string, data []byte, err error) {
	name, data, err := in.File(o.Authorizer)
	if name == "" {
		return "", nil, fmt.Errorf("--authorizer %q is neither a file of rules nor one of %s", o.Authorizer, strings.Join(authz.Modes, ", "))
	}
	if err != nil {
		return "", nil, fmt.Errorf("--authorizer: %w", places(in.Tree, err))
	}
	return in.Tree.Display(name), data, nil
}

// userFile is whom --as-file names.
func (o *evaluateOptions) userFile(in *load.Input) (policy.UserInfo, error) {
	if o.as != "" || len(o.asGroups) > 0 {
		return policy.UserInfo{}, errors.New("--as-file names a user with groups: --as and --as-group can't be given with it")
	}
	name, data, err := in.File(o.AsFile)
	if err != nil {
		return policy.UserInfo{}, fmt.Errorf("--as-file: %w", places(in.Tree, err))
	}
	u, err := authz.ParseUser(in.Tree.Display(name), data)
	if err != nil {
		return policy.UserInfo{}, fmt.Errorf("--as-file: %w", places(nil, err))
	}
	return u, nil
}

// places puts errors with their places and hints in one line. With a tree,
// the places are named as reports name them.
func places(t *load.Tree, err error) error {
	var all []string
	for _, e := range render.Errors(err) {
		shown := *e
		if t != nil {
			shown.Span.File = t.Display(shown.Span.File)
		}
		text := shown.Error()
		if e.Hint != "" {
			text += " (" + e.Hint + ")"
		}
		all = append(all, text)
	}
	return errors.New(strings.Join(all, "; "))
}
