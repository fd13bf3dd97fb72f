package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestFixOverlays makes random trees of kustomizations over one base, by whose policy only the namespaces of
// production fail, and fixes them: nothing fails any more, and what did not fail is rendered as before.
func TestFixOverlays(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	patches := 0
	for i := range 25 {
		dir := t.TempDir()
		files := layeredTree(rnd)
		for name, text := range files {
			rendertest.WriteFile(t, filepath.Join(dir, name), text)
		}
		preadmit := func(args ...string) (string, int) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append(args, dir), nil, &stdout, &stderr)
			return stdout.String() + stderr.String(), code
		}
		rendered := func(env string) string {
			var stdout bytes.Buffer
			overlays, _ := filepath.Glob(dir + "/" + env + "*") // in order
			for _, overlay := range overlays {
				run(t.Context(), []string{"render", overlay}, nil, &stdout, io.Discard)
			}
			return stdout.String()
		}
		dev, prod := rendered("dev"), rendered("prod")
		before, _ := preadmit("check")
		out, code := preadmit("fix", "--unsafe", "--write")
		after, checked := preadmit("check")
		if code != exitOK || checked != exitOK {
			t.Errorf("tree %d: fix exits with %d, and check after it with %d:\n%v\n%s\n%s\n%s", i, code, checked, files, before, out, after)
		}
		if now := rendered("dev"); now != dev || dev == "" {
			t.Errorf("tree %d: objects that did not fail are rendered differently:\n%v\nbefore: %s\nafter: %s", i, files, dev, now)
		}
		if rendered("prod") == prod {
			t.Errorf("tree %d: nothing is fixed:\n%v", i, files)
		}
		for name := range files {
			if data := rendertest.ReadFile(t, filepath.Join(dir, name)); strings.HasPrefix(name, "base/") && string(data) != files[name] {
				t.Errorf("tree %d: the shared %s is edited", i, name)
			} else if string(data) != files[name] {
				patches++
			}
		}
	}
	if patches < 25 {
		t.Errorf("%d files of overlays are edited", patches)
	}
}

// layeredTree returns a base, layers over it, and overlays of these for development and production.
func layeredTree(rnd *rand.Rand) map[string]string {
	files := map[string]string{".git/HEAD": "ref: refs/heads/main\n", "policies/prod.yaml": `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: prod}
spec:
  validationFailureAction: Enforce
  rules:
  - name: replicas
    match: {any: [{resources: {kinds: [Deployment], namespaces: ["prod*"]}}]}
    validate: {message: m, pattern: {spec: {replicas: ">=3"}}}
  - name: read-only
    match: {any: [{resources: {kinds: [Deployment], namespaces: ["prod*"]}}]}
    validate: {message: m, pattern: {spec: {template: {spec: {containers: [{securityContext: {readOnlyRootFilesystem: true}}]}}}}}
`}
	one := func(of ...string) string { return of[rnd.IntN(len(of))] }
	kustomization := func(dir, below string) {
		text := "resources:\n- " + below + "\n" + one("", "namePrefix: x-\n", "nameSuffix: -y\n", "labels: [{pairs: {l: v}}]\n")
		patch := fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d0\nspec:\n%s", one("  paused: false\n",
			"  template:\n    spec:\n      containers:\n      - name: c0\n        imagePullPolicy: Always # for now\n",
			"  template: {spec: {containers: [{name: c0, tty: true}]}}\n"))
		switch rnd.IntN(6) {
		case 0:
			files[dir+"/p.yaml"] = patch
			text += "patches:\n- path: p.yaml\n"
		case 1:
			files[dir+"/p.yaml"] = patch
			text += "patchesStrategicMerge: [p.yaml]\n"
		case 2:
			text += "patches:\n- patch: |-\n    " + strings.ReplaceAll(strings.TrimSpace(patch), "\n", "\n    ") + "\n"
		case 3:
			text += "patches:\n- target: {kind: Deployment}\n  patch: |-\n    - {op: add, path: /spec/minReadySeconds, value: 1}\n"
		case 4:
			text += "patches: []\n"
		}
		files[dir+"/kustomization.yaml"] = text
	}
	base, below := "resources:\n", []string{"base"}
	for d := range 1 + rnd.IntN(3) {
		name := fmt.Sprintf("d%d", d)
		text := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + []string{"", ", namespace: own"}[d%2] + "}\nspec:\n  selector: {matchLabels: {a: b}}\n" + one("", "  replicas: 1\n") +
			"  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n"
		for c := range 1 + rnd.IntN(2) {
			text += fmt.Sprintf("      - {name: c%d, image: 'i:1'}\n", c)
		}
		files["base/"+name+".yaml"], base = text, base+"- "+name+".yaml\n"
	}
	files["base/kustomization.yaml"] = base
	for m := range rnd.IntN(3) {
		layer := fmt.Sprintf("layer%d", m)
		kustomization(layer, "../"+one(below...))
		below = append(below, layer)
	}
	for i, env := range []string{"dev", "prod", one("dev", "prod"), one("dev", "prod")} {
		dir := fmt.Sprintf("%s%d", env, i)
		kustomization(dir, "../"+one(below...))
		files[dir+"/kustomization.yaml"] += "namespace: " + dir + "\n"
	}
	return files
}
