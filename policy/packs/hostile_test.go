package packs_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// bodies have little in them, or nulls and empty elements where policies look.
var bodies = []string{
	``,
	`metadata: {generateName: x-}`,
	`spec: {}`,
	`spec: null`,
	`spec: {template: {}}`,
	`spec: {template: null, selector: null, ports: null, rules: null, tls: null}`,
	`spec: {jobTemplate: {spec: {template: {spec: {}}}}}`,
	`rules: [{}, null]`,
	`rules: [{verbs: null, resources: null}]`,
	`rules: null, subjects: null, data: null, stringData: null`,
	`subjects: [{}]`,
	`data: {a: "", b: null}, stringData: {c: ""}`,
	`spec: {rules: [{}], tls: [{}], ports: [{}, {}], selector: {}, externalIPs: [""]}`,
	`spec: {containers: [{}], initContainers: [{}], volumes: [{}]}`,
	`spec: {containers: [null], initContainers: null, volumes: null}`,
	`spec: {template: {metadata: null, spec: {containers: [{env: [{}], ports: [{}], volumeMounts: [{}], readinessProbe: {httpGet: {}}}], volumes: [{hostPath: {}}, {emptyDir: {}}]}}}`,
	`spec: {template: {spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}, preferredDuringSchedulingIgnoredDuringExecution: [{}]}}, topologySpreadConstraints: [{}]}}}`,
	`spec: {template: {spec: {affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{}], requiredDuringSchedulingIgnoredDuringExecution: [{}]}}}}}`,
}

// TestEmptyObjects: no policy breaks on an object with next to nothing in it,
// of any kind that it is asked about.
func TestEmptyObjects(t *testing.T) {
	t.Parallel()
	j := newKindValidator(t, newest, objects(t, newest))
	evaluated := 0
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if strings.HasSuffix(gvk.Kind, "List") || !j.kinds.Resource(gvk).Known {
			continue
		}
		apiVersion, kind := gvk.ToAPIVersionAndKind()
		for i, body := range bodies {
			text := fmt.Sprintf("{apiVersion: %s, kind: %s, %s}", apiVersion, kind, body)
			results := j.review(t, rendertest.Parse(t, "o.yaml", text))
			if i == 0 && len(results) == 0 {
				break // no policy is asked about this kind
			}
			for _, r := range results {
				evaluated++
				if r.Engine == policy.EngineAdmission && r.Undecided() {
					t.Errorf("%s: %s/%s: %s", text, r.Policy, r.Rule, r.Message)
				}
			}
		}
	}
	if evaluated < 1000 {
		t.Errorf("only %d results", evaluated)
	}
}

// TestLargeObjects: objects as large as they get are evaluated within what the
// API server lets expressions cost.
func TestLargeObjects(t *testing.T) {
	t.Parallel()
	j := newKindValidator(t, newest, objects(t, newest))
	for name, text := range map[string]string{"deployment": largeDeployment(), "role": largeRole(), "service": largeService(), "secret": largeSecret()} {
		results := j.review(t, rendertest.Parse(t, name+".yaml", text))
		if len(results) == 0 {
			t.Errorf("%s was not judged", name)
		}
		for _, r := range results {
			if r.Undecided() {
				t.Errorf("%s: %s/%s: %.300s", name, r.Policy, r.Rule, r.Message)
			}
		}
	}
}

// repeat joins n lines of a pattern with the number in it.
func repeat(n int, pattern string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(pattern, "%d", fmt.Sprint(i)))
	}
	return b.String()
}

func largeDeployment() string {
	container := "      - name: c%d\n        image: registry.example/team/program:1.%d\n        resources: {limits: {memory: 1Gi, cpu: 1}, requests: {memory: 1Gi, cpu: 500m}}\n" +
		"        ports: [{name: http, containerPort: 8%d}]\n        readinessProbe: {httpGet: {port: http, path: /}}\n        env:\n" +
		repeat(60, "        - {name: SOME_VARIABLE_#, value: some value or other}\n") +
		"        volumeMounts:\n" + repeat(20, "        - {name: v#, mountPath: /v#}\n")
	for i := range 60 {
		container = strings.Replace(container, "SOME_VARIABLE_#", fmt.Sprintf("SOME_VARIABLE_%d_%d", i, i), 1)
	}
	for i := range 20 {
		container = strings.Replace(container, "v#, mountPath: /v#", fmt.Sprintf("vol%d, mountPath: /vol%d", i, i), 1)
	}
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n" +
		"    metadata: {labels: {app: web}}\n    spec:\n      containers:\n" + repeat(20, container) + "      volumes:\n" + repeat(20, "      - {name: vol%d, hostPath: {path: /data/%d}}\n")
}

func largeRole() string {
	return "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: all}\nrules:\n" +
		repeat(300, "- apiGroups: [apps, batch, policy]\n  resources: [kind%d, kind%d/status, kind%d/scale, secrets]\n  verbs: [get, list, watch, create, update, patch, delete]\n")
}

func largeService() string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: all, namespace: shop}\nspec:\n  ports:\n" + repeat(150, "  - {name: port-%d, port: 1%d}\n")
}

func largeSecret() string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: all, namespace: shop}\nstringData:\n" + repeat(200, "  key-%d: "+strings.Repeat("abcdefgh", 400)+"\n")
}
