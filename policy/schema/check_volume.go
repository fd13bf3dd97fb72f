package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
)

func nameIsSubdomainPrefix(name string) []string { return apivalidation.NameIsDNSSubdomain(name, true) }

// checkVolumes validates the volumes and keeps those that are right, which
// alone may be mounted.
func (c *podCheck) checkVolumes(list []corev1.Volume, p *spot) {
	c.volumes = make(map[string]corev1.VolumeSource, len(list))
	for i := range list {
		v, at := &list[i], p.in(i)
		before := len(c.faults)
		c.source(&v.VolumeSource, at)
		if v.Name == "" {
			c.required(at.in("name"), "")
		} else {
			c.invalids(at.in("name"), v.Name, dnsLabel(v.Name))
		}
		if _, ok := c.volumes[v.Name]; ok {
			c.duplicate(at.in("name"), v.Name)
		}
		if len(c.faults) == before {
			c.volumes[v.Name] = v.VolumeSource
		}
	}
}

// source validates a volume's source: one, with what the common kinds need.
func (c *podCheck) source(s *corev1.VolumeSource, p *spot) {
	switch kinds := inOrder(sourceKinds(reflect.ValueOf(s).Elem()), "emptyDir"); len(kinds) {
	case 0:
		c.required(p, "must specify a volume type")
		return
	case 1:
	default:
		for _, kind := range kinds[1:] {
			said := kind
			switch kind {
			case "cephfs":
				said = "cephFS"
			case "downwardAPI":
				said = "downwarAPI"
			}
			c.forbidden(p.in(said), "may not specify more than 1 volume type").at(p.in(kind)).also(p.in(kinds[0]))
		}
		return
	}
	switch {
	case s.EmptyDir != nil:
		if size := s.EmptyDir.SizeLimit; size != nil && size.Sign() < 0 {
			c.forbidden(p.in("emptyDir", "sizeLimit"), "SizeLimit field must be a valid resource quantity")
		}
	case s.HostPath != nil:
		c.hostPath(s.HostPath, p.in("hostPath"))
	case s.Secret != nil:
		if s.Secret.SecretName == "" {
			c.required(p.in("secret", "secretName"), "")
		}
		c.files(s.Secret.DefaultMode, s.Secret.Items, p.in("secret"))
	case s.ConfigMap != nil:
		if s.ConfigMap.Name == "" {
			c.required(p.in("configMap", "name"), "")
		}
		c.files(s.ConfigMap.DefaultMode, s.ConfigMap.Items, p.in("configMap"))
	case s.PersistentVolumeClaim != nil:
		if s.PersistentVolumeClaim.ClaimName == "" {
			c.required(p.in("persistentVolumeClaim", "claimName"), "")
		}
	case s.NFS != nil:
		c.nfs(s.NFS, p.in("nfs"))
	case s.DownwardAPI != nil:
		c.fileMode(s.DownwardAPI.DefaultMode, p.in("downwardAPI", "defaultMode"))
		for i := range s.DownwardAPI.Items {
			c.downwardFile(&s.DownwardAPI.Items[i], p.in("downwardAPI"), p.in("downwardAPI", "items", i))
		}
	case s.Projected != nil:
		c.projected(s.Projected, p.in("projected"))
	case s.CSI != nil:
		if s.CSI.Driver == "" {
			c.required(p.in("csi", "driver"), "")
		}
	case s.Ephemeral != nil:
		if s.Ephemeral.VolumeClaimTemplate == nil {
			c.required(p.in("ephemeral", "volumeClaimTemplate"), "")
			return
		}
		c.claim(&s.Ephemeral.VolumeClaimTemplate.Spec, p.in("ephemeral", "volumeClaimTemplate", "spec"))
	}
}

// sourceKinds are the names of the sources that are set.
func sourceKinds(s reflect.Value) []string {
	var kinds []string
	for i := range s.NumField() {
		if f := s.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			name, _, _ := strings.Cut(s.Type().Field(i).Tag.Get("json"), ",")
			kinds = append(kinds, name)
		}
	}
	return kinds
}

// inOrder puts the kind first that the server looks at first.
func inOrder(kinds []string, first string) []string {
	if i := slices.Index(kinds, first); i > 0 {
		kinds = append([]string{first}, slices.Delete(kinds, i, i+1)...)
	}
	return kinds
}

