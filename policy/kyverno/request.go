package kyverno

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
)

// userKnown reports whether anything is known about the user. On Kyverno's
// command line the user is empty instead of unknown.
func (r *review) userKnown() bool {
	return r.engine.options.CLI || r.user().Known()
}

// needs returns what a text asks of the live request: a question of package policy, or "".
func needs(text string) string {
	switch {
	case aboutUser.MatchString(text):
		return policy.NeedsUser
	case aboutOptions.MatchString(text):
		return policy.NeedsOptions
	}
	return ""
}

// unknown asks what needs returned, unless that is known.
func (r *review) unknown(question string) error {
	if question == policy.NeedsUser && !r.userKnown() || question == policy.NeedsOptions && !r.engine.options.CLI {
		return r.ask(question)
	}
	return nil
}

func (r *review) user() *policy.UserInfo {
	if r.engine.options.CLI {
		return cmp.Or(r.mocks.UserInfo, &policy.UserInfo{})
	}
	return &r.req.UserInfo
}

// serviceAccount returns the name or the namespace in
// system:serviceaccount:NAMESPACE:NAME.
func (r *review) serviceAccount(which string) (any, bool, error) {
	if err := r.unknown(policy.NeedsUser); err != nil {
		return nil, false, err
	}
	if r.engine.options.CLI && r.mocks.UserInfo == nil {
		return nil, false, nil
	}
	namespace, name := "", ""
	if rest, ok := strings.CutPrefix(r.user().Username, "system:serviceaccount:"); ok {
		namespace, name, _ = strings.Cut(rest, ":")
	}
	if which == "serviceAccountName" {
		return name, true, nil
	}
	return namespace, true, nil
}

// request returns the JMESPath variable request.
func (r *review) request(mocks map[string]any) map[string]any {
	mocked, _ := mocks["request"].(map[string]any)
	if r.requestValue == nil {
		r.requestValue = r.newRequest()
	}
	if mocked == nil {
		return r.requestValue
	}
	m := merge(r.requestValue, mocked)
	if r.simulated {
		m["operation"] = r.operation
	}
	return m
}

// newRequest builds the variable request: all of it as in a cluster, or on
// Kyverno's command line the objects and little else.
func (r *review) newRequest() map[string]any {
	m := map[string]any{}
	if !r.engine.options.CLI {
		m = r.req.Fields(r.req.Version())
		delete(m, "userInfo")
	}
	m["operation"] = r.operation
	if r.engine.options.CLI {
		m["namespace"] = r.req.Namespace
	}
	if r.object != nil {
		m["object"] = floats(r.object)
	}
	if r.old != nil {
		m["oldObject"] = floats(r.old)
	}
	r.addUser(m)
	if r.engine.options.CLI {
		return m
	}
	for _, name := range []string{"object", "oldObject"} {
		if _, ok := m[name]; !ok {
			m[name] = nil
		}
	}
	if r.req.Kind == namespaceKind {
		m["namespace"] = r.req.Name // as the API server sets it
	}
	m["options"] = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": optionsKinds[r.operation]}
	return m
}

var optionsKinds = map[string]string{opCreate: "CreateOptions", opUpdate: "UpdateOptions", opDelete: "DeleteOptions"}

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

func (r *review) addUser(m map[string]any) {
	if r.engine.options.CLI && r.mocks.UserInfo == nil || !r.userKnown() {
		return
	}
	u := r.user()
	info := u.Fields()
	info["username"] = u.Username
	m["userInfo"] = info
	roles, clusterRoles := r.roles()
	for name, names := range map[string][]string{"roles": roles, "clusterRoles": clusterRoles} {
		if len(names) > 0 { // else Kyverno sets no such key
			m[name] = policy.Anys(names)
		}
	}
}
