package kindcheck

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (c *check) configMap(o *corev1.ConfigMap) {
	size := 0
	for _, k := range slices.Sorted(maps.Keys(o.Data)) {
		c.invalids(Top.In("data", mapKey(k)), k, configKey(k))
		if _, ok := o.BinaryData[k]; ok {
			c.invalid(Top.In("data", mapKey(k)), k, "duplicate of key present in binaryData").also(Top.In("binaryData", mapKey(k)))
		}
		size += len(o.Data[k])
	}
	for _, k := range slices.Sorted(maps.Keys(o.BinaryData)) {
		c.invalids(Top.In("binaryData", mapKey(k)), k, configKey(k))
		size += len(o.BinaryData[k])
	}
	if size > corev1.MaxSecretSize {
		c.tooLong(Top, corev1.MaxSecretSize).at(Top.In("data"))
	}
}

func configKey(k string) []string {
	if plainName(k) {
		return nil
	}
	return validation.IsConfigMapKey(k)
}

// secret validates a Secret. No fault quotes its values.
func (c *check) secret(o *corev1.Secret) {
	data := Top.In("data")
	size := 0
	for _, k := range slices.Sorted(maps.Keys(o.Data)) {
		c.invalids(data.In(mapKey(k)), k, configKey(k))
		size += len(o.Data[k])
	}
	if size > corev1.MaxSecretSize {
		c.tooLong(data, corev1.MaxSecretSize)
	}
	missing := func(key string) bool { _, ok := o.Data[key]; return !ok }
	switch o.Type {
	case corev1.SecretTypeServiceAccountToken:
		if o.Annotations[corev1.ServiceAccountNameKey] == "" {
			c.required(Top.In("metadata", "annotations", mapKey(corev1.ServiceAccountNameKey)), "")
		}
	case corev1.SecretTypeDockercfg:
		c.jsonKey(o, corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		c.jsonKey(o, corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		if missing(corev1.BasicAuthUsernameKey) && missing(corev1.BasicAuthPasswordKey) {
			c.required(data.In(mapKey(corev1.BasicAuthUsernameKey)), "")
			c.required(data.In(mapKey(corev1.BasicAuthPasswordKey)), "")
		}
	case corev1.SecretTypeSSHAuth:
		if len(o.Data[corev1.SSHAuthPrivateKey]) == 0 {
			c.required(data.In(mapKey(corev1.SSHAuthPrivateKey)), "")
		}
	case corev1.SecretTypeTLS:
		for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
			if missing(key) {
				c.required(data.In(mapKey(key)), "")
			}
		}
	}
}

func (c *check) jsonKey(o *corev1.Secret, key string) {
	at := Top.In("data", mapKey(key))
	value, ok := o.Data[key]
	if !ok {
		c.required(at, "")
		return
	}
	if err := json.Unmarshal(value, &map[string]any{}); err != nil {
		c.invalid(at, "<secret contents redacted>", err.Error())
	}
}

// System classes, and the highest value of other classes (pkg/apis/scheduling).
const (
	systemPrefix    = "system-"
	highestPriority = 1000000000
)

func (c *check) priorityClass(o *schedulingv1.PriorityClass) {
	if strings.HasPrefix(o.Name, systemPrefix) {
		c.systemPriority(o)
	} else if o.Value > highestPriority {
		c.forbidden(Top.In("value"), "maximum allowed value of a user defined priority is 1000000000")
	}
	if o.PreemptionPolicy != nil && *o.PreemptionPolicy != "" {
		oneOf(c, Top.In("preemptionPolicy"), *o.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
}

// systemPriorities are the values of the classes that the API server makes itself.
var systemPriorities = map[string]int32{"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}

func (c *check) systemPriority(o *schedulingv1.PriorityClass) {
	value, known := systemPriorities[o.Name]
	var why string
	switch {
	case !known:
		why = o.Name + " is not a known system priority class"
	case o.Value != value:
		why = fmt.Sprintf("value of %s PriorityClass must be %d", o.Name, value)
	case o.GlobalDefault:
		why = fmt.Sprintf("globalDefault of %s PriorityClass must be false", o.Name)
	default:
		return
	}
	c.forbidden(Top.In("metadata", "name"), "priority class names with 'system-' prefix are reserved for system use only. error: "+why)
}

func (c *check) storageClass(o *storagev1.StorageClass) {
	if o.Provisioner == "" {
		c.required(Top.In("provisioner"), "")
	} else {
		c.invalids(Top.In("provisioner"), strings.ToLower(o.Provisioner), qualifiedName(strings.ToLower(o.Provisioner)))
	}
	if o.ReclaimPolicy != nil && *o.ReclaimPolicy != "" {
		oneOf(c, Top.In("reclaimPolicy"), *o.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	if m := o.VolumeBindingMode; m != nil {
		oneOf(c, Top.In("volumeBindingMode"), *m, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
	}
	for i, term := range o.AllowedTopologies {
		keys := map[string]bool{}
		for j, r := range term.MatchLabelExpressions {
			at := Top.In("allowedTopologies", i, "matchLabelExpressions", j)
			if len(r.Values) == 0 {
				c.required(at.In("values"), "")
			}
			for k, value := range r.Values {
				if slices.Contains(r.Values[:k], value) {
					c.duplicate(at.In("values", k), value)
				}
			}
			c.invalids(at.In("key"), r.Key, qualifiedName(r.Key))
			if keys[r.Key] {
				c.duplicate(at.In("key"), r.Key)
			}
			keys[r.Key] = true
		}
	}
}

// lease validates the spec of a Lease. By default the server drops its strategy and
// preferredHolder.
func (c *check) lease(s *coordinationv1.LeaseSpec, p *Spot) {
	if d := s.LeaseDurationSeconds; d != nil && *d <= 0 {
		c.invalid(p.In("leaseDurationSeconds"), *d, "must be greater than 0")
	}
	notNegativeAt(c, p, "leaseTransitions", s.LeaseTransitions)
}
