package kindcheck

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A workload has the fields that Deployments, ReplicaSets, DaemonSets and StatefulSets
// share.
type workload struct {
	kind     string // as the server calls it in errors about deadlines
	empty    string // in errors about empty selectors
	invalid  string // in errors about invalid selectors
	needed   bool   // the selector is required, and is also an error as a whole if invalid
	selector *metav1.LabelSelector
	template *corev1.PodTemplateSpec
}

func (c *check) workload(w workload, p *Spot) {
	at := p.In("selector")
	faults := len(c.faults)
	switch {
	case w.selector != nil:
		c.selector(w.selector, at)
		if w.needed && len(c.faults) > faults && unusable(w.selector) {
			c.invalid(at, w.selector, w.invalid)
			return
		}
		if len(w.selector.MatchLabels)+len(w.selector.MatchExpressions) == 0 {
			c.invalid(at, w.selector, "empty selector is invalid for "+w.empty)
		}
	case w.needed:
		c.required(at, "")
	}
	labels := p.In("template", "metadata", "labels")
	// A nil selector selects nothing, and an invalid one is not tried.
	if w.selector == nil || len(c.faults) == faults && !matches(w.selector, w.template.Labels) {
		c.invalid(labels, w.template.Labels, mismatch).also(at)
	}
	c.template(w.template, p.In("template"))
	spec := p.In("template", "spec")
	if w.template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		oneOf(c, spec.In("restartPolicy"), w.template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	}
	if w.template.Spec.ActiveDeadlineSeconds != nil {
		c.forbidden(spec.In("activeDeadlineSeconds"), "activeDeadlineSeconds in "+w.kind+" is not Supported")
	}
}

// unusable reports whether a selector can't be converted, in which case the server
// does not validate the template.
func unusable(s *metav1.LabelSelector) bool {
	_, err := metav1.LabelSelectorAsSelector(s)
	return err != nil
}

const mismatch = "`selector` does not match template `labels`"

func (c *check) deployment(s *appsv1.DeploymentSpec, p *Spot) {
	notNegativeAt(c, p, "replicas", s.Replicas)
	c.workload(workload{"ReplicaSet", "deployment", "invalid label selector", true, s.Selector, &s.Template}, p)
	c.deploymentStrategy(&s.Strategy, p.In("strategy"))
	c.notNegative(p, "minReadySeconds", int64(s.MinReadySeconds))
	notNegativeAt(c, p, "revisionHistoryLimit", s.RevisionHistoryLimit)
	notNegativeAt(c, p, "progressDeadlineSeconds", s.ProgressDeadlineSeconds)
	if d := s.ProgressDeadlineSeconds; d != nil && *d <= s.MinReadySeconds {
		c.invalid(p.In("progressDeadlineSeconds"), d, "must be greater than minReadySeconds").also(p.In("minReadySeconds"))
	}
}

func (c *check) deploymentStrategy(s *appsv1.DeploymentStrategy, p *Spot) {
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			c.forbidden(p.In("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		if r := s.RollingUpdate; r != nil && r.MaxUnavailable != nil && r.MaxSurge != nil {
			c.rollingUpdate(*r.MaxUnavailable, *r.MaxSurge, p.In("rollingUpdate"))
		}
	default:
		c.strategyType(string(s.Type), p, "Recreate", "RollingUpdate")
	}
}

// strategyType validates a strategy's type. The server's error quotes the whole
// strategy.
func (c *check) strategyType(value string, p *Spot, valid ...string) {
	c.unsupported(p, `{"Type":`+strconv.Quote(value)+`,"RollingUpdate":null}`, valid...)
	c.faults[len(c.faults)-1].at(p.In("type"))
}

