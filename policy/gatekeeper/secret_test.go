package gatekeeper

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestInventorySecret holds that a policy that looks at Secrets does not tell
// what is in them.
func TestInventorySecret(t *testing.T) {
	t.Parallel()
	cluster := policy.NewCluster(parseAll(t, `{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: a}, stringData: {key: hunter2hunter2}}`)...)
	e, err := New(parseAll(t, templateOf(`
package k
violation[{"msg": msg, "details": {"value": value}}] {
  value := data.inventory.namespace[_]["v1"]["Secret"][_].stringData.key
  msg := sprintf("the key is %v", [value])
}`)+plainConstraint), Options{Cluster: cluster})
	rendertest.OK(t, err)
	rendertest.Equal(t, []string{"fail deny K/c: " + rego.Hidden}, said(t, e, requestOf(t, pod)))
}

// TestSecretsAreNotQuoted holds that no field is named by a Secret's values, and
// that output of print is not shown if it quotes them.
func TestSecretsAreNotQuoted(t *testing.T) {
	t.Parallel()
	const secret = `{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: a}, stringData: {key: hunter2hunter2}}`
	for name, c := range map[string]struct {
		code   string
		fields []string
	}{
		"a hint":              {`violation[{"msg": "x", "details": {"path": sprintf("/stringData/%v", [input.review.object.stringData.key])}}]`, []string{"/stringData/key"}},
		"a field that is not": {`violation[{"msg": "x"}] { not input.review.object.metadata.labels[input.review.object.stringData.key] }`, nil},
		"a field that is":     {`violation[{"msg": "x"}] { print(input.review.object.stringData); input.review.object.stringData.key == "hunter2hunter2" }`, []string{"/stringData/key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var printed []string
			e, err := New(parseAll(t, templateOf("package k\n"+c.code)+plainConstraint), Options{
				Print: func(_ string, _ render.Span, text string) { printed = append(printed, text) },
			})
			rendertest.OK(t, err)
			results, err := e.Validate(t.Context(), requestOf(t, secret))
			if err != nil || len(results) != 1 {
				t.Fatal(results, err)
			}
			rendertest.Equal(t, c.fields, results[0].Fields, cmpopts.EquateEmpty())
			if text := fmt.Sprint(results, printed); strings.Contains(text, "hunter2") {
				t.Error(text)
			}
		})
	}
}
