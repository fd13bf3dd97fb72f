package document

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

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
