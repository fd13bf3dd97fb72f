package document

import (
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/render"
)

// check performs the validation of Kyverno's webhook and command line. It can't
// check whether the cluster serves the kinds that a policy names, and whether
// Kyverno has the permissions that the policy needs.
func check(p *Policy, opts Options, f *faults) {
	spec := field{p.Object.Object, ""}.at("spec")
	c := checker{Policy: p, faults: f, offline: opts.CLI}
	c.names()
	c.webhook(spec)
	c.processing(spec)
	c.onUpdate(spec)
	if !p.Cluster && len(p.Overrides) > 0 {
		f.add("/spec/validationFailureActionOverrides", "only a ClusterPolicy has validationFailureActionOverrides")
	}
	c.overrides(p.Overrides, "/spec/validationFailureActionOverrides")
	for _, r := range p.Rules {
		c.rule(r)
	}
	c.variables(spec)
}

// A checker checks one policy.
type checker struct {
	*Policy
	*faults
	offline bool // as the command line does
}

// maxName bounds the name of a policy.
const maxName = 63

func (c checker) names() {
	if len(c.Name) > maxName {
		c.add("/metadata/name", "the name of a policy has at most %d characters", maxName)
	}
	if c.Object.GetAnnotations()[autogenAnnotation] == "all" {
		c.add(render.Pointer("metadata", "annotations", autogenAnnotation), "all is not a kind: leave the annotation out to have rules for every kind")
	}
	seen := make(map[string]bool)
	for _, r := range c.Rules {
		if seen[r.Name] {
			c.add(r.Pointer+"/name", "another rule is named %q", r.Name)
		}
		seen[r.Name] = true
	}
}

// webhook refuses a setting given both at its current and its former place, and
// timeouts that the API server does not allow.
func (c checker) webhook(spec field) {
	config := spec.at("webhookConfiguration")
	old, now := spec.at("webhookTimeoutSeconds"), config.at("timeoutSeconds")
	for _, x := range []field{old, now} {
		if n, ok := wholeNumber(x.value); ok && (n < 1 || n > 30) {
			c.add(x.pointer, "a timeout is from 1 to 30 seconds")
		}
	}
	if old.isSet() && now.isSet() {
		c.add(old.pointer, "webhookTimeoutSeconds is also given as webhookConfiguration.timeoutSeconds: leave this one out")
	}
	if spec.at("failurePolicy").isSet() && config.at("failurePolicy").isSet() {
		c.add("/spec/failurePolicy", "failurePolicy is also set in webhookConfiguration: remove this one")
	}
}

func wholeNumber(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	}
	return 0, false
}

func (c checker) processing(spec field) {
	if c.Admission {
		return
	}
	at := spec.at("admission").pointer
	if !c.Background {
		c.add(at, "a policy is for admission, for background scans, or for both")
	}
	for _, r := range c.Rules {
		if r.Mutate != nil || r.Generate != nil || len(r.VerifyImages) > 0 {
			c.add(at, "only a policy that validates goes without admission, and rule %s does not", r.Name)
		}
	}
}

// onUpdate checks the settings that apply when the policy itself changes.
func (c checker) onUpdate(spec field) {
	if old := spec.at("generateExistingOnPolicyUpdate"); old.isSet() {
		c.add(old.pointer, "generateExistingOnPolicyUpdate was removed: use generateExisting of the rule")
	}
	for _, r := range c.Rules {
		if r.Mutate == nil || !c.updatesExisting(r, spec) || len(r.Mutate.Targets) > 0 {
			continue
		}
		c.add(updateFlag(r, spec).pointer, "mutateExistingOnPolicyUpdate needs the targets of rule %s", r.Name)
	}
}

// updatesExisting returns the rule's setting, or else the policy's.
func (c checker) updatesExisting(r *Rule, spec field) bool {
	return updateFlag(r, spec).asFlag("")
}

// updateFlag returns the rule's mutateExistingOnPolicyUpdate, else the policy's.
func updateFlag(r *Rule, spec field) field {
	const name = "mutateExistingOnPolicyUpdate"
	if own := (field{r.Source, r.Pointer}).at("mutate", name); own.isSet() {
		return own
	}
	return spec.at(name)
}

// maxOverlaps bounds the namespaces of overrides that are compared as wildcards.
// Beyond it only equal ones are found.
const maxOverlaps = 1_000

// overrides refuses two overrides that give one namespace different actions.
func (c checker) overrides(all []ActionOverride, pointer string) {
	if !c.Cluster {
		return
	}
	actions := make(map[string]string)
	var earlier []string
	for i, o := range all {
		for _, ns := range o.Namespaces {
			other, conflict := ns, actions[ns] != "" && actions[ns] != o.Action
			for j := 0; j < len(earlier) && !conflict; j++ {
				other = earlier[j]
				conflict = actions[other] != o.Action && overlap(ns, other)
			}
			if conflict {
				c.add(pointer+render.Pointer(i, "namespaces"), "%s and %s are given different actions", ns, other)
			}
			if actions[ns] == "" && len(earlier) < maxOverlaps {
				earlier = append(earlier, ns)
			}
			actions[ns] = o.Action
		}
	}
}

func overlap(a, b string) bool { return a == b || pattern.Wildcard(a, b) || pattern.Wildcard(b, a) }

// isNamespaced reports whether the policy is one of a namespace.
func (c checker) isNamespaced() bool { return !c.Cluster }

// isClusterKind reports whether a kind of an apiVersion is a built-in cluster-scoped
// one. Only the cluster knows other kinds.
func isClusterKind(apiVersion, kind string) bool {
	return builtIn(apiVersion) && slices.Contains(clusterKinds, kind)
}

func isNamespacedKind(apiVersion, kind string) bool {
	return builtIn(apiVersion) && slices.Contains(namespacedKinds, kind)
}

// builtIn reports whether a group belongs to Kubernetes itself.
func builtIn(apiVersion string) bool {
	group, _, grouped := strings.Cut(apiVersion, "/")
	return !grouped || !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// clusterKinds are the built-in cluster-scoped kinds.
var clusterKinds = strings.Fields(`
	APIService CertificateSigningRequest ClusterRole ClusterRoleBinding ClusterTrustBundle ComponentStatus CSIDriver CSINode
	CustomResourceDefinition DeviceClass FlowSchema IngressClass IPAddress MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
	MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass PriorityLevelConfiguration RuntimeClass
	ServiceCIDR StorageClass ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
	VolumeAttachment VolumeAttributesClass`)

// namespacedKinds are the built-in namespaced kinds.
var namespacedKinds = strings.Fields(`
	ConfigMap ControllerRevision CronJob DaemonSet Deployment Endpoints EndpointSlice HorizontalPodAutoscaler Ingress Job Lease
	LimitRange NetworkPolicy PersistentVolumeClaim Pod PodDisruptionBudget PodTemplate ReplicaSet ReplicationController
	ResourceQuota Role RoleBinding Secret Service ServiceAccount StatefulSet`)
