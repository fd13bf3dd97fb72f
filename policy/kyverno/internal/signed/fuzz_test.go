package signed

import (
	"encoding/base64"
	"testing"
)

// FuzzRead holds that no message ends the process, whatever is in it, and that
// ignoring one more field adds no difference.
func FuzzRead(f *testing.F) {
	f.Add([]byte("{kind: Pod, apiVersion: v1, metadata: {name: web}}"), "spec.*")
	f.Add([]byte("\x1f\x8b\x08\x00"), "[")
	f.Add([]byte("---\nkind: Pod\n---\n- a\n---\n"), "")
	ignoredByKyverno := NewIgnored(nil, DefaultDomain)
	f.Fuzz(func(t *testing.T, message []byte, field string) {
		object := map[string]any{
			"kind": "Pod", "apiVersion": "v1", "spec": map[string]any{"a": []any{map[string]any{"b": 1.0}}},
			"metadata": map[string]any{"name": "web", "annotations": map[string]any{
				DefaultDomain + "/message":   base64.StdEncoding.EncodeToString(message),
				DefaultDomain + "/signature": "x",
			}},
		}
		m, err := Read(object, DefaultDomain)
		if err != nil {
			return
		}
		all := m.Differences(object, ignoredByKyverno)
		if fewer := m.Differences(object, append(NewIgnored([]Ignore{{Fields: []string{field}}}, DefaultDomain), ignoredByKyverno...)); len(all) == 0 && len(fewer) > 0 {
			t.Errorf("ignoring %q as well adds differences: %v", field, fewer)
		}
	})
}
