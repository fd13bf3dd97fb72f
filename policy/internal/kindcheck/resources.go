package kindcheck

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fielderr "k8s.io/apimachinery/pkg/util/validation/field"
)

// unsupported adds a fault for a value, as JSON, that is not one of the valid ones.
func (c *check) unsupported(p *Spot, value string, valid ...string) {
	c.add(p, fielderr.NotSupported(nil, json.RawMessage(value), valid))
}

func (c *checker) resources(r *corev1.ResourceRequirements, p *Spot) {
	c.resourceList(r.Limits, p.In("limits"), containerResource)
	c.resourceList(r.Requests, p.In("requests"), containerResource)
	c.requestsWithinLimits(r, p)
	for i, claim := range r.Claims {
		at := p.In("claims", i)
		switch {
		case claim.Name == "":
			c.required(at, "")
		case !slices.Contains(c.claims, claim.Name):
			f := c.notFound(at, claim.Name)
			f.Err.Detail = "must be one of the names in pod.spec.resourceClaims"
			if len(c.claims) == 0 {
				f.Err.Detail += " which is empty"
			} else {
				f.Err.Detail += ": " + strings.Join(slices.Sorted(slices.Values(c.claims)), ", ")
			}
		}
	}
}

// requestsWithinLimits validates that no request exceeds its limit. The server's path
// is that of the requests.
func (c *checker) requestsWithinLimits(r *corev1.ResourceRequirements, p *Spot) {
	requests, compute, huge := p.In("requests"), false, false
	for name := range r.Limits {
		compute = compute || name == corev1.ResourceCPU || name == corev1.ResourceMemory
		huge = huge || hugePages(name)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		compute = compute || name == corev1.ResourceCPU || name == corev1.ResourceMemory
		huge = huge || hugePages(name)
		request := r.Requests[name]
		limit, ok := r.Limits[name]
		at := requests.In(mapKey(name))
		switch {
		case !ok && !overcommits(name):
			c.required(p.In("limits"), "Limit must be set for non overcommitable resources").at(p.In("limits", mapKey(name)))
		case !ok:
		case !overcommits(name) && request.Cmp(limit) != 0:
			c.invalid(requests, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())).at(at).also(p.In("limits", mapKey(name)))
		case request.Cmp(limit) > 0:
			c.invalid(requests, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())).at(at).also(p.In("limits", mapKey(name)))
		}
	}
	if huge && !compute {
		c.forbidden(p, "HugePages require cpu or memory")
	}
}

func (c *checker) podResources(p *Spot) {
	r := c.spec.Resources
	if r == nil {
		return
	}
	c.resourceList(r.Limits, p.In("limits"), nil)
	c.resourceList(r.Requests, p.In("requests"), nil)
	c.requestsWithinLimits(r, p)
}

// resourceList validates names, if name is not nil, and quantities.
func (c *check) resourceList(list corev1.ResourceList, p *Spot, name func(corev1.ResourceName) []string) {
	for _, n := range slices.Sorted(maps.Keys(list)) {
		q := list[n]
		if name != nil {
			if texts := name(n); len(texts) > 0 {
				c.invalids(p.In(mapKey(n)), n, texts)
			}
		}
		c.quantity(n, &q, p)
	}
}

func (c *check) quantity(name corev1.ResourceName, q *resource.Quantity, list *Spot) {
	if q.Sign() < 0 {
		c.invalid(list.In(mapKey(name)), q.String(), notNegative)
	}
	if (slices.Contains(countedResources, name) || extended(name)) && q.MilliValue()%1000 != 0 {
		c.invalid(list.In(mapKey(name)), *q, "must be an integer")
	}
}

// containerResource returns the errors of the name of a container's resource.
func containerResource(name corev1.ResourceName) []string {
	if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
		return nil
	}
	texts := resourceName(name)
	switch {
	case !strings.Contains(string(name), "/"):
		if name != corev1.ResourceEphemeralStorage && !hugePages(name) {
			texts = append(texts, "must be a standard resource for containers")
		}
	case !native(name) && !extended(name):
		texts = append(texts, "doesn't follow extended resource name standard")
	}
	return texts
}

func resourceName(name corev1.ResourceName) []string {
	texts := qualifiedName(string(name))
	if len(texts) == 0 && !strings.Contains(string(name), "/") && !standardResource(name) {
		return []string{"must be a standard resource type or fully qualified"}
	}
	return texts
}

// Resources by name (k8s.io/kubernetes/pkg/apis/core/helper).
var (
	countedResources = []corev1.ResourceName{
		"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
		"services.nodeports", "services.loadbalancers",
	}
	quotaResources = append([]corev1.ResourceName{
		"cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage", "requests.ephemeral-storage",
		"limits.cpu", "limits.memory", "limits.ephemeral-storage",
	}, countedResources...)
)

func standardResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceStorage || quotaResource(name)
}

func quotaResource(name corev1.ResourceName) bool {
	return slices.Contains(quotaResources, name) || hugePages(name) || strings.HasPrefix(string(name), "requests.hugepages-")
}

func hugePages(name corev1.ResourceName) bool { return strings.HasPrefix(string(name), "hugepages-") }

func native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), "kubernetes.io/")
}

func extended(name corev1.ResourceName) bool {
	return !native(name) && !strings.HasPrefix(string(name), "requests.") && len(qualifiedName("requests."+string(name))) == 0
}

func overcommits(name corev1.ResourceName) bool { return native(name) && !hugePages(name) }

// resourceQuota validates the spec of a ResourceQuota.
func (c *check) resourceQuota(s *corev1.ResourceQuotaSpec, p *Spot) {
	c.resourceList(s.Hard, p.In("hard"), func(name corev1.ResourceName) []string {
		texts := resourceName(name)
		if !strings.Contains(string(name), "/") && !quotaResource(name) {
			texts = append(texts, "must be a standard resource for quota")
		}
		return texts
	})
	if len(s.Scopes) > 0 {
		c.quotaScopes(s, p.In("scopes"))
	}
	if s.ScopeSelector != nil {
		c.scopeSelector(s, p.In("scopeSelector", "matchExpressions"))
	}
}

// volumeClassQuotas is the release since which quotas may select a volume attributes
// class.
const volumeClassQuotas release = 34

func (c *check) knownScope(s corev1.ResourceQuotaScope) bool {
	switch s {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
		corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return true
	default:
		return s == corev1.ResourceQuotaScopeVolumeAttributesClass && c.release >= volumeClassQuotas
	}
}

// scopeCovers reports whether a quota of a scope can limit a resource.
func scopeCovers(s corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	switch s {
	case corev1.ResourceQuotaScopeBestEffort:
		return name == corev1.ResourcePods
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return slices.Contains([]corev1.ResourceName{"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}, name)
	default:
		return true
	}
}

// outOfScope returns the limits of a quota that its scope does not cover.
func outOfScope(s *corev1.ResourceQuotaSpec, scope corev1.ResourceQuotaScope) []corev1.ResourceName {
	var out []corev1.ResourceName
	for _, name := range slices.Sorted(maps.Keys(s.Hard)) {
		if quotaResource(name) && !scopeCovers(scope, name) {
			out = append(out, name)
		}
	}
	return out
}

func conflicting(scopes []corev1.ResourceQuotaScope) int {
	n := 0
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			n++
		}
	}
	return n
}

func (c *check) quotaScopes(s *corev1.ResourceQuotaSpec, p *Spot) {
	for i, scope := range s.Scopes {
		if !c.knownScope(scope) {
			c.invalid(p, s.Scopes, "unsupported scope").at(p.In(i))
		}
		for _, name := range outOfScope(s, scope) {
			c.invalid(p, s.Scopes, "unsupported scope applied to resource").at(p.In(i)).also(Top.In("spec", "hard", mapKey(name)))
		}
	}
	for range conflicting(s.Scopes) {
		c.invalid(p, s.Scopes, "conflicting scopes")
	}
}

