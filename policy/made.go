package policy

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/preadmit/preadmit/render"
)

// A maker says where the objects of a kind have a template, and which controller creates objects of it: pods,
// or those of a product.
type maker struct {
	template   string // pointer of the template
	controller string // the controller's service account, in the namespace kube-system if it names none; "" if not known
	owner      string // apiVersion and kind of the object between, which owns the pods; "" if there is none
}

// A product is a template with the kind of the objects that a controller creates of it.
type product struct {
	maker
	kind schema.GroupVersionKind
}

// The kinds of objects that controllers create.
var (
	PodKind        = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	ClaimKind      = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	jobKind        = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	replicaSetKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
)

// betweens are the kinds that stand between an object and its pods: a Deployment's controller creates
// ReplicaSets, whose controller creates pods.
var betweens = map[schema.GroupKind]product{
	{Group: "apps", Kind: "Deployment"}:     {maker{"/spec/template", "deployment-controller", ""}, replicaSetKind},
	{Group: "batch", Kind: "CronJob"}:       {maker{"/spec/jobTemplate", "cronjob-controller", ""}, jobKind},
	{Group: "argoproj.io", Kind: "Rollout"}: {maker{"/spec/template", "argo-rollouts:argo-rollouts", ""}, replicaSetKind},
}

// makers holds the places of templates, which are the same in all versions of a kind, and what
// kube-controller-manager creates of them. Argo Rollouts and OpenShift create ReplicaSets and
// ReplicationControllers, KEDA Jobs, Knative Deployments, LeaderWorkerSet StatefulSets.
var makers = map[schema.GroupKind]maker{
	{Kind: "ReplicationController"}:                        {"/spec/template", "replication-controller", ""},
	{Group: "apps", Kind: "ReplicaSet"}:                    {"/spec/template", "replicaset-controller", ""},
	{Group: "apps", Kind: "Deployment"}:                    {"/spec/template", "replicaset-controller", "apps/v1 ReplicaSet"},
	{Group: "apps", Kind: "StatefulSet"}:                   {"/spec/template", "statefulset-controller", ""},
	{Group: "apps", Kind: "DaemonSet"}:                     {"/spec/template", "daemon-set-controller", ""},
	{Group: "extensions", Kind: "ReplicaSet"}:              {"/spec/template", "replicaset-controller", ""},
	{Group: "extensions", Kind: "Deployment"}:              {"/spec/template", "replicaset-controller", "apps/v1 ReplicaSet"},
	{Group: "extensions", Kind: "DaemonSet"}:               {"/spec/template", "daemon-set-controller", ""},
	{Group: "batch", Kind: "Job"}:                          {"/spec/template", "job-controller", ""},
	{Group: "batch", Kind: "CronJob"}:                      {"/spec/jobTemplate/spec/template", "job-controller", "batch/v1 Job"},
	{Group: "argoproj.io", Kind: "Rollout"}:                {"/spec/template", "replicaset-controller", "apps/v1 ReplicaSet"},
	{Group: "apps.openshift.io", Kind: "DeploymentConfig"}: {"/spec/template", "replication-controller", "v1 ReplicationController"},
	{Group: "keda.sh", Kind: "ScaledJob"}:                  {"/spec/jobTargetRef/template", "job-controller", "batch/v1 Job"},
	{Group: "serving.knative.dev", Kind: "Service"}:        {"/spec/template", "replicaset-controller", "apps/v1 ReplicaSet"},
	{Group: "apps.kruise.io", Kind: "CloneSet"}:            {"/spec/template", "kruise-system:kruise-manager", ""},
	{Group: "apps.kruise.io", Kind: "StatefulSet"}:         {"/spec/template", "kruise-system:kruise-manager", ""},
	{Group: "apps.kruise.io", Kind: "DaemonSet"}:           {"/spec/template", "kruise-system:kruise-manager", ""},
	{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}: {
		"/spec/leaderWorkerTemplate/workerTemplate", "statefulset-controller", "apps/v1 StatefulSet",
	},
}

