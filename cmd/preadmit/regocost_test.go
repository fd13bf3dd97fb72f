//go:build unix

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestRegoCost prints what gator, conftest and this program take for the same
// policies over the same objects, in turn, several times: `make rego`. The
// policies are the Gatekeeper library's, and those in testdata/rego.
func TestRegoCost(t *testing.T) {
	if os.Getenv("PREADMIT_REGO") == "" {
		t.Skip("takes minutes; make rego runs it")
	}
	gator, conftest := needProgram(t, "PREADMIT_GATOR", "gator"), needProgram(t, "PREADMIT_CONFTEST", "conftest")
	dir := t.TempDir()
	bin := filepath.Join(dir, "preadmit")
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	alone, all := filepath.Join(dir, "alone"), filepath.Join(dir, "all")
	libraryPolicies(t, alone, false)
	libraryPolicies(t, all, true)
	policies, err := filepath.Abs(regoPolicies)
	rendertest.OK(t, err)
	data, _ := filepath.Abs(regoData)
	for _, n := range []int{1000, 10_000} {
		objects := filepath.Join(dir, fmt.Sprint(n))
		makeObjects(t, objects, n)
		check := []string{"check", objects, "--no-cache", "--fail-on", "never", "-q", "-o", "json"}
		rounds := 5
		if n > 1000 {
			rounds = 3
		}
		beside(t, rounds, fmt.Sprintf("gator test, %d objects, policies about one object", n),
			[]string{gator, "test", "-f", alone, "-f", objects, "-o", "json"}, append([]string{bin, "-p", alone}, check...))
		if n <= 1000 { // of 10,000 gator holds each against all others, for minutes
			beside(t, rounds, fmt.Sprintf("gator test, %d objects, all policies", n),
				[]string{gator, "test", "-f", all, "-f", objects, "-o", "json"}, append([]string{bin, "-p", all}, check...))
		}
		beside(t, rounds, fmt.Sprintf("conftest test, %d objects", n),
			[]string{conftest, "test", "--all-namespaces", "-p", policies, "-d", data, "-o", "json", objects},
			append([]string{bin, "-p", policies, "--data", data}, check...))
	}
}

// usage is what one process took.
type usage struct {
	cpu, clock time.Duration
	memory     int64 // at most, in bytes
	out        int
}

func (u usage) String() string {
	return fmt.Sprintf("%6.2fs CPU, %6.2fs, %5d MiB", u.cpu.Seconds(), u.clock.Seconds(), u.memory>>20)
}

// beside runs two programs in turn and prints the middle of what each takes.
func beside(t *testing.T, rounds int, what string, theirs, ours []string) {
	t.Helper()
	var a, b []usage
	for range rounds {
		a = append(a, spend(t, theirs))
		b = append(b, spend(t, ours))
	}
	x, y := middle(a), middle(b)
	t.Logf("%s\n  theirs %v\n  ours   %v\n  theirs / ours: %.2f of CPU, %.2f of time, %.2f of memory", what, x, y,
		ratio(x.cpu, y.cpu), ratio(x.clock, y.clock), float64(x.memory)/float64(y.memory))
	if x.out < 1000 || y.out < 1000 {
		t.Errorf("%s: theirs prints %d bytes, ours %d: somebody judged nothing", what, x.out, y.out)
	}
}

func middle(all []usage) usage {
	slices.SortFunc(all, func(a, b usage) int { return int(a.cpu - b.cpu) })
	return all[len(all)/2]
}

func spend(t *testing.T, args []string) usage {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	start := time.Now()
	out, err := cmd.Output()
	clock := time.Since(start)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil && exit.ExitCode() > 3 {
		t.Fatalf("%v: %v: %.500s", args, err, exit.Stderr)
	}
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	unit := int64(1 << 10) // on Linux
	return usage{cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), clock, int64(used.Maxrss) * unit, len(out)}
}

// libraryPolicies writes each template of the Gatekeeper library with one of
// its constraints; referring says whether also those that look at other objects.
func libraryPolicies(t *testing.T, dir string, referring bool) {
	t.Helper()
	seen := make(map[string]bool)
	n := 0
	for _, s := range gatorSamples(t) {
		name := s.template.GetName()
		if seen[name] || s.refers && !referring || strings.HasPrefix(s.name, "verify/") {
			continue
		}
		seen[name] = true
		putFile(t, filepath.Join(dir, name+".yaml"), toJSON(s.template.Object)+"\n---\n"+toJSON(s.constraint.Object)+"\n")
		n++
	}
	t.Logf("%d templates and constraints", n)
}

