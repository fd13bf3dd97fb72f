package schema

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
)

//go:embed kinds.tsv
var kindsTSV string

// A row is one line of kinds.tsv: a kind in a group version.
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

// byDefault reports whether an API server serves the kind without flags: stable
// versions, and the beta versions that were on before Kubernetes 1.24 ended
// that (DefaultAPIResourceConfigSource in pkg/controlplane).
func (r *row) byDefault() bool {
	return !strings.Contains(r.gvk.Version, "alpha") && !strings.Contains(r.gvk.Version, "beta") ||
		r.gvk.Group == "flowcontrol.apiserver.k8s.io" && r.gvk.Version == "v1beta3"
}

// APIVersions returns the group versions that an API server serves without
// flags, and their kinds as group/version/kind, for the Capabilities of Helm
// charts. It is empty for an unknown version.
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

// A builtin is a row that the selected release serves.
type builtin struct {
	row
	goType     func() *goType // returns nil if client-go has no type
	validator  func() *kindValidator
	deprecated func() string // returns the API server's warning, or ""
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

// A server holds the built-in kinds of an API server of one release. All Kinds
// of a release share it and its caches.
type server struct {
	release  release
	builtins map[schema.GroupVersionKind]*builtin
	byName   map[schema.GroupVersionResource]*builtin
	ordered  []*builtin      // by group, version and kind
	groups   map[string]bool // built-in groups

	// equivalents returns the other built-in resources that serve the same
	// objects.
	equivalents func() map[schema.GroupVersionResource][]policy.Version
	mergers     mergers
}

// servers returns the server of each release, made on first use. The first is
// the oldest release.
var servers = func() (all [newest - oldest + 1]func() *server) {
	for i := range all {
		all[i] = sync.OnceValue(func() *server { return newServer(oldest + release(i)) })
	}
	return all
}()

func newServer(r release) *server {
	k := &server{
		release:  r,
		builtins: make(map[schema.GroupVersionKind]*builtin, len(rows())),
		byName:   make(map[schema.GroupVersionResource]*builtin, len(rows())),
		groups:   make(map[string]bool),
	}
	for _, row := range rows() {
		k.groups[row.gvk.Group] = true
		if row.served&r.bit() == 0 {
			continue
		}
		b := &builtin{row: row}
		b.goType = sync.OnceValue(func() *goType { return k.newGoType(b.gvk) })
		b.validator = sync.OnceValue(func() *kindValidator {
			k := &kindValidator{builtin: b, release: r, typ: b.goType()}
			k.strict, k.err = newStrict(b.gvk, r)
			return k
		})
		b.deprecated = sync.OnceValue(func() string { return k.deprecation(b.gvk) })
		k.builtins[row.gvk], k.byName[row.gvr()] = b, b
		k.ordered = append(k.ordered, b)
	}
	slices.SortFunc(k.ordered, func(a, b *builtin) int { return strings.Compare(a.gvk.String(), b.gvk.String()) })
	for gvk := range removed() {
		k.groups[gvk.Group] = true
	}
	k.equivalents = sync.OnceValue(k.newEquivalents)
	return k
}

// sortedKinds returns the served built-in kinds that keep accepts, in order.
func (s *server) sortedKinds(keep func(*builtin) bool) []*builtin {
	var found []*builtin
	for _, b := range s.ordered {
		if keep(b) {
			found = append(found, b)
		}
	}
	return found
}