func (c *check) hostPath(s *corev1.HostPathVolumeSource, p *spot) {
	if s.Path == "" {
		c.required(p.in("path"), "")
		return
	}
	c.invalids(p.in("path"), s.Path, backsteps(s.Path))
	if s.Type != nil {
		oneOf(c, p.in("type"), *s.Type, corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
			corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
	}
}

func (c *check) nfs(s *corev1.NFSVolumeSource, p *spot) {
	if s.Server == "" {
		c.required(p.in("server"), "")
	}
	if s.Path == "" {
		c.required(p.in("path"), "")
	}
	if !strings.HasPrefix(s.Path, "/") {
		c.invalid(p.in("path"), s.Path, "must be an absolute path")
	}
}

const fileModeText = "must be a number between 0 and 0777 (octal), both inclusive"

func (c *check) fileMode(mode *int32, p *spot) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		c.invalid(p, *mode, fileModeText)
	}
}

func (c *check) files(mode *int32, items []corev1.KeyToPath, p *spot) {
	c.fileMode(mode, p.in("defaultMode"))
	for i := range items {
		c.keyToPath(&items[i], p.in("items", i))
	}
}

func (c *check) keyToPath(k *corev1.KeyToPath, p *spot) {
	if k.Key == "" {
		c.required(p.in("key"), "")
	}
	if k.Path == "" {
		c.required(p.in("path"), "")
	}
	c.invalids(p.in("path"), k.Path, notReserved(k.Path))
	c.fileMode(k.Mode, p.in("mode"))
}

