package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestPlugins holds what admission plugins set in objects, and what they refuse, among objects of the
// cluster.
func TestPlugins(t *testing.T) {
	t.Parallel()
	const (
		limits  = "{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: shop}, spec: {limits: [{type: Container, max: {cpu: 2}, default: {cpu: 100m}}, {type: PersistentVolumeClaim, max: {storage: 10Gi}}]}}"
		high    = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}"
		usual   = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 10, globalDefault: true}"
		sandbox = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: sandbox}, handler: h, overhead: {podFixed: {cpu: 10m}}, scheduling: {nodeSelector: {kind: vm}, tolerations: [{key: vm, operator: Exists}]}}"
		fast    = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: \"true\"}}, provisioner: p}"
		nginx   = "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: nginx, annotations: {ingressclass.kubernetes.io/is-default-class: \"true\"}}, spec: {controller: c/c}}"
		account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: quiet, namespace: shop}, automountServiceAccountToken: false, imagePullSecrets: [{name: pull}]}"
		claim   = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: x, namespace: shop}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}%s}}"
		ingress = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: x, namespace: shop}, spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}}"
	)
	pod := func(spec string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: shop}, spec: {" + spec + "containers: [{name: c, image: i}]}}"
	}
	for name, c := range map[string]struct {
		around, object string
		want           string // fields, then refusals
	}{
		"service account":       {"", pod(""), "/spec/serviceAccountName=default /spec/containers/0/volumeMounts/0/mountPath=/var/run/secrets/kubernetes.io/serviceaccount /spec/volumes/0/name=kube-api-access-xxxxx"},
		"no token":              {account, pod("serviceAccountName: quiet, "), "/spec/serviceAccountName=quiet /spec/volumes=<nil> /spec/imagePullSecrets/0/name=pull"},
		"tolerations":           {"", pod(""), "/spec/tolerations/0/key=node.kubernetes.io/not-ready /spec/tolerations/1/tolerationSeconds=300"},
		"no priority class":     {"", pod(""), "/spec/priority=0 /spec/preemptionPolicy=PreemptLowerPriority"},
		"default class":         {high + "\n---\n" + usual, pod(""), "/spec/priority=10 /spec/priorityClassName=usual"},
		"system class":          {"", pod("priorityClassName: system-node-critical, "), "/spec/priority=2000001000 /spec/preemptionPolicy=PreemptLowerPriority"},
		"unknown class":         {"", pod("priorityClassName: absent, "), "/spec/priority=<nil>"},
		"absent class":          {high, pod("priorityClassName: absent, "), "/spec/priority=<nil> warn:no PriorityClass with name absent was found"},
		"priority":              {high, pod("priority: 5, "), "deny:must not be provided in pod spec"},
		"overhead":              {"", pod("overhead: {cpu: 10m}, "), "deny:Pod Overhead set without corresponding RuntimeClass"},
		"runtime class":         {sandbox, pod("runtimeClassName: sandbox, nodeSelector: {a: b}, "), "/spec/overhead/cpu=10m /spec/nodeSelector/kind=vm /spec/nodeSelector/a=b /spec/tolerations/2/key=vm"},
		"other nodes":           {sandbox, pod("runtimeClassName: sandbox, nodeSelector: {kind: metal}, "), "deny:conflict: runtimeClass.scheduling.nodeSelector"},
		"absent runtime":        {sandbox, pod("runtimeClassName: absent, "), "warn:RuntimeClass \"absent\" not found"},
		"limits":                {limits, pod(""), "/spec/containers/0/resources/limits/cpu=100m /spec/containers/0/resources/requests/cpu=100m"},
		"other namespace":       {strings.Replace(limits, "shop", "other", 1), pod(""), "/spec/containers/0/resources/limits=<nil>"},
		"above the maximum":     {limits, strings.Replace(pod(""), "image: i", "image: i, resources: {limits: {cpu: 4}}", 1), "deny:maximum cpu usage per Container is 2, but limit is 4"},
		"storage":               {limits, fmt.Sprintf(claim, "50Gi", ""), "deny:maximum storage usage per PersistentVolumeClaim is 10Gi"},
		"default storage class": {fast, fmt.Sprintf(claim, "5Gi", ""), "/spec/storageClassName=fast"},
		"no storage class":      {fast, fmt.Sprintf(claim, "5Gi", ", storageClassName: ''"), "/spec/storageClassName="},
		"claim in use":          {"", fmt.Sprintf(claim, "5Gi", ""), "/metadata/finalizers/0=kubernetes.io/pvc-protection"},
		"volume in use":         {"", "{apiVersion: v1, kind: PersistentVolume, metadata: {name: x}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /a}}}", "/metadata/finalizers/0=kubernetes.io/pv-protection"},
		"default ingress class": {nginx, ingress, "/spec/ingressClassName=nginx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			around := rendertest.Parse(t, "around.yaml", c.around)
			kinds, err := New(nil, Options{})
			rendertest.OK(t, err)
			cluster := policy.NewCluster(around...)
			cluster.Declared(nil)
			kinds = kinds.On(cluster)
			req, err := requestOf(kinds, parse(t, c.object).Object, nil)
			rendertest.OK(t, err)
			results, err := NewValidator(kinds, nil).Validate(t.Context(), req)
			rendertest.OK(t, err)
			results = slices.DeleteFunc(results, func(r policy.Result) bool { return r.Outcome == policy.Pass })
			for _, want := range strings.Split(strings.ReplaceAll(c.want, " /", "\n/"), "\n") {
				want, refusal, _ := strings.Cut(strings.Replace(strings.Replace(want, " deny:", "\ndeny:", 1), " warn:", "\nwarn:", 1), "\n")
				if !strings.HasPrefix(want, "/") {
					want, refusal = "", want
				}
				if pointer, value, ok := strings.Cut(want, "="); ok {
					if got, _ := render.Lookup(req.Admitted, pointer); fmt.Sprint(got) != value {
						t.Errorf("%s is %v, want %s", pointer, got, value)
					}
				}
				action, text, refused := strings.Cut(refusal, ":")
				if !refused {
					continue
				}
				if len(results) != 1 || string(results[0].Action) != action || !strings.Contains(results[0].Message, text) {
					t.Errorf("%v, want %s", results, refusal)
				}
				results = nil
			}
			if len(results) > 0 {
				t.Errorf("%v", results)
			}
		})
	}
}

