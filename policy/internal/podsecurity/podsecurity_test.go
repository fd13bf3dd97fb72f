package podsecurity

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	psa "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

func podOf(t testing.TB, text string) *Pod {
	t.Helper()
	var object map[string]any
	rendertest.OK(t, yaml.Unmarshal([]byte(text), &object))
	pod, err := Read(object, "")
	if err != nil || pod == nil {
		t.Fatal(text, pod, err)
	}
	return pod
}

// said writes violations as a row of the tables: the check and its fields.
func said(violations []Violation) string {
	var rows []string
	for _, v := range violations {
		var fields []string
		for _, f := range v.Fields {
			field := strings.TrimPrefix(f.Field, "spec.")
			switch {
			case f.Required:
				field += " required"
			case f.BadValue != nil:
				field += fmt.Sprintf("=%v", f.BadValue)
			}
			fields = append(fields, field)
		}
		rows = append(rows, v.CheckID+": "+strings.Join(fields, ", "))
	}
	return strings.Join(rows, "; ")
}

// safe is a container that restricted allows.
const safe = "securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}"

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ level, version, pod, want string }{
		{
			"privileged", "latest", "{spec: {hostPID: true, volumes: [{name: v, nfs: {server: s, path: p}}], containers: [{name: a, " + safe + "}]}}",
			"hostNamespaces: hostPID=true; restrictedVolumes: volumes[0].nfs",
		},
		{"baseline", "latest", "{spec: {containers: [{name: a}]}}", ""},
		{"restricted", "latest", "{spec: {containers: [{name: a, " + safe + "}]}}", ""},
		{
			"baseline", "latest", "{spec: {hostIPC: true, hostNetwork: true, hostPID: true, containers: []}}",
			"hostNamespaces: hostNetwork=true, hostPID=true, hostIPC=true",
		},
		{
			"baseline", "latest", "{spec: {volumes: [{name: a, emptyDir: {}}, {name: b, hostPath: {path: /etc}}], containers: []}}",
			"hostPathVolumes: volumes[1].hostPath=/etc",
		},
		{
			"baseline", "latest", "{spec: {containers: [{name: a, ports: [{containerPort: 1}, {containerPort: 2, hostPort: 80}]}], initContainers: [{name: i, ports: [{hostPort: 81}]}]}}",
			"hostPorts: initContainers[0].ports[0].hostPort=81, containers[0].ports[1].hostPort=80",
		},
		{
			"baseline", "latest", "{spec: {containers: [{name: a}, {name: b, securityContext: {privileged: true}}], ephemeralContainers: [{name: e, securityContext: {privileged: true}}]}}",
			"privileged: containers[1].securityContext.privileged=true, ephemeralContainers[0].securityContext.privileged=true",
		},
		{
			"baseline", "latest", "{spec: {containers: [{name: a, securityContext: {procMount: Unmasked}}]}}",
			"procMount: containers[0].securityContext.procMount=Unmasked",
		},
		{
			"restricted", "latest", "{spec: {containers: [{name: a, securityContext: {procMount: Unmasked, " + safe[len("securityContext: {"):] + "}]}}",
			"procMount: containers[0].securityContext.procMount=Unmasked",
		},
		{
			"restricted", "latest", "{spec: {hostUsers: false, containers: [{name: a, securityContext: {procMount: Unmasked, " + safe[len("securityContext: {"):] + "}]}}",
			"procMount: containers[0].securityContext.procMount=Unmasked",
		},
		{
			"baseline", "latest", "{spec: {hostUsers: false, containers: [{name: a, securityContext: {procMount: Unmasked}}]}}",
			"procMount: containers[0].securityContext.procMount=Unmasked",
		},
		{
			"baseline", "latest", "{spec: {containers: [{name: a, securityContext: {capabilities: {add: [CHOWN, SYS_ADMIN, NET_ADMIN]}}}]}}",
			"capabilities_baseline: containers[0].securityContext.capabilities.add=[SYS_ADMIN NET_ADMIN]",
		},
		{
			"baseline", "latest", "{spec: {securityContext: {sysctls: [{name: kernel.shm_rmid_forced, value: '1'}, {name: kernel.msgmax, value: '1'}]}, containers: []}}",
			"sysctls: securityContext.sysctls[1].name=kernel.msgmax",
		},
		{
			"baseline", "v1.28", "{spec: {securityContext: {sysctls: [{name: net.ipv4.tcp_keepalive_time, value: '1'}]}, containers: []}}",
			"sysctls: securityContext.sysctls[0].name=net.ipv4.tcp_keepalive_time",
		},
		{"baseline", "v1.29", "{spec: {securityContext: {sysctls: [{name: net.ipv4.tcp_keepalive_time, value: '1'}]}, containers: []}}", ""},
		{
			"baseline", "latest", "{spec: {securityContext: {windowsOptions: {hostProcess: true}}, containers: [{name: a, securityContext: {windowsOptions: {hostProcess: true}}}]}}",
			"windowsHostProcess: securityContext.windowsOptions.hostProcess=true, containers[0].securityContext.windowsOptions.hostProcess=true",
		},
		{
			"baseline", "latest", "{spec: {securityContext: {seLinuxOptions: {type: x, user: u}}, containers: [{name: a, securityContext: {seLinuxOptions: {role: r, type: container_t}}}]}}",
			"seLinuxOptions: securityContext.seLinuxOptions.type=x, securityContext.seLinuxOptions.user=u, containers[0].securityContext.seLinuxOptions.role=r",
		},
		{
			"baseline", "v1.30", "{spec: {securityContext: {seLinuxOptions: {type: container_engine_t}}, containers: []}}",
			"seLinuxOptions: securityContext.seLinuxOptions.type=container_engine_t",
		},
		{"baseline", "v1.31", "{spec: {securityContext: {seLinuxOptions: {type: container_engine_t}}, containers: []}}", ""},
		{
			"baseline", "latest", "{spec: {securityContext: {seccompProfile: {type: Unconfined}}, containers: [{name: a, securityContext: {seccompProfile: {type: Unconfined}}}, {name: b}]}}",
			"seccompProfile_baseline: securityContext.seccompProfile.type=Unconfined, containers[0].securityContext.seccompProfile.type=Unconfined",
		},
		{
			"baseline", "v1.18", "{metadata: {annotations: {container.seccomp.security.alpha.kubernetes.io/a: unconfined, seccomp.security.alpha.kubernetes.io/pod: unconfined}}, spec: {containers: [{name: a}]}}",
			"seccompProfile_baseline: metadata.annotations[container.seccomp.security.alpha.kubernetes.io/a]=unconfined, metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]=unconfined",
		},
		{
			"baseline", "latest", "{metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/a: unconfined}}, spec: {securityContext: {appArmorProfile: {type: Unconfined}}, containers: [{name: a, securityContext: {appArmorProfile: {type: Unconfined}}}]}}",
			"appArmorProfile: securityContext.appArmorProfile.type=Unconfined, containers[0].securityContext.appArmorProfile.type=Unconfined, metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]=unconfined",
		},
		{
			"baseline", "latest", "{spec: {containers: [{name: a, livenessProbe: {httpGet: {host: h, port: 1}}, startupProbe: {tcpSocket: {host: t, port: 1}}, lifecycle: {preStop: {httpGet: {host: p, port: 1}}, postStart: {tcpSocket: {host: q, port: 1}}}}]}}",
			"hostProbesAndHostLifecycle: containers[0].livenessProbe.httpGet.host=h, containers[0].startupProbe.tcpSocket.host=t, containers[0].lifecycle.postStart.tcpSocket.host=q, containers[0].lifecycle.preStop.httpGet.host=p",
		},
		{
			"baseline", "v1.19", "{spec: {containers: [{name: a, livenessProbe: {httpGet: {host: h, port: 1}}}]}}",
			"hostProbesAndHostLifecycle: containers[0].livenessProbe.httpGet.host=h",
		},
		{
			"restricted", "latest", "{spec: {containers: [{name: a}]}}",
			"allowPrivilegeEscalation: containers[0].securityContext.allowPrivilegeEscalation required; " +
				"capabilities_restricted: containers[0].securityContext.capabilities.drop required; " +
				"runAsNonRoot: containers[0].securityContext.runAsNonRoot required; " +
				"seccompProfile_restricted: containers[0].securityContext.seccompProfile.type required",
		},
		{"restricted", "latest", "{spec: {os: {name: windows}, containers: [{name: a, securityContext: {runAsNonRoot: true}}]}}", ""},
		{
			"restricted", "latest", "{spec: {containers: [{name: a, securityContext: {allowPrivilegeEscalation: true, runAsNonRoot: true, capabilities: {drop: [ALL]}, seccompProfile: {type: Localhost}}}]}}",
			"allowPrivilegeEscalation: containers[0].securityContext.allowPrivilegeEscalation=true",
		},
		{
			"restricted", "latest", "{spec: {containers: [{name: a, securityContext: {runAsNonRoot: true, capabilities: {drop: [ALL]}, seccompProfile: {type: Localhost}}}]}}",
			"allowPrivilegeEscalation: containers[0].securityContext.allowPrivilegeEscalation=nil",
		},
		{
			"restricted", "latest", "{spec: {containers: [{name: a, securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [CHOWN], add: [NET_BIND_SERVICE, KILL]}, seccompProfile: {type: Localhost}}}]}}",
			"capabilities_restricted: containers[0].securityContext.capabilities.drop=[CHOWN], containers[0].securityContext.capabilities.add=[KILL]",
		},
		{
			"restricted", "latest", "{spec: {containers: [{name: a, securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL], add: [SYS_TIME]}, seccompProfile: {type: Localhost}}}]}}",
			"capabilities_baseline: containers[0].securityContext.capabilities.add=[SYS_TIME]; capabilities_restricted: containers[0].securityContext.capabilities.add=[SYS_TIME]",
		},
		{
			"restricted", "latest", "{spec: {volumes: [{name: v, hostPath: {path: /x}}, {name: nf, nfs: {server: s, path: p}}, {name: o}], containers: []}}",
			"hostPathVolumes: volumes[0].hostPath=/x; restrictedVolumes: volumes[0].hostPath, volumes[1].nfs, volumes[2].unknown",
		},
		{
			"restricted", "latest", "{spec: {securityContext: {runAsNonRoot: false, seccompProfile: {type: Localhost}}, containers: [{name: a, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}, {name: b, securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: false, capabilities: {drop: [ALL]}}}]}}",
			"runAsNonRoot: securityContext.runAsNonRoot=false, containers[1].securityContext.runAsNonRoot=false, containers[0].securityContext.runAsNonRoot required",
		},
		{
			"restricted", "latest", "{spec: {securityContext: {runAsNonRoot: true, runAsUser: 0, seccompProfile: {type: Localhost}}, containers: [{name: a, securityContext: {runAsUser: 0, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}",
			"runAsUser: securityContext.runAsUser=0, containers[0].securityContext.runAsUser=0",
		},
		{
			"restricted", "latest", "{spec: {securityContext: {runAsNonRoot: true, seccompProfile: {type: Unconfined}}, containers: [{name: a, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}",
			"seccompProfile_baseline: securityContext.seccompProfile.type=Unconfined; seccompProfile_restricted: securityContext.seccompProfile.type=Unconfined",
		},
		{
			"restricted", "v1.19", "{spec: {securityContext: {runAsUser: 0}, containers: [{name: a, " + safe + "}]}}",
			"runAsUser: securityContext.runAsUser=0",
		},
		{
			"restricted", "", "{spec: {containers: [{name: a, securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}}}]}}",
			"seccompProfile_restricted: containers[0].securityContext.seccompProfile.type required",
		},
		{
			"restricted", "latest", "{spec: {hostUsers: false, containers: [{name: a, securityContext: {allowPrivilegeEscalation: false, runAsUser: 0, capabilities: {drop: [ALL]}, seccompProfile: {type: Localhost}}}]}}",
			"runAsNonRoot: containers[0].securityContext.runAsNonRoot required; runAsUser: containers[0].securityContext.runAsUser=0",
		},
	} {
		found, err := checked(c.level, c.version, podOf(t, c.pod))
		rendertest.OK(t, err)
		if got := said(found); got != c.want {
			t.Errorf("%s:%s %s\n got %s\nwant %s", c.level, c.version, c.pod, got, c.want)
		}
		for _, v := range found {
			if v.Control == "" || v.Reason == "" {
				t.Errorf("%+v says not what it is", v)
			}
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"Baseline", "latest"}, {"", "latest"}, {"baseline", "1.24"}, {"baseline", "newest"}, {"baseline", "v2.0"}} {
		if _, err := checked(c[0], c[1], &Pod{}); err == nil {
			t.Errorf("%q is no error", c)
		}
	}
	if v, err := checked("restricted", "latest", nil); v != nil || err != nil {
		t.Error(v, err)
	}
}

