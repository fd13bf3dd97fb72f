// Command controllers writes random workloads, and what Kubernetes' own controllers create of each of
// them, as JSON. They run against a client in memory. TestMadeAsControllers in policy reads the output.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/volume/ephemeral"
)

var held = []string{"example.org/held"}

const uid = "00000000-0000-4000-8000-000000000000"

// A record is a workload and what was created of it.
type record struct {
	Maker runtime.Object   `json:"maker"`
	Made  []runtime.Object `json:"made"`
}

func main() {
	var all []record
	for i := range 40 {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		maker := []func(*rand.Rand) runtime.Object{deploymentOf, cronJob, statefulSet, pod}[i%4](r)
		legacyscheme.Scheme.Default(maker)
		made, err := create(maker)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for _, o := range append(made, maker) {
			o.(meta.Object).SetCreationTimestamp(meta.Time{}) // the time of the run
		}
		all = append(all, record{maker, made})
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	if err := out.Encode(all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// create runs the controllers until they have created nothing for a while.
func create(maker runtime.Object) ([]runtime.Object, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := fake.NewClientset(maker)
	f := informers.NewSharedInformerFactory(client, 0)
	sets, pods, claims := f.Apps().V1().ReplicaSets(), f.Core().V1().Pods(), f.Core().V1().PersistentVolumeClaims()
	deployments, err := deployment.NewDeploymentController(ctx, f.Apps().V1().Deployments(), sets, pods, client)
	if err != nil {
		return nil, err
	}
	crons, err := cronjob.NewControllerV2(ctx, f.Batch().V1().Jobs(), f.Batch().V1().CronJobs(), client)
	if err != nil {
		return nil, err
	}
	volumes, err := ephemeral.NewController(ctx, client, pods, claims)
	if err != nil {
		return nil, err
	}
	replicas := replicaset.NewReplicaSetController(ctx, sets, pods, client, 1)
	stateful := statefulset.NewStatefulSetController(ctx, pods, f.Apps().V1().StatefulSets(), claims, f.Apps().V1().ControllerRevisions(), client)
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	go deployments.Run(ctx, 1)
	go crons.Run(ctx, 1)
	go volumes.Run(ctx, 1)
	go replicas.Run(ctx, 1)
	go stateful.Run(ctx, 1)
	var made []runtime.Object
	for quiet, last := 0, 0; quiet < 10; time.Sleep(200 * time.Millisecond) {
		if quiet++; last != len(made) {
			quiet, last = 0, len(made)
		}
		made = nil
		seen := map[string]bool{} // one of each kind, and each claim
		for _, a := range client.Actions() {
			c, ok := a.(interface{ GetObject() runtime.Object })
			if !ok || a.GetVerb() != "create" {
				continue
			}
			o := c.GetObject()
			var key string
			switch o := o.(type) {
			case *apps.ReplicaSet, *batch.Job, *core.Pod:
				key = fmt.Sprintf("%T", o)
			case *core.PersistentVolumeClaim:
				key = o.Name
			default:
				continue
			}
			if kinds, _, err := legacyscheme.Scheme.ObjectKinds(o); err == nil && !seen[key] {
				seen[key] = true
				o = o.DeepCopyObject()
				o.GetObjectKind().SetGroupVersionKind(kinds[0])
				made = append(made, o)
			}
		}
	}
	return made, nil
}

func some[T any](r *rand.Rand, v T) (none T) {
	if r.IntN(2) == 0 {
		return none
	}
	return v
}

func labels(r *rand.Rand, prefix string) map[string]string {
	all := map[string]string{}
	for i := range r.IntN(3) {
		all[fmt.Sprintf("%s.example/%d", prefix, i)] = fmt.Sprint(r.IntN(9))
	}
	return all
}

func object(r *rand.Rand, kind, version string) (meta.TypeMeta, meta.ObjectMeta) {
	return meta.TypeMeta{Kind: kind, APIVersion: version}, meta.ObjectMeta{
		Name: "web", Namespace: "shop", UID: types.UID(uid), Labels: labels(r, "maker"), Annotations: labels(r, "note"),
		CreationTimestamp: meta.NewTime(time.Now().Add(-90 * time.Second)),
	}
}

func claim(r *rand.Rand) core.PersistentVolumeClaimSpec {
	class := fmt.Sprint("class", r.IntN(3))
	return core.PersistentVolumeClaimSpec{
		AccessModes: []core.PersistentVolumeAccessMode{core.ReadWriteOnce}, StorageClassName: some(r, &class),
		Resources: core.VolumeResourceRequirements{Requests: core.ResourceList{core.ResourceStorage: *resource.NewQuantity(int64(1+r.IntN(9))<<30, resource.BinarySI)}},
	}
}

func podSpec(r *rand.Rand) core.PodSpec {
	spec := core.PodSpec{Containers: []core.Container{{Name: "c", Image: fmt.Sprint("c:", r.IntN(9))}}}
	if r.IntN(2) == 0 {
		spec.Volumes = []core.Volume{
			{Name: "empty", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}},
			{Name: "scratch", VolumeSource: core.VolumeSource{Ephemeral: &core.EphemeralVolumeSource{VolumeClaimTemplate: &core.PersistentVolumeClaimTemplate{
				ObjectMeta: meta.ObjectMeta{Labels: some(r, labels(r, "claim")), Annotations: some(r, labels(r, "claimnote")), Finalizers: some(r, held)}, Spec: claim(r),
			}}}},
		}
	}
	return spec
}

func template(r *rand.Rand) core.PodTemplateSpec {
	all := labels(r, "pod")
	all["app"] = "web"
	return core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: all, Annotations: some(r, labels(r, "podnote")), Finalizers: some(r, held)}, Spec: podSpec(r)}
}

