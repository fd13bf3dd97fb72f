package triage

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/tui"
)

// FuzzAnswer asks a host any question: it gets one answer, as JSON, or one
// refusal, under the question's number, and nothing of files outside the tree.
func FuzzAnswer(f *testing.F) {
	const outside = "nobody asked for this"
	dir := f.TempDir()
	tree := filepath.Join(dir, "tree")
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a, securityContext: {privileged: true}}]}\n"
	for name, text := range map[string]string{"tree/.git/HEAD": "ref: refs/heads/main\n", "tree/pod.yaml": pod, "outside.txt": outside} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		rendertest.OK(f, os.MkdirAll(filepath.Dir(file), 0o755))
		rendertest.OK(f, os.WriteFile(file, []byte(text), 0o644))
	}
	o := &evaluate.Options{
		Sources: load.Sources{
			Renderers: func() []render.Renderer { return []render.Renderer{render.Manifests{}} }, Resolvers: func() []render.Resolver { return nil },
			Configuration: &config.File{}, GitOps: load.GitOpsAuto, Authorizer: "unknown", NoCache: true, Timeout: time.Minute,
		},
		AllowNew: true, Packs: []string{"pod-security-baseline"}, Date: time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC),
	}
	h, err := NewHost(o, true, []string{tree}, bytes.NewReader(nil))
	rendertest.OK(f, err)
	r, err := h.Evaluate(context.Background(), func(tui.Progress) {})
	if err != nil || r.Summary.Fail == 0 {
		f.Fatal(err, "the Pod is not denied")
	}
	for _, do := range []string{"facts", "findings", "accept", "propose", "lines", "object", "explain", "real", "none"} {
		for _, file := range []string{"pod.yaml", "../outside.txt", filepath.Join(dir, "outside.txt")} {
			data, err := json.Marshal(question{Do: do, File: file, Result: &r.Results[0], Decisions: &tui.Decisions{}})
			rendertest.OK(f, err)
			f.Add(data)
		}
		f.Add([]byte(`{"do": "` + do + `"}`)) // without what it is about
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		number := []byte("1234")
		h.answer(context.Background(), supervise.NewPipe(&out), append(number, data...))
		if bytes.Contains(out.Bytes(), []byte(outside)) {
			t.Fatalf("%q: answered with a file outside the tree", data)
		}
		ends, answer := 0, []byte(nil)
		for in := supervise.NewReader(&out); ; {
			kind, payload, err := in.Next()
			if err != nil {
				break
			}
			if !bytes.HasPrefix(payload, number) {
				t.Fatalf("%q: the number of the question is missing", data)
			}
			switch answer = append(answer, payload[len(number):]...); kind {
			case supervise.Answer:
				ends++
				if !json.Valid(answer) {
					t.Fatalf("%q: the answer is not JSON: %q", data, answer)
				}
			case supervise.Refusal:
				ends++
			case supervise.News:
				answer = nil
			}
		}
		if ends != 1 {
			t.Fatalf("%q: %d answers", data, ends)
		}
	})
}
