package kindcheck

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
)

func nameIsSubdomainPrefix(name string) []string { return apivalidation.NameIsDNSSubdomain(name, true) }

// checkVolumes validates the volumes and records the valid ones, which alone may be
// mounted.
func (c *checker) checkVolumes(list []corev1.Volume, p *Spot) {
	c.volumes = make(map[string]corev1.VolumeSource, len(list))
	for i := range list {
		v, at := &list[i], p.In(i)
		before := len(c.faults)
		c.source(&v.VolumeSource, at)
		if v.Name == "" {
			c.required(at.In("name"), "")
		} else {
			c.invalids(at.In("name"), v.Name, dnsLabel(v.Name))
		}
		if _, ok := c.volumes[v.Name]; ok {
			c.duplicate(at.In("name"), v.Name)
		}
		if len(c.faults) == before {
			c.volumes[v.Name] = v.VolumeSource
		}
	}
}

// source validates a volume's source: exactly one, with the fields that it needs.
func (c *checker) source(s *corev1.VolumeSource, p *Spot) {
	switch kinds := inOrder(sourceKinds(reflect.ValueOf(s).Elem()), "emptyDir"); len(kinds) {
	case 0:
		c.required(p, "must specify a volume type")
		return
	case 1:
	default:
		for _, kind := range kinds[1:] {
			name := kind
			switch kind {
			case "cephfs":
				name = "cephFS"
			case "downwardAPI":
				name = "downwarAPI"
			}
			c.forbidden(p.In(name), "may not specify more than 1 volume type").at(p.In(kind)).also(p.In(kinds[0]))
		}
		return
	}
	switch {
	case s.EmptyDir != nil:
		if size := s.EmptyDir.SizeLimit; size != nil && size.Sign() < 0 {
			c.forbidden(p.In("emptyDir", "sizeLimit"), "SizeLimit field must be a valid resource quantity")
		}
	case s.HostPath != nil:
		c.hostPath(s.HostPath, p.In("hostPath"))
	case s.Secret != nil:
		if s.Secret.SecretName == "" {
			c.required(p.In("secret", "secretName"), "")
		}
		c.files(s.Secret.DefaultMode, s.Secret.Items, p.In("secret"))
	case s.ConfigMap != nil:
		if s.ConfigMap.Name == "" {
			c.required(p.In("configMap", "name"), "")
		}
		c.files(s.ConfigMap.DefaultMode, s.ConfigMap.Items, p.In("configMap"))
	case s.PersistentVolumeClaim != nil:
		if s.PersistentVolumeClaim.ClaimName == "" {
			c.required(p.In("persistentVolumeClaim", "claimName"), "")
		}
	case s.NFS != nil:
		c.nfs(s.NFS, p.In("nfs"))
	case s.DownwardAPI != nil:
		c.fileMode(s.DownwardAPI.DefaultMode, p.In("downwardAPI", "defaultMode"))
		for i := range s.DownwardAPI.Items {
			c.downwardFile(&s.DownwardAPI.Items[i], p.In("downwardAPI"), p.In("downwardAPI", "items", i))
		}
	case s.Projected != nil:
		c.projected(s.Projected, p.In("projected"))
	case s.CSI != nil:
		c.csiDriver(s.CSI.Driver, p.In("csi", "driver"))
		if ref, at := s.CSI.NodePublishSecretRef, p.In("csi", "nodePublishSecretRef", "name"); ref != nil && ref.Name == "" {
			c.required(at, "")
		} else if ref != nil {
			for _, text := range dnsSubdomain(ref.Name) {
				c.invalid(p.In("csi", "name"), ref.Name, text).at(at) // so the server's path
			}
		}
	case s.Image != nil:
		if c.release >= imageVolumes {
			c.imageVolume(s.Image, p.In("image"))
		}
	case s.Ephemeral != nil:
		if s.Ephemeral.VolumeClaimTemplate == nil {
			c.required(p.In("ephemeral", "volumeClaimTemplate"), "")
			return
		}
		c.claim(&s.Ephemeral.VolumeClaimTemplate.Spec, p.In("ephemeral", "volumeClaimTemplate", "spec"))
	}
}

// imageVolumes is the release since which images are volumes by default (ImageVolume).
const imageVolumes release = 35

// imagesInTemplates is the release since which image volumes in templates need a
// reference, too.
const imagesInTemplates release = 37