func (c *check) rollingUpdate(maxUnavailable, maxSurge intstr.IntOrString, p *Spot) {
	c.intOrPercent(maxUnavailable, p.In("maxUnavailable"))
	c.intOrPercent(maxSurge, p.In("maxSurge"))
	if numberOf(maxUnavailable) == 0 && numberOf(maxSurge) == 0 {
		c.invalid(p.In("maxUnavailable"), maxUnavailable, "may not be 0 when `maxSurge` is 0").also(p.In("maxSurge"))
	}
	c.atMost100(maxUnavailable, p.In("maxUnavailable"))
}

// intOrPercent requires a non-negative number or percentage
// (ValidatePositiveIntOrPercent).
func (c *check) intOrPercent(v intstr.IntOrString, p *Spot) {
	if v.Type == intstr.String {
		c.invalids(p, v, validation.IsValidPercent(v.StrVal))
	} else if v.IntVal < 0 {
		c.invalid(p, int64(v.IntVal), notNegative)
	}
}

func percent(v intstr.IntOrString) (int, bool) {
	if v.Type != intstr.String || len(validation.IsValidPercent(v.StrVal)) > 0 {
		return 0, false
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
	return n, true
}

func numberOf(v intstr.IntOrString) int {
	if n, ok := percent(v); ok {
		return n
	}
	return v.IntValue()
}

func (c *check) atMost100(v intstr.IntOrString, p *Spot) {
	if n, ok := percent(v); ok && n > 100 {
		c.invalid(p, v, "must not be greater than 100%")
	}
}

func (c *check) replicaSet(s *appsv1.ReplicaSetSpec, p *Spot) {
	notNegativeAt(c, p, "replicas", s.Replicas)
	c.notNegative(p, "minReadySeconds", int64(s.MinReadySeconds))
	c.workload(workload{"ReplicaSet", "deployment", "invalid label selector", true, s.Selector, &s.Template}, p)
}

func (c *check) daemonSet(s *appsv1.DaemonSetSpec, p *Spot) {
	c.workload(workload{"DaemonSet", "daemonset", "", false, s.Selector, &s.Template}, p)
	c.notNegative(p, "minReadySeconds", int64(s.MinReadySeconds))
	notNegativeAt(c, p, "revisionHistoryLimit", s.RevisionHistoryLimit)
	u, at := &s.UpdateStrategy, p.In("updateStrategy")
	switch u.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
	case appsv1.RollingUpdateDaemonSetStrategyType:
		if u.RollingUpdate != nil {
			c.daemonRollingUpdate(u.RollingUpdate, at.In("rollingUpdate"))
		}
	default:
		c.strategyType(string(u.Type), at, "RollingUpdate", "OnDelete")
	}
}

func (c *check) daemonRollingUpdate(r *appsv1.RollingUpdateDaemonSet, p *Spot) {
	if r.MaxUnavailable == nil || r.MaxSurge == nil {
		return
	}
	unavailable, surge := p.In("maxUnavailable"), p.In("maxSurge")
	c.intOrPercent(*r.MaxUnavailable, unavailable)
	c.intOrPercent(*r.MaxSurge, surge)
	c.atMost100(*r.MaxUnavailable, unavailable)
	c.atMost100(*r.MaxSurge, surge)
	u, s := numberOf(*r.MaxUnavailable), numberOf(*r.MaxSurge)
	switch {
	case u != 0 && s != 0:
		c.invalid(surge, *r.MaxSurge, "may not be set when maxUnavailable is non-zero").also(unavailable)
	case u == 0 && s == 0:
		c.required(unavailable, "cannot be 0 when maxSurge is 0").also(surge)
	}
}

