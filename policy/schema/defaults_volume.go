package schema

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

type quantity = resource.Quantity

// volumeDefaults lists the defaults of volumes, in pods and as objects.
var volumeDefaults = []rule{
	on(func(r release, v *corev1.Volume) {
		fill(&v.VolumeSource, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
		if r >= imageVolume && v.Image != nil {
			fill(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
		}
	}),
	on(func(_ release, s *corev1.SecretVolumeSource) {
		fillPtr(&s.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}),
	on(func(_ release, s *corev1.ConfigMapVolumeSource) {
		fillPtr(&s.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}),
	on(func(_ release, s *corev1.DownwardAPIVolumeSource) {
		fillPtr(&s.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
	}),
	on(func(_ release, s *corev1.ProjectedVolumeSource) {
		fillPtr(&s.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	}),
	on(func(_ release, p *corev1.ServiceAccountTokenProjection) { fillPtr(&p.ExpirationSeconds, 60*60) }),
	on(func(_ release, s *corev1.HostPathVolumeSource) { fillPtr(&s.Type, corev1.HostPathUnset) }),
	on(func(_ release, s *corev1.ISCSIVolumeSource) { fill(&s.ISCSIInterface, "default") }),
	on(func(_ release, s *corev1.ISCSIPersistentVolumeSource) { fill(&s.ISCSIInterface, "default") }),
	on(func(_ release, s *corev1.RBDVolumeSource) { rbd(&s.RBDPool, &s.RadosUser, &s.Keyring) }),
	on(func(_ release, s *corev1.RBDPersistentVolumeSource) { rbd(&s.RBDPool, &s.RadosUser, &s.Keyring) }),
	on(func(_ release, s *corev1.AzureDiskVolumeSource) {
		fillPtr(&s.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		fillPtr(&s.FSType, "ext4")
		fillPtr(&s.ReadOnly, false)
		fillPtr(&s.Kind, corev1.AzureSharedBlobDisk)
	}),
	on(func(_ release, s *corev1.ScaleIOVolumeSource) { scaleIO(&s.StorageMode, &s.FSType) }),
	on(func(_ release, s *corev1.ScaleIOPersistentVolumeSource) { scaleIO(&s.StorageMode, &s.FSType) }),
	on(func(_ release, v *corev1.PersistentVolume) {
		fill(&v.Status.Phase, corev1.VolumePending)
		fill(&v.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		fillPtr(&v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	}),
	on(func(_ release, c *corev1.PersistentVolumeClaim) { fill(&c.Status.Phase, corev1.ClaimPending) }),
	on(func(_ release, c *corev1.PersistentVolumeClaimSpec) {
		fillPtr(&c.VolumeMode, corev1.PersistentVolumeFilesystem)
	}),
}

func rbd(pool, user, keyring *string) {
	fill(pool, "rbd")
	fill(user, "admin")
	fill(keyring, "/etc/ceph/keyring")
}

func scaleIO(mode, fsType *string) {
	fill(mode, "ThinProvisioned")
	fill(fsType, "xfs")
}
