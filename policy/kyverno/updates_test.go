package kyverno

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A clusterCase is what happened on a cluster.
type clusterCase struct {
	Files map[string][]string
	wants []clusterWant
	dir   string
}

type clusterWant struct {
	Policy, Operation, Result, Action, OldObject string
	Resource                                     struct {
		File string
		Doc  int
	}
}

// TestPublishedUpdates asks what a cluster said about UPDATEs, and of images that
// no rule names: denied or not.
func TestPublishedUpdates(t *testing.T) {
	t.Parallel()
	asked := 0
	for _, source := range []string{"kyverno-chainsaw", "kyverno-policies-chainsaw"} {
		dirs, _ := filepath.Glob(filepath.Join(corpora, source, "*"))
		for _, dir := range dirs {
			c := readCase(t, dir)
			for _, w := range c.wants {
				if w.OldObject != "" || w.Action == "verifyImages" && w.Result == "pass" {
					asked++
					c.hold(t, w)
				}
			}
		}
	}
	if asked == 0 {
		t.Skip("no corpora beside the project")
	}
	t.Logf("%d requests", asked)
}

func readCase(t *testing.T, dir string) *clusterCase {
	t.Helper()
	c := &clusterCase{dir: dir}
	for name, into := range map[string]any{"case.json": c, "expect.json": &c.wants} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = yaml.Unmarshal(data, into)
		}
		rendertest.OK(t, err)
	}
	return c
}

func (c *clusterCase) hold(t *testing.T, w clusterWant) {
	t.Helper()
	policies := append(objectsOf(t, c.dir, c.Files["policies"]), objectsOf(t, c.dir, c.Files["exceptions"])...)
	cluster := policy.NewCluster(objectsOf(t, c.dir, c.Files["cluster"])...)
	engine, err := New(policies, Options{Kinds: plainKinds{}, Cluster: cluster})
	if len(engine.Policies()) == 0 {
		return // of another kind
	}
	if err != nil {
		t.Errorf("%s: %v", c.dir, err)
	}
	req := &policy.Request{Operation: policy.Create, Object: nth(objectsOf(t, c.dir, []string{w.Resource.File}), w.Resource.Doc)}
	if req.Object == nil {
		return
	}
	if w.OldObject != "" {
		req.Operation, req.OldObject = policy.Update, objectsOf(t, c.dir, []string{w.OldObject})[0]
	}
	admitRequest(t, req)
	results, err := engine.Validator().Validate(context.Background(), req)
	rendertest.OK(t, err)
	denied := false
	for _, r := range results {
		denied = denied || r.Action == policy.Deny && r.Outcome != policy.Pass && r.Outcome != policy.Skip
	}
	if denied != (w.Result == "fail") {
		t.Errorf("%s: %s of %s: want %s, got %v", c.dir, w.Operation, w.Resource.File, w.Result, results)
	}
}

func nth(objects []*render.Object, n int) *render.Object {
	if n >= len(objects) {
		return nil
	}
	return objects[n]
}