func (c *check) statefulSet(s *appsv1.StatefulSetSpec, p *Spot, create bool) {
	if s.PodManagementPolicy != appsv1.OrderedReadyPodManagement && s.PodManagementPolicy != appsv1.ParallelPodManagement {
		c.invalid(p.In("podManagementPolicy"), s.PodManagementPolicy, "must be 'OrderedReady' or 'Parallel'")
	}
	c.statefulStrategy(&s.UpdateStrategy, p.In("updateStrategy"))
	for i := range s.VolumeClaimTemplates {
		if !create {
			break // they can't have changed
		}
		c.claim(&s.VolumeClaimTemplates[i].Spec, p.In("volumeClaimTemplates", i, "spec"))
	}
	notNegativeAt(c, p, "replicas", s.Replicas)
	c.notNegative(p, "minReadySeconds", int64(s.MinReadySeconds))
	if s.ServiceName != "" && create && c.release >= serviceNames {
		c.invalids(p.In("serviceName"), s.ServiceName, dnsLabel(s.ServiceName))
	}
	if r := s.PersistentVolumeClaimRetentionPolicy; r != nil {
		at := p.In("persistentVolumeClaimRetentionPolicy")
		oneOf(c, at.In("whenDeleted"), r.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
		oneOf(c, at.In("whenScaled"), r.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
	}
	template := s.Template
	template.Spec.Subdomain, template.Spec.Hostname = "", "" // which the controller sets
	volumes, added := withClaims(template.Spec.Volumes, s.VolumeClaimTemplates)
	template.Spec.Volumes = volumes
	before := len(c.faults)
	c.workload(workload{"StatefulSet", "statefulset", "", true, s.Selector, &template}, p)
	for i, from := range added {
		name := p.In("template", "spec", "volumes", len(s.Template.Spec.Volumes)+i, "name").Pointer()
		for _, f := range c.faults[before:] {
			if f.Fields[0] == name {
				f.at(p.In("volumeClaimTemplates", from, "metadata", "name"))
			}
		}
	}
}

// serviceNames is the release since which serviceName has to be a label.
const serviceNames release = 33

// withClaims adds volumes for the claim templates, replacing those of the same name.
// added are the templates whose volumes are new.
func withClaims(volumes []corev1.Volume, templates []corev1.PersistentVolumeClaim) (all []corev1.Volume, added []int) {
	claim := func(name string) corev1.Volume {
		source := corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &source}}
	}
	all = slices.Clone(volumes)
	seen := map[string]bool{}
	for i := range templates {
		name := templates[i].Name
		at := slices.IndexFunc(all, func(v corev1.Volume) bool { return v.Name == name })
		switch {
		case seen[name]:
		case at >= 0:
			all[at] = claim(name)
		default:
			all, added = append(all, claim(name)), append(added, i)
		}
		seen[name] = true
	}
	return all, added
}

func (c *check) statefulStrategy(u *appsv1.StatefulSetUpdateStrategy, p *Spot) {
	switch u.Type {
	case appsv1.OnDeleteStatefulSetStrategyType:
		if u.RollingUpdate != nil {
			c.invalid(p.In("rollingUpdate"), u.RollingUpdate, "only allowed for updateStrategy 'RollingUpdate'")
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if r := u.RollingUpdate; r != nil {
			at := p.In("rollingUpdate")
			notNegativeAt(c, at, "partition", r.Partition)
		}
	default:
		c.invalid(p, u, fmt.Sprintf("must be '%s' or '%s'", appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType)).at(p.In("type"))
	}
}

func (c *check) replicationController(s *corev1.ReplicationControllerSpec, p *Spot) {
	c.notNegative(p, "minReadySeconds", int64(s.MinReadySeconds))
	if len(s.Selector) == 0 {
		c.required(p.In("selector"), "")
	}
	notNegativeAt(c, p, "replicas", s.Replicas)
	if s.Template == nil {
		c.required(p.In("template"), "")
		return
	}
	if !matches(&metav1.LabelSelector{MatchLabels: s.Selector}, s.Template.Labels) {
		c.invalid(p.In("template", "metadata", "labels"), s.Template.Labels, mismatch).also(p.In("selector"))
	}
	c.template(s.Template, p.In("template"))
	oneOf(c, p.In("template", "spec", "restartPolicy"), s.Template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
}
