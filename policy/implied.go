package policy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// A PodEngine is a Mutator or Validator that gets the pods that controllers create.
type PodEngine interface {
	// SelectsPods reports whether a policy may have a result about the pods of a kind's objects that it
	// does not have about these objects themselves. Kyverno, for example, copies rules about pods.
	SelectsPods(of schema.GroupVersionKind) bool
}

// A maker is a kind whose controller creates pods.
type maker struct {
	template   string // pointer of the template of pods
	controller string // the controller's service account, in the namespace kube-system if it names none; "" if not known
	owner      string // apiVersion and kind of the object between, which owns the pods; "" if there is none
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
	case schema.GroupKind{Kind: "Pod"}:
		return "", true
	case schema.GroupKind{Kind: "PodTemplate"}:
		return "/template", true
	}
	m, ok := makers[kind]
	return m.template, ok
}

// templates returns the templates of pods in the request's object: that of its kind, or in another custom
// resource each part that has the form of one.
func (r *Request) templates() (all []*maker) {
	kind := r.Kind.GroupKind()
	if m, ok := makers[kind]; ok {
		return []*maker{&m}
	}
	if !strings.Contains(kind.Group, ".") || render.Holds(kind) || noMakers[kind] ||
		slices.ContainsFunc(noMakerGroups, func(group string) bool { return strings.HasSuffix("."+kind.Group, group) }) {
		return nil
	}
	for pointer, v := range render.Fields(r.Admitted, "") {
		if pointer != "" && isTemplate(v) {
			all = append(all, &maker{template: pointer})
		}
	}
	return all
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

// maxTemplates limits the templates of an object that are evaluated.
const maxTemplates = 100

// PodRequest returns a request that creates a pod, without the pod.
func PodRequest() *Request {
	r := &Request{Operation: Create, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "default"}
	r.Resource = Resource{GroupVersionResource: r.Kind.GroupVersion().WithResource("pods"), Namespaced: true, Known: true}
	return r
}

// reviewPods returns the results of the policies on the pods that the controller of the request's
// object creates. The API server asks these policies only then, and refuses each pod. The fields of
// the results are those of the object. own are the results about the object itself: what a rule finds
// there it does not find again in the pods.
func (c Chain) reviewPods(ctx context.Context, req *Request, own ...[]Result) ([]Result, error) {
	c, pods := c.pods(req)
	var results []Result
	passed := make(map[useKey]bool) // rules that a pod has passed
	for i, pod := range pods {
		if i == maxTemplates {
			results = append(results, Result{
				Engine: EngineCompile, Policy: "all", Rule: "templates", Outcome: Unknown, Action: Deny, Fields: []string{pod.by.template},
				Message: fmt.Sprintf("only the first %d of %d templates of pods are checked", maxTemplates, len(pods)),
			})
			break
		}
		found, err := c.reviewPod(ctx, pod, newHistory())
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			key := useKey{r.Engine, r.Policy, r.Rule}
			if r.Outcome != Pass || !passed[key] {
				results = append(results, r)
			}
			passed[key] = passed[key] || r.Outcome == Pass
		}
	}
	said := make(map[useKey]*Result)
	for _, list := range own {
		for i := range list {
			key := useKey{list[i].Engine, list[i].Policy, WithoutAutogen(list[i].Rule)}
			if o := said[key]; o == nil || list[i].Outcome == Fail && (o.Outcome != Fail || list[i].Action.AtLeast(o.Action)) {
				said[key] = &list[i]
			}
		}
	}
	return slices.DeleteFunc(results, func(r Result) bool {
		o := said[useKey{r.Engine, r.Policy, r.Rule}]
		return o != nil && (!r.fails() || o.fails() && o.Action.AtLeast(r.Action) && (o.Outcome == Fail || r.Outcome != Fail))
	}), nil
}

