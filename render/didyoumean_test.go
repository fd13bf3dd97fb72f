package render

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		names []string
		want  string
	}{
		{"replcas", []string{"paused", "replicas", "selector"}, "replicas"},
		{"Replicas", []string{"replicas"}, "replicas"},
		{"kube_version", []string{"kube-version", "api-versions"}, "kube-version"},
		{"policy", []string{"pods", "policies"}, "policies"},
		{"den", []string{"deny", "warn", "audit"}, "deny"},
		{"wran", []string{"deny", "warn", "audit"}, "warn"},
		{"best-prac", []string{"best-practices", "pod-security-baseline"}, "best-practices"},
		{"pod-security", []string{"pod-security-baseline", "pod-security-restricted"}, ""}, // two begin so
		{"ok", []string{"on", "off"}, ""},
		{"xml", []string{"text", "json", "sarif"}, ""},
		{"", []string{"text"}, ""},
	} {
		if got := Nearest(test.name, test.names); got != test.want {
			t.Errorf("%q among %q: %q, want %q", test.name, test.names, got, test.want)
		}
	}
}
