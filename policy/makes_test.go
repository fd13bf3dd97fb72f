package policy

import (
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestMakes holds which objects controllers create pods of now.
func TestMakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {}}}":                                         true,
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2, template: {}}}":                            true,
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 0, template: {}}}":                            false,
		"{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {parallelism: 0, template: {}}}":                               false,
		"{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {suspend: true, template: {}}}":                                false,
		"{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {suspend: false, template: {}}}":                               true,
		"{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {suspend: true, jobTemplate: {spec: {template: {}}}}}":     false,
		"{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {jobTemplate: {spec: {suspend: true, template: {}}}}}":     false,
		"{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {jobTemplate: {spec: {parallelism: 0, template: {}}}}}":    false,
		"{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {jobTemplate: {spec: {parallelism: 3, template: {}}}}}":    true,
		"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}, spec: {template: {}}}":                                          true,
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: 0, template: {}, volumeClaimTemplates: []}}": false,
	} {
		if got := makes(rendertest.Parse(t, "a.yaml", text)[0]); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
