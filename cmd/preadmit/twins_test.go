package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A twin is a tree in which an object is denied in plain sight, and the tree
// that a change makes of it so that the object is disguised.
type twin struct {
	name        string
	plain, head map[string]string

	changeOnly bool // it is a deletion like others unless the change is seen
}

// deletion marks a twin that deletes the object: its chart no longer renders it. Nothing is hidden then,
// so the change may pass.
func deletion(tw twin) twin { tw.name = deletes + tw.name; return tw }

const deletes = "deletes: "

// files are names and contents in turn.
func files(pairs ...string) map[string]string {
	m := make(map[string]string)
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// deniedObjects are objects that the Pod Security Standards deny, by the word that the
// cases go by.
var deniedObjects = map[string]string{
	"pod": `apiVersion: v1
kind: Pod
metadata:
  name: hidden
spec:
  hostNetwork: true
  containers: [{name: a, image: a}]
`,
	"deployment": `apiVersion: apps/v1
kind: Deployment
metadata:
  name: hidden
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      containers: [{name: a, image: a, securityContext: {privileged: true}}]
`,
	"daemonset": `apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: hidden
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      containers: [{name: a, image: a}]
      volumes: [{name: v, hostPath: {path: /}}]
`,
	"job": `apiVersion: batch/v1
kind: Job
metadata:
  name: hidden
spec:
  template:
    spec:
      restartPolicy: Never
      hostPID: true
      containers: [{name: a, image: a}]
`,
	"cronjob": `apiVersion: batch/v1
kind: CronJob
metadata:
  name: hidden
spec:
  schedule: "0 0 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: a, image: a, securityContext: {procMount: Unmasked}}]
`,
}

const (
	chartFile  = "apiVersion: v2\nname: c\nversion: 0.1.0\n"
	fineObject = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fine}\n"
)

func annotated(object, annotation string) string {
	return strings.Replace(object, "  name: hidden\n", "  name: hidden\n  annotations: {"+annotation+"}\n", 1)
}

func indented(text string, n int) string {
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+pad) + "\n"
}

func wide(text string, little bool, size int) string {
	var b bytes.Buffer
	for _, u := range utf16.Encode([]rune(text)) {
		unit := make([]byte, size)
		if little {
			unit[0], unit[1] = byte(u), byte(u>>8)
		} else {
			unit[size-1], unit[size-2] = byte(u), byte(u>>8)
		}
		b.Write(unit)
	}
	return b.String()
}

