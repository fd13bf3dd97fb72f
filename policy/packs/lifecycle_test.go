package packs_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A lifecycle is what Kubernetes' own types know of their deprecation.
type lifecycle interface {
	APILifecycleDeprecated() (major, minor int)
	APILifecycleRemoved() (major, minor int)
}

// unjudged are kinds that no ValidatingAdmissionPolicy is asked about.
func unjudged(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "authentication.k8s.io" || gvk.Group == "authorization.k8s.io" ||
		strings.HasPrefix(gvk.Kind, "ValidatingAdmissionPolicy") || strings.HasPrefix(gvk.Kind, "MutatingAdmissionPolicy")
}

// TestDeprecatedAPIs asks about every kind that an API server of each version
// serves, and holds the answers against what the types say of themselves.
func TestDeprecatedAPIs(t *testing.T) {
	t.Parallel()
	told := 0
	for _, v := range versions {
		minor := 0
		if _, err := fmt.Sscanf(v, "1.%d", &minor); err != nil {
			t.Fatal(err)
		}
		j := newJudge(t, v, named(t, v, "best-practices-deprecated-apis"))
		for gvk := range scheme.Scheme.AllKnownTypes() {
			if strings.HasSuffix(gvk.Kind, "List") || !j.kinds.Resource(gvk).Known || unjudged(gvk) {
				continue
			}
			if want := deprecation(t, gvk, minor); checkDeprecation(t, j, v, gvk, want) {
				told++
			}
		}
	}
	if told < 40 {
		t.Errorf("only %d deprecations", told)
	}
}

// deprecation is what the message has to say, "" for a kind that is not
// deprecated yet.
func deprecation(t *testing.T, gvk schema.GroupVersionKind, minor int) string {
	t.Helper()
	if gvk.GroupKind().String() == "Endpoints" { // k8s.io/kubernetes/pkg/registry/core/endpoint warns since 1.33
		if minor < 33 {
			return ""
		}
		return "v1 Endpoints is deprecated since Kubernetes 1.33;"
	}
	o, err := scheme.Scheme.New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	l, ok := o.(lifecycle)
	if !ok {
		return ""
	}
	if _, since := l.APILifecycleDeprecated(); minor < since {
		return ""
	} else if _, until := l.APILifecycleRemoved(); until > 0 {
		return fmt.Sprintf("%s %s is deprecated since Kubernetes 1.%d and removed in 1.%d", gvk.GroupVersion(), gvk.Kind, since, until)
	}
	return gvk.Kind
}

func checkDeprecation(t *testing.T, j judge, version string, gvk schema.GroupVersionKind, want string) bool {
	t.Helper()
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	text := fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: x}}", apiVersion, kind)
	for _, r := range j.review(t, parse(t, "o.yaml", []byte(text))) {
		switch {
		case r.Engine != policy.EngineAdmission:
		case r.Outcome == policy.Pass && want == "":
		case r.Outcome == policy.Fail && want != "" && strings.HasPrefix(r.Message, want):
			checkReplacement(t, j, version, gvk, r.Message)
			return true
		default:
			t.Errorf("%s: %v: %s %s, want %q", version, gvk, r.Outcome, r.Message, want)
		}
		want = ""
	}
	if want != "" {
		t.Errorf("%s: %v was not judged, want %q", version, gvk, want)
	}
	return false
}

// checkReplacement: what the message says to use must be served.
func checkReplacement(t *testing.T, j judge, version string, gvk schema.GroupVersionKind, message string) {
	t.Helper()
	_, use, ok := strings.Cut(message, "; use ")
	if !ok {
		if gvk.Kind != "LeaseCandidate" {
			t.Errorf("%s: %v has no replacement: %s", version, gvk, message)
		}
		return
	}
	kind, gv, of := strings.Cut(use, " of ")
	if !of {
		kind, gv = gvk.Kind, use
	}
	if k := policy.ParseGroupVersion(gv).WithKind(kind); !j.kinds.Resource(k).Known {
		t.Errorf("%s: %v: %s is not served", version, gvk, use)
	}
}

func named(t *testing.T, version, name string) []*render.Object {
	t.Helper()
	for _, p := range pairs(t, objects(t, version)) {
		if p.name == name {
			return []*render.Object{p.policy, p.binding}
		}
	}
	t.Fatalf("no policy %s", name)
	return nil
}
