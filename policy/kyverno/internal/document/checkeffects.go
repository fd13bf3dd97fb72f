package document

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/filters"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/render"
)

func (c checker) mutate(m *Mutate, x field) {
	some := map[string]bool{
		"patchStrategicMerge": m.HasStrategicMerge, "patchesJson6902": m.JSON6902 != "", "foreach": len(m.Foreach) > 0,
	}
	c.exactlyOne(x, some, "patchStrategicMerge", "patchesJson6902", "foreach")
	c.labelsAreStrings(x.at("patchStrategicMerge"))
	c.patches(x.at("patchesJson6902"))
	c.foreachMutate(x.at("foreach"))
	for i, t := range m.Targets {
		at := x.at("targets").list()[i]
		if c.isNamespaced() && t.Namespace != "" && t.Namespace != c.Namespace {
			c.add(at.at("namespace").pointer, "a Policy can change only objects in its own namespace")
		}
	}
}

func (c checker) foreachMutate(list field) {
	for _, x := range list.list() {
		c.exactlyOne(x, map[string]bool{
			"patchStrategicMerge": x.at("patchStrategicMerge").isSet(), "patchesJson6902": x.text("patchesJson6902") != "",
			"foreach": len(x.at("foreach").list()) > 0,
		}, "patchStrategicMerge", "patchesJson6902", "foreach")
		c.labelsAreStrings(x.at("patchStrategicMerge"))
		for _, key := range []string{"context", "preconditions"} {
			if inner := x.at("foreach").list(); len(inner) > 0 && x.at(key).isSet() {
				c.add(x.at(key).pointer, "%s can't be beside a nested foreach: move it into that", key)
			}
		}
		c.foreachMutate(x.at("foreach"))
	}
}

// labelsAreStrings checks the labels and annotations of a patch.
func (c checker) labelsAreStrings(patch field) {
	for _, metadata := range []field{patch.at("metadata"), patch.at("spec", "template", "metadata")} {
		for _, key := range []string{"labels", "annotations"} {
			c.areStrings(metadata.at(key))
		}
	}
}

// A patch is an operation of RFC 6902.
type patch struct {
	Op, Path string
	hasValue bool
}

func (p patch) beyondMetadata() bool { return !strings.HasPrefix(p.Path, "/metadata") }

// readPatches parses patchesJson6902, YAML or JSON, with variables replaced by some
// text.
func readPatches(s string) ([]patch, error) {
	if s == "" {
		return nil, nil
	}
	docs, err := render.Documents("", []byte(withoutVariables(s)), render.YAML11)
	if len(docs) != 1 {
		return nil, fmt.Errorf("patchesJson6902 is not a list of patches: %w", cmp.Or(err, errors.New("it is empty")))
	}
	list, ok := docs[0].Value.([]any)
	if !ok {
		return nil, fmt.Errorf("patchesJson6902 is %s, not a list of patches", kindOf(docs[0].Value))
	}
	var all []patch
	for _, item := range list {
		x := field{value: item}
		_, hasValue := x.keys()["value"]
		all = append(all, patch{Op: x.text("op"), Path: x.text("path"), hasValue: hasValue})
	}
	return all, nil
}

var operations = []string{"add", "remove", "replace", "move", "copy", "test"}

func (c checker) patches(x field) {
	s, _ := x.value.(string)
	all, err := readPatches(s)
	if err != nil {
		c.add(x.pointer, "%s", err)
	}
	for i, p := range all {
		switch {
		case strings.Contains(p.Path, variableMark):
			c.add(x.pointer, "patch %d has a variable in its path", i)
		case !strings.HasPrefix(p.Path, "/"):
			c.add(x.pointer, "the path of patch %d does not begin with a slash", i)
		case !slices.Contains(operations, p.Op):
			c.add(x.pointer, "the op of patch %d is none of %s", i, strings.Join(operations, ", "))
		case !p.hasValue && (p.Op == "add" || p.Op == "replace" || p.Op == "test"):
			c.add(x.pointer, "patch %d has no value", i)
		}
	}
}

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

