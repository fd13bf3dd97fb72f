package schema

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:embed kinds.tsv
var kindsTSV string

// A row is one line of kinds.tsv: a kind of a group version.
type row struct {
	gvk          schema.GroupVersionKind
	resource     string
	namespaced   bool
	served       uint32 // bits of releases
	subresources []string
}

func (r *row) gvr() schema.GroupVersionResource {
	return r.gvk.GroupVersion().WithResource(r.resource)
}

// byDefault tells whether an API server serves the kind when no flag says
// otherwise: stable versions, and the beta ones that were on before Kubernetes
// 1.24 stopped that (DefaultAPIResourceConfigSource in pkg/controlplane).
func (r *row) byDefault() bool {
	return !strings.Contains(r.gvk.Version, "alpha") && !strings.Contains(r.gvk.Version, "beta") ||
		r.gvk.Group == "flowcontrol.apiserver.k8s.io" && r.gvk.Version == "v1beta3"
}

// APIVersions lists the group versions that an API server of a version serves
// when no flag says otherwise, and the kinds of each as group/version/kind, as
// templates of Helm charts ask for them. It is empty for a version that is not
// known.
func APIVersions(kubeVersion string) []string {
	r, err := parseRelease(kubeVersion)
	if err != nil {
		return nil
	}
	var all []string
	for _, kind := range rows() {
		if kind.served&r.bit() != 0 && kind.byDefault() {
			gv := kind.gvk.GroupVersion().String()
			all = append(all, gv, gv+"/"+kind.gvk.Kind)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A builtin is a row that the chosen release serves.
type builtin struct {
	row
	goType func() *goType // nil in it: client-go has no type
}

// rows parses kinds.tsv once.
var rows = sync.OnceValue(func() []row {
	rs, err := parseRows(kindsTSV)
	if err != nil {
		panic("kinds.tsv: " + err.Error()) // the file is part of the program
	}
	return rs
})

func parseRows(tsv string) ([]row, error) {
	var rs []row
	for line := range strings.Lines(tsv) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 7 {
			return nil, fmt.Errorf("%q: not seven columns", line)
		}
		served, err := parseRanges(f[5])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		r := row{
			gvk:        schema.GroupVersionKind{Group: f[0], Version: f[1], Kind: f[2]},
			resource:   f[3],
			namespaced: f[4] == "true",
			served:     served,
		}
		if f[6] != "" {
			r.subresources = strings.Split(f[6], ",")
		}
		rs = append(rs, r)
	}
	return rs, nil
}

// parseRanges reads "29-31,33".
func parseRanges(s string) (uint32, error) {
	var bits uint32
	for part := range strings.SplitSeq(s, ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		first, err := strconv.Atoi(from)
		if err != nil {
			return 0, err
		}
		last, err := strconv.Atoi(to)
		if err != nil {
			return 0, err
		}
		for r := release(first); r <= release(last); r++ {
			bits |= r.bit()
		}
	}
	return bits, nil
}

func (k *Kinds) addBuiltins() {
	k.builtins = make(map[schema.GroupVersionKind]*builtin, len(rows()))
	k.byName = make(map[schema.GroupVersionResource]*builtin, len(rows()))
	k.groups = make(map[string]bool)
	for _, r := range rows() {
		k.groups[r.gvk.Group] = true
		if r.served&k.release.bit() == 0 {
			continue
		}
		b := &builtin{row: r}
		b.goType = sync.OnceValue(func() *goType { return k.newGoType(b.gvk) })
		k.builtins[r.gvk], k.byName[r.gvr()] = b, b
	}
	for gvk := range removed() {
		k.groups[gvk.Group] = true
	}
}

// sortedKinds are the served built-in kinds that keep accepts, in order.
func (k *Kinds) sortedKinds(keep func(*builtin) bool) []*builtin {
	var found []*builtin
	for _, gvk := range slices.SortedFunc(maps.Keys(k.builtins), func(a, b schema.GroupVersionKind) int {
		return strings.Compare(a.String(), b.String())
	}) {
		if b := k.builtins[gvk]; keep(b) {
			found = append(found, b)
		}
	}
	return found
}