func (c *checker) imageVolume(s *corev1.ImageVolumeSource, p *Spot) {
	if s.Reference == "" && (c.pod || c.release >= imagesInTemplates) {
		c.required(p.In("reference"), "")
	}
	oneOf(c.check, p.In("pullPolicy"), s.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
}

// csiDriver validates the name of a CSI driver.
func (c *check) csiDriver(name string, p *Spot) {
	if name == "" {
		c.required(p, "")
		return
	}
	if len(name) > 63 {
		c.tooLong(p, 63)
	}
	c.invalids(p, name, dnsSubdomain(strings.ToLower(name)))
}

// sourceKinds returns the names of the sources that are set.
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

// inOrder moves the kind to the front that the server validates first.
func inOrder(kinds []string, first string) []string {
	if i := slices.Index(kinds, first); i > 0 {
		kinds = append([]string{first}, slices.Delete(kinds, i, i+1)...)
	}
	return kinds
}

func (c *check) hostPath(s *corev1.HostPathVolumeSource, p *Spot) {
	if s.Path == "" {
		c.required(p.In("path"), "")
		return
	}
	c.invalids(p.In("path"), s.Path, backsteps(s.Path))
	if s.Type != nil {
		oneOf(c, p.In("type"), *s.Type, corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
			corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
	}
}

func (c *check) nfs(s *corev1.NFSVolumeSource, p *Spot) {
	if s.Server == "" {
		c.required(p.In("server"), "")
	}
	if s.Path == "" {
		c.required(p.In("path"), "")
	}
	if !strings.HasPrefix(s.Path, "/") {
		c.invalid(p.In("path"), s.Path, "must be an absolute path")
	}
}

const fileModeText = "must be a number between 0 and 0777 (octal), both inclusive"

func (c *check) fileMode(mode *int32, p *Spot) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		c.invalid(p, *mode, fileModeText)
	}
}

func (c *check) files(mode *int32, items []corev1.KeyToPath, p *Spot) {
	c.fileMode(mode, p.In("defaultMode"))
	for i := range items {
		c.keyToPath(&items[i], p.In("items", i))
	}
}

func (c *check) keyToPath(k *corev1.KeyToPath, p *Spot) {
	if k.Key == "" {
		c.required(p.In("key"), "")
	}
	if k.Path == "" {
		c.required(p.In("path"), "")
	}
	c.invalids(p.In("path"), k.Path, notReserved(k.Path))
	c.fileMode(k.Mode, p.In("mode"))
}

