package schema

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/apis/autoscaling"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Quantities that libraries would compute for ever are refused at their
// place, wherever a type has one, and before anything parses them.
func TestHostileQuantities(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "")
	hostile := []any{
		"1e2147483647", "1e-2147483647", "1e4294967296", "1E28", "-1e-28", " 1e99999999999999999999 ", "1e+2147483647",
		strings.Repeat("9", 41), "0." + strings.Repeat("0", 41), strings.Repeat("9", 1_000_000), strings.Repeat("x", 1000), 1e300,
	}
	for _, q := range hostile {
		start := time.Now()
		o := parse(t, benchDeployment)
		limits, _ := render.Lookup(o.Object, "/spec/template/spec/containers/1/resources/limits")
		limits.(map[string]any)["memory"] = q
		o.Object["metadata"].(map[string]any)["name"] = int64(1) // an earlier fault doesn't lead around the guard
		_, err := kinds.Admit(o, "")
		var fe *policy.FieldError
		if !errors.As(err, &fe) || fe.Fields[0] != "/spec/template/spec/containers/1/resources/limits/memory" {
			t.Errorf("%.50v: %v", q, err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%.50v took %s", q, took)
		}
	}
}

func TestHostileQuantityInAnnotation(t *testing.T) {
	t.Parallel()
	o := object("autoscaling/v1", "HorizontalPodAutoscaler")
	o.SetAnnotations(map[string]string{autoscaling.MetricSpecsAnnotation: `[{"type":"Pods","pods":{"metricName":"q","targetAverageValue":"1e2147483647"}}]`})
	_, err := newKinds(t, "").Admit(o, "")
	var fe *policy.FieldError
	if !errors.As(err, &fe) || fe.Fields[0] != "/metadata/annotations/autoscaling.alpha.kubernetes.io~1metrics" {
		t.Error(err)
	}
}

func TestQuantities(t *testing.T) {
	t.Parallel()
	for in, want := range map[any]string{
		"0.5": "500m", "1024Mi": "1Gi", int64(2): "2", 0.5: "500m", "1e3": "1e3", "1E3": "1E3", "1E": "1E", "5e27": "5e27",
		" 1 ": "1", "100000000000000000000": "100E", "0.0001": "1m", "1500m": "1500m", "-1": "-1", "1e-3": "1e-3",
	} {
		o := object("v1", "ResourceQuota")
		o.Object["spec"] = map[string]any{"hard": map[string]any{"cpu": in}}
		held, err := newKinds(t, "").Admit(o, "")
		if err != nil {
			t.Errorf("%v: %v", in, err)
			continue
		}
		if got, _ := render.Lookup(held, "/spec/hard/cpu"); got != want {
			t.Errorf("%v: %v, want %s", in, got, want)
		}
	}
}
