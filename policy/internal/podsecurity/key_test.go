package podsecurity

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

const keyedPod = `
metadata: {name: a, labels: {app: a}, annotations: {container.apparmor.security.beta.kubernetes.io/a: unconfined}}
spec:
  hostPID: true
  securityContext: {runAsUser: 0, sysctls: [{name: kernel.msgmax, value: "1"}], seccompProfile: {type: Unconfined}}
  volumes: [{name: v, hostPath: {path: /}}, {name: w, emptyDir: {sizeLimit: 1Gi}}]
  containers:
  - name: a
    image: b
    ports: [{containerPort: 80, hostPort: 80}]
    resources: {limits: {cpu: 1}}
    livenessProbe: {httpGet: {port: 80, host: x}}
    securityContext: {privileged: true, procMount: Unmasked, capabilities: {add: [NET_ADMIN], drop: [ALL]}, seLinuxOptions: {type: x}}
  initContainers: [{name: i, image: c, securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true}}]
`

// TestKey holds that pods of one key are refused alike, in the same words and fields,
// and that the key leaves out what no check looks at.
func TestKey(t *testing.T) {
	t.Parallel()
	var pod map[string]any
	rendertest.OK(t, yaml.Unmarshal([]byte(keyedPod), &pod))
	standard, err := New("restricted", "latest")
	rendertest.OK(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	excludes := []Exclude{{ControlName: "Capabilities", Images: []string{"b*"}}, {ControlName: "Privileged Containers", Images: []string{"*", "a"}}, {ControlName: "Seccomp"}}
	known := make(map[string]string)
	repeated := 0
	for range 4000 {
		tree := runtime.DeepCopyJSON(pod)
		for range random.IntN(4) {
			perturb(random, tree)
		}
		key := Key(tree, "")
		if key == "" {
			t.Fatalf("no key: %v", tree)
		}
		key += ImageKey(excludes, Images(tree, ""))
		said := "broken"
		if p, err := Read(tree, ""); err == nil {
			violations := standard.Check(p)
			said = fmt.Sprint(Message("r", "restricted", "", p, violations), Fields(violations), standard.Exempt(violations, excludes, p))
		}
		if before, ok := known[key]; ok {
			if repeated++; before != said {
				t.Fatalf("%v:\n%s\nand of the same key\n%s", tree, said, before)
			}
		}
		known[key] = said
	}
	if repeated < 100 {
		t.Errorf("only %d pods of a key that was there", repeated)
	}
	same := runtime.DeepCopyJSON(pod)
	same["metadata"].(map[string]any)["labels"] = map[string]any{"app": "b"}
	same["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["image"] = "other"
	if Key(same, "") != Key(pod, "") {
		t.Error("labels or images are in the key")
	}
	if Key(pod, "/spec/template") != "" {
		t.Error("there is a key without a pod")
	}
}

func perturb(random *rand.Rand, tree any) {
	values := []any{"a", "", "bc", int64(0), int64(80), true, false, nil, map[string]any{}, []any{}, []any{"ALL"}}
	switch tree := tree.(type) {
	case map[string]any:
		key := slices.Sorted(maps.Keys(tree))
		if len(key) == 0 {
			return
		}
		at := key[random.IntN(len(key))]
		switch random.IntN(5) {
		case 0:
			delete(tree, at)
		case 1:
			tree[at] = values[random.IntN(len(values))]
		default:
			perturb(random, tree[at])
		}
	case []any:
		if len(tree) > 0 {
			perturb(random, tree[random.IntN(len(tree))])
		}
	}
}