// downwardFile validates a file of the downward API at a place. reported is the place in
// the server's errors, which leave out the index.
func (c *checker) downwardFile(f *corev1.DownwardAPIVolumeFile, reported, at *Spot) {
	before := len(c.faults)
	if f.Path == "" {
		c.required(reported.In("path"), "")
	}
	c.invalids(reported.In("path"), f.Path, notReserved(f.Path))
	switch {
	case f.FieldRef != nil && f.ResourceFieldRef != nil:
		c.fieldRef(f.FieldRef, reported.In("fieldRef"), volumeFields)
		c.invalid(reported, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
	case f.FieldRef != nil:
		c.fieldRef(f.FieldRef, reported.In("fieldRef"), volumeFields)
	case f.ResourceFieldRef != nil:
		c.resourceFieldRef(f.ResourceFieldRef, reported.In("resourceFieldRef"), true)
	default:
		c.required(reported, "one of fieldRef and resourceFieldRef is required")
	}
	if f.Mode != nil && (*f.Mode < 0 || *f.Mode > 0o777) {
		c.invalid(reported.In("mode"), *f.Mode, fileModeText)
	}
	for _, fault := range c.faults[before:] {
		fault.Fields[0] = at.Pointer() + strings.TrimPrefix(fault.Fields[0], reported.Pointer())
	}
}

func (c *checker) projected(s *corev1.ProjectedVolumeSource, p *Spot) {
	c.fileMode(s.DefaultMode, p.In("defaultMode"))
	paths := map[string]bool{}
	for i := range s.Sources {
		c.projection(&s.Sources[i], p, p.In("sources", i), paths)
	}
}

// podCertificates is the release since which PodCertificateRequest is on by default.
const podCertificates release = 37

func (c *checker) projection(s *corev1.VolumeProjection, volume, p *Spot, paths map[string]bool) {
	once := func(path, value string, at *Spot) {
		if path != "" && paths[path] {
			c.invalid(volume, value, "conflicting duplicate paths").at(at)
		}
		paths[path] = true
	}
	kept := *s
	kept.ClusterTrustBundle = nil // dropped: the feature gate ClusterTrustBundleProjection is off by default
	if c.release < podCertificates {
		kept.PodCertificate = nil
	}
	if len(sourceKinds(reflect.ValueOf(kept))) > 1 {
		c.forbidden(p, "may not specify more than 1 volume type per source")
	}
	if s.Secret != nil {
		c.projectedFiles(s.Secret.Name, s.Secret.Items, p.In("secret"), once)
	}
	if s.ConfigMap != nil {
		c.projectedFiles(s.ConfigMap.Name, s.ConfigMap.Items, p.In("configMap"), once)
	}
	if s.DownwardAPI != nil {
		for i := range s.DownwardAPI.Items {
			f, at := &s.DownwardAPI.Items[i], p.In("downwardAPI", "items", i)
			c.downwardFile(f, p.In("downwardAPI"), at)
			once(f.Path, f.Path, at.In("path"))
		}
	}
	if t := s.ServiceAccountToken; t != nil {
		c.token(t, volume, p.In("serviceAccountToken"))
	}
}

func (c *checker) projectedFiles(name string, items []corev1.KeyToPath, p *Spot, once func(path, value string, at *Spot)) {
	if name == "" {
		c.required(p.In("name"), "")
	}
	for i := range items {
		c.keyToPath(&items[i], p.In("items", i))
		once(items[i].Path, name, p.In("items", i, "path"))
	}
}

func (c *checker) token(t *corev1.ServiceAccountTokenProjection, volume, p *Spot) {
	if s := t.ExpirationSeconds; s != nil {
		if *s < 10*60 {
			c.invalid(p.In("expirationSeconds"), *s, "may not specify a duration less than 10 minutes")
		}
		if *s > 1<<32 {
			c.invalid(p.In("expirationSeconds"), *s, "may not specify a duration larger than 2^32 seconds")
		}
	}
	if t.Path == "" {
		c.required(volume.In("path"), "").at(p.In("path"))
		return
	}
	for _, text := range notReserved(t.Path) {
		c.invalid(volume.In("path"), t.Path, text).at(p.In("path"))
	}
}

// claim validates the spec of a PersistentVolumeClaim
// (ValidatePersistentVolumeClaimSpec).
func (c *check) claim(s *corev1.PersistentVolumeClaimSpec, p *Spot) {
	if len(s.AccessModes) == 0 {
		c.required(p.In("accessModes"), "at least 1 access mode is required")
	}
	c.selector(s.Selector, p.In("selector"))
	c.accessModes(s.AccessModes, p.In("accessModes"))
	reported, at := p.In("resources", mapKey("storage")), p.In("resources", "requests", "storage")
	if size, ok := s.Resources.Requests[corev1.ResourceStorage]; !ok {
		c.required(reported, "").at(at)
	} else if size.Sign() <= 0 {
		c.invalid(reported, size.String(), mustBePositive).at(at)
	}
	if name := s.StorageClassName; name != nil && *name != "" {
		c.invalids(p.In("storageClassName"), *name, dnsSubdomain(*name))
	}
	if s.VolumeMode != nil {
		oneOf(c, p.In("volumeMode"), *s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	c.dataSources(s, p)
}

// dataSources validates the sources that fill a claim. The server drops a dataSource that is
// neither a claim nor a snapshot, and a dataSourceRef into another namespace.
func (c *check) dataSources(s *corev1.PersistentVolumeClaimSpec, p *Spot) {
	r := s.DataSourceRef
	other := r != nil && r.Namespace != nil && *r.Namespace != ""
	if d := s.DataSource; d != nil && !other && d.Name == "" {
		group := ""
		if d.APIGroup != nil {
			group = *d.APIGroup
		}
		if fills(group, d.Kind) {
			c.required(p.In("dataSource", "name"), "")
		}
	}
	if r != nil && !other {
		c.dataSource(r.APIGroup, r.Kind, r.Name, p.In("dataSourceRef"))
	}
}

// fills reports whether the server keeps a dataSource of the kind.
func fills(group, kind string) bool {
	return group == "" && kind == "PersistentVolumeClaim" || group == "snapshot.storage.k8s.io" && kind == "VolumeSnapshot"
}

func (c *check) dataSource(group *string, kind, name string, p *Spot) {
	if name == "" {
		c.required(p.In("name"), "")
	}
	if kind == "" {
		c.required(p.In("kind"), "")
	}
	if (group == nil || *group == "") && kind != "PersistentVolumeClaim" {
		c.invalid(p, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup").at(p.In("kind")).also(p.In("apiGroup"))
	}
	if group != nil && *group != "" {
		c.invalids(p.In("apiGroup"), *group, dnsSubdomain(*group))
	}
}

const mustBePositive = "must be greater than zero"

func (c *check) accessModes(modes []corev1.PersistentVolumeAccessMode, p *Spot) {
	alone, others := false, false
	for i, m := range modes {
		before := len(c.faults)
		known := oneOf(c, p, m, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
		for _, f := range c.faults[before:] {
			f.at(p.In(i))
		}
		alone = alone || m == corev1.ReadWriteOncePod
		others = others || known && m != corev1.ReadWriteOncePod
	}
	if alone && others {
		c.forbidden(p, "may not use ReadWriteOncePod with other access modes")
	}
}

// volume validates the spec of a PersistentVolume.
func (c *check) volume(s *corev1.PersistentVolumeSpec, p *Spot) {
	if len(s.AccessModes) == 0 {
		c.required(p.In("accessModes"), "")
	}
	c.accessModes(s.AccessModes, p.In("accessModes"))
	capacity := p.In("capacity")
	if len(s.Capacity) == 0 {
		c.required(capacity, "")
	}
	if _, ok := s.Capacity[corev1.ResourceStorage]; !ok || len(s.Capacity) > 1 {
		c.capacity(s.Capacity, capacity)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Capacity)) {
		if q := s.Capacity[name]; q.Sign() <= 0 {
			c.invalid(capacity.In(mapKey(name)), q.String(), mustBePositive)
		}
	}
	if s.PersistentVolumeReclaimPolicy != "" {
		oneOf(c, p.In("persistentVolumeReclaimPolicy"), s.PersistentVolumeReclaimPolicy,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	}
	kinds := inOrder(sourceKinds(reflect.ValueOf(&s.PersistentVolumeSource).Elem()), "hostPath")
	if len(kinds) == 0 {
		c.required(p, "must specify a volume type")
	}
	for _, kind := range kinds[min(1, len(kinds)):] {
		name := kind
		switch kind {
		case "cephfs":
			name = "cephFS"
		case "flexVolume", "flocker": // the server reports no fault
			continue
		}
		c.forbidden(p.In(name), "may not specify more than 1 volume type").at(p.In(kind)).also(p.In(kinds[0]))
	}
	if len(kinds) == 1 {
		c.volumeSource(&s.PersistentVolumeSource, p)
	}
	affinity := p.In("nodeAffinity")
	switch a := s.NodeAffinity; {
	case a == nil && len(kinds) == 1 && s.Local != nil:
		c.required(affinity, "Local volume requires node affinity")
	case a == nil:
	case a.Required == nil:
		c.required(affinity.In("required"), "must specify required node constraints")
	default:
		(&checker{check: c}).nodeSelector(a.Required, affinity.In("required"))
	}
	if s.HostPath != nil && path.Clean(s.HostPath.Path) == "/" && s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		c.forbidden(p.In("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'")
	}
	if s.StorageClassName != "" {
		c.invalids(p.In("storageClassName"), s.StorageClassName, dnsSubdomain(s.StorageClassName))
	}
	if s.VolumeMode != nil {
		oneOf(c, p.In("volumeMode"), *s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
}

func (c *check) volumeSource(s *corev1.PersistentVolumeSource, p *Spot) {
	switch {
	case s.HostPath != nil:
		c.hostPath(s.HostPath, p.In("hostPath"))
	case s.NFS != nil:
		c.nfs(s.NFS, p.In("nfs"))
	case s.CSI != nil:
		at := p.In("csi")
		c.csiDriver(s.CSI.Driver, at.In("driver"))
		if s.CSI.VolumeHandle == "" {
			c.required(at.In("volumeHandle"), "")
		}
		c.secretReference(s.CSI.ControllerPublishSecretRef, at.In("controllerPublishSecretRef"))
		c.secretReference(s.CSI.ControllerExpandSecretRef, at.In("controllerExpandSecretRef"))
		c.secretReference(s.CSI.NodePublishSecretRef, at.In("nodePublishSecretRef"))
		c.secretReference(s.CSI.NodeExpandSecretRef, at.In("nodeExpandSecretRef"))
	case s.Local != nil && s.Local.Path == "":
		c.required(p.In("local", "path"), "")
	case s.Local != nil:
		c.invalids(p.In("local", "path"), s.Local.Path, backsteps(s.Local.Path))
	}
}

func (c *check) secretReference(r *corev1.SecretReference, p *Spot) {
	if r == nil {
		return
	}
	if r.Name == "" {
		c.required(p.In("name"), "")
	} else {
		c.invalids(p.In("name"), r.Name, dnsSubdomain(r.Name))
	}
	if r.Namespace == "" {
		c.required(p.In("namespace"), "")
	} else {
		c.invalids(p.In("namespace"), r.Namespace, dnsLabel(r.Namespace))
	}
}

func (c *check) capacity(list corev1.ResourceList, p *Spot) {
	values := []string{}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		values = append(values, fmt.Sprintf("%q:%q", name, q.String()))
	}
	c.unsupported(p, "{"+strings.Join(values, ",")+"}", "storage")
}