var selector = &meta.LabelSelector{MatchLabels: map[string]string{"app": "web"}}

func deploymentOf(r *rand.Rand) runtime.Object {
	d := &apps.Deployment{}
	d.TypeMeta, d.ObjectMeta = object(r, "Deployment", "apps/v1")
	n := int32(r.IntN(4))
	d.Spec = apps.DeploymentSpec{Replicas: some(r, &n), Selector: selector, Template: template(r), MinReadySeconds: some(r, int32(5))}
	return d
}

func cronJob(r *rand.Rand) runtime.Object {
	c := &batch.CronJob{}
	c.TypeMeta, c.ObjectMeta = object(r, "CronJob", "batch/v1")
	c.Spec.Schedule = "* * * * *"
	c.Spec.JobTemplate = batch.JobTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: some(r, labels(r, "job")), Annotations: some(r, labels(r, "jobnote")), Finalizers: some(r, held)}}
	limit := int32(r.IntN(5))
	c.Spec.JobTemplate.Spec = batch.JobSpec{BackoffLimit: some(r, &limit), Template: template(r)}
	c.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = core.RestartPolicyNever
	return c
}

func statefulSet(r *rand.Rand) runtime.Object {
	s := &apps.StatefulSet{}
	s.TypeMeta, s.ObjectMeta = object(r, "StatefulSet", "apps/v1")
	s.Spec = apps.StatefulSetSpec{ServiceName: some(r, "peers"), Selector: selector, Template: template(r)}
	for _, name := range slices.Clone([]string{"data", "logs"})[:r.IntN(3)] {
		s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates, core.PersistentVolumeClaim{
			ObjectMeta: meta.ObjectMeta{Name: name, Labels: some(r, labels(r, "claim")), Annotations: some(r, labels(r, "claimnote")), Finalizers: some(r, held)}, Spec: claim(r),
		})
	}
	if r.IntN(2) == 0 {
		s.Spec.Ordinals = &apps.StatefulSetOrdinals{Start: int32(r.IntN(9))}
	}
	return s
}

func pod(r *rand.Rand) runtime.Object {
	p := &core.Pod{}
	p.TypeMeta, p.ObjectMeta = object(r, "Pod", "v1")
	p.Spec = podSpec(r)
	return p
}