// pods returns the requests with which the controller of the request's object creates pods, and the
// engines for them: those with policies about these pods, and those that prepare objects. There are no
// requests if there are no such pods or policies.
func (c Chain) pods(req *Request) (_ Chain, pods []*Request) {
	if req.Object == nil || req.SubResource != "" {
		return c, nil
	}
	templates := req.templates()
	if len(templates) == 0 {
		return c, nil
	}
	c.Mutators = slices.DeleteFunc(slices.Clone(c.Mutators), func(m Mutator) bool { return !selectsPods(m, req) })
	selected := len(c.Mutators) > 0
	c.Validators = slices.DeleteFunc(slices.Clone(c.Validators), func(v Validator) bool {
		about := selectsPods(v, req)
		selected = selected || about
		_, prepares := v.(Preparer)
		return !about && !prepares
	})
	if !selected {
		return c, nil
	}
	for _, m := range templates {
		if pod := newPod(req, m); pod != nil {
			pods = append(pods, pod)
		}
	}
	return c, pods
}

// selectsPods reports whether an engine has policies about the pods of a request's object.
func selectsPods(engine any, maker *Request) bool {
	p, ok := engine.(PodEngine)
	return ok && p.SelectsPods(maker.Kind)
}

// reviewPod reviews a request of pods.
func (c Chain) reviewPod(ctx context.Context, pod *Request, h *history) ([]Result, error) {
	results, admitted := c.admit(pod, h)
	if admitted {
		mutations, err := c.mutate(ctx, pod, h)
		if err != nil {
			return nil, err
		}
		var others []Result
		var other Request
		for _, v := range c.Validators {
			if other.Admitted == nil {
				other = *pod
				other.Admitted, other.Typed = otherPod(pod), nil
			}
			for _, r := range []*Request{pod, &other} {
				if !selectsPods(v, pod.Maker) {
					break
				}
				rs, err := c.validate(ctx, v, r)
				if err != nil {
					return nil, err
				}
				if r == pod {
					results = append(results, rs...)
				} else {
					others = append(others, slices.DeleteFunc(rs, func(r Result) bool { return !r.fails() })...)
				}
			}
			if p, ok := v.(Preparer); ok {
				pod.prepareBy(p, h)
				other = Request{}
			}
		}
		results = append(mutations, undecideDiffering(results, nil, others, "depends on a name, label or node that its controller chooses")...)
	}
	for i := range results {
		results[i].ofPod(pod, h)
	}
	return results, nil
}

// explainPods adds to the explanations of decisions about the request's object those about the pods that
// its controller creates. An explanation that only says that the object is no pod is left out.
func (c Chain) explainPods(ctx context.Context, req *Request, h *history, own []Explanation, policy, rule string) ([]Explanation, error) {
	var said []Result
	for i := range own {
		said = append(said, own[i].Results...)
	}
	results, err := c.reviewPods(ctx, req, said)
	about, pods := c.pods(req)
	if err != nil || len(pods) == 0 {
		return own, err
	}
	by := pods[0].by
	for _, p := range pods[:min(len(pods), maxTemplates)] { // the first template that the rule refuses
		found, err := about.reviewPod(ctx, p, newHistory())
		if err != nil {
			return own, err
		}
		if slices.ContainsFunc(found, func(r Result) bool { return r.fails() && r.Policy == policy && (rule == "" || r.Rule == rule) }) {
			by = p.by
			break
		}
	}
	pod, made := newPod(req, by), newHistory()
	if _, admitted := about.admit(pod, newHistory()); !admitted {
		return own, nil
	}
	es, err := about.explainAdmitted(ctx, pod, made, policy, rule, func(*Explanation) {})
	for _, e := range es {
		e.Results = slices.DeleteFunc(slices.Clone(results), func(r Result) bool {
			return r.Engine != e.Engine || r.Policy != policy || !e.isAboutRule(r.Rule)
		})
		for i := range e.Results {
			c.undecide(&e.Results[i], req.Subject())
		}
		no := slices.IndexFunc(own, func(o Explanation) bool {
			return o.Engine == e.Engine && o.Origin == e.Origin && len(o.Results) == 0 && o.ofOtherKind()
		})
		if len(e.Results) == 0 && (no < 0 || e.ofOtherKind()) {
			continue
		}
		if no >= 0 {
			own = slices.Delete(own, no, no+1)
		}
		for i := range e.Trials {
			e.Trials[i].eachCulprit(func(c *Culprit) {
				if c.Root == "object" {
					c.Pointer, _ = pod.inMaker(c.Pointer, made)
				}
			})
		}
		e.locate(req, h)
		e.Pods, e.Request = true, pod.asked()
		own = append(own, e)
	}
	return own, err
}

