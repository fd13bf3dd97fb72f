// Package schema knows the kinds that an API server serves, offline: what
// each is called, and how the server holds its objects.
//
// In go a Kubernetes version and the CustomResourceDefinitions of the tree;
// out comes [Kinds], the policy.Kinds of a policy.Chain. The built-in kinds
// stand in kinds.tsv and their schemas in openapi.json.gz, both written by
// gen. Objects are decoded into the types of client-go, defaulted as
// k8s.io/kubernetes does (defaults*.go) and brought into the form that the
// server holds and shows to admission (stored.go). The nested module oracle
// is the server's own code, which the tests compare with.
//
// [Validator] is the policy.Validator of the built-in kinds: it reports what the
// server's strict decoding refuses (unknown.go) and its validation, which
// package kindcheck reproduces.
package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

//go:generate go run ./gen

// Options are the inputs of kinds besides the definitions.
type Options struct {
	// KubeVersion is the API server's version: "1.33", "v1.33.2". "" is the
	// newest that is known.
	KubeVersion string
}

// Kinds are the kinds that an API server of one version serves. It is safe
// for concurrent use.
type Kinds struct {
	*server
	customs  map[schema.GroupKind]*custom
	resolved resolved
	mergers  mergers // of kinds that are not built in
}

var _ policy.Kinds = (*Kinds)(nil)

// New returns the kinds of an API server with the given
// CustomResourceDefinitions; other objects are passed over. The error joins
// *render.Error for definitions that can't be read: the others are known all
// the same. Only for a Kubernetes version that is not known are the Kinds nil.
func New(crds []*render.Object, opts Options) (*Kinds, error) {
	r, err := parseRelease(opts.KubeVersion)
	if err != nil {
		return nil, err
	}
	k := &Kinds{server: servers[r-oldest](), customs: map[schema.GroupKind]*custom{}}
	var errs []error
	for _, o := range crds {
		if !isCRD(o) {
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

// bit is the release's place in the bits of kinds.tsv.
func (r release) bit() uint32 { return 1 << (r - oldest) }

// CheckVersion is an error unless a Kubernetes version is known; "" is the newest.
func CheckVersion(version string) error {
	_, err := parseRelease(version)
	return err
}

// Versions are the Kubernetes versions that are known, oldest first.
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
	return 0, fmt.Errorf("%q is not a Kubernetes version that is known; there are %s to %s", version, oldest, newest)
}

// Resource tells what a kind is called. A kind that is neither built in nor
// defined gets the name that REST mappers guess, and counts as namespaced.
func (k *Kinds) Resource(gvk schema.GroupVersionKind) policy.Resource {
	if b := k.builtins[gvk]; b != nil {
		return policy.Resource{GroupVersionResource: b.gvr(), Namespaced: b.namespaced, Known: true}
	}
	if c := k.customs[gvk.GroupKind()]; c != nil && slices.Contains(c.served, gvk.Version) {
		return policy.Resource{GroupVersionResource: c.gvr(gvk.Version), Namespaced: c.namespaced, Known: true}
	}
	if b := gone(gvk); b != nil {
		return policy.Resource{GroupVersionResource: b.gvr(), Namespaced: b.namespaced}
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return policy.Resource{GroupVersionResource: plural, Namespaced: true}
}
