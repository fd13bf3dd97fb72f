package schema

import (
	_ "embed"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/preadmit/preadmit/render"
)

//go:embed removed.tsv
var removedTSV string

// A removal is a line of removed.tsv: a kind that no release in kinds.tsv
// serves.
type removal struct {
	row
	in          string // the version of Kubernetes that is the first without it
	replacement string // "" if there is none
}

// removed parses removed.tsv once.
var removed = sync.OnceValue(func() map[schema.GroupVersionKind]*removal {
	all := map[schema.GroupVersionKind]*removal{}
	for line := range strings.Lines(removedTSV) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if len(f) != 7 {
			panic("removed.tsv: " + line) // the file is part of the program
		}
		gvk := schema.GroupVersionKind{Group: f[0], Version: f[1], Kind: f[2]}
		all[gvk] = &removal{row{gvk: gvk, resource: f[3], namespaced: f[4] == "true"}, f[5], f[6]}
	}
	return all
})

// gone returns the row of a kind that the selected release does not serve, but
// another one does or did.
func gone(gvk schema.GroupVersionKind) *row {
	if r := removed()[gvk]; r != nil {
		return &r.row
	}
	for _, r := range rows() {
		if r.gvk == gvk {
			return &r
		}
	}
	return nil
}

// noMatch returns the API server's error for a kind of a built-in group that it
// does not serve, with a hint.
func (k *Kinds) noMatch(gvk schema.GroupVersionKind) error {
	err := fmt.Errorf("no matches for kind %q in version %q", gvk.Kind, gvk.GroupVersion())
	if r := removed()[gvk]; r != nil {
		return fmt.Errorf("%w: Kubernetes %s removed it%s", err, r.in, useInstead(r.replacement))
	}
	if r := gone(gvk); r != nil {
		return fmt.Errorf("%w: %s", err, k.whenServed(r))
	}
	if s := k.suggest(gvk); s != "" {
		return fmt.Errorf("%w; did you mean %s?", err, s)
	}
	return err
}

func useInstead(replacement string) string {
	if replacement == "" {
		return ""
	}
	return "; use " + replacement
}

// whenServed returns why the release does not serve a kind of kinds.tsv.
func (k *Kinds) whenServed(r *row) string {
	first := oldest + release(bits.TrailingZeros32(r.served))
	last := oldest + release(bits.Len32(r.served)) - 1
	if k.release < first {
		return fmt.Sprintf("it was added in Kubernetes %s%s", first, useInstead(k.sibling(r.gvk)))
	}
	return fmt.Sprintf("Kubernetes %s removed it%s", last+1, useInstead(k.sibling(r.gvk)))
}

// sibling returns the most stable served version of a kind, or "".
func (s *server) sibling(gvk schema.GroupVersionKind) string {
	found := s.sortedKinds(func(b *builtin) bool { return b.gvk.GroupKind() == gvk.GroupKind() })
	if len(found) == 0 {
		return ""
	}
	best := slices.MinFunc(found, func(a, b *builtin) int {
		return -version.CompareKubeAwareVersionStrings(a.gvk.Version, b.gvk.Version)
	})
	return best.gvk.GroupVersion().String() + " " + gvk.Kind
}

// suggest returns the served kind that differs only in letter case and white
// space, in this version, this group or any group.
func (k *Kinds) suggest(gvk schema.GroupVersionKind) string {
	kind, group, ver := fold(gvk.Kind), fold(gvk.Group), fold(gvk.Version)
	found := k.sortedKinds(func(b *builtin) bool { return fold(b.gvk.Kind) == kind || b.resource == kind })
	if len(found) == 0 {
		return k.similar(gvk)
	}
	rank := func(b *builtin) int {
		switch {
		case fold(b.gvk.Group) == group && b.gvk.Version == ver:
			return 0
		case fold(b.gvk.Group) == group:
			return 1
		default:
			return 2
		}
	}
	best := slices.MinFunc(found, func(a, b *builtin) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return -version.CompareKubeAwareVersionStrings(a.gvk.Version, b.gvk.Version)
	})
	if best.gvk.GroupVersion() == gvk.GroupVersion() {
		return best.gvk.Kind
	}
	return best.gvk.GroupVersion().String() + " " + best.gvk.Kind
}

// similar returns the kind of the same group and version with the most similar
// name.
func (k *Kinds) similar(gvk schema.GroupVersionKind) string {
	var names []string
	for _, b := range k.sortedKinds(func(b *builtin) bool { return b.gvk.GroupVersion() == gvk.GroupVersion() && b.byDefault() }) {
		names = append(names, b.gvk.Kind)
	}
	return render.Nearest(gvk.Kind, names)
}

func fold(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// builtinGroup reports whether a group is built in, ignoring letter case and
// white space: V1 and Apps/v1 are mistakes, not other groups.
func (k *Kinds) builtinGroup(group string) bool {
	return k.groups[fold(group)]
}
