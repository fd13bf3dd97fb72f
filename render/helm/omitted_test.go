package helm

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
)

const omittingTemplate = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  {{- with .Values.annotations }}
  annotations: {{ toYaml . | nindent 4 }}
  {{- end }}
spec:
  template:
    {{- include "pod" . | nindent 4 }}
`

const omittingHelpers = `{{- define "pod" -}}
spec:
  containers:
  - name: web
    image: web
    {{- with .Values.security }}
    securityContext: {{ toYaml . | nindent 6 }}
    {{- end }}
    {{- with .Values.resources }}
    resources: {{ toYaml . | nindent 6 }}
    {{- end }}
  - name: sidecar
    image: sidecar
    {{- if and .Values.sidecar.probed .Values.sidecar.port }}
    livenessProbe: {tcpSocket: {port: {{ .Values.sidecar.port }}}}
    {{- end }}
    {{- $r := .Values.sidecar.resources }}
    {{- if $r }}
    resources: {{ toYaml $r | nindent 6 }}
    {{- end }}
  - name: plain
    image: plain
  {{- if .Values.host }}
  hostNetwork: true
  {{- end }}
  {{- with .Values.podSecurity }}
  securityContext: {{ toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
`

const omittingValues = `annotations: {}
security: {}
resources: {}
sidecar:
  probed: false
  port: 80
  resources: {}
host: ""
podSecurity: {}
`

// TestOmitted holds that a field which a condition leaves out is at the value of the
// condition: with another value on that line, the object has the field.
func TestOmitted(t *testing.T) {
	t.Parallel()
	const pod = "/spec/template/spec"
	for pointer, c := range map[string]struct {
		line  int
		value string // that makes the template write the field
	}{
		"/metadata/annotations/team":                     {1, "annotations: {team: a}"},
		pod + "/containers/0/securityContext/privileged": {2, "security: {privileged: true}"},
		pod + "/containers/0/resources/limits/memory":    {3, "resources: {limits: {memory: 1Gi}}"},
		pod + "/containers/1/livenessProbe":              {5, "  probed: true"},
		pod + "/containers/1/resources/limits":           {7, "  resources: {limits: {memory: 1Gi}}"},
		pod + "/hostNetwork":                             {8, "host: yes"},
		pod + "/securityContext/runAsNonRoot":            {9, "podSecurity: {runAsNonRoot: true}"},
		pod + "/containers/1/securityContext/privileged": {}, // of the container that no condition is in
		pod + "/containers/2/resources/limits/memory":    {},
		pod + "/containers/0/livenessProbe/tcpSocket":    {},
		"/metadata/labels/team":                          {},
	} {
		o := omitting(t, omittingValues)
		if _, ok := render.Lookup(o.Object, pointer); ok {
			t.Fatalf("%s is not missing", pointer)
		}
		at := o.At(pointer)[0]
		if c.line == 0 {
			if at.Role != render.Template {
				t.Errorf("%s is at %v, want a template", pointer, at)
			}
			continue
		}
		if at.File != "chart/values.yaml" || at.Line != c.line || at.Role != render.Value {
			t.Errorf("%s is at %v, want chart/values.yaml:%d", pointer, at, c.line)
		}
		lines := strings.Split(omittingValues, "\n")
		lines[c.line-1] = c.value
		if _, ok := render.Lookup(omitting(t, strings.Join(lines, "\n")).Object, pointer); !ok {
			t.Errorf("%s is still missing with %s", pointer, c.value)
		}
	}
}

func omitting(t *testing.T, values string) *render.Object {
	t.Helper()
	src := render.Source{Path: "chart", FS: fstest.MapFS{
		"chart/Chart.yaml":             {Data: []byte("apiVersion: v2\nname: chart\nversion: 1.0.0\n")},
		"chart/values.yaml":            {Data: []byte(values)},
		"chart/templates/web.yaml":     {Data: []byte(omittingTemplate)},
		"chart/templates/_helpers.tpl": {Data: []byte(omittingHelpers)},
	}}
	objects, err := New(Options{}).Render(context.Background(), src)
	if hard(err) != nil || len(objects) != 1 {
		t.Fatal(fmt.Sprint(len(objects), " objects: "), err)
	}
	return objects[0]
}
