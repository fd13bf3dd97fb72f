package document

import (
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/filters"
	"github.com/preadmit/preadmit/policy/internal/pattern"
)

func (c checker) generate(r *Rule, x field) {
	c.oneSource(x, append(c.sources(x), x.at("foreach")))
	if foreach := x.at("foreach").list(); len(foreach) > 0 {
		for _, x := range foreach {
			c.oneSource(x, c.sources(x))
			c.source(x)
		}
		return
	}
	c.source(x)
	legacy := field{r.Source, r.Pointer}.at("match", "resources").texts("kinds")
	if slices.Contains(legacy, x.text("kind")) {
		c.add(x.at("kind").pointer, "the rule generates the kind that it matches")
	}
}

// sources returns the fields that describe generated objects.
func (c checker) sources(x field) []field {
	return []field{x.at("data"), x.at("clone"), x.at("cloneList")}
}

func (c checker) oneSource(x field, sources []field) {
	some := slices.DeleteFunc(sources, func(s field) bool {
		m, isMap := s.value.(map[string]any)
		return !s.isSet() || isMap && len(m) == 0 && s.pointer != x.at("data").pointer
	})
	if len(some) > 1 {
		c.add(some[1].pointer, "%s and %s can't be used together", lastKey(some[0].pointer), lastKey(some[1].pointer))
	}
}

// lastKey returns the last key of a pointer without escapes.
func lastKey(pointer string) string { return pointer[strings.LastIndexByte(pointer, '/')+1:] }

// source checks the source of generated objects: data, one object, or a list of
// objects.
func (c checker) source(x field) {
	list := len(x.at("cloneList").texts("kinds")) > 0
	if list && (x.text("name") != "" || x.text("kind") != "") {
		c.add(x.pointer, "cloneList excludes name and kind")
	}
	for _, key := range []string{"apiVersion", "kind", "name"} {
		if !list && x.text(key) == "" {
			c.add(x.pointer, "%s has no %s", Dotted(x.pointer), key)
		}
	}
	if clone := x.at("clone"); len(clone.keys()) > 0 && clone.text("name") == "" {
		c.add(clone.pointer, "clone has no name")
	}
	if pattern.HasAnchors(x.get("data")) {
		c.add(x.at("data").pointer, "anchors belong in patterns, not in generated objects")
	}
	if s := selector(x.at("cloneList", "selector")); s != nil && s.hasWildcard() {
		c.add(x.at("cloneList", "selector").pointer, "the selector of a cloneList has no wildcards")
	}
	c.generatedNamespace(x)
	c.ownNamespace(x)
}

// generatedNamespace refuses a namespace for a built-in kind that is cluster-scoped,
// and requires one for a namespaced kind. The command line assumes that every kind is
// namespaced.
func (c checker) generatedNamespace(x field) {
	kind, apiVersion := x.text("kind"), x.text("apiVersion")
	known := isNamespacedKind(apiVersion, kind) || c.offline && kind != ""
	if none := x.text("namespace") == ""; none && known {
		c.add(x.pointer, "%s is namespaced: name the namespace", kind)
	} else if !none && !c.offline && isClusterKind(apiVersion, kind) {
		c.add(x.at("namespace").pointer, "%s is cluster-scoped: leave out the namespace", kind)
	}
	c.cloneList(x.at("cloneList"))
}

// cloneList requires the kinds of a list to be all namespaced, with a namespace, or
// all cluster-scoped.
func (c checker) cloneList(x field) {
	kinds := x.texts("kinds")
	if len(kinds) == 0 {
		return
	}
	wide := 0
	for _, kind := range kinds {
		k := filters.ParseKindSelector(kind)
		if !c.offline && isClusterKind(k.Group+"/"+k.Version, k.Kind) {
			wide++
		}
	}
	namespace := x.at("namespace")
	switch {
	case wide > 0 && c.isNamespaced():
		c.add(x.at("kinds").pointer, "a Policy can clone only from its own namespace: use a ClusterPolicy")
	case wide > 0 && wide < len(kinds):
		c.add(x.at("kinds").pointer, "namespaced and cluster-scoped kinds can't be cloned together")
	case wide > 0 && namespace.value != nil:
		c.add(namespace.pointer, "the kinds are cluster-scoped: leave out the namespace")
	case wide == 0 && x.text("namespace") == "":
		c.add(x.pointer, "the kinds are namespaced: name their namespace")
	}
}

func (c checker) ownNamespace(x field) {
	if !c.isNamespaced() {
		return
	}
	namespaces := []field{x.at("namespace")}
	for _, key := range []string{"clone", "cloneList"} {
		if len(x.at(key).keys()) > 0 {
			namespaces = append(namespaces, x.at(key, "namespace"))
		}
	}
	for _, x := range namespaces {
		if x.value != c.Namespace {
			c.add(x.pointer, "a Policy may generate only from and into its own namespace")
		}
	}
	if kind := x.text("kind"); !c.offline && isClusterKind(x.text("apiVersion"), kind) {
		c.add(x.at("kind").pointer, "%s is cluster-scoped: use a ClusterPolicy", kind)
	}
}
