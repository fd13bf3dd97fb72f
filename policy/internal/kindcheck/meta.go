package kindcheck

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	fielderr "k8s.io/apimachinery/pkg/util/validation/field"
)

// A nameFunc returns the errors of a name, or of the prefix of one.
type nameFunc = apivalidation.ValidateNameFunc

func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// anyPathSegment lists the kinds whose names must only be valid in a path: those of
// RBAC, whose names have colons, one whose metadata is not validated, and those whose
// own rules are not implemented here.
var anyPathSegment = map[schema.GroupKind]bool{
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:               true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: true,
	{Group: "policy", Kind: "PodDisruptionBudget"}:                   true,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:            true,
	{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}:       true,
	{Group: "internal.apiserver.k8s.io", Kind: "StorageVersion"}:     true,
}

// relaxedServiceNames is the release since which names of Services may begin
// with a digit (KEP-5311).
const relaxedServiceNames release = 36

// nameOf returns the rule for names of a kind.
func (c *check) nameOf(gk schema.GroupKind) nameFunc {
	switch {
	case slices.Contains([]string{"IPAddress", "CSIDriver", "CertificateSigningRequest"}, gk.Kind): // have rules of their own
		return func(string, bool) []string { return nil }
	case anyPathSegment[gk]:
		return pathSegment
	case gk == schema.GroupKind{Kind: "Service"}:
		return c.serviceName()
	case gk == schema.GroupKind{Kind: "Namespace"} || gk == schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return apivalidation.NameIsDNSLabel
	default:
		return apivalidation.NameIsDNSSubdomain
	}
}

func (c *check) serviceName() nameFunc {
	if c.release >= relaxedServiceNames {
		return apivalidation.NameIsDNSLabel
	}
	return apivalidation.NameIsDNS1035Label
}

// meta validates the metadata of an object (ValidateObjectMeta of
// k8s.io/apimachinery/pkg/api/validation). Names are validated on creation.
func (c *check) meta(m *metav1.ObjectMeta, o Object, create bool) {
	p := Top.In("metadata")
	if create {
		c.name(m, o.Kind.GroupKind(), p)
	}
	if o.Namespaced {
		c.invalids(p.In("namespace"), m.Namespace, dnsLabel(m.Namespace))
	}
	c.labels(m.Labels, p.In("labels"))
	c.annotations(m.Annotations, p.In("annotations"))
	if len(m.OwnerReferences) > 0 {
		c.owners(m.OwnerReferences, p.In("ownerReferences"))
	}
	if len(m.Finalizers) > 0 {
		c.finalizers(m.Finalizers, o.Kind.GroupKind(), p.In("finalizers"))
	}
}

// numberedOwners is the release since which faults of owners have their index.
const numberedOwners release = 37

func (c *check) owners(list []metav1.OwnerReference, p *Spot) {
	before := len(c.faults)
	c.errors(p, apivalidation.ValidateOwnerReferences(list, p.field()))
	if c.release >= numberedOwners {
		return
	}
	for _, f := range c.faults[before:] {
		name := f.Err.Field[strings.LastIndexByte(f.Err.Field, '.')+1:]
		value, _ := f.Err.BadValue.(string)
		text := "must not be empty"
		if name == "apiVersion" {
			text = "version must not be empty"
		}
		if f.Err.Type == fielderr.ErrorTypeRequired || name == "apiVersion" {
			f.Err = fielderr.Invalid(fielderr.NewPath(p.Path(), name), value, text)
		} else {
			f.Err.Field = p.Path()
		}
	}
}

const notNegative = "must be greater than or equal to 0"

func (c *check) name(m *metav1.ObjectMeta, gk schema.GroupKind, p *Spot) {
	valid := c.nameOf(gk)
	if m.GenerateName != "" && gk.Kind != "ReplicationController" && gk.Kind != "DeviceClass" { // which look at the name alone
		c.invalids(p.In("generateName"), m.GenerateName, valid(m.GenerateName, true))
	}
	switch {
	case m.Name != "":
		if !plainName(m.Name) {
			c.invalids(p.In("name"), m.Name, valid(m.Name, false))
		}
	case m.GenerateName == "" && gk.Kind != "LimitRange": // which gets one
		c.required(p.In("name"), "name or generateName is required")
	}
}

