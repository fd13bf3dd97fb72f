package filters

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// A KindSelector is a kind as Kyverno's policies and filters write it. Each part may contain
// wildcards.
type KindSelector struct{ Group, Version, Kind, Subresource string }

// isVersion matches a version, unlike a group or a kind.
var isVersion = regexp.MustCompile(`^(v\d+((alpha|beta)\d+)?|\*)$`)

// ParseKindSelector parses an entry of kinds: Kind, version/Kind or
// group/version/Kind, each with an optional /subresource or .subresource. One
// with more parts selects nothing.
func ParseKindSelector(s string) KindSelector {
	parts := strings.Split(s, "/")
	last := len(parts) - 1
	parts = append(parts[:last], strings.Split(parts[last], ".")...)
	k := KindSelector{Group: "*", Version: "*"}
	switch len(parts) {
	case 1:
		k.Kind = parts[0]
	case 2:
		k.twoParts(parts[0], parts[1])
	case 3:
		if isVersion.MatchString(parts[0]) {
			k.Version, k.Kind, k.Subresource = parts[0], parts[1], parts[2]
		} else {
			k.Group, k.Version, k.Kind = parts[0], parts[1], parts[2]
		}
	case 4:
		k.Group, k.Version, k.Kind, k.Subresource = parts[0], parts[1], parts[2], parts[3]
	default:
		return KindSelector{}
	}
	return k
}

func (k *KindSelector) twoParts(a, b string) {
	switch {
	case a == "*" && strings.ToLower(b) == b: // */scale, and */*
		k.Kind, k.Subresource = "*", b
	case isVersion.MatchString(a):
		k.Version, k.Kind = a, b
	default:
		k.Kind, k.Subresource = a, b
	}
}

// Matches reports whether the selector names the kind and subresource. In
// Kyverno, Pod also names the subresource that adds ephemeral containers.
func (k *KindSelector) Matches(gvk schema.GroupVersionKind, subresource string) bool {
	if !matchesPart(k.Kind, gvk.Kind) || !matchesPart(k.Group, gvk.Group) || !matchesPart(k.Version, gvk.Version) {
		return false
	}
	return matchesPart(k.Subresource, subresource) ||
		gvk.Group == "" && gvk.Kind == "Pod" && subresource == "ephemeralcontainers"
}

func matchesPart(wanted, actual string) bool {
	return wanted == "*" || wanted == actual || pattern.HasWildcard(wanted) && pattern.Wildcard(wanted, actual)
}
