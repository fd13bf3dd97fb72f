package gatekeeper

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestLiteralsOfViolations holds that a violation names the texts that its rule
// looks for, so that the part of a long value can be pointed at.
func TestLiteralsOfViolations(t *testing.T) {
	t.Parallel()
	e, err := New(parseAll(t, templateOf(`
package k
violation[{"msg": msg}] {
  c := input.review.object.spec.containers[_]
  contains(c.command[_], "curl")
  msg := sprintf("no curl in %v", [c.name])
}
violation[{"msg": "no app"}] { not input.review.object.metadata.labels.app }`)+plainConstraint), Options{})
	rendertest.OK(t, err)
	results, err := e.Validate(t.Context(), requestOf(t, `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: a, command: [sh, "curl x"]}]}}`))
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	rendertest.Equal(t, []string{"no app", "/metadata/labels/app"}, []string{results[0].Message, results[0].Fields[0]})
	if diff := cmp.Diff([]string{"curl"}, results[1].Literals); diff != "" || results[1].Fields[0] != "/spec/containers/0/command/1" {
		t.Error(diff, results[1].Fields)
	}
}