// TestStored holds what policies see in objects that a running server has stored like this.
func TestStored(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "")
	for object, want := range map[string]string{
		"{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}": "/metadata/labels/job-name=j",
		"{apiVersion: batch/v1, kind: Job, metadata: {name: j, labels: {a: b}}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}":             "/metadata/labels/job-name=<nil>",
		"{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 1}]}}":                                      "/spec/healthCheckNodePort=unknown",
		"{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30001, ports: [{port: 1}]}}":          "/spec/healthCheckNodePort=30001",
	} {
		v, other := ours(t, comparison{kinds: kinds, validators: []policy.Validator{NewValidator(kinds, nil)}}, policy.Request{Operation: policy.Create, Object: rendertest.Parse(t, "o.yaml", object)[0]})
		pointer, value, _ := strings.Cut(want, "=")
		got, _ := render.Lookup(v.object, pointer)
		if another, _ := render.Lookup(other, pointer); other != nil && !render.Equal(got, another) {
			got = "unknown"
		}
		if fmt.Sprint(got) != value {
			t.Errorf("%s: %s is %v, want %s", object, pointer, got, value)
		}
	}
}

// TestAdminAccess holds that a claim which asks for admin access is a warning about its namespace, and an
// object's system fields are not seen.
func TestAdminAccess(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "")
	v := NewValidator(kinds, nil)
	results, err := validateObject(kinds, v, parse(t, `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a, deletionTimestamp: "2024-05-06T07:08:09Z", uid: x}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, adminAccess: true}}]}}
`).Object)
	rendertest.OK(t, err)
	if len(results) != 1 || results[0].Action != policy.Warn || !strings.Contains(results[0].Message, "admin-access: true` label on the containing namespace") {
		t.Errorf("%v", results)
	}
	held, err := kinds.Admit(parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, deletionTimestamp: '2024-05-06T07:08:09Z', uid: x}}"), "default")
	rendertest.OK(t, err)
	if meta := held["metadata"].(map[string]any); meta["deletionTimestamp"] != nil || meta["uid"] != nil {
		t.Errorf("system fields are seen: %v", meta)
	}
}

// On an update, no plugin sets what plugins set on creation.
func TestPluginsOnUpdate(t *testing.T) {
	t.Parallel()
	class := parse(t, `{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: nginx, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}, spec: {controller: c/c}}`)
	kinds := newKinds(t, "").On(policy.NewCluster(class))
	ingress := func(more string) *render.Object {
		return parse(t, "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: x}, spec: {"+more+"defaultBackend: {service: {name: s, port: {number: 80}}}}}")
	}
	for name, c := range map[string]struct {
		req  policy.Request
		want any
	}{
		"created":          {policy.Request{Operation: policy.Create, Object: ingress("")}, "nginx"},
		"a class goes":     {policy.Request{Operation: policy.Update, OldObject: ingress("ingressClassName: other, "), Object: ingress("")}, nil},
		"a default stays":  {policy.Request{Operation: policy.Update, OldObject: ingress("rules: [{host: a}], "), Object: ingress("")}, "nginx"},
		"a default is not": {policy.Request{Operation: policy.Update, Method: policy.Replace, OldObject: ingress("rules: [{host: a}], "), Object: ingress("")}, nil},
	} {
		asked := &asker{}
		chain := policy.Chain{Kinds: kinds, Validators: []policy.Validator{NewValidator(kinds, nil), asked}}
		reqs := []policy.Request{c.req}
		rendertest.OK(t, chain.StoreOld(t.Context(), reqs))
		_, err := chain.Review(t.Context(), reqs)
		rendertest.OK(t, err)
		if got, _ := render.Lookup(asked.last.Admitted, "/spec/ingressClassName"); got != c.want {
			t.Errorf("%s: class %v, want %v", name, got, c.want)
		}
	}
}
