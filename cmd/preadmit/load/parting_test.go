package load

import "testing"

func TestParting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, above string }{
		{"clusters/production/flux-system/gotk-sync.yaml", "clusters/staging/flux-system/gotk-sync.yaml", "clusters"},
		{"clusters/production/apps.yaml", "clusters/staging/apps.yaml", "clusters"},
		{"clusters/production", "clusters/staging", "clusters"},
		{"production/flux-system/gotk-sync.yaml", "staging/flux-system/gotk-sync.yaml", "."},
		{"production", "staging", "."},
		{"bootstrap/root.yaml", "apps/root.yaml", ""},
		{"bootstrap/root.yaml", "clusters/production/self.yaml", ""},
		{"clusters/production/root.yaml", "clusters/staging/other.yaml", ""},
		{"clusters/a.yaml", "clusters/b.yaml", ""},
		{"clusters/a.yaml", "clusters/a.yaml", ""},
	} {
		above, ok := parting(c.a, c.b)
		if above != c.above || ok != (c.above != "") {
			t.Errorf("%s and %s part below %q (%v), want %q", c.a, c.b, above, ok, c.above)
		}
	}
}
