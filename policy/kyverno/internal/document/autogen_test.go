package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestAutogen compares what is generated of a policy with the archive's file
// want: for each kind the names of its rules, then each rule.
func TestAutogen(t *testing.T) {
	t.Parallel()
	rendertest.Archives(t, "testdata/autogen", func(t *testing.T, a *txtar.Archive) string {
		return generatedText(t, one(t, string(a.Files[0].Data)))
	})
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