// images checks verifyImages with its image extractors.
func (c checker) images(r *Rule, x field) {
	if len(r.ImageExtractors) > 0 && len(r.VerifyImages) == 0 {
		c.add(x.at("imageExtractors").pointer, "imageExtractors are allowed only with verifyImages")
	}
	digests := false
	for i, v := range r.VerifyImages {
		entry := x.at("verifyImages").list()[i]
		c.verify(v, entry)
		digests = digests || v.MutateDigest
	}
	for _, kind := range x.at("imageExtractors").fields() {
		for _, e := range kind.list() {
			if digests && e.text("jmesPath") != "" {
				c.add(e.at("jmesPath").pointer, "an image that a jmesPath makes can't be given its digest: set mutateDigest to false")
			}
		}
	}
}

func (c checker) verify(v *VerifyImages, x field) {
	if len(v.ImageReferences) == 0 {
		c.add(x.pointer, "%s has no imageReferences", Dotted(x.pointer))
	}
	for _, ref := range x.at("imageReferences").list() {
		c.noVariables(ref, "a variable can't be used in an image reference")
	}
	c.noVariables(x.at("image"), "a variable can't be used in an image reference")
	action := cmp.Or(v.Action, c.Action)
	if v.MutateDigest && action == actionAudit {
		c.add(x.pointer, "mutateDigest must be false if failures are only audited")
	}
	c.attestors(x.at("attestors"))
	if x.text("type") == "Notary" {
		c.notary(x.at("attestors"))
	}
	for _, a := range x.at("attestations").list() {
		c.attestors(a.at("attestors"))
		for _, block := range a.at("conditions").list() {
			reader{faults: c.faults}.conditions(block, 0)
		}
	}
	if deny := x.at("validate", "deny", "conditions"); deny.isSet() {
		reader{faults: c.faults}.conditions(deny, 0)
		c.conditionsComplete(deny)
	}
}

func (c checker) attestors(sets field) {
	for _, set := range sets.list() {
		c.attestorSet(set, maxAttestors)
	}
}

// notary refuses attestors that Notary does not support.
func (c checker) notary(sets field) {
	for _, set := range sets.list() {
		for _, e := range set.at("entries").list() {
			for _, key := range []string{"keys", "keyless"} {
				if e.at(key).isSet() {
					c.add(e.at(key).pointer, "Notary has certificates, not %s", key)
				}
			}
		}
	}
}

// maxAttestors bounds the depth of attestors in attestors.
const maxAttestors = 16

func (c checker) attestorSet(set field, depth int) {
	entries := set.at("entries").list()
	if depth == 0 {
		c.add(set.pointer, "attestors are nested too deep")
		return
	}
	if len(entries) == 0 {
		c.add(set.pointer, "a set of attestors has entries")
	}
	if n, ok := wholeNumber(set.at("count").value); ok && (n < 1 || n > int64(len(entries))) {
		c.add(set.at("count").pointer, "count is from 1 to the number of entries")
	}
	for _, e := range entries {
		c.attestor(e, depth)
	}
}

func (c checker) attestor(e field, depth int) {
	c.exactlyOne(e, map[string]bool{
		"keys": e.at("keys").isSet(), "certificates": e.at("certificates").isSet(),
		"keyless": e.at("keyless").isSet(), "attestor": e.at("attestor").isSet(),
	}, "keys", "certificates", "keyless", "attestor")
	keys, certificates := e.at("keys"), e.at("certificates")
	if keys.isSet() && keys.text("publicKeys") == "" && keys.text("kms") == "" && !keys.at("secret").isSet() {
		c.add(keys.pointer, "keys have publicKeys, kms or secret")
	}
	if a := keys.text("signatureAlgorithm"); a != "" && !slices.Contains([]string{"sha224", "sha256", "sha384", "sha512"}, a) {
		c.add(keys.at("signatureAlgorithm").pointer, "the signature algorithm is not one that Kyverno knows")
	}
	if certificates.isSet() && certificates.text("cert") == "" && certificates.text("certChain") == "" {
		c.add(certificates.pointer, "certificates have cert or certChain")
	}
	keyless := e.at("keyless")
	if rekor := keyless.at("rekor"); rekor.isSet() && rekor.text("url") == "" || keyless.isSet() && !rekor.isSet() && keyless.text("roots") == "" {
		c.add(keyless.pointer, "keyless has roots, or rekor with its url")
	}
	if nested := e.at("attestor"); nested.isSet() {
		c.attestorSet(nested, depth-1)
	}
}