// plainName reports whether a name is valid for every kind: a letter, then letters,
// digits and inner dashes, 52 at most.
func plainName(s string) bool {
	if s == "" || len(s) > 52 || s[0] < 'a' || s[0] > 'z' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if b := s[i]; (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '-' {
			return false
		}
	}
	return true
}

// dnsLabel returns the errors of an RFC 1123 DNS label.
func dnsLabel(s string) []string {
	if plainName(s) {
		return nil
	}
	return validation.IsDNS1123Label(s)
}

func dnsSubdomain(s string) []string {
	if plainName(s) {
		return nil
	}
	return validation.IsDNS1123Subdomain(s)
}

func qualifiedName(s string) []string {
	if plainName(s) {
		return nil
	}
	return content.IsLabelKey(s)
}

func labelValue(s string) []string {
	if plainName(s) {
		return nil
	}
	return validation.IsValidLabelValue(s)
}

// labels validates a map of labels. The server's path is that of the map.
func (c *check) labels(m map[string]string, p *Spot) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		for _, text := range qualifiedName(k) {
			c.invalid(p, k, text).at(p.In(k))
		}
		for _, text := range labelValue(m[k]) {
			c.invalid(p, m[k], text).at(p.In(k))
		}
	}
}

// annotations validates the keys; decoding validates their size.
func (c *check) annotations(m map[string]string, p *Spot) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		for _, text := range qualifiedName(strings.ToLower(k)) {
			c.invalid(p, k, text).at(p.In(k))
		}
	}
}

func (c *check) finalizers(list []string, gk schema.GroupKind, p *Spot) {
	c.errors(p, apivalidation.ValidateFinalizers(list, p.field()))
	if anyPathSegment[gk] || slices.Contains([]string{"admissionregistration.k8s.io", "coordination.k8s.io", "node.k8s.io"}, gk.Group) {
		return // these leave names without a domain
	}
	standard := []string{"kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}
	for i, name := range list {
		if !strings.Contains(name, "/") && !slices.Contains(standard, name) {
			c.invalid(p.In(i), name, "name is neither a standard finalizer name nor is it fully qualified")
		}
	}
}

// selector validates a label selector that may be nil.
func (c *check) selector(s *metav1.LabelSelector, p *Spot) {
	if s == nil {
		return
	}
	c.labels(s.MatchLabels, p.In("matchLabels"))
	if len(s.MatchExpressions) > 0 {
		c.errors(p, metavalidation.ValidateLabelSelector(&metav1.LabelSelector{MatchExpressions: s.MatchExpressions},
			metavalidation.LabelSelectorValidationOptions{}, p.field()))
	}
}

// matches reports whether a valid selector matches labels.
func matches(s *metav1.LabelSelector, have map[string]string) bool {
	if len(s.MatchExpressions) == 0 {
		for k, v := range s.MatchLabels {
			if got, ok := have[k]; !ok || got != v {
				return false
			}
		}
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err != nil || selector.Matches(labels.Set(have))
}

// immutable adds a fault for a change.
func (c *check) immutable(p *Spot, now, old any) []*Fault {
	before := len(c.faults)
	for _, e := range apivalidation.ValidateImmutableField(now, old, nil) {
		c.add(p, e).immutable = true
	}
	return c.faults[before:]
}

func (c *check) notNegative(p *Spot, name string, value int64) {
	if value < 0 {
		c.invalid(p.In(name), value, notNegative)
	}
}

func notNegativeAt[T int32 | int64](c *check, p *Spot, name string, value *T) {
	if value != nil && *value < 0 {
		c.invalid(p.In(name), int64(*value), notNegative)
	}
}