// PodTemplate returns the pointer of the pod in objects of a kind: "" in a Pod.
func PodTemplate(kind schema.GroupKind) (pointer string, ok bool) {
	switch kind {
	case PodKind.GroupKind():
		return "", true
	case schema.GroupKind{Kind: "PodTemplate"}:
		return "/template", true
	}
	m, ok := makers[kind]
	return m.template, ok
}

// products returns what controllers create of the request's object, of the kinds that are
// selected.
func (r *Request) products(selected func(schema.GroupVersionKind) bool) (all []product) {
	kind := r.Kind.GroupKind()
	m, known := makers[kind]
	if (known || mayMake(kind)) && selected(PodKind) {
		for _, m := range r.templates() {
			all = append(all, product{m, PodKind})
		}
	}
	if between, ok := betweens[kind]; ok && selected(between.kind) {
		all = append(all, between)
	}
	if (known || kind == PodKind.GroupKind()) && selected(ClaimKind) {
		all = append(all, r.claims(m)...)
	}
	return all
}

// templates returns the templates of pods in the request's object: that of its kind, or in another custom
// resource each part that has the form of one.
func (r *Request) templates() (all []maker) {
	if m, ok := makers[r.Kind.GroupKind()]; ok {
		return []maker{m}
	}
	for pointer, v := range render.Fields(r.Admitted, "") {
		if pointer != "" && isTemplate(v) {
			all = append(all, maker{template: pointer})
		}
	}
	return all
}

// A Made is an object that a controller creates of another one, and how often it does so.
type Made struct {
	Object *render.Object
	Source any    // identifies the other object and the template in it
	Name   string // the same by name; "" if the other object has none
	Count  int    // 1 if it depends on the cluster, as that of the pods of a DaemonSet does
	Field  string // pointer of Count in the other object; "" if it has none
	Lasts  bool   // the object stays, unlike the pods of a Job
}

// A madeSource is a template of pods or claims in an object.
type madeSource struct {
	of *render.Object
	at string
}

// MakerKinds returns the kinds of which controllers create pods, sorted.
func MakerKinds() []schema.GroupKind {
	return slices.SortedFunc(maps.Keys(makers), compareGroupKinds)
}

// IsMaker reports whether controllers create pods of objects of a kind.
func IsMaker(kind schema.GroupKind) bool {
	_, ok := makers[kind]
	return ok
}

// MadeOf returns the objects of a kind, pods or claims, that controllers create of an object. held is that object as the
// API server holds it.
func MadeOf(o *render.Object, held map[string]any, kind schema.GroupVersionKind) (all []Made) {
	req := &Request{Operation: Create, Kind: o.GroupVersionKind(), Namespace: o.EffectiveNamespace(), Object: o, Admitted: held}
	for _, p := range req.products(func(k schema.GroupVersionKind) bool { return k == kind }) {
		if made := newMade(req, p); made != nil {
			all = append(all, made.Made())
		}
	}
	return all
}

// Made describes the object of a request by a controller.
func (r *Request) Made() Made {
	maker, kind := r.Maker, r.Maker.Kind.GroupKind()
	m := Made{Object: r.Object, Source: madeSource{maker.Subject(), r.by.template}, Lasts: makers[kind].controller != "job-controller"}
	if name := maker.Subject().GetName(); name != "" {
		m.Name = path.Join(kind.String(), name, r.by.template)
	}
	m.Count, m.Field = podsOf(kind, maker.Admitted)
	if kind == PodKind.GroupKind() {
		always, _ := render.Lookup(maker.Admitted, "/spec/restartPolicy")
		m.Lasts = always == "Always"
	}
	return m
}

// podsOf returns how many pods controllers create of an object at once, and the pointer of that number, or "". It is 1 if
// the object has no number.
func podsOf(kind schema.GroupKind, object map[string]any) (count int, field string) {
	at := strings.TrimSuffix(makers[kind].template, "/template")
	for _, held := range []string{"/spec/suspend", at + "/suspend"} {
		if v, _ := render.Lookup(object, held); v == true {
			return 0, ""
		}
	}
	count = 1
	for _, key := range []string{"/replicas", "/parallelism", "/completions"} { // a Job has at most as many pods as completions
		v, ok := render.Lookup(object, at+key)
		if n, err := strconv.Atoi(fmt.Sprint(v)); ok && err == nil && (field == "" || n < count) {
			count, field = n, at+key
		}
	}
	return count, field
}

