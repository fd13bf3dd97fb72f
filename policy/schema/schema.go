// Package schema describes the kinds that an API server serves: their resource
// names, and the form in which the server holds their objects.
//
// [New] takes a Kubernetes version and the CustomResourceDefinitions of the
// tree, and returns [Kinds], the policy.Kinds of a policy.Chain. kinds.tsv
// lists the built-in kinds and openapi.json.gz holds their schemas; gen writes
// both. Objects are decoded into Go types; package apiserver, the server's own
// code, defaults and converts them to the form that the server holds and shows to
// admission.
//
// [Validator] is the policy.Validator of the built-in kinds. It reports fields
// that the server's strict decoding refuses (unknown.go, spot.go), and runs its
// validation; place.go finds the fields of the errors. sent.go has what the server refuses of any kind because of
// the way in which a client sends it.
//
// table.go reads kinds.tsv, removed.go and deprecated.go know the other versions;
// openapi.go, resolve.go and merge.go serve the schemas. admit.go completes an object:
// decode.go and shape.go convert it to and from Go's types, convert.go and
// older.go make other versions and releases of it; plugins.go finds what admission plugins
// look up. crd.go and crd_schema.go do so for
// custom resources.
package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema/internal/apiserver"
	"github.com/preadmit/preadmit/render"
)

//go:generate go run ./gen

// Options configure [New].
type Options struct {
	// KubeVersion is the API server's version, such as "1.33" or "v1.33.2". ""
	// selects the newest known one.
	KubeVersion string
}

// Kinds are the kinds that an API server of one version serves. It is safe
// for concurrent use.
type Kinds struct {
	*server
	customs  map[schema.GroupKind]*custom
	resolved *resolved
	mergers  *mergers // of kinds that are not built in

	bare     *Kinds // the same without plugins; the following fields are not set there
	cluster  *policy.Cluster
	limits   bool     // the cluster has objects that plugins look up
	quotas   bool     // there are ResourceQuotas among them
	disabled []string // plugins that do not run
	claimed  func() map[claim][]*corev1.Service
	scaled   func() (least map[workload]int, resized map[workload]bool)
	usage    *apiserver.Usage
	counting sync.Mutex // guards counts
	counts   map[schema.GroupKind]map[quotaGroup][]apiserver.Listed
	updates  *Kinds // the same, with only the plugins that run on updates; nil if there are no plugins
	mu       sync.Mutex
	made     map[*render.Unit]*apiserver.Plugins
	shared   map[*render.Object]runtime.Object // the objects that plugins of all units look up; mu guards both
}

var _ policy.Kinds = (*Kinds)(nil)

// New returns the kinds of an API server with the given
// CustomResourceDefinitions. It ignores other objects. The error joins
// *render.Error values for definitions that can't be read; the Kinds include the
// others. The Kinds are nil only if the Kubernetes version is unknown.
func New(crds []*render.Object, opts Options) (*Kinds, error) {
	r, err := parseRelease(opts.KubeVersion)
	if err != nil {
		return nil, err
	}
	k := &Kinds{server: servers[r-oldest](), customs: map[schema.GroupKind]*custom{}, resolved: new(resolved), mergers: new(mergers)}
	var errs []error
	for _, o := range crds {
		if !IsDefinition(o) {
			continue
		}
		if err := k.addCustom(o); err != nil {
			errs = append(errs, err)
		}
	}
	return k, errors.Join(errs...)
}

// A release is a minor version of Kubernetes 1.
type release int

// The releases in kinds.tsv.
const (
	oldest release = 29
	newest release = 37
)

func (r release) String() string { return "1." + strconv.Itoa(int(r)) }

// bit returns the release's bit in kinds.tsv.
func (r release) bit() uint32 { return 1 << (r - oldest) }

// CheckVersion returns an error if a Kubernetes version is unknown. "" is the
// newest.
func CheckVersion(version string) error {
	_, err := parseRelease(version)
	return err
}

// Versions returns the known Kubernetes versions, oldest first.
func Versions() []string {
	var all []string
	for r := oldest; r <= newest; r++ {
		all = append(all, r.String())
	}
	return all
}

func parseRelease(version string) (release, error) {
	if version == "" {
		return newest, nil
	}
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 || parts[0] != "1" {
		return 0, fmt.Errorf("%q is not a Kubernetes version such as 1.33", version)
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0, fmt.Errorf("%q is not a Kubernetes version such as 1.33", version)
	}
	if r := release(minor); r >= oldest && r <= newest {
		return r, nil
	}
	return 0, fmt.Errorf("%q is not a known Kubernetes version; the known ones are %s to %s", version, oldest, newest)
}

// Resource returns the resource of a kind.
func (k *Kinds) Resource(gvk schema.GroupVersionKind) policy.Resource {
	if b := k.builtins[gvk]; b != nil {
		return policy.Resource{GroupVersionResource: b.gvr(), Namespaced: b.namespaced, Known: true}
	}
	if c := k.customs[gvk.GroupKind()]; c != nil {
		served := slices.Contains(c.served, gvk.Version)
		return policy.Resource{GroupVersionResource: c.gvr(gvk.Version), Namespaced: c.namespaced, Known: served, Unserved: !served, Guessed: c.guessed}
	}
	if b := gone(gvk); b != nil {
		return policy.Resource{GroupVersionResource: b.gvr(), Namespaced: b.namespaced}
	}
	return policy.ResourceOf(gvk)
}
