package document

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

const rbacGroup = "rbac.authorization.k8s.io"

// RolesOf returns the Roles, as namespace:name, and the ClusterRoles that
// bindings in the cluster give a user, sorted. A RoleBinding gives ClusterRoles
// to requests in its own namespace. Kyverno compares names only: a role's rules
// do not matter, nor whether the role exists.
func RolesOf(c *policy.Cluster, u *policy.UserInfo, requested string) (roles, clusterRoles []string) {
	if u == nil {
		return nil, nil
	}
	for _, o := range c.List(schema.GroupKind{Group: rbacGroup, Kind: "RoleBinding"}) {
		namespace := cmp.Or(o.GetNamespace(), "default")
		switch kind, name := bound(o, u, namespace); kind {
		case "Role":
			roles = append(roles, namespace+":"+name)
		case "ClusterRole":
			if namespace == requested {
				clusterRoles = append(clusterRoles, name)
			}
		}
	}
	for _, o := range c.List(schema.GroupKind{Group: rbacGroup, Kind: "ClusterRoleBinding"}) {
		if kind, name := bound(o, u, ""); kind == "ClusterRole" {
			clusterRoles = append(clusterRoles, name)
		}
	}
	return sorted(roles), sorted(clusterRoles)
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// bound returns the role of the binding, if the user is among its subjects.
func bound(o *render.Object, u *policy.UserInfo, namespace string) (kind, name string) {
	x := field{o.Object, ""}
	for _, s := range x.at("subjects").list() {
		if isSubject(s, u, namespace) {
			return x.at("roleRef").text("kind"), x.at("roleRef").text("name")
		}
	}
	return "", ""
}

// isSubject compares as the API server does, without wildcards.
func isSubject(s field, u *policy.UserInfo, namespace string) bool {
	name := s.text("name")
	switch s.text("kind") {
	case "User":
		return name == u.Username
	case "Group":
		return slices.Contains(u.Groups, name)
	case "ServiceAccount":
		if own := s.text("namespace"); own != "" {
			namespace = own
		}
		return u.Username == "system:serviceaccount:"+namespace+":"+name
	}
	return false
}
