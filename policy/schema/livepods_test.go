package schema

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/podsecurity"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// podSecurity compares what PodSecurity says about an object in a namespace with a level.
func (c *comparison) podSecurity(t *testing.T, level string, object map[string]any) {
	u := &unstructured.Unstructured{Object: object}
	namespace := "pods-" + level
	u.SetNamespace(namespace)
	c.around(t, object, namespace)
	req := policy.Request{Operation: policy.Create, Object: parsed(t, object), UserInfo: liveUser}
	if req.Object == nil {
		return
	}
	status, answer, said := c.ask(t, http.MethodPost, livePath(c.kinds.Resource(u.GroupVersionKind()), namespace)+"?dryRun=All", object)
	text, _ := answer["message"].(string)
	if status != http.StatusCreated && !strings.Contains(text, "violates PodSecurity") {
		return // refused for another reason
	}
	for _, warning := range append(said, text) {
		if _, detail, found := strings.Cut(warning, "violate PodSecurity \""+level+":latest\": "); found && text == "" {
			text = detail
		} else if _, detail, found := strings.Cut(warning, "violates PodSecurity \""+level+":latest\": "); found {
			text = detail
		}
	}
	results, err := policy.Chain{Kinds: c.kinds, Validators: c.validators}.Review(t.Context(), []policy.Request{req})
	rendertest.OK(t, err)
	rest := text
	var extra []string
	for _, r := range results {
		if r.Engine != policy.EnginePodSecurity || r.Outcome != policy.Fail {
			continue
		}
		_, detail, _ := strings.Cut(strings.TrimSuffix(r.Message, "; its pods would be rejected"), "\": ")
		if detail, cut := strings.CutSuffix(detail, "…"); cut {
			rest = "" // not all of it is shown
		} else if !strings.Contains(rest, detail) {
			extra = append(extra, r.Message)
		}
		rest = strings.Replace(rest, detail, "", 1)
	}
	c.tally.mu.Lock()
	c.asked++
	if strings.Trim(rest, ", ") == "" && len(extra) == 0 {
		c.agree++
		if text != "" {
			c.verdicts++
		}
		c.tally.mu.Unlock()
		return
	}
	c.tally.mu.Unlock()
	c.add(u.GetKind()+" by "+level, func() string {
		return "server: " + text + "\nnot here: " + rest + "\nhere alone: " + strings.Join(extra, "; ") + "\n" + asJSON(object)
	})
}

// TestLivePodSecurity compares what the levels of Pod Security refuse, of pods and of what creates pods, with a
// running server.
func TestLivePodSecurity(t *testing.T) {
	s := startLive(t)
	kinds := newKinds(t, "").On(policy.NewCluster())
	size, _ := strconv.Atoi(cmp.Or(os.Getenv("PREADMIT_LIVE"), "2000"))
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("PREADMIT_SEED"), "1"), 10, 64)
	random := rand.New(rand.NewPCG(seed, 2))
	change := &changer{Rand: random, seen: make(map[string]map[string]any), keys: make(map[string][]string)}
	objects := slices.DeleteFunc(liveObjects(t, kinds), func(o map[string]any) bool {
		_, makes := policy.PodTemplate((&unstructured.Unstructured{Object: o}).GroupVersionKind().GroupKind())
		return !makes || o["kind"] == "PodTemplate"
	})
	for _, o := range objects {
		change.learn(o["apiVersion"].(string)+o["kind"].(string), o)
	}
	c := comparison{liveServer: s, tally: newTally(), kinds: kinds}
	for _, level := range []string{"baseline", "restricted"} {
		labels := map[string]any{"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/warn": level}
		namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "pods-" + level, "labels": labels}}
		s.create(t, "/api/v1/namespaces", namespace)
		engine, err := podsecurity.New(podsecurity.Options{Level: level, Cluster: policy.NewCluster([]*render.Object{parsed(t, namespace)}...)})
		rendertest.OK(t, err)
		c.validators = []policy.Validator{NewValidator(kinds, nil), engine}
		for i := range size {
			from := runtime.DeepCopyJSON(objects[i%len(objects)])
			rename(from, "x"+strconv.Itoa(i))
			c.podSecurity(t, level, from)
			for range 3 {
				from = change.changed(from)
			}
			c.podSecurity(t, level, from)
		}
	}
	t.Logf("%d refused", c.verdicts)
	c.report(t)
}
