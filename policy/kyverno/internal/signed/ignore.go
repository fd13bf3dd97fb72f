package signed

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

var listIndex = regexp.MustCompile(`\.\d+\.`)

// anyIndex returns a key with the indices of lists replaced by *.
func anyIndex(key string) string { return listIndex.ReplaceAllString(key, ".*.") }

// An Ignore names fields that may differ, in objects that match one of the
// references, or in all.
type Ignore struct {
	Fields  []string
	Objects []Reference
}

// A Reference selects objects; each of its texts is a pattern, and "" matches all.
type Reference struct{ Group, Version, Kind, Name, Namespace string }

// Ignored is a list of fields that may differ, compiled.
type Ignored []ignored

type ignored struct {
	objects []Reference
	keys    []*regexp.Regexp // nil: a field that can't be read, which matches nothing
}

// NewIgnored compiles a list together with the fields that Kyverno always
// ignores, and the annotations of a domain.
func NewIgnored(list []Ignore, domain string) Ignored {
	var all Ignored
	for _, i := range slices.Concat(always(DefaultDomain), always(domain), defaults, list) {
		c := ignored{objects: i.Objects}
		for _, field := range i.Fields {
			if re, err := regexp.Compile(strings.ReplaceAll(field+"*", "*", ".*")); err == nil {
				c.keys = append(c.keys, re)
			}
		}
		all = append(all, c)
	}
	return all
}

// of returns a function that reports whether a key of the object is ignored. The
// expressions are not anchored: `status` ignores each key that contains it.
func (i Ignored) of(object map[string]any) func(key string) bool {
	id := identityOf(object)
	version, _ := object["apiVersion"].(string)
	version = version[strings.LastIndexByte(version, '/')+1:]
	var keys []*regexp.Regexp
	for _, ig := range i {
		if len(ig.objects) == 0 || slices.ContainsFunc(ig.objects, func(r Reference) bool {
			return matches(r.Group, id.group) && matches(r.Version, version) && matches(r.Kind, id.kind) &&
				matches(r.Name, id.name) && matches(r.Namespace, id.namespace)
		}) {
			keys = append(keys, ig.keys...)
		}
	}
	return func(key string) bool {
		return slices.ContainsFunc(keys, func(re *regexp.Regexp) bool { return re.MatchString(key) })
	}
}

// matches compares a value with a pattern: "" and * match everything, - the empty
// text, a final * any ending; commas separate alternatives.
func matches(pattern, value string) bool {
	pattern = strings.TrimSpace(pattern)
	switch {
	case pattern == "", pattern == "*", pattern == value, pattern == "-" && value == "":
		return true
	case strings.HasSuffix(pattern, "*"):
		return strings.HasPrefix(value, strings.TrimRight(pattern, "*"))
	case !strings.Contains(pattern, ","):
		return false
	}
	return slices.ContainsFunc(strings.Split(pattern, ","), func(p string) bool { return matches(p, value) })
}

func always(domain string) []Ignore {
	var fields []string
	for _, name := range []string{"message", "signature", "certificate", "bundle", "resourceBundleRef"} {
		fields = append(fields, "metadata.annotations."+domain+"/"+name)
	}
	return []Ignore{{Fields: fields}}
}

func ofKind(kind string, fields ...string) Ignore {
	return Ignore{Fields: fields, Objects: []Reference{{Kind: kind}}}
}

// defaults are the fields that k8s-manifest-sigstore and Kyverno 1.19 always ignore.
// The API server sets most of them.
var defaults = []Ignore{
	{Fields: []string{
		"metadata.namespace", "metadata.managedFields.*", "metadata.resourceVersion", "metadata.selfLink", "metadata.creationTimestamp",
		"metadata.generation", "metadata.uid", "metadata.finalizers", "metadata.annotations.namespace",
		"metadata.annotations.kubectl.kubernetes.io/last-applied-configuration",
		"metadata.annotations.control-plane.alpha.kubernetes.io/leader",
		"metadata.annotations.deprecated.daemonset.template.generation",
		"metadata.annotations.deployment.kubernetes.io/revision",
		"metadata.labels.app.kubernetes.io/instance", "status",
		"spec.containers.*.imagePullPolicy", "spec.containers.*.terminationMessagePath", "spec.containers.*.terminationMessagePolicy",
		"spec.dnsPolicy", "spec.restartPolicy", "spec.schedulerName", "spec.terminationGracePeriodSeconds",
	}},
	ofKind("Pod", "spec.volumes.*.name", "spec.volumes.*.projected.*", "spec.volumes.*.configMap.defaultMode", "spec.containers.*.volumeMounts.*",
		"spec.tolerations.*", "spec.enableServiceLinks", "spec.preemptionPolicy", "spec.priority", "spec.serviceAccount"),
	ofKind("Deployment", "spec.progressDeadlineSeconds", "spec.revisionHistoryLimit", "spec.strategy.*", "spec.template.metadata.creationTimestamp",
		"spec.containers.*.ports.*.protocol", "spec.containers.*.resources", "spec.securityContext"),
	ofKind("CustomResourceDefinition", "spec.conversion.strategy", "spec.names.listKind"),
	ofKind("Service", "spec.ports.*.nodePort", "spec.clusterIP", "spec.clusterIPs.0", "spec.sessionAffinity", "spec.type", "spec.ipFamilies.*",
		"spec.ipFamilyPolicy", "spec.internalTrafficPolicy"),
	ofKind("ClusterPolicy,Policy", "metadata.annotations.pod-policies.kyverno.io/autogen-controllers", "spec.failurePolicy", "spec.background",
		"spec.validationFailureAction"),
	ofKind("ServiceAccount", "secrets.*.name", "imagePullSecrets.*.name"),
	{Fields: []string{"spec.host"}, Objects: []Reference{{Group: "route.openshift.io", Kind: "Route"}}},
}