// disguises are the twins of one object.
func disguises(h string) []twin {
	plain := files("fine.yaml", fineObject, "apps/h.yaml", h)
	over := func(change ...string) map[string]string {
		m := maps.Clone(plain)
		maps.Copy(m, files(change...))
		return m
	}
	moved := func(to string, more ...string) map[string]string {
		m := over(append(more, to, h)...)
		delete(m, "apps/h.yaml")
		return m
	}
	kust := func(base, head string) twin {
		return twin{plain: over("apps/kustomization.yaml", base), head: over("apps/kustomization.yaml", head)}
	}
	named := func(name string, t twin) twin { t.name = name; return t }
	listed := "resources: [h.yaml]\n"
	chart := func(head map[string]string) twin {
		base := files("fine.yaml", fineObject, "c/Chart.yaml", chartFile, "c/templates/h.yaml", h)
		all := maps.Clone(base)
		maps.Copy(all, head)
		return twin{plain: base, head: all}
	}
	json6902 := "- op: add\n  path: /metadata/labels\n  value: {a: b}\n"
	gated := func(condition string) string { return "{{ if " + condition + " }}\n" + h + "{{ end }}\n" }
	return []twin{
		named("template on upgrade", chart(files("c/templates/h.yaml", gated(".Release.IsUpgrade")))),
		named("template not on install", chart(files("c/templates/h.yaml", gated("not .Release.IsInstall")))),
		named("template with lookup", chart(files("c/templates/h.yaml", gated(`lookup "v1" "Namespace" "" "default"`)))),
		named("template with an API", chart(files("c/templates/h.yaml", gated(`.Capabilities.APIVersions.Has "e.com/v9"`)))),
		named("template, upgrade by get", chart(files("c/templates/h.yaml", gated(`get .Release "IsUpgrade"`)))),
		named("template with a revision", chart(files("c/templates/h.yaml", gated("gt (int .Release.Revision) 1")))),
		{"moved behind lookup", plain, moved("c/templates/x.yaml", "c/Chart.yaml", chartFile, "c/templates/h.yaml", gated(`lookup "v1" "Namespace" "" "default"`)), false},
		{"chart above", plain, over("apps/Chart.yaml", chartFile), false},
		{"chart above all", plain, over("Chart.yaml", chartFile), false},
		{"chart above, with templates", plain, over("apps/Chart.yaml", chartFile, "apps/templates/x.yaml", fineObject), false},
		{"broken chart above", plain, over("apps/Chart.yaml", "x: [\n"), false},
		{"library chart above", plain, over("apps/Chart.yaml", chartFile+"type: library\n"), false},
		{"data of a config map", plain, over("apps/kustomization.yaml", "configMapGenerator: [{name: c, files: [h.yaml]}]\n"), false},
		{"data of a secret", plain, over("apps/kustomization.yaml", "secretGenerator: [{name: c, files: [h.yaml]}]\n"), false},
		{"schema", plain, over("apps/kustomization.yaml", "resources: [x.yaml]\nopenapi: {path: h.yaml}\n", "apps/x.yaml", fineObject), false},
		{"crds", plain, over("apps/kustomization.yaml", "resources: [x.yaml]\ncrds: [h.yaml]\n", "apps/x.yaml", fineObject), false},
		{"configurations", plain, over("apps/kustomization.yaml", "resources: [x.yaml]\nconfigurations: [h.yaml]\n", "apps/x.yaml", fineObject), false},
		{"patch", plain, over("apps/kustomization.yaml", "resources: [x.yaml]\npatches: [{path: h.yaml, target: {kind: Nothing}}]\n", "apps/x.yaml", fineObject), false},
		{"transformer", plain, over("apps/kustomization.yaml", "resources: [x.yaml]\ntransformers: [h.yaml]\n", "apps/x.yaml", fineObject), false},
		named("resource to data", kust(listed, "configMapGenerator: [{name: c, files: [h.yaml]}]\n")),
		named("resource to component", kust(listed, "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [h.yaml]\n")),
		named("resource deleted here", kust(listed, listed+"patches: [{target: {name: hidden}, patch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: hidden}\"}]\n")),
		{"local config", over("apps/kustomization.yaml", listed), over("apps/kustomization.yaml", listed, "apps/h.yaml", annotated(h, `config.kubernetes.io/local-config: "true"`)), false},
		{
			"overlay that deletes", over("apps/kustomization.yaml", listed),
			over("apps/kustomization.yaml", listed, "over/kustomization.yaml", "resources: [../apps]\npatches: [{target: {name: hidden}, patch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: hidden}\"}]\n"), false,
		},
		{
			"overlay that reads the base as data", over("apps/kustomization.yaml", listed),
			over("apps/kustomization.yaml", "resources: []\nconfigMapGenerator: [{name: c, files: [h.yaml]}]\n"), false,
		},
		{"hidden directory", plain, moved(".apps/h.yaml"), false},
		{"hidden directory within", plain, moved("apps/.x/h.yaml"), false},
		{"testdata", plain, moved("apps/testdata/h.yaml"), false},
		{"kyverno's fixtures", plain, moved("apps/.kyverno-test/h.yaml"), false},
		{"named by a suite of Kyverno", plain, over("apps/kyverno-test.yaml", "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: x}\nresources: [h.yaml]\npolicies: []\nresults: []\n"), false},
		{"named by a suite of gator", plain, over("apps/suite.yaml", "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests: [{name: a, cases: [{name: b, object: h.yaml}]}]\n"), false},
		{"chainsaw's test beside it", plain, over("apps/chainsaw-test.yaml", "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: x}\n"), false},
		{"excluded", plain, over(".preadmit/config.yaml", "exclude: [apps]\n"), false},
		{"excluded by a glob", plain, over(".preadmit/config.yaml", "exclude:\n- '**/h.yaml'\n"), false},
		{"ignored by helm", plain, over(".helmignore", "apps\n*.yaml\n"), false},
		{"ignored by flux and kpt", plain, over(".sourceignore", "apps\n", ".krmignore", "apps\n", ".gitattributes", "apps/** export-ignore\n"), false},
		{"name of a template", plain, over("apps/h.yaml", strings.Replace(h, "name: hidden", `name: "{{ hidden }}"`, 1)), false},
		{"name to fill in", plain, over("apps/h.yaml", strings.Replace(h, "name: hidden", "name: <HIDDEN>", 1)), false},
		{"broken like a template", plain, over("apps/h.yaml", h+"{{ x }}: {{ y }}: z\n"), false},
		{"suppressed", plain, over(".preadmit/suppressions.yaml", "suppressions:\n- {rule: '**', object: '**', reason: x, expires: 2099-01-01}\n", "apps/h.yaml", h+"x: [\n"), false},
		{
			"moved to crds that are not rendered", files("fine.yaml", fineObject, "c/Chart.yaml", chartFile, "c/templates/h.yaml", h),
			files("fine.yaml", fineObject, "c/Chart.yaml", chartFile, "c/crds/h.yaml", h, ".preadmit/config.yaml", "include-crds: false\n"), false,
		},
		named("template ignored by helm", chart(files("c/.helmignore", "templates/h.yaml\n"))),
		{"moved out of a chart's templates", plain, moved("c/ci/h.yaml", "c/Chart.yaml", chartFile, "c/templates/x.yaml", fineObject), false},
		{"moved among a chart's helpers", plain, moved("c/templates/_h.yaml", "c/Chart.yaml", chartFile, "c/templates/x.yaml", fineObject), false},
		{"UTF-16LE without a mark", plain, over("apps/h.yaml", wide(h, true, 2)), false},
		{"UTF-16BE without a mark", plain, over("apps/h.yaml", wide(h, false, 2)), false},
		{"UTF-32LE without a mark", plain, over("apps/h.yaml", wide(h, true, 4)), false},
		{"UTF-32BE without a mark", plain, over("apps/h.yaml", wide(h, false, 4)), false},
		{"UTF-16LE", plain, over("apps/h.yaml", "\xff\xfe"+wide(h, true, 2)), false},
		{"carriage returns", plain, over("apps/h.yaml", strings.ReplaceAll(fineObject+"---\n"+h, "\n", "\r")), false},
		{"behind the end of a document", plain, over("apps/h.yaml", fineObject+"...\n"+h), false},
		{"upper case", plain, moved("apps/H.YAML"), false},
		{"in a list", plain, over("apps/h.yaml", "apiVersion: v1\nkind: List\nitems:\n- "+strings.TrimPrefix(indented(h, 2), "  ")), false},
		{"in a list of a list", plain, over("apps/h.yaml", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  - "+strings.TrimPrefix(indented(h, 4), "    ")), false},
		{
			"a list left out by kustomize", over("apps/kustomization.yaml", listed),
			over("apps/kustomization.yaml", listed, "apps/h.yaml", "apiVersion: v1\nkind: List\nitems:\n- "+strings.TrimPrefix(indented(annotated(h, `config.kubernetes.io/local-config: "true"`), 2), "  ")), false,
		},
		{
			"behind a JSON patch", over("apps/kustomization.yaml", listed),
			over("apps/kustomization.yaml", listed+"patches: [{target: {name: hidden}, path: p.yaml}]\n", "apps/p.yaml", json6902), false,
		},
		{"not reconciled", plain, over("apps/h.yaml", annotated(h, "kustomize.toolkit.fluxcd.io/reconcile: disabled")), false},
		{"encrypted", plain, over("apps/h.yaml", h+"sops: {mac: x, version: 3.9.0}\n"), false},
	}
}

// TestNoTwinIsGreenAndSilent holds that no change can disguise a denied object: the changed
// tree is denied, or the change is, and a tree that passes alone says what is not deployed.
func TestNoTwinIsGreenAndSilent(t *testing.T) {
	t.Parallel()
	n := 0
	for kind, object := range deniedObjects {
		if testing.Short() && kind != "pod" && kind != "cronjob" {
			continue
		}
		for _, tw := range disguises(object) {
			n++
			t.Run(kind+"/"+tw.name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				repo, err := gittest.Init(dir)
				rendertest.OK(t, err)
				writeFiles(t, dir, tw.plain)
				if code, said := checkTree(dir); code != exitDenied {
					t.Fatalf("in plain sight: exit %d\n%s", code, said)
				}
				if _, err := repo.CommitAll("base"); err != nil {
					t.Fatal(err)
				}
				for name := range tw.plain {
					rendertest.OK(t, os.Remove(filepath.Join(dir, name)))
				}
				writeFiles(t, dir, tw.head)
				alone, said := checkTree(dir)
				if alone == exitOK && !strings.Contains(said, "not deployed") {
					t.Errorf("alone: exit 0 and silent\n%s", said)
				}
				if code, said := checkTree(dir, "--base", "HEAD"); code == exitOK && alone != exitDenied {
					t.Errorf("with --base: exit 0\n%s", said)
				}
			})
		}
	}
	if n < 150 && !testing.Short() {
		t.Errorf("%d pairs, want 150", n)
	}
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		rendertest.WriteFile(t, name, text)
	}
}

// checkTree runs check over a directory, and returns what it says.
func checkTree(dir string, flags ...string) (int, string) {
	var out bytes.Buffer
	args := append([]string{"check", "--no-cache", "--pack", "pod-security-baseline", dir}, flags...)
	code := run(context.Background(), args, strings.NewReader(""), &out, &out)
	return code, fmt.Sprint(out.String())
}
