package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/kubernetes/pkg/apis/core"
	evaluators "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"
)

// evaluator returns the server's own evaluator of a resource's usage.
func evaluator(resource schema.GroupResource) quota.Evaluator {
	switch resource {
	case schema.GroupResource{Resource: "pods"}:
		return evaluators.NewPodEvaluator(nil, clock.RealClock{}) // the clock matters to pods that are being deleted
	case schema.GroupResource{Resource: "services"}:
		return evaluators.NewServiceEvaluator(nil)
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		return evaluators.NewPersistentVolumeClaimEvaluator(nil)
	}
	alias := corev1.ResourceName("")
	if resource.Group == "" { // as in legacyObjectCountAliases; of other kinds no quota has such a name
		alias = corev1.ResourceName(resource.Resource)
	}
	return generic.NewObjectCountEvaluator(resource, nil, alias)
}

// Count returns the causes for which ResourceQuotas refuse a custom resource. Updates do not change what it uses.
func (p *Plugins) Count(r Request) []Cause { return p.quota(r, r.Object, nil) }

// quota returns the causes for which ResourceQuotas refuse an object: a container of a pod lacks a request or limit
// that a quota counts, or the object exceeds a quota, alone, with others that its controller creates, or with the
// other objects of its kind in the tree. The first is a warning if the tree has no LimitRange of the namespace, since the
// cluster may have one. old is nil on creation. It follows CheckRequest of k8s.io/apiserver/pkg/admission/plugin/resourcequota.
func (p *Plugins) quota(r Request, object, old runtime.Object) (causes []Cause) {
	pod, isPod := object.(*core.Pod)
	quotas := slices.DeleteFunc(slices.Clone(p.quotas), func(q *corev1.ResourceQuota) bool {
		return q.Namespace != r.Namespace || !isPod && !p.sure("ResourceQuota", q.Namespace, q.Name)
	})
	if len(quotas) == 0 || r.Namespace == "" {
		return nil
	}
	e := evaluator(r.Resource)
	if isPod && old != nil {
		return nil // an update does not change what a pod uses
	}
	usage, err := e.Usage(object)
	was := corev1.ResourceList{}
	if err == nil && old != nil {
		was, err = e.Usage(old)
	}
	if err != nil {
		return forbidden(field.NewPath("metadata"), err)
	}
	more := quota.RemoveZeros(quota.SubtractWithNonNegativeResult(usage, was))
	for _, q := range quotas {
		if matches, err := e.Matches(q, object); err != nil || !matches {
			continue
		}
		if err := e.Constraints(e.MatchingResources(quota.ResourceNames(q.Status.Hard)), object); isPod && err != nil {
			causes = append(causes, p.lacks(e, q, pod, err)...)
			continue
		}
		used := corev1.ResourceList{}
		if len(more) > 0 && r.Count > 0 && p.sure("ResourceQuota", q.Namespace, q.Name) {
			used = p.usage.used(e, r, q, p.cluster)
		}
		asked, count := quota.Mask(more, quota.ResourceNames(q.Status.Hard)), max(r.Count, 1)
		fits := func(n int) (bool, []corev1.ResourceName) {
			return quota.LessThanOrEqual(quota.Mask(quota.Add(used, times(usage, n)), quota.ResourceNames(asked)), q.Status.Hard)
		}
		before := sort.Search(count, func(n int) bool { ok, _ := fits(n + 1); return !ok }) // how many are created
		if before == count {
			continue
		}
		_, exceeded := fits(before + 1)
		text := fmt.Sprintf("exceeded quota: %s, requested: %s", q.Name, listed(quota.Mask(asked, exceeded)))
		if besides := quota.RemoveZeros(quota.Mask(quota.Add(quota.Add(used, was), times(usage, before)), exceeded)); len(besides) > 0 {
			text += ", used: " + listed(besides)
		}
		text += ", limited: " + listed(quota.Mask(q.Status.Hard, exceeded))
		several := before > 0
		if several {
			text += fmt.Sprintf(" (%s %d of %d)", r.Kind.Kind, before+1, count)
		}
		cause := forbidden(exceeding(r.Kind.Kind, exceeded), errors.New(text))[0]
		cause.Several = several
		if len(quota.RemoveZeros(quota.Mask(used, exceeded))) > 0 {
			cause.Assumed = "the other objects of the tree in the namespace are created first"
		}
		causes = append(causes, cause)
	}
	return causes
}

// Usage knows what the objects of clusters use of ResourceQuotas. It is safe for concurrent use.
type Usage struct {
	listed func(kind schema.GroupKind, cluster any, namespace string) []Listed
	mu     sync.Mutex // guards what follows
	groups map[quotaGroup]*groupUsage
	sums   map[quotaSum]corev1.ResourceList
}

// NewUsage returns the Usage of the objects that listed returns: those of a kind and a namespace on a cluster. Those on the
// cluster nil are on each.
func NewUsage(listed func(kind schema.GroupKind, cluster any, namespace string) []Listed) *Usage {
	return &Usage{listed: listed, groups: make(map[quotaGroup]*groupUsage), sums: make(map[quotaSum]corev1.ResourceList)}
}

