package schema

import (
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

const benchDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web, team: shop}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: web
      securityContext: {runAsNonRoot: true}
      initContainers:
      - {name: init, image: "busybox:1.36", command: [sh, -c, "true"]}
      containers:
      - name: web
        image: ghcr.io/example/web:1.2.3
        ports: [{name: http, containerPort: 8080}]
        env: [{name: A, value: b}, {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
        resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
        livenessProbe: {httpGet: {path: /healthz, port: http}}
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: config, mountPath: /etc/web}]
      - {name: proxy, image: "envoy:1", resources: {limits: {cpu: 1, memory: 64Mi}}}
      - {name: log, image: fluent-bit}
      volumes: [{name: config, configMap: {name: web}}]
`

func BenchmarkAdmitDeployment(b *testing.B) {
	for _, version := range []string{"", "1.33"} {
		b.Run("kubernetes"+version, func(b *testing.B) { benchmarkAdmit(b, version, parse(b, benchDeployment)) })
	}
}

func BenchmarkAdmitConfigMap(b *testing.B) {
	benchmarkAdmit(b, "", parse(b, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b, c: d}\n"))
}

func benchmarkAdmit(b *testing.B, version string, o *render.Object) {
	kinds, err := New(nil, Options{KubeVersion: version})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := kinds.Admit(o, "default"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := kinds.Admit(o, "default"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(nil, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidateDeployment(b *testing.B) {
	for _, version := range []string{"", "1.33"} {
		b.Run("kubernetes"+version, func(b *testing.B) { benchmarkValidate(b, version, parse(b, benchDeployment)) })
	}
}

func BenchmarkValidateConfigMap(b *testing.B) {
	benchmarkValidate(b, "", parse(b, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b, c: d}\n"))
}

func benchmarkValidate(b *testing.B, version string, o *render.Object) {
	kinds, err := New(nil, Options{KubeVersion: version})
	if err != nil {
		b.Fatal(err)
	}
	req := policy.Request{Operation: policy.Create, Object: o, Kind: o.GroupVersionKind()}
	if req.Admitted, err = kinds.Admit(o, "shop"); err != nil {
		b.Fatal(err)
	}
	v := NewValidator(kinds, nil)
	results, err := v.Validate(b.Context(), &req)
	if err != nil || len(results) != 1 || results[0].Rule != ruleValid {
		b.Fatal(results, err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Validate(b.Context(), &req); err != nil {
			b.Fatal(err)
		}
	}
}
