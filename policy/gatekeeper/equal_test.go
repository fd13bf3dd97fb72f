package gatekeeper

import (
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/enginetest"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestEqualObjects holds that requests about equal objects, which are reviewed together, have the
// results of requests that are reviewed alone: under constraints whose responses are the same, and
// under those for which it matters in which unit an object is.
func TestEqualObjects(t *testing.T) {
	t.Parallel()
	const strict = `package k
violation[{"msg": msg}] {
  input.review.namespaceObject.metadata.labels.strict == "yes"
  msg := sprintf("%v is not allowed", [input.review.object.spec.containers[_].image])
}`
	native := nativeTemplate("\n        validations: [{expression: \"variables.anyObject.spec.containers.all(c, c.image != 'c:1')\", message: image}]")
	policies := ""
	for kind, template := range map[string]string{"Strict": templateOf(strict), "Native": native, "Sees": templateOf(seesServices)} {
		text := strings.NewReplacer("kind: K}", "kind: "+kind+"}", "kind: K\n", "kind: "+kind+"\n", "name: k}", "name: "+strings.ToLower(kind)+"}").Replace(template + plainConstraint)
		policies += "---\n" + text
	}
	var objects []*render.Object
	for i := range 4 {
		text := fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: s, namespace: one}, spec: {ports: [{port: 80}], port: %d}}\n", i)
		text += fmt.Sprintf("---\n{apiVersion: v1, kind: Namespace, metadata: {name: several, labels: {strict: '%s'}}}\n", []string{"yes", "no"}[i%2])
		if i == 0 {
			text += "---\n{apiVersion: v1, kind: Namespace, metadata: {name: one, labels: {strict: 'yes'}}}\n"
		}
		for _, namespace := range []string{"one", "several"} {
			text += fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: %s}, spec: {containers: [{name: c, image: 'c:1'}]}}\n", namespace)
		}
		u := &render.Unit{Source: render.Source{Path: fmt.Sprintf("%d.yaml", i), Kind: "manifest"}}
		u.Objects = rendertest.Parse(t, u.Path, text)
		for _, o := range u.Objects {
			o.Unit = u
		}
		objects = append(objects, u.Objects...)
	}
	kinds, err := schema.New(nil, schema.Options{})
	rendertest.OK(t, err)
	e, err := New(parseAll(t, policies), Options{Cluster: policy.NewCluster(objects...)})
	rendertest.OK(t, err)
	want := enginetest.Together(t, policy.Chain{Kinds: kinds, Validators: []policy.Validator{e}}, policy.Requests(nil, objects))
	said := map[string]map[string]bool{}
	for i := range want {
		r := &want[i]
		if r.Object.Kind != "Pod" {
			continue
		}
		of := r.Rule + " " + r.Object.Namespace
		if said[of] == nil {
			said[of] = map[string]bool{}
		}
		said[of][fmt.Sprint(r.Outcome, r.Message)] = true
	}
	got := map[string]int{}
	for of, all := range said {
		got[of] = len(all)
	}
	rendertest.Equal(t, map[string]int{"Native one": 1, "Native several": 1, "Sees one": 4, "Sees several": 4, "Strict one": 1, "Strict several": 2}, got)
}
