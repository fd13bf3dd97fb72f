package kindcheck

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// relaxedEnvNames is the release since which names of environment variables
// may be almost anything (RelaxedEnvironmentVariableValidation), and envFiles
// the one since which they may come from files.
const (
	relaxedEnvNames release = 32
	envFiles        release = 35
)

func (c *checker) env(list []corev1.EnvVar, p *Spot) {
	for i := range list {
		v := &list[i]
		if v.Name == "" {
			c.required(p.In(i, "name"), "")
		} else if !plainVariable(v.Name) {
			c.invalids(p.In(i, "name"), v.Name, c.variable(v.Name))
		}
		if v.ValueFrom != nil {
			c.valueFrom(v, p.In(i, "valueFrom"))
		}
	}
}

// variable returns the errors of the name of an environment variable.
func (c *checker) variable(name string) []string {
	if c.release >= relaxedEnvNames {
		return validation.IsRelaxedEnvVarName(name)
	}
	return validation.IsEnvVarName(name)
}

// plainVariable reports whether every release accepts a name.
func plainVariable(s string) bool {
	for i := range len(s) {
		b := s[i]
		if (b < 'A' || b > 'Z') && b != '_' && (i == 0 || b < '0' || b > '9') {
			return false
		}
	}
	return true
}

func (c *checker) valueFrom(v *corev1.EnvVar, p *Spot) {
	from, sources := v.ValueFrom, 0
	if r := from.FieldRef; r != nil {
		sources++
		c.fieldRef(r, p.In("fieldRef"), envFields)
	}
	if r := from.ResourceFieldRef; r != nil {
		sources++
		c.resourceFieldRef(r, p.In("resourceFieldRef"), false)
	}
	if r := from.ConfigMapKeyRef; r != nil {
		sources++
		c.keyRef(r.Name, r.Key, p.In("configMapKeyRef"))
	}
	if r := from.SecretKeyRef; r != nil {
		sources++
		c.keyRef(r.Name, r.Key, p.In("secretKeyRef"))
	}
	if r := from.FileKeyRef; r != nil {
		sources++
		if c.release >= envFiles {
			c.fileKeyRef(r, p.In("fileKeyRef"))
		}
	}
	switch {
	case sources == 0 && c.release >= envFiles:
		c.invalid(p, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case sources == 0:
		c.invalid(p, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`")
	case v.Value != "":
		c.invalid(p, "", "may not be specified when `value` is not empty")
	case sources > 1:
		c.invalid(p, "", "may not have more than one field specified at a time")
	}
}

// fileKeyRef validates a variable that comes from a file, which has to be in an emptyDir.
func (c *checker) fileKeyRef(r *corev1.FileKeySelector, p *Spot) {
	if r.Key == "" {
		c.required(p.In("key"), "")
	} else {
		c.invalids(p.In("key"), r.Key, validation.IsRelaxedEnvVarName(r.Key))
	}
	volume := p.In("volumeName")
	if r.VolumeName == "" {
		c.required(volume, "")
	} else {
		c.invalids(volume, r.VolumeName, dnsLabel(r.VolumeName))
	}
	if r.Path == "" {
		c.required(p.In("path"), "")
	} else {
		c.invalids(p.In("path"), r.Path, backsteps(r.Path))
	}
	at := slices.IndexFunc(c.spec.Volumes, func(v corev1.Volume) bool { return v.Name == r.VolumeName })
	if at < 0 {
		c.notFound(volume, r.VolumeName)
	} else if c.spec.Volumes[at].EmptyDir == nil {
		c.invalid(volume, r.VolumeName, "referenced volume must be of type emptyDir")
	}
}

func (c *checker) keyRef(name, key string, p *Spot) {
	c.invalids(p.In("name"), name, dnsSubdomain(name))
	if key == "" {
		c.required(p.In("key"), "")
		return
	}
	c.invalids(p.In("key"), key, validation.IsConfigMapKey(key))
}

// The fields that the downward API gives to environment variables and to
// volumes, in order.
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	volumeFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
	// downwardFields lists those that the API server can convert.
	downwardFields = slices.Concat(volumeFields, envFields[3:], []string{"spec.restartPolicy", "spec.schedulerName", "status.phase"})
	resourceFields = []string{
		"limits.cpu", "limits.ephemeral-storage", "limits.memory",
		"requests.cpu", "requests.ephemeral-storage", "requests.memory",
	}
)

// fieldRef validates a field of the downward API, as written for v1.
func (c *checker) fieldRef(r *corev1.ObjectFieldSelector, p *Spot, valid []string) {
	at := p.In("fieldPath")
	if r.APIVersion == "" {
		c.required(p.In("apiVersion"), "")
		return
	}
	if r.FieldPath == "" {
		c.required(at, "")
		return
	}
	if r.APIVersion != "v1" {
		c.invalid(at, r.FieldPath, "error converting fieldPath: unsupported pod version: "+r.APIVersion)
		return
	}
	path, key, ok := subscript(r.FieldPath)
	switch {
	case ok && path == "metadata.annotations":
		for _, text := range qualifiedName(strings.ToLower(key)) {
			c.invalid(p, strings.ToLower(key), text).at(at)
		}
	case ok && path == "metadata.labels":
		for _, text := range qualifiedName(key) {
			c.invalid(p, key, text).at(at)
		}
	case ok:
		c.invalid(at, r.FieldPath, "error converting fieldPath: field label does not support subscript: "+r.FieldPath)
	case path == "spec.host": // the former name of spec.nodeName
	case !slices.Contains(downwardFields, path):
		c.invalid(at, r.FieldPath, "error converting fieldPath: field label not supported: "+path)
	case !slices.Contains(valid, path):
		oneOf(c.check, at, path, valid...)
	}
}

// subscript parses metadata.labels['key'].
func subscript(fieldPath string) (path, key string, ok bool) {
	rest, ok := strings.CutSuffix(fieldPath, "']")
	if !ok {
		return fieldPath, "", false
	}
	path, key, ok = strings.Cut(rest, "['")
	if !ok || path == "" {
		return fieldPath, "", false
	}
	return path, key, true
}

func (c *checker) resourceFieldRef(r *corev1.ResourceFieldSelector, p *Spot, inVolume bool) {
	huge := strings.HasPrefix(r.Resource, "requests.hugepages-") || strings.HasPrefix(r.Resource, "limits.hugepages-")
	switch {
	case inVolume && r.ContainerName == "":
		c.required(p.In("containerName"), "")
	case r.Resource == "":
		c.required(p.In("resource"), "")
	case !huge:
		oneOf(c.check, p.In("resource"), r.Resource, resourceFields...)
	}
	c.divisor(r, p.In("divisor"))
}

var memoryDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}

func (c *checker) divisor(r *corev1.ResourceFieldSelector, p *Spot) {
	if r.Divisor.IsZero() {
		return
	}
	const sizes = "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the "
	value := r.Divisor.String()
	_, resource, _ := strings.Cut(r.Resource, ".")
	switch {
	case resource == "cpu" && value != "1m" && value != "1":
		c.invalid(p, r.Resource, "only divisor's values 1m and 1 are supported with the cpu resource")
	case slices.Contains(memoryDivisors, value):
	case resource == "memory":
		c.invalid(p, r.Resource, sizes+"memory resource")
	case resource == "ephemeral-storage":
		c.invalid(p, r.Resource, sizes+"local ephemeral storage resource")
	case strings.HasPrefix(resource, "hugepages-"):
		c.invalid(p, r.Resource, sizes+"hugepages resource")
	}
}

// envFrom validates whole maps of variables. The server's paths of missing names
// leave out the index.
func (c *checker) envFrom(list []corev1.EnvFromSource, p *Spot) {
	for i := range list {
		from, at := &list[i], p.In(i)
		if from.Prefix != "" && !plainVariable(from.Prefix) {
			c.invalids(at.In("prefix"), from.Prefix, c.variable(from.Prefix))
		}
		sources := 0
		if r := from.ConfigMapRef; r != nil {
			sources++
			c.sourceName(r.Name, at.In("configMapRef", "name"))
		}
		if r := from.SecretRef; r != nil {
			sources++
			c.sourceName(r.Name, at.In("secretRef", "name"))
		}
		switch sources {
		case 0:
			c.invalid(p, "", "must specify one of: `configMapRef` or `secretRef`").at(at)
		case 2:
			c.invalid(p, "", "may not have more than one field specified at a time").at(at)
		}
	}
}

func (c *checker) sourceName(name string, p *Spot) {
	if name == "" {
		c.required(p, "")
		return
	}
	if !plainName(name) {
		c.invalids(p, name, nameIsSubdomainPrefix(name))
	}
}