// claims returns the templates of volume claims: of a StatefulSet, and of its pods' ephemeral volumes.
func (r *Request) claims(m maker) (all []product) {
	templates, _ := render.Lookup(r.Admitted, "/spec/volumeClaimTemplates")
	if r.Kind.Kind == "StatefulSet" {
		for i := range anyList(templates) {
			all = append(all, product{maker{template: render.Pointer("spec", "volumeClaimTemplates", i), controller: m.controller}, ClaimKind})
		}
	}
	volumes, _ := render.Lookup(r.Admitted, m.template+"/spec/volumes")
	for i, v := range anyList(volumes) {
		if _, ok := render.Lookup(v, ephemeralClaim); ok {
			at := m.template + render.Pointer("spec", "volumes", i) + ephemeralClaim
			all = append(all, product{maker{template: at, controller: "ephemeral-volume-controller"}, ClaimKind})
		}
	}
	return all
}

// ephemeralClaim is the template of a claim in a volume.
const ephemeralClaim = "/ephemeral/volumeClaimTemplate"

// mayMake reports whether custom resources of a kind may hold templates of pods.
func mayMake(kind schema.GroupKind) bool {
	return strings.Contains(kind.Group, ".") && !render.Holds(kind) && !noMakers[kind] &&
		!slices.ContainsFunc(noMakerGroups, func(group string) bool { return strings.HasSuffix("."+kind.Group, group) })
}

// Custom resources that make no pods, and the ends of groups of such. Their policies, patches and values look
// like templates.
var (
	noMakers = map[schema.GroupKind]bool{
		{Group: "argoproj.io", Kind: "Application"}: true, {Group: "argoproj.io", Kind: "ApplicationSet"}: true, {Group: "argoproj.io", Kind: "AppProject"}: true,
	}
	noMakerGroups = []string{".k8s.io", ".kyverno.io", ".gatekeeper.sh", ".toolkit.fluxcd.io"}
)

// isTemplate reports whether a value has the form of a template of pods: its containers have names, and one has
// an image.
func isTemplate(v any) bool {
	containers, _ := render.Lookup(v, "/spec/containers")
	list, _ := containers.([]any)
	images := 0
	for _, c := range list {
		container, _ := c.(map[string]any)
		if name, _ := container["name"].(string); name == "" {
			return false
		}
		if image, _ := container["image"].(string); image != "" {
			images++
		}
	}
	return images > 0
}