// isAboutRule reports whether an explanation is about the rule of that name.
func (e *Explanation) isAboutRule(rule string) bool {
	return len(e.Rules) == 0 || slices.ContainsFunc(e.Rules, func(r Rule) bool { return r.Name == rule }) ||
		slices.ContainsFunc(e.Results, func(r Result) bool { return r.Rule == rule })
}

// ofPod converts a result about a pod to one about the object whose controller creates it.
func (r *Result) ofPod(pod *Request, h *history) {
	r.Assumed = distinct(r.Assumed, h.doubts)
	r.Fields = slices.Clone(r.Fields) // results of other requests may share them
	for i, f := range r.Fields {
		var set []string
		r.Fields[i], set = pod.inMaker(f, h)
		r.Assumed = distinct(r.Assumed, set)
	}
	if len(r.Fields) == 0 && r.fails() {
		r.Fields = []string{pod.by.template}
	}
	if pod.by.controller == "" && (r.Outcome == Fail || r.Outcome == Error) {
		r.Message = "not known whether the controller of " + pod.Maker.Kind.Kind + " creates pods from this template: " + r.Message
		if r.Outcome == Error || r.Action == Deny {
			r.Outcome = Unknown
		}
	}
	r.AboutPods()
}

// inMaker returns the field of the maker's object that a field of the pod comes from, and the policies
// that set it.
func (r *Request) inMaker(field string, h *history) (from string, set []string) {
	was, touches := h.back(field)
	if _, set = h.places(r.Object, was, touches); len(set) > 0 && strings.HasPrefix(field, was) {
		was = field
	} else {
		set = nil
	}
	from = r.by.template
	if slices.ContainsFunc(copied, func(p string) bool { return was == p || strings.HasPrefix(was, p+"/") }) {
		from += was
	}
	return from, set
}

// copied are the fields of a pod that its controller copies from the template.
var copied = []string{"/spec", "/metadata/labels", "/metadata/annotations", "/metadata/finalizers"}

// AboutPods makes a result one about the pods that the object's controller creates.
func (r *Result) AboutPods() {
	const rejected = "; its pods would be rejected"
	if r.Pods = true; r.Outcome == Fail && r.Action == Deny {
		r.Message = Shorten(r.Message, MaxMessage-len(rejected)) + rejected
	}
}

// What a controller and the cluster choose for a pod, and what they may choose as well.
const (
	podHash, otherHash = "2456789245", "9786542978" // of a template's hash, or a time in minutes
	podUID, otherUID   = "00000000-0000-4000-8000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff"
	podNode, otherNode = "node-2", "node-9"
	otherSuffix        = "zzzzz"
)

