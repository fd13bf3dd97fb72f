package document

import "testing"

func TestKindWords(t *testing.T) {
	t.Parallel()
	for want, kinds := range map[string][]matchKinds{
		"Pod, Service, or Job in batch":            {{[]string{""}, []string{"Pod", "Service"}}, {[]string{"batch"}, []string{"Job"}}},
		"any kind":                                 {{[]string{"*"}, []string{"*"}}},
		"any kind in apps":                         {{[]string{"apps"}, nil}},
		"any kind in the core group":               {{[]string{""}, []string{"*"}}},
		"Ingress in a.io, b.io":                    {{[]string{"a.io", "b.io"}, []string{"Ingress"}}},
		"Event in events.k8s.io or the core group": {{[]string{"", "events.k8s.io"}, []string{"Event"}}},
		"Ingress": {{nil, []string{"Ingress"}}},
	} {
		if got := kindWords(kinds); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