// MadeRequest returns a request that creates an object of a kind that controllers create, without the object.
func MadeRequest(kind schema.GroupVersionKind) *Request {
	r := &Request{Operation: Create, Kind: kind, Namespace: "default"}
	r.Resource = Resource{GroupVersionResource: kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s"), Namespaced: true, Known: true}
	return r
}

// What a controller and the cluster choose for an object, and what they may choose as well.
const (
	podHash, otherHash  = "2456789245", "9786542978" // of a template, or a Job's time in minutes
	podUID, otherUID    = "00000000-0000-4000-8000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff"
	podNode, otherNode  = "node-2", "node-9"
	otherSuffix         = "zzzzz"
	jobTime, otherTime  = "2026-01-02T03:04:00Z", "2027-11-30T22:55:00Z"
	firstTime, lastTime = "2000-01-01T00:00:01Z", "2199-12-31T23:59:59Z"
)

// newMade returns the request with which a controller creates an object of a part of the request's object,
// or nil if there is no template.
func newMade(req *Request, p product) *Request {
	at, _ := render.Lookup(req.Admitted, p.template)
	template, ok := at.(map[string]any)
	if !ok {
		return nil
	}
	maker := &unstructured.Unstructured{Object: req.Admitted}
	name := cmp.Or(maker.GetName(), maker.GetGenerateName()+podHash)
	from, _ := template["metadata"].(map[string]any)
	metadata := map[string]any{"namespace": req.Namespace, "name": name + "-" + podHash}
	for _, key := range []string{"labels", "annotations"} {
		if v, ok := from[key]; ok {
			metadata[key] = v
		}
	}
	if v, ok := from["finalizers"]; ok && (p.kind == PodKind || p.kind == ClaimKind && !strings.HasSuffix(p.template, ephemeralClaim)) {
		metadata["finalizers"] = v
	}
	owner := map[string]any{"apiVersion": maker.GetAPIVersion(), "kind": maker.GetKind(), "name": name, "controller": true, "blockOwnerDeletion": true, "uid": podUID}
	spec, _ := template["spec"].(map[string]any)
	spec = with(spec)
	switch p.kind {
	case PodKind:
		toPod(maker, p.owner, owner, metadata, spec)
	case replicaSetKind:
		spec = toReplicaSet(maker, template, metadata)
	case jobKind: // getJobFromTemplate2 in pkg/controller/cronjob/utils.go
		metadata["annotations"] = with(metadata["annotations"], "batch.kubernetes.io/cronjob-scheduled-timestamp", jobTime)
	case ClaimKind: // getPersistentVolumeClaims in pkg/controller/statefulset/stateful_set_utils.go, handleVolume in pkg/controller/volume/ephemeral/controller.go
		if volume, ephemeral := strings.CutSuffix(p.template, ephemeralClaim); ephemeral {
			if req.Kind != PodKind {
				name += "-" + podHash
			}
			owner["apiVersion"], owner["kind"], owner["name"] = "v1", "Pod", name
			of, _ := render.Lookup(req.Admitted, volume+"/name")
			metadata["name"] = fmt.Sprintf("%s-%v", name, of)
			break
		}
		labels := with(metadata["labels"])
		selected, _ := render.Lookup(req.Admitted, "/spec/selector/matchLabels")
		maps.Copy(labels, with(selected))
		metadata["name"] = fmt.Sprintf("%v-%s-%s", from["name"], name, ordinal(maker))
		metadata["labels"], owner = labels, nil
	}
	if owner != nil {
		metadata["ownerReferences"] = []any{owner}
	}
	namespace, account, elsewhere := strings.Cut(p.controller, ":")
	if !elsewhere {
		namespace, account = "kube-system", p.controller
	}
	content := map[string]any{"apiVersion": p.kind.GroupVersion().String(), "kind": p.kind.Kind, "metadata": metadata, "spec": spec}
	made := &Request{
		Operation: Create, Maker: req, by: p, Run: req.Run,
		Object: &render.Object{Unstructured: &unstructured.Unstructured{Object: content}, Unit: req.Object.Unit},
	}
	if p.controller != "" {
		made.UserInfo = UserInfo{
			Username: "system:serviceaccount:" + namespace + ":" + account,
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		}
	}
	return made
}

// toUpdate returns the requests by which a controller makes an object of one that is updated. A ReplicaSet of
// the same template is updated. Of another template one is created with the pods that are allowed beyond the
// old ones, and gets the others by an update.
func (r *Request) toUpdate() []*Request {
	if r.by.kind != replicaSetKind || r.Maker.Operation != Update || r.Maker.OldAdmitted == nil {
		return []*Request{r}
	}
	old, _ := render.Lookup(r.Maker.OldAdmitted, r.by.template)
	is, _ := render.Lookup(r.Maker.Admitted, r.by.template)
	before, same := *r.Maker, reflect.DeepEqual(old, is)
	if same {
		before.Admitted = r.Maker.OldAdmitted
	}
	first := newMade(&before, r.by)
	r.Operation, r.OldObject = Update, first.Object
	if same {
		return []*Request{r}
	}
	written, _ := r.Maker.Admitted["spec"].(map[string]any)
	if kind, _ := render.Lookup(written, "/strategy/type"); kind == "RollingUpdate" {
		spec, _ := first.Object.Object["spec"].(map[string]any)
		replicas, _ := strconv.Atoi(fmt.Sprint(written["replicas"]))
		spec["replicas"] = int64(min(surge(written, replicas), replicas))
	}
	return []*Request{first, r}
}

// with returns a copy of a map with further keys and values.
func with(v any, more ...string) map[string]any {
	old, _ := v.(map[string]any)
	all := make(map[string]any, len(old)+4)
	maps.Copy(all, old)
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// toPod gives a pod what its controller does (GetPodFromTemplate in pkg/controller/controller_utils.go). between is the
// kind of the owner, if that is not the maker.
func toPod(maker *unstructured.Unstructured, between string, owner, metadata, spec map[string]any) {
	name, _ := owner["name"].(string)
	if version, kind, ok := strings.Cut(between, " "); ok {
		name += "-" + podHash
		owner["apiVersion"], owner["kind"], owner["name"] = version, kind, name
	}
	delete(metadata, "name")
	metadata["generateName"] = name + "-"
	labels := with(metadata["labels"])
	switch {
	case maker.GetKind() == "Rollout", maker.GetKind() == "Deployment":
		labels[hashLabel(maker)] = podHash
	case owner["kind"] == "Job":
		for _, prefix := range []string{"", "batch.kubernetes.io/"} {
			labels[prefix+"controller-uid"], labels[prefix+"job-name"] = podUID, name
		}
		metadata["finalizers"] = append(slices.Clip(anyList(metadata["finalizers"])), "batch.kubernetes.io/job-tracking")
	case owner["kind"] == "DaemonSet":
		labels["controller-revision-hash"], labels["pod-template-generation"] = podHash, "1"
		toNode(spec)
	case owner["kind"] == "StatefulSet":
		labels["controller-revision-hash"], labels["apps.kubernetes.io/pod-index"] = name+"-"+podHash, ordinal(maker)
		name += "-" + ordinal(maker)
		labels["statefulset.kubernetes.io/pod-name"], metadata["name"] = name, name
		identify(spec, name, maker)
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
}

// hashLabel is the label for the hash of a Deployment's or Rollout's template.
func hashLabel(maker *unstructured.Unstructured) string {
	if maker.GetKind() == "Rollout" {
		return "rollouts-pod-template-hash"
	}
	return "pod-template-hash"
}

// toReplicaSet returns the spec of a Deployment's or Rollout's ReplicaSet and completes its metadata (getNewReplicaSet in
// pkg/controller/deployment/sync.go).
func toReplicaSet(maker *unstructured.Unstructured, template, metadata map[string]any) map[string]any {
	metadata["labels"] = with(metadata["labels"], hashLabel(maker), podHash)
	revision := "deployment.kubernetes.io/revision"
	if maker.GetKind() == "Rollout" {
		revision = "rollout.argoproj.io/revision"
	}
	annotations := with(nil, revision, "1")
	for key, v := range maker.GetAnnotations() {
		if key != "kubectl.kubernetes.io/last-applied-configuration" && !strings.HasPrefix(key, "deployment.kubernetes.io/") {
			annotations[key] = v
		}
	}
	metadata["annotations"] = annotations
	template = with(template)
	inPods := with(template["metadata"])
	inPods["labels"], template["metadata"] = metadata["labels"], inPods
	spec := map[string]any{"template": template}
	written, _ := maker.Object["spec"].(map[string]any)
	if maker.GetKind() == "Deployment" {
		replicas, _ := strconv.Atoi(fmt.Sprint(written["replicas"]))
		annotations["deployment.kubernetes.io/desired-replicas"] = strconv.Itoa(replicas)
		annotations["deployment.kubernetes.io/max-replicas"] = strconv.Itoa(replicas + surge(written, replicas))
	}
	for _, key := range []string{"replicas", "minReadySeconds"} {
		if v, ok := written[key]; ok {
			spec[key] = v
		}
	}
	selector := with(written["selector"])
	selector["matchLabels"] = with(selector["matchLabels"], hashLabel(maker), podHash)
	spec["selector"] = selector
	return spec
}

// surge returns how many pods a Deployment may have beyond its replicas during an update.
func surge(spec map[string]any, replicas int) int {
	most, _ := render.Lookup(spec, "/strategy/rollingUpdate/maxSurge")
	value := intstr.Parse(fmt.Sprint(cmp.Or(most, any(0))))
	n, _ := intstr.GetScaledValueFromIntOrPercent(&value, replicas, true)
	return n
}

// toNode adds to the spec of a pod of a DaemonSet the tolerations of node conditions and the affinity to
// its node, as AddOrUpdateDaemonPodTolerations and ReplaceDaemonSetPodNodeNameNodeAffinity of Kubernetes'
// pkg/controller/daemon/util/daemonset_util.go do.
func toNode(spec map[string]any) {
	tolerations := slices.Clip(anyList(spec["tolerations"]))
	tolerate := func(key, effect string) {
		tolerations = append(tolerations, map[string]any{"key": "node.kubernetes.io/" + key, "operator": "Exists", "effect": effect})
	}
	tolerate("not-ready", "NoExecute")
	tolerate("unreachable", "NoExecute")
	for _, key := range []string{"disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"} {
		tolerate(key, "NoSchedule")
	}
	if spec["hostNetwork"] == true {
		tolerate("network-unavailable", "NoSchedule")
	}
	spec["tolerations"] = tolerations
	affinity, _ := spec["affinity"].(map[string]any)
	if affinity = maps.Clone(affinity); affinity == nil {
		affinity = map[string]any{}
	}
	term := map[string]any{"matchFields": []any{map[string]any{"key": "metadata.name", "operator": "In", "values": []any{podNode}}}}
	affinity["nodeAffinity"] = map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": []any{term}}}
	spec["affinity"] = affinity
}

// ordinal returns the number of the first pod of a StatefulSet.
func ordinal(set *unstructured.Unstructured) string {
	start, _ := render.Lookup(set.Object, "/spec/ordinals/start")
	return fmt.Sprint(cmp.Or(start, any(0)))
}

// identify gives the spec of a pod of a StatefulSet its host name, subdomain and volume claims, as
// initIdentity and updateStorage of Kubernetes' pkg/controller/statefulset/stateful_set_utils.go do. The
// claims are last here, so that other volumes have the places of the template.
func identify(spec map[string]any, name string, set *unstructured.Unstructured) {
	spec["hostname"] = name
	if service, _ := render.Lookup(set.Object, "/spec/serviceName"); service != nil && service != "" {
		spec["subdomain"] = service
	}
	claims, _ := render.Lookup(set.Object, "/spec/volumeClaimTemplates")
	volumes := slices.Clone(anyList(spec["volumes"]))
	for _, c := range anyList(claims) {
		claim, _ := render.Lookup(c, "/metadata/name")
		named, _ := claim.(string)
		volumes = slices.DeleteFunc(volumes, func(v any) bool { other, _ := render.Lookup(v, "/name"); return other == claim })
		volumes = append(volumes, map[string]any{"name": named, "persistentVolumeClaim": map[string]any{"claimName": named + "-" + name}})
	}
	if len(volumes) > 0 {
		spec["volumes"] = volumes
	}
}

func anyList(v any) []any {
	list, _ := v.([]any)
	return list
}

// otherMade returns a created object with other names, labels, times and nodes in place of those that the
// controller or the cluster chooses.
func otherMade(made *Request) map[string]any {
	r := strings.NewReplacer(podHash, otherHash, podUID, otherUID, podNode, otherNode, jobTime, otherTime, firstTime, lastTime)
	if made.by.kind != PodKind {
		return otherValue(made.Admitted, r).(map[string]any)
	}
	other := maps.Clone(made.Admitted)
	metadata, _ := otherValue(other["metadata"], r).(map[string]any)
	if prefix, ok := metadata["generateName"].(string); ok && made.Name == "" && metadata["name"] != nil {
		metadata["name"] = prefix + otherSuffix
	}
	other["metadata"] = metadata
	if spec, ok := other["spec"].(map[string]any); ok && spec["affinity"] != nil {
		spec = maps.Clone(spec)
		spec["affinity"], other["spec"] = otherValue(spec["affinity"], r), spec
	}
	return other
}

// otherValue returns a copy of a value with its texts replaced.
func otherValue(v any, r *strings.Replacer) any {
	return render.Replace(v, func(v any) any {
		if text, ok := v.(string); ok {
			return r.Replace(text)
		}
		return v
	})
}
