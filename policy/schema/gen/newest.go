package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// newestBit is the place of the newest version in the bits.
const newestBit = newest - 29

// addNewest adds the kinds that the newest version serves: those of the release before it
// that k8s.io/api still has and does not declare removed, and those that the newest
// version introduces. Schemas are taken from the release before it.
func (t *tables) addNewest() error {
	before := uint32(1) << (newestBit - 1)
	for k, in := range t.served {
		if in&before != 0 && still(k) {
			t.served[k] |= 1 << newestBit
		}
	}
	for _, variants := range t.schemas {
		for _, v := range variants {
			if v.In&before != 0 {
				v.In |= 1 << newestBit
			}
		}
	}
	return t.addIntroduced()
}

// still reports whether k8s.io/api has the kind and does not say that the
// newest version is without it. The kinds of the two groups that are served
// by other modules stay.
func still(k kind) bool {
	if k.group == "apiextensions.k8s.io" || k.group == "apiregistration.k8s.io" {
		return true
	}
	object, err := scheme.Scheme.New(schema.GroupVersionKind{Group: k.group, Version: k.version, Kind: k.kind})
	if err != nil {
		return false
	}
	removed, ok := object.(interface{ APILifecycleRemoved() (int, int) })
	if !ok {
		return true
	}
	_, minor := removed.APILifecycleRemoved()
	return minor > newest
}

func (t *tables) addIntroduced() error {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		return err
	}
	root := strings.TrimSpace(string(out))
	known := scheme.Scheme.AllKnownTypes()
	kinds := slices.SortedFunc(maps.Keys(known), func(a, b schema.GroupVersionKind) int {
		return strings.Compare(a.String(), b.String())
	})
	for _, gvk := range kinds {
		if err := t.addIfNew(root, gvk, known[gvk]); err != nil {
			return err
		}
	}
	return nil
}

// addIfNew adds a kind that came with the newest version. Whether it is
// namespaced is in the markers above its type, as the client generator
// reads them.
func (t *tables) addIfNew(root string, gvk schema.GroupVersionKind, goType reflect.Type) error {
	introduced, ok := reflect.New(goType).Interface().(interface{ APILifecycleIntroduced() (int, int) })
	if !ok || strings.HasSuffix(gvk.Kind, "List") {
		return nil
	}
	if _, minor := introduced.APILifecycleIntroduced(); minor != newest {
		return nil
	}
	source, err := os.ReadFile(filepath.Join(root, strings.TrimPrefix(goType.PkgPath(), "k8s.io/api/"), "types.go"))
	if err != nil {
		return err
	}
	above := markers(string(source), gvk.Kind)
	if !strings.Contains(above, "+genclient\n") {
		return nil
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	k := kind{gvk.Group, gvk.Version, gvk.Kind, plural.Resource, !strings.Contains(above, "+genclient:nonNamespaced")}
	t.served[k] |= 1 << newestBit
	if strings.Contains(string(source), fmt.Sprintf("Status %sStatus ", gvk.Kind)) {
		t.addSubresource(k, "status")
	}
	return nil
}

// markers are the comment lines above a type: those that touch it and, as Go
// generators have it, one block more above a blank line.
func markers(source, name string) string {
	found := regexp.MustCompile(`((?://[^\n]*\n)+\n?(?://[^\n]*\n)*)type ` + name + ` struct`).FindStringSubmatch(source)
	if found == nil {
		return ""
	}
	return found[1]
}
