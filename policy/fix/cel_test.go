package fix

import (
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
)

// TestExpressions holds which values an expression determines, and for which fields.
func TestExpressions(t *testing.T) {
	t.Parallel()
	params := []map[string]any{{"spec": map[string]any{"max": int64(7), "one": []any{"a"}, "two": []any{"a", "b"}, "text": "5"}}}
	for expression, want := range map[string]string{
		"object.spec.replicas == 3":                                            "spec.replicas=3",
		"3 >= object.spec.replicas":                                            "spec.replicas=3",
		"object.spec.replicas <= params.spec.max":                              "spec.replicas=7",
		"object.spec.replicas <= int(params.spec.text)":                        "spec.replicas=5 spec.replicas=5",
		"object.metadata.labels['team'] in params.spec.one":                    "metadata.labels.team=a",
		"object.metadata.labels['team'] in params.spec.two":                    "",
		"object.metadata.labels.team in ['a']":                                 "metadata.labels.team=a",
		"object.metadata.labels.team in ['a', 'b']":                            "",
		"'a' in object.spec.list":                                              "",
		"!object.spec.hostNetwork":                                             "spec.hostNetwork=false spec.hostNetwork-",
		"!has(object.spec.hostNetwork)":                                        "spec.hostNetwork=false spec.hostNetwork-",
		"object.spec.containers.all(c, c.securityContext.privileged == false)": "~securityContext.privileged=false",
		"quantity(c.limits.memory).compareTo(quantity('1Gi')) <= 0":            "~limits.memory=1Gi",
		"quantity(c.limits.memory).isLessThan(quantity('1Gi'))":                "~limits.memory=1Gi",
		"object.spec.a == object.spec.b":                                       "",
		"object.metadata.name.startsWith('a')":                                 "",
		"object.spec.a != 1":                                                   "",
		"variables.x == 1":                                                     "",
		"not CEL (":                                                            "",
	} {
		var got []string
		for _, l := range celLeaves(expression, params) {
			text := strings.Join(l.keys, ".")
			if l.below {
				text = "~" + text
			}
			if l.remove {
				got = append(got, text+"-")
			} else {
				got = append(got, fmt.Sprintf("%s=%v", text, l.value))
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: got %s, want %s", expression, got, want)
		}
	}
}

// TestValuesOfField holds that values are for the field at fault, and never make another object of it.
func TestValuesOfField(t *testing.T) {
	t.Parallel()
	object := map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a", "namespace": "default"},
		"spec": map[string]any{"hostNetwork": true, "containers": []any{map[string]any{"tty": true}, map[string]any{"tty": true}}},
	}
	v := &Values{byPolicy: map[string][]leaf{"p": celLeaves(
		"object.metadata.namespace == 'b' && object.metadata.name == 'b' && !object.spec.hostNetwork && object.spec.containers.all(c, c.tty == false)", nil)}}
	for field, want := range map[string]string{
		"/metadata/namespace":    "[]",
		"/metadata":              "[]",
		"/spec/hostNetwork":      "[{/spec/hostNetwork false  false} {/spec/hostNetwork true  <nil>}]",
		"/spec/containers/1/tty": "[{/spec/containers/1/tty false  false}]",
		"/spec/other":            "[]",
	} {
		var got []render.Edit
		for _, f := range v.of("p", object, field) {
			got = append(got, f.Edit)
		}
		if got := fmt.Sprint(got); got != want {
			t.Errorf("%s: got %s, want %s", field, got, want)
		}
	}
}