type quotaGroup struct {
	kind      schema.GroupKind
	cluster   any
	namespace string
}

// A quotaSum is what the objects of a group use together of a quota.
type quotaSum struct {
	quotaGroup
	of *corev1.ResourceQuota
}

// A groupUsage has the objects of a group, each with what it uses of any quota.
type groupUsage struct {
	all  []usedBy
	find map[any]*usedBy // by source and by name
}

type usedBy struct {
	Listed
	usage corev1.ResourceList // of all Count
}

func (u *Usage) group(e quota.Evaluator, at quotaGroup) *groupUsage {
	g := u.groups[at]
	if g != nil {
		return g
	}
	g = &groupUsage{find: make(map[any]*usedBy)}
	for _, o := range u.listed(at.kind, at.cluster, at.namespace) {
		if usage, err := e.Usage(o.Object); err == nil {
			g.all = append(g.all, usedBy{o, times(usage, o.Count)})
		}
	}
	for i := range g.all {
		x := &g.all[i]
		if g.find[x.Source] = x; x.Name != "" {
			g.find[x.Name] = x
		}
	}
	u.groups[at] = g
	return g
}

// used returns how much the other objects of the request's kind use of a quota. If an object of the cluster has the name of
// an object that is on each cluster, only the former counts.
func (u *Usage) used(e quota.Evaluator, r Request, q *corev1.ResourceQuota, cluster any) corev1.ResourceList {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := quotaGroup{r.Kind.GroupKind(), cluster, q.Namespace}
	here := u.group(e, at)
	there := &groupUsage{}
	if at.cluster = nil; cluster != nil {
		there = u.group(e, at)
	}
	of := func(x *usedBy) corev1.ResourceList {
		if x == nil {
			return nil
		}
		if matches, err := e.Matches(q, x.Object); err != nil || !matches {
			return nil
		}
		return x.usage
	}
	sum := quotaSum{quotaGroup{at.kind, cluster, at.namespace}, q}
	total, known := u.sums[sum]
	if !known {
		total = corev1.ResourceList{}
		for i := range here.all {
			total = quota.Add(total, of(&here.all[i]))
		}
		for i := range there.all {
			if x := &there.all[i]; here.find[x.Name] == nil {
				total = quota.Add(total, of(x))
			}
		}
		u.sums[sum] = total
	}
	for _, key := range []any{r.Source, r.Name} { // the base's object is another one of the same name
		for _, g := range []*groupUsage{here, there} {
			if own := g.find[key]; own != nil && key != "" {
				return quota.Subtract(total, of(own))
			}
		}
	}
	return total
}

// exceeding returns the field that makes an object exceed a quota of resources.
func exceeding(kind string, resources []corev1.ResourceName) *field.Path {
	of := func(text string) bool {
		return slices.ContainsFunc(resources, func(r corev1.ResourceName) bool { return strings.Contains(string(r), text) })
	}
	switch {
	case kind == "Pod":
		return field.NewPath("spec", "containers")
	case kind == "PersistentVolumeClaim" && of("requests.storage"):
		return storageRequest
	case kind == "Service" && of("services."):
		return field.NewPath("spec", "type")
	}
	return field.NewPath("metadata", "name")
}

// lacks returns the cause for which a pod's container has to name a request or limit, at the first such container.
func (p *Plugins) lacks(e quota.Evaluator, q *corev1.ResourceQuota, pod *core.Pod, err error) []Cause {
	required, first := e.MatchingResources(quota.ResourceNames(q.Status.Hard)), 0
	for i := range pod.Spec.Containers {
		alone := &core.Pod{Spec: core.PodSpec{Containers: pod.Spec.Containers[i : i+1]}}
		if e.Constraints(required, alone) != nil {
			first = i
			break
		}
	}
	causes := forbidden(field.NewPath("spec", "containers").Index(first).Child("resources"), fmt.Errorf("failed quota: %s: %w", q.Name, err))
	defaults := slices.ContainsFunc(p.limits, func(l *corev1.LimitRange) bool { return l.Namespace == q.Namespace }) // they are set by now
	if !defaults && !p.complete(schema.GroupKind{Kind: "LimitRange"}) {
		causes[0].Warns, causes[0].Assumed = true, "no LimitRange of the cluster sets defaults in the namespace"
	}
	return causes
}

// times returns n times the amounts.
func times(amounts corev1.ResourceList, n int) corev1.ResourceList {
	all := make(corev1.ResourceList, len(amounts))
	for name, amount := range amounts {
		amount = amount.DeepCopy()
		amount.Mul(int64(n))
		all[name] = amount
	}
	return all
}

func listed(amounts corev1.ResourceList) string {
	var all []string
	for name, amount := range amounts {
		all = append(all, fmt.Sprintf("%s=%s", name, amount.String()))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
