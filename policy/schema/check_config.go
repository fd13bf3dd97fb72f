package schema

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (c *check) configMap(o *corev1.ConfigMap) {
	size := 0
	for _, k := range sortedKeysOf(o.Data) {
		c.invalids(top.in("data", mapKey(k)), k, configKey(k))
		if _, ok := o.BinaryData[k]; ok {
			c.invalid(top.in("data", mapKey(k)), k, "duplicate of key present in binaryData").also(top.in("binaryData", mapKey(k)))
		}
		size += len(o.Data[k])
	}
	for _, k := range sortedKeysOf(o.BinaryData) {
		c.invalids(top.in("binaryData", mapKey(k)), k, configKey(k))
		size += len(o.BinaryData[k])
	}
	if size > corev1.MaxSecretSize {
		c.tooLong(top, corev1.MaxSecretSize).at(top.in("data"))
	}
}

func configKey(k string) []string {
	if plainName(k) {
		return nil
	}
	return validation.IsConfigMapKey(k)
}

// secret validates a Secret. No fault quotes what is in one.
func (c *check) secret(o *corev1.Secret) {
	data := top.in("data")
	size := 0
	for _, k := range sortedKeysOf(o.Data) {
		c.invalids(data.in(mapKey(k)), k, configKey(k))
		size += len(o.Data[k])
	}
	if size > corev1.MaxSecretSize {
		c.tooLong(data, corev1.MaxSecretSize)
	}
	missing := func(key string) bool { _, ok := o.Data[key]; return !ok }
	switch o.Type {
	case corev1.SecretTypeServiceAccountToken:
		if o.Annotations[corev1.ServiceAccountNameKey] == "" {
			c.required(top.in("metadata", "annotations", mapKey(corev1.ServiceAccountNameKey)), "")
		}
	case corev1.SecretTypeDockercfg:
		c.jsonKey(o, corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		c.jsonKey(o, corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		if missing(corev1.BasicAuthUsernameKey) && missing(corev1.BasicAuthPasswordKey) {
			c.required(data.in(mapKey(corev1.BasicAuthUsernameKey)), "")
			c.required(data.in(mapKey(corev1.BasicAuthPasswordKey)), "")
		}
	case corev1.SecretTypeSSHAuth:
		if len(o.Data[corev1.SSHAuthPrivateKey]) == 0 {
			c.required(data.in(mapKey(corev1.SSHAuthPrivateKey)), "")
		}
	case corev1.SecretTypeTLS:
		for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
			if missing(key) {
				c.required(data.in(mapKey(key)), "")
			}
		}
	}
}

func (c *check) jsonKey(o *corev1.Secret, key string) {
	at := top.in("data", mapKey(key))
	value, ok := o.Data[key]
	if !ok {
		c.required(at, "")
		return
	}
	if err := json.Unmarshal(value, &map[string]any{}); err != nil {
		c.invalid(at, "<secret contents redacted>", err.Error())
	}
}

// System classes, and the highest value of others (pkg/apis/scheduling).
const (
	systemPrefix    = "system-"
	highestPriority = 1000000000
)

func (c *check) priorityClass(o *schedulingv1.PriorityClass) {
	if strings.HasPrefix(o.Name, systemPrefix) {
		return
	}
	if o.Value > highestPriority {
		c.forbidden(top.in("value"), "maximum allowed value of a user defined priority is 1000000000")
	}
	if o.PreemptionPolicy != nil && *o.PreemptionPolicy != "" {
		oneOf(c, top.in("preemptionPolicy"), *o.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
}

func (c *check) storageClass(o *storagev1.StorageClass) {
	if o.Provisioner == "" {
		c.required(top.in("provisioner"), "")
	} else {
		c.invalids(top.in("provisioner"), strings.ToLower(o.Provisioner), qualifiedName(strings.ToLower(o.Provisioner)))
	}
	if o.ReclaimPolicy != nil && *o.ReclaimPolicy != "" {
		oneOf(c, top.in("reclaimPolicy"), *o.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	if m := o.VolumeBindingMode; m != nil {
		oneOf(c, top.in("volumeBindingMode"), *m, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
	}
}