// newPod returns the request with which the controller of a request's object creates a pod
// (GetPodFromTemplate in pkg/controller/controller_utils.go of Kubernetes), or nil if there is no template.
func newPod(req *Request, m *maker) *Request {
	at, _ := render.Lookup(req.Admitted, m.template)
	template, ok := at.(map[string]any)
	if !ok {
		return nil
	}
	parent := &unstructured.Unstructured{Object: req.Admitted}
	name := cmp.Or(parent.GetName(), parent.GetGenerateName()+podHash)
	owner := map[string]any{"apiVersion": parent.GetAPIVersion(), "kind": parent.GetKind(), "controller": true, "blockOwnerDeletion": true, "uid": podUID}
	if version, kind, between := strings.Cut(m.owner, " "); between {
		owner["apiVersion"], owner["kind"] = version, kind
		name += "-" + podHash
	}
	owner["name"] = name
	from, _ := template["metadata"].(map[string]any)
	spec, _ := template["spec"].(map[string]any)
	if spec = maps.Clone(spec); spec == nil {
		spec = map[string]any{}
	}
	metadata := map[string]any{"namespace": req.Namespace, "generateName": name + "-", "ownerReferences": []any{owner}}
	for _, key := range []string{"annotations", "finalizers"} {
		if v, ok := from[key]; ok {
			metadata[key] = v
		}
	}
	written, _ := from["labels"].(map[string]any)
	labels := make(map[string]any, len(written)+4)
	maps.Copy(labels, written)
	switch {
	case parent.GetKind() == "Rollout":
		labels["rollouts-pod-template-hash"] = podHash
	case parent.GetKind() == "Deployment":
		labels["pod-template-hash"] = podHash
	case owner["kind"] == "Job":
		for _, prefix := range []string{"", "batch.kubernetes.io/"} {
			labels[prefix+"controller-uid"], labels[prefix+"job-name"] = podUID, name
		}
		metadata["finalizers"] = append(slices.Clip(anyList(from["finalizers"])), "batch.kubernetes.io/job-tracking")
	case owner["kind"] == "DaemonSet":
		labels["controller-revision-hash"], labels["pod-template-generation"] = podHash, "1"
		toNode(spec)
	case owner["kind"] == "StatefulSet":
		labels["controller-revision-hash"], labels["apps.kubernetes.io/pod-index"] = name+"-"+podHash, "0"
		labels["statefulset.kubernetes.io/pod-name"], metadata["name"] = name+"-0", name+"-0"
		identify(spec, name, parent)
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	namespace, account, elsewhere := strings.Cut(m.controller, ":")
	if !elsewhere {
		namespace, account = "kube-system", m.controller
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}}
	made := &Request{Operation: Create, Maker: req, by: m, Object: &render.Object{Unstructured: pod, Unit: req.Object.Unit}}
	if m.controller != "" {
		made.UserInfo = UserInfo{
			Username: "system:serviceaccount:" + namespace + ":" + account,
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		}
	}
	return made
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

// identify gives the spec of a pod of a StatefulSet its host name, subdomain and volume claims, as
// initIdentity and updateStorage of Kubernetes' pkg/controller/statefulset/stateful_set_utils.go do.
func identify(spec map[string]any, name string, set *unstructured.Unstructured) {
	spec["hostname"] = name + "-0"
	if service, _ := render.Lookup(set.Object, "/spec/serviceName"); service != nil {
		spec["subdomain"] = service
	}
	claims, _ := render.Lookup(set.Object, "/spec/volumeClaimTemplates")
	volumes := slices.Clone(anyList(spec["volumes"]))
	for _, c := range anyList(claims) {
		claim, _ := render.Lookup(c, "/metadata/name")
		named, _ := claim.(string)
		volumes = slices.DeleteFunc(volumes, func(v any) bool { other, _ := render.Lookup(v, "/name"); return other == claim })
		volumes = append(volumes, map[string]any{"name": named, "persistentVolumeClaim": map[string]any{"claimName": named + "-" + name + "-0"}})
	}
	if len(volumes) > 0 {
		spec["volumes"] = volumes
	}
}

func anyList(v any) []any {
	list, _ := v.([]any)
	return list
}

// otherPod returns a pod with other values of what a controller and the cluster choose.
func otherPod(pod *Request) map[string]any {
	r := strings.NewReplacer(podHash, otherHash, podUID, otherUID, podNode, otherNode)
	other := maps.Clone(pod.Admitted)
	metadata, _ := otherValue(other["metadata"], r).(map[string]any)
	if prefix, ok := metadata["generateName"].(string); ok && pod.Name == "" && metadata["name"] != nil {
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
	switch v := v.(type) {
	case string:
		return r.Replace(v)
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, e := range v {
			all[key] = otherValue(e, r)
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = otherValue(e, r)
		}
		return all
	}
	return v
}