// Every check of the library has a finder and a name, and none is for nothing.
func TestChecksAreKnown(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, c := range psa.DefaultChecks() {
		ids = append(ids, string(c.ID))
	}
	slices.Sort(ids)
	var known, named []string
	for id := range finders {
		known = append(known, id)
	}
	for id := range controls {
		named = append(named, id)
	}
	slices.Sort(known)
	slices.Sort(named)
	if !slices.Equal(ids, known) || !slices.Equal(ids, named) {
		t.Errorf("%v\n%v\n%v", ids, known, named)
	}
	if len(Controls()) != 16 {
		t.Errorf("%v", Controls())
	}
}

func TestPointers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, object, pointer, field string }{
		{
			"", "{spec: {containers: [{name: a, securityContext: {privileged: true}}]}}",
			"/spec/containers/0/securityContext/privileged", "spec.containers[0].securityContext.privileged",
		},
		{"/spec/template", "{spec: {template: {spec: {hostPID: true}}}}", "/spec/template/spec/hostPID", "spec.template.spec.hostPID"},
		{
			"/spec/jobTemplate/spec/template", "{spec: {jobTemplate: {spec: {template: {spec: {volumes: [{name: a, hostPath: {path: x}}]}}}}}}",
			"/spec/jobTemplate/spec/template/spec/volumes/0/hostPath", "spec.jobTemplate.spec.template.spec.volumes[0].hostPath",
		},
		{
			"/spec/template", "{spec: {template: {metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/a: x}}, spec: {}}}}",
			"/spec/template/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1a", "metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]",
		},
		{
			"/spec/jobTemplate/spec/template", "{spec: {jobTemplate: {metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/a: x}}, spec: {template: {spec: {}}}}}}",
			"/spec/jobTemplate/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1a", "metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]",
		},
	} {
		var object map[string]any
		rendertest.OK(t, yaml.Unmarshal([]byte(c.object), &object))
		pod, err := Read(object, c.at)
		rendertest.OK(t, err)
		found, err := checked("baseline", "latest", pod)
		rendertest.OK(t, err)
		rendertest.Equal(t, []string{c.pointer}, Fields(found))
		if m := Message("r", "baseline", "", pod, found); !strings.Contains(m, "["+c.field+" is forbidden, forbidden values found: ") || !strings.Contains(m, `"baseline:latest"`) {
			t.Errorf("%s: %s", c.field, m)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at, object string
		pod, fails bool
	}{
		{"", "{spec: {containers: []}}", true, false},
		{"", "{}", true, false},
		{"/spec/template", "{spec: {}}", false, false},
		{"/spec/template", "{spec: {template: x}}", false, false},
		{"", "{spec: {containers: x}}", false, true},
		{"", "{spec: {containers: [{securityContext: {runAsUser: x}}]}}", false, true},
		{"", "{spec: {containers: [{resources: {limits: {cpu: 1e-2147483647}}}]}}", true, false},
		{"", "{spec: x}", true, false},
		{"", "{metadata: {annotations: {a: 1, b: x}}}", true, false},
	} {
		var object map[string]any
		rendertest.OK(t, yaml.Unmarshal([]byte(c.object), &object))
		pod, err := Read(object, c.at)
		if (pod != nil) != c.pod || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v", c.object, pod, err)
		}
	}
}