// makeObjects writes Deployments, Pods and Services, ten a file: some of them
// good, most with one fault or another.
func makeObjects(t *testing.T, dir string, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for file := range n / 10 {
		var b strings.Builder
		for i := range 10 {
			b.WriteString("---\n" + anObject(r, file*10+i))
		}
		putFile(t, filepath.Join(dir, fmt.Sprintf("%03d/objects-%05d.yaml", file%50, file)), b.String())
	}
}

// anObject is the i-th object.
func anObject(r *rand.Rand, i int) string {
	name, ns := fmt.Sprintf("app-%d", i), fmt.Sprintf("team-%d", i%40)
	labels := fmt.Sprintf("{app: %s, app.kubernetes.io/name: %s%s}", name, name, maybe(r, ", app.kubernetes.io/instance: a, team: "+ns))
	switch i % 5 {
	case 0:
		return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata:\n  name: %s\n  namespace: %s\n  labels: %s\nspec:\n  type: %s\n  selector: {app: app-%d}\n  ports:\n  - name: http\n    port: %d\n    targetPort: 8080\n  - port: 9090\n",
			name, ns, labels, one(r, "ClusterIP", "NodePort", "LoadBalancer"), i+1, 20+r.IntN(9000))
	case 1:
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  namespace: %s\n  labels: %s\nspec:\n%s", name, ns, labels, podSpec(r, "  "))
	default:
		return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: %s\n  namespace: %s\n  labels: %s\n  annotations:\n    description: the application of %s\nspec:\n  replicas: %d\n  selector:\n    matchLabels:\n      app: %s\n  template:\n    metadata:\n      labels: %s\n    spec:\n%s",
			name, ns, labels, ns, 1+r.IntN(4), name, labels, podSpec(r, "      "))
	}
}

func maybe(r *rand.Rand, text string) string {
	if r.IntN(3) == 0 {
		return ""
	}
	return text
}

func one(r *rand.Rand, words ...string) string { return words[r.IntN(len(words))] }

// podSpec has one to three containers.
func podSpec(r *rand.Rand, indent string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, indent+format+"\n", args...) }
	line("serviceAccountName: default")
	line("%s", one(r, "hostNetwork: false", "hostNetwork: true", "hostPID: false"))
	line("securityContext: {runAsNonRoot: %s, runAsUser: %d, fsGroup: 2000}", one(r, "true", "false"), r.IntN(2)*1000)
	line("volumes:")
	line("- name: data")
	line("  %s", one(r, "emptyDir: {}", "emptyDir: {}", "hostPath: {path: /var/run/docker.sock}"))
	line("containers:")
	for i := range 1 + r.IntN(3) {
		line("- name: c%d", i)
		line("  image: %s/team/app%s", one(r, "ghcr.io", "registry.example.com", "docker.io"), one(r, ":1.2.3", ":latest", "", ":v4@sha256:"+strings.Repeat("0f", 32)))
		line("  imagePullPolicy: %s", one(r, "IfNotPresent", "Always"))
		line("  args: [serve, --port=8080, --verbose]")
		line("  env:")
		line("  - {name: LOG_LEVEL, value: info}")
		line("  - {name: REGION, value: eu-%d}", r.IntN(4))
		line("  ports: [{name: http, containerPort: 8080}]")
		if r.IntN(4) > 0 {
			line("  resources:")
			line("    requests: {cpu: 100m, memory: 128Mi}")
			line("    limits: {cpu: %s, memory: %s}", one(r, "200m", "2", "1"), one(r, "256Mi", "8Gi", "1Gi"))
		}
		if r.IntN(4) > 0 {
			line("  securityContext:")
			line("    privileged: %s", one(r, "false", "false", "true"))
			line("    allowPrivilegeEscalation: %s", one(r, "false", "true"))
			line("    readOnlyRootFilesystem: %s", one(r, "true", "false"))
			line("    capabilities: {drop: [ALL], add: [%s]}", one(r, "NET_BIND_SERVICE", "SYS_ADMIN", ""))
		}
		if r.IntN(3) > 0 {
			line("  livenessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 10}")
			line("  readinessProbe: {httpGet: {path: /ready, port: http}}")
		}
		line("  volumeMounts: [{name: data, mountPath: /data}]")
	}
	return b.String()
}