// downwardFile validates a file of the downward API, whose index the server's
// paths leave out.
func (c *podCheck) downwardFile(f *corev1.DownwardAPIVolumeFile, said, at *spot) {
	before := len(c.faults)
	if f.Path == "" {
		c.required(said.in("path"), "")
	}
	c.invalids(said.in("path"), f.Path, notReserved(f.Path))
	switch {
	case f.FieldRef != nil && f.ResourceFieldRef != nil:
		c.fieldRef(f.FieldRef, said.in("fieldRef"), volumeFields)
		c.invalid(said, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
	case f.FieldRef != nil:
		c.fieldRef(f.FieldRef, said.in("fieldRef"), volumeFields)
	case f.ResourceFieldRef != nil:
		c.resourceFieldRef(f.ResourceFieldRef, said.in("resourceFieldRef"), true)
	default:
		c.required(said, "one of fieldRef and resourceFieldRef is required")
	}
	if f.Mode != nil && (*f.Mode < 0 || *f.Mode > 0o777) {
		c.invalid(said.in("mode"), *f.Mode, fileModeText)
	}
	for _, fault := range c.faults[before:] {
		fault.fields[0] = at.pointer() + strings.TrimPrefix(fault.fields[0], said.pointer())
	}
}

func (c *podCheck) projected(s *corev1.ProjectedVolumeSource, p *spot) {
	c.fileMode(s.DefaultMode, p.in("defaultMode"))
	paths := map[string]bool{}
	for i := range s.Sources {
		c.projection(&s.Sources[i], p, p.in("sources", i), paths)
	}
}

func (c *podCheck) projection(s *corev1.VolumeProjection, volume, p *spot, paths map[string]bool) {
	once := func(path, value string, at *spot) {
		if path != "" && paths[path] {
			c.invalid(volume, value, "conflicting duplicate paths").at(at)
		}
		paths[path] = true
	}
	kinds := sourceKinds(reflect.ValueOf(s).Elem())
	if len(kinds) > 1 {
		c.forbidden(p, "may not specify more than 1 volume type per source")
	}
	if s.Secret != nil {
		c.projectedFiles(s.Secret.Name, s.Secret.Items, p.in("secret"), once)
	}
	if s.ConfigMap != nil {
		c.projectedFiles(s.ConfigMap.Name, s.ConfigMap.Items, p.in("configMap"), once)
	}
	if s.DownwardAPI != nil {
		for i := range s.DownwardAPI.Items {
			f, at := &s.DownwardAPI.Items[i], p.in("downwardAPI", "items", i)
			c.downwardFile(f, p.in("downwardAPI"), at)
			once(f.Path, f.Path, at.in("path"))
		}
	}
	if t := s.ServiceAccountToken; t != nil {
		c.token(t, volume, p.in("serviceAccountToken"))
	}
}

func (c *podCheck) projectedFiles(name string, items []corev1.KeyToPath, p *spot, once func(path, value string, at *spot)) {
	if name == "" {
		c.required(p.in("name"), "")
	}
	for i := range items {
		c.keyToPath(&items[i], p.in("items", i))
		once(items[i].Path, name, p.in("items", i, "path"))
	}
}

func (c *podCheck) token(t *corev1.ServiceAccountTokenProjection, volume, p *spot) {
	if s := t.ExpirationSeconds; s != nil {
		if *s < 10*60 {
			c.invalid(p.in("expirationSeconds"), *s, "may not specify a duration less than 10 minutes")
		}
		if *s > 1<<32 {
			c.invalid(p.in("expirationSeconds"), *s, "may not specify a duration larger than 2^32 seconds")
		}
	}
	if t.Path == "" {
		c.required(volume.in("path"), "").at(p.in("path"))
		return
	}
	for _, text := range notReserved(t.Path) {
		c.invalid(volume.in("path"), t.Path, text).at(p.in("path"))
	}
}

// claim validates the spec of a PersistentVolumeClaim
// (ValidatePersistentVolumeClaimSpec).
func (c *check) claim(s *corev1.PersistentVolumeClaimSpec, p *spot) {
	if len(s.AccessModes) == 0 {
		c.required(p.in("accessModes"), "at least 1 access mode is required")
	}
	c.selector(s.Selector, p.in("selector"))
	c.accessModes(s.AccessModes, p.in("accessModes"))
	said, at := p.in("resources", mapKey("storage")), p.in("resources", "requests", "storage")
	if size, ok := s.Resources.Requests[corev1.ResourceStorage]; !ok {
		c.required(said, "").at(at)
	} else if size.Sign() <= 0 {
		c.invalid(said, size.String(), mustBePositive).at(at)
	}
	if name := s.StorageClassName; name != nil && *name != "" {
		c.invalids(p.in("storageClassName"), *name, dnsSubdomain(*name))
	}
	if s.VolumeMode != nil {
		oneOf(c, p.in("volumeMode"), *s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
}

const mustBePositive = "must be greater than zero"

func (c *check) accessModes(modes []corev1.PersistentVolumeAccessMode, p *spot) {
	alone, others := false, false
	for i, m := range modes {
		before := len(c.faults)
		known := oneOf(c, p, m, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
		for _, f := range c.faults[before:] {
			f.at(p.in(i))
		}
		alone = alone || m == corev1.ReadWriteOncePod
		others = others || known && m != corev1.ReadWriteOncePod
	}
	if alone && others {
		c.forbidden(p, "may not use ReadWriteOncePod with other access modes")
	}
}

// volume validates the spec of a PersistentVolume.
func (c *check) volume(s *corev1.PersistentVolumeSpec, p *spot) {
	if len(s.AccessModes) == 0 {
		c.required(p.in("accessModes"), "")
	}
	c.accessModes(s.AccessModes, p.in("accessModes"))
	capacity := p.in("capacity")
	if len(s.Capacity) == 0 {
		c.required(capacity, "")
	}
	if _, ok := s.Capacity[corev1.ResourceStorage]; !ok || len(s.Capacity) > 1 {
		c.capacity(s.Capacity, capacity)
	}
	for _, name := range sortedKeysOf(s.Capacity) {
		if q := s.Capacity[name]; q.Sign() <= 0 {
			c.invalid(capacity.in(mapKey(name)), q.String(), mustBePositive)
		}
	}
	if s.PersistentVolumeReclaimPolicy != "" {
		oneOf(c, p.in("persistentVolumeReclaimPolicy"), s.PersistentVolumeReclaimPolicy,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	}
	kinds := inOrder(sourceKinds(reflect.ValueOf(&s.PersistentVolumeSource).Elem()), "hostPath")
	if len(kinds) == 0 {
		c.required(p, "must specify a volume type")
	}
	for _, kind := range kinds[min(1, len(kinds)):] {
		said := kind
		switch kind {
		case "cephfs":
			said = "cephFS"
		case "flexVolume", "flocker": // not told
			continue
		}
		c.forbidden(p.in(said), "may not specify more than 1 volume type").at(p.in(kind)).also(p.in(kinds[0]))
	}
	if len(kinds) == 1 {
		c.volumeSource(&s.PersistentVolumeSource, p)
	}
	if s.StorageClassName != "" {
		c.invalids(p.in("storageClassName"), s.StorageClassName, dnsSubdomain(s.StorageClassName))
	}
	if s.VolumeMode != nil {
		oneOf(c, p.in("volumeMode"), *s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
}

func (c *check) volumeSource(s *corev1.PersistentVolumeSource, p *spot) {
	switch {
	case s.HostPath != nil:
		c.hostPath(s.HostPath, p.in("hostPath"))
	case s.NFS != nil:
		c.nfs(s.NFS, p.in("nfs"))
	case s.CSI != nil:
		if s.CSI.Driver == "" {
			c.required(p.in("csi", "driver"), "")
		}
		if s.CSI.VolumeHandle == "" {
			c.required(p.in("csi", "volumeHandle"), "")
		}
	case s.Local != nil && s.Local.Path == "":
		c.required(p.in("local", "path"), "")
	}
}

func (c *check) capacity(list corev1.ResourceList, p *spot) {
	values := []string{}
	for _, name := range sortedKeysOf(list) {
		q := list[name]
		values = append(values, fmt.Sprintf("%q:%q", name, q.String()))
	}
	c.unsupported(p, "{"+strings.Join(values, ",")+"}", "storage")
}