func TestExempt(t *testing.T) {
	t.Parallel()
	const two = "{spec: {hostPID: true, hostIPC: true, containers: [{name: a, image: nginx:1, securityContext: {privileged: true, capabilities: {add: [SYS_ADMIN, KILL, SYS_TIME]}}}, {name: b, image: redis, securityContext: {privileged: true}}]}}"
	const all = "capabilities_baseline: containers[0].securityContext.capabilities.add=[SYS_ADMIN SYS_TIME]; hostNamespaces: hostPID=true, hostIPC=true; privileged: containers[0].securityContext.privileged=true, containers[1].securityContext.privileged=true"
	const rest = "; hostNamespaces: hostPID=true, hostIPC=true; privileged: containers[0].securityContext.privileged=true, containers[1].securityContext.privileged=true"
	for _, c := range []struct {
		name     string
		excludes []Exclude
		want     string
	}{
		{"nothing", nil, all},
		{"another control", []Exclude{{ControlName: "Sysctls"}}, all},
		{"a control that is none", []Exclude{{ControlName: "privileged"}}, all},
		{"a control of the pod", []Exclude{{ControlName: "Host Namespaces"}}, strings.Replace(all, "hostNamespaces: hostPID=true, hostIPC=true; ", "", 1)},
		{"a field", []Exclude{{ControlName: "Host Namespaces", RestrictedField: "spec.hostPID"}}, strings.Replace(all, "hostPID=true, ", "", 1)},
		{"a field and a value", []Exclude{{ControlName: "Host Namespaces", RestrictedField: "spec.hostPID", Values: []string{"true"}}}, strings.Replace(all, "hostPID=true, ", "", 1)},
		{"a field and another value", []Exclude{{ControlName: "Host Namespaces", RestrictedField: "spec.hostPID", Values: []string{"false"}}}, all},
		{"a control of containers without images", []Exclude{{ControlName: "Privileged Containers"}}, all},
		{"a control of containers", []Exclude{{ControlName: "Privileged Containers", Images: []string{"*"}}}, strings.Replace(all, "; privileged: containers[0].securityContext.privileged=true, containers[1].securityContext.privileged=true", "", 1)},
		{"one container", []Exclude{{ControlName: "Privileged Containers", Images: []string{"nginx*"}}}, strings.Replace(all, "containers[0].securityContext.privileged=true, ", "", 1)},
		{"a field of containers", []Exclude{{ControlName: "Privileged Containers", Images: []string{"redis"}, RestrictedField: "spec.containers[*].securityContext.privileged"}}, strings.Replace(all, ", containers[1].securityContext.privileged=true", "", 1)},
		{"a field of other containers", []Exclude{{ControlName: "Privileged Containers", Images: []string{"redis"}, RestrictedField: "spec.initContainers[*].securityContext.privileged"}}, all},
		{
			"one after the other",
			[]Exclude{{ControlName: "Privileged Containers", Images: []string{"redis"}}, {ControlName: "Privileged Containers", Images: []string{"nginx:?"}}},
			strings.Replace(all, "; privileged: containers[0].securityContext.privileged=true, containers[1].securityContext.privileged=true", "", 1),
		},
		{"all values", []Exclude{{ControlName: "Capabilities", Images: []string{"nginx:1"}, Values: []string{"SYS_*"}}}, rest[2:]},
		{"not all values", []Exclude{{ControlName: "Capabilities", Images: []string{"nginx:1"}, Values: []string{"SYS_ADMIN"}}}, all},
	} {
		pod := podOf(t, two)
		found, err := checked("baseline", "latest", pod)
		rendertest.OK(t, err)
		before := said(found)
		if got := said(exempted(found, c.excludes, "baseline", "latest", pod)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
		if said(found) != before {
			t.Errorf("%s: the violations were changed", c.name)
		}
	}
}

// Kyverno's own rows about user namespaces.
func TestExemptBothProcMounts(t *testing.T) {
	t.Parallel()
	for _, users := range []string{"true", "false"} {
		pod := podOf(t, "{spec: {hostUsers: "+users+", containers: [{name: a, image: nginx, securityContext: {procMount: Unmasked, "+safe[len("securityContext: {"):]+"}]}}")
		found, _ := checked("restricted", "latest", pod)
		if len(found) != 1 {
			t.Errorf("%s", said(found))
		}
		for _, e := range []Exclude{
			{ControlName: "/proc Mount Type", Images: []string{"nginx"}},
			{ControlName: "/proc Mount Type", Images: []string{"nginx"}, RestrictedField: "spec.containers[*].securityContext.procMount", Values: []string{"Unmasked"}},
		} {
			if left := exempted(found, []Exclude{e}, "restricted", "latest", pod); len(left) > 0 {
				t.Errorf("hostUsers %s: %s", users, said(left))
			}
		}
	}
}

// Each error found in the probe takes one away, and the last takes its place.
func TestExemptRemovesOneError(t *testing.T) {
	t.Parallel()
	const mostly = "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}"
	pod := podOf(t, "{spec: {containers: [{name: a, "+mostly+"}, {name: b, "+mostly+"}, {name: c, "+mostly+"}]}}")
	found, _ := checked("restricted", "latest", pod)
	left := exempted(found, []Exclude{{ControlName: "Running as Non-root"}}, "restricted", "latest", pod)
	if got := said(left); got != "runAsNonRoot: containers[2].securityContext.runAsNonRoot required, containers[1].securityContext.runAsNonRoot required" {
		t.Error(got)
	}
}

// What is excluded of many containers hides no other one.
func TestExemptOfManyContainers(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1000, 3000} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "{name: a%d, image: good, securityContext: {privileged: true}}, ", i)
		}
		pod := podOf(t, "{spec: {containers: ["+b.String()+"{name: z, image: evil, securityContext: {privileged: true}}]}}")
		found, _ := checked("baseline", "latest", pod)
		left := exempted(found, []Exclude{{ControlName: "Privileged Containers", Images: []string{"good"}}}, "baseline", "latest", pod)
		if len(left) != 1 {
			t.Fatal("nothing is left")
		}
		if m := Message("r", "baseline", "latest", pod, left); len(m) > maxMessage {
			t.Errorf("a message of %d bytes", len(m))
		}
		if p := Fields(left); len(p) > maxFields {
			t.Errorf("%d fields", len(p))
		}
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	pod := podOf(t, "{spec: {volumes: [{name: a, hostPath: {path: /x}}], containers: [{name: a, "+safe+"}]}}")
	found, _ := checked("restricted", "v1.30", pod)
	want := `Validation rule 'r' failed. It violates PodSecurity "restricted:v1.30": (Forbidden reason: hostPath volumes, field error list: [spec.volumes[0].hostPath is forbidden, forbidden values found: /x])(Forbidden reason: restricted volume types, field error list: [spec.volumes[0].hostPath: Forbidden])`
	if got := Message("r", "restricted", "v1.30", pod, found); got != want {
		t.Error(got)
	}
	if got := Message("r", "restricted", "v1.30", pod, nil); got != "Validation rule 'r' passed." {
		t.Error(got)
	}
	if got := Fields(found); !slices.Equal(got, []string{"/spec/volumes/0/hostPath"}) {
		t.Error(got)
	}
}

