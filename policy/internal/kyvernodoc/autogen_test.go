package kyvernodoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestAutogen compares what is generated of a policy with the archive's file
// want: for each kind the names of its rules, then each rule.
func TestAutogen(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/autogen/*.txtar")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d archives: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			rendertest.OK(t, err)
			got := generatedText(t, one(t, string(archive.Files[0].Data)))
			if os.Getenv("UPDATE_GOLDEN") != "" {
				archive.Files = append(archive.Files[:1], txtar.File{Name: "want", Data: []byte(got)})
				rendertest.OK(t, os.WriteFile(file, txtar.Format(archive), 0o644))
				return
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func generatedText(t *testing.T, p *Policy) string {
	var b strings.Builder
	var made []*Rule
	for _, kind := range []string{"Pod", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet", "CronJob"} {
		fmt.Fprintf(&b, "%s:", kind)
		for _, r := range p.RulesFor(schema.GroupVersionKind{Kind: kind}) {
			b.WriteString(" " + r.Name)
			if r.Base != nil && !slices.Contains(made, r) {
				made = append(made, r)
			}
		}
		b.WriteByte('\n')
	}
	for _, r := range made {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		rendertest.OK(t, enc.Encode(r.Source))
		fmt.Fprintf(&b, "\n%s of %s at %s, pods at %s\n%s", r.Name, r.Base.Name, r.Pointer, r.Prefix, &out)
	}
	return b.String()
}