// scopeSelector validates the scopes of a quota. The server's paths leave out the index.
func (c *check) scopeSelector(s *corev1.ResourceQuotaSpec, p *Spot) {
	var scopes []corev1.ResourceQuotaScope
	for i, r := range s.ScopeSelector.MatchExpressions {
		at := p.In(i)
		scopes = append(scopes, r.ScopeName)
		if !c.knownScope(r.ScopeName) {
			c.invalid(p.In("scopeName"), r.ScopeName, "unsupported scope").at(at.In("scopeName"))
		}
		for _, name := range outOfScope(s, r.ScopeName) {
			c.invalid(p, s.ScopeSelector, "unsupported scope applied to resource").at(at.In("scopeName")).also(Top.In("spec", "hard", mapKey(name)))
		}
		if c.knownScope(r.ScopeName) && r.ScopeName != corev1.ResourceQuotaScopePriorityClass &&
			r.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass && r.Operator != corev1.ScopeSelectorOpExists {
			c.invalid(p.In("operator"), r.Operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "+
				"ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity").at(at.In("operator"))
		}
		switch values := len(r.Values); r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if values == 0 {
				c.required(p.In("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector").at(at.In("values"))
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if values > 0 {
				c.invalid(p.In("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector").at(at.In("values"))
			}
		default:
			c.invalid(p.In("operator"), r.Operator, "not a valid selector operator").at(at.In("operator"))
		}
	}
	for range conflicting(scopes) {
		c.invalid(p, s.Scopes, "conflicting scopes")
	}
}

// limitRange validates the spec of a LimitRange.
func (c *check) limitRange(s *corev1.LimitRangeSpec, p *Spot) {
	seen := map[corev1.LimitType]bool{}
	for i := range s.Limits {
		l, at := &s.Limits[i], p.In("limits", i)
		c.invalids(at.In("type"), l.Type, limitType(l.Type))
		if seen[l.Type] {
			c.duplicate(at.In("type"), l.Type)
		}
		seen[l.Type] = true
		name := resourceName
		if l.Type == corev1.LimitTypePod || l.Type == corev1.LimitTypeContainer {
			name = containerResource
		}
		c.limits(l, at, name)
	}
}

func limitType(t corev1.LimitType) []string {
	texts := qualifiedName(string(t))
	if t == corev1.LimitTypePod || t == corev1.LimitTypeContainer || t == corev1.LimitTypePersistentVolumeClaim || len(texts) > 0 || strings.Contains(string(t), "/") {
		return texts
	}
	return []string{"must be a standard limit type or fully qualified"}
}

func (c *check) limits(l *corev1.LimitRangeItem, p *Spot, name func(corev1.ResourceName) []string) {
	names := func(list corev1.ResourceList, at string) {
		for _, n := range slices.Sorted(maps.Keys(list)) {
			c.invalids(p.In(at, mapKey(n)), n, name(n))
		}
	}
	names(l.Max, "max")
	names(l.Min, "min")
	names(l.MaxLimitRequestRatio, "maxLimitRequestRatio")
	if l.Type == corev1.LimitTypePod {
		if len(l.Default) > 0 {
			c.forbidden(p.In("default"), "may not be specified when `type` is 'Pod'")
		}
		if len(l.DefaultRequest) > 0 {
			c.forbidden(p.In("defaultRequest"), "may not be specified when `type` is 'Pod'")
		}
	} else {
		names(l.Default, "default")
		names(l.DefaultRequest, "defaultRequest")
		c.limitOrder(l, p)
	}
	c.noMore(p, "min", l.Min, l.Max, func(a, b string) string { return fmt.Sprintf("min value %s is greater than max value %s", a, b) })
	if l.Type == corev1.LimitTypePersistentVolumeClaim && !has(l.Min, corev1.ResourceStorage) && !has(l.Max, corev1.ResourceStorage) {
		c.required(p.In("limits"), "either minimum or maximum storage value is required, but neither was provided").at(p)
	}
	for _, n := range slices.Sorted(maps.Keys(l.MaxLimitRequestRatio)) {
		if q := l.MaxLimitRequestRatio[n]; q.Cmp(resource.MustParse("1")) < 0 {
			c.invalid(p.In("maxLimitRequestRatio", mapKey(n)), q, fmt.Sprintf("ratio %s is less than 1", q.String()))
		}
	}
}

func has(list corev1.ResourceList, name corev1.ResourceName) bool { _, ok := list[name]; return ok }

// limitOrder requires min <= defaultRequest <= default <= max.
func (c *check) limitOrder(l *corev1.LimitRangeItem, p *Spot) {
	for _, n := range slices.Sorted(maps.Keys(l.DefaultRequest)) {
		q := l.DefaultRequest[n]
		at := p.In("defaultRequest", mapKey(n))
		if m, ok := l.Min[n]; ok && m.Cmp(q) > 0 {
			c.invalid(at, q, fmt.Sprintf("min value %s is greater than default request value %s", m.String(), q.String()))
		}
		if m, ok := l.Max[n]; ok && q.Cmp(m) > 0 {
			c.invalid(at, q, fmt.Sprintf("default request value %s is greater than max value %s", q.String(), m.String()))
		}
		if d, ok := l.Default[n]; ok && q.Cmp(d) > 0 {
			c.invalid(at, q, fmt.Sprintf("default request value %s is greater than default limit value %s", q.String(), d.String()))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(l.Default)) {
		q := l.Default[n]
		at := p.In("default", mapKey(n))
		if m, ok := l.Min[n]; ok && m.Cmp(q) > 0 {
			c.invalid(at, m, fmt.Sprintf("min value %s is greater than default value %s", m.String(), q.String()))
		}
		if m, ok := l.Max[n]; ok && q.Cmp(m) > 0 {
			c.invalid(at, m, fmt.Sprintf("default value %s is greater than max value %s", q.String(), m.String()))
		}
	}
}

// noMore requires that no value of a list exceeds its counterpart.
func (c *check) noMore(p *Spot, name string, list, bounds corev1.ResourceList, text func(a, b string) string) {
	for _, n := range slices.Sorted(maps.Keys(list)) {
		q := list[n]
		if b, ok := bounds[n]; ok && q.Cmp(b) > 0 {
			c.invalid(p.In(name, mapKey(n)), q, text(q.String(), b.String()))
		}
	}
}
