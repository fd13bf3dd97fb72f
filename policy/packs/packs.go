// Package packs holds the policies that are in the binary.
//
// In go a pack's name and the API server's version; out come the policies and
// bindings of the pack as objects, to be used like anybody's. A pack is a
// directory here: one file a policy, which documents itself by annotations
// (package admission has their names) and can be applied to a cluster as
// it is. The tests hold that the examples in the documentation fail and pass
// as they say.
package packs

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

//go:embed best-practices/*.yaml
var files embed.FS

// A Pack is a set of policies with a name.
type Pack struct{ Name, Doc string }

// All lists the packs.
var All = []Pack{
	{"best-practices", "what reviewers ask of workloads, RBAC, Services and Ingresses, as ValidatingAdmissionPolicies"},
}

// newest is the API server's version if none is given.
const newest = 37

// Objects returns the policies and bindings of a pack, the policies named after it,
// sorted by name. Nobody edits them, so they have no lines. It fails for an unknown
// pack or an invalid version ("" is the newest).
func Objects(name, kubeVersion string) ([]*render.Object, error) {
	if !slices.ContainsFunc(All, func(p Pack) bool { return p.Name == name }) {
		return nil, fmt.Errorf("no such pack: %q", name)
	}
	minor, err := parseMinor(kubeVersion)
	if err != nil {
		return nil, err
	}
	objects, err := read(name)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		o.Provenance = nil
		variables, _ := render.Lookup(o.Object, "/spec/variables")
		list, _ := variables.([]any)
		for _, v := range list {
			if v, ok := v.(map[string]any); ok && v["name"] == minorVariable {
				v["expression"] = strconv.Itoa(minor)
			}
		}
	}
	return objects, nil
}

// read parses the files of a pack.
func read(name string) ([]*render.Object, error) {
	names, err := fs.Glob(files, path.Join(name, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []*render.Object
	for _, n := range names {
		data, err := files.ReadFile(n)
		if err != nil {
			return nil, err
		}
		objects, err := render.Parse(n, data)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// minorVariable is the variable of a policy that depends on the API server's version,
// which CEL can't read. Its expression is the minor version.
const minorVariable = "minor"

func parseMinor(kubeVersion string) (int, error) {
	if kubeVersion == "" {
		return newest, nil
	}
	parts := strings.SplitN(strings.TrimPrefix(kubeVersion, "v"), ".", 3)
	if len(parts) > 1 && parts[0] == "1" {
		if minor, err := strconv.Atoi(parts[1]); err == nil && minor >= 0 {
			return minor, nil
		}
	}
	return 0, fmt.Errorf("kubernetes version must look like 1.31, not %q", kubeVersion)
}
