package authz

import (
	"maps"
	"slices"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// ParseUser reads a user from YAML or JSON in the form of
// authentication.k8s.io/v1: username, which is required, uid, groups and extra.
// It adds groups as [Complete] does. The error joins *render.Error values with
// their places in file.
func ParseUser(file string, data []byte) (policy.UserInfo, error) {
	r, doc, err := readDocument(file, data, "user-info", "a user: username, uid, groups, extra")
	if err != nil {
		return policy.UserInfo{}, err
	}
	r.known(doc, "", "username", "uid", "groups", "extra")
	var u policy.UserInfo
	u.Username, _ = r.text(doc, "", "username")
	u.UID, _ = r.text(doc, "", "uid")
	misspelt := func(key string) bool { return render.Alike(key, "username") }
	if name := doc["username"]; name == "" || name == nil && !slices.ContainsFunc(slices.Collect(maps.Keys(doc)), misspelt) {
		r.fail("/username", "username is missing")
	}
	if v := doc["groups"]; v != nil {
		u.Groups = r.listOf(v, "/groups", "groups")
	}
	if v := doc["extra"]; v != nil {
		u.Extra = r.extra(v)
	}
	if err := r.done(); err != nil {
		return policy.UserInfo{}, err
	}
	return Complete(u), nil
}

func (r *reader) listOf(v any, at, name string) []string {
	list, ok := v.([]any)
	if !ok {
		r.fail(at, "%s: want a list", name)
	}
	return r.strings(list, at, name)
}

func (r *reader) extra(v any) map[string][]string {
	m, ok := v.(map[string]any)
	if !ok {
		r.fail("/extra", "extra: want a mapping of keys to lists")
	}
	out := make(map[string][]string, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out[k] = r.listOf(m[k], "/extra"+render.Pointer(k), "extra")
	}
	return out
}

// Complete adds the groups that an API server gives to a user: to a service
// account without groups those of service accounts, and to everybody the group
// of authenticated or unauthenticated users
// (k8s.io/apiserver/pkg/endpoints/filters/impersonation). An unknown user is
// not changed.
func Complete(u policy.UserInfo) policy.UserInfo {
	if u.Username == "" && len(u.Groups) == 0 {
		return u
	}
	groups := slices.Clone(u.Groups)
	others := slices.ContainsFunc(groups, func(g string) bool { return g != user.AllAuthenticated })
	if namespace, _, err := serviceaccount.SplitUsername(u.Username); err == nil && !others {
		groups = serviceaccount.MakeGroupNames(namespace)
	}
	everybody := user.AllAuthenticated
	if u.Username == user.Anonymous {
		everybody = user.AllUnauthenticated
	}
	if !slices.ContainsFunc(groups, func(g string) bool {
		return g == user.AllAuthenticated || g == user.AllUnauthenticated
	}) {
		groups = append(groups, everybody)
	}
	u.Groups = groups
	return u
}