// FuzzCheck wants of each pod that it is refused with fields or not at all.
func FuzzCheck(f *testing.F) {
	f.Add("{spec: {hostPID: true, containers: [{name: a, image: x, securityContext: {capabilities: {add: [X]}}}]}}", "Capabilities", "x")
	f.Add("{metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/a: x}}, spec: {containers: [{}]}}", "AppArmor", "")
	f.Fuzz(func(t *testing.T, text, control, image string) {
		var object map[string]any
		if yaml.Unmarshal([]byte(text), &object) != nil {
			t.Skip()
		}
		pod, err := Read(object, "")
		if err != nil || pod == nil {
			t.Skip()
		}
		for _, version := range []string{"latest", "v1.18", "v1.25"} {
			found, err := checked("restricted", version, pod)
			rendertest.OK(t, err)
			for _, v := range found {
				if len(v.Fields) == 0 {
					t.Errorf("%s without fields", v.CheckID)
				}
			}
			left := exempted(found, []Exclude{{ControlName: control, Images: []string{image}}, {ControlName: control}}, "restricted", version, pod)
			Message("r", "restricted", version, pod, left)
		}
		var again map[string]any
		_ = yaml.Unmarshal([]byte(text), &again)
		if !reflect.DeepEqual(object, again) {
			t.Error("what went in was changed")
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	good := podOf(b, "{spec: {containers: [{name: a, "+safe+"}, {name: b, "+safe+"}]}}")
	bad := podOf(b, "{spec: {hostPID: true, containers: [{name: a}, {name: b, securityContext: {privileged: true}}]}}")
	for name, pod := range map[string]*Pod{"pass": good, "fail": bad} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := checked("restricted", "latest", pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func checked(level, version string, pod *Pod) ([]Violation, error) {
	s, err := New(level, version)
	if err != nil {
		return nil, err
	}
	return s.Check(pod), nil
}

func exempted(found []Violation, excludes []Exclude, level, version string, pod *Pod) []Violation {
	s, err := New(level, version)
	if err != nil {
		return found
	}
	return s.Exempt(found, excludes, pod)
}

// Controls are the names that a rule may exclude, sorted.
func Controls() []string {
	var names []string
	for _, name := range controls {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
