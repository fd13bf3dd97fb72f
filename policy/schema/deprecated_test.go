package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestDeprecatedBeforeRemoval holds, for each removal that Kubernetes published, that the
// release before it says so of the version, with what to use instead.
func TestDeprecatedBeforeRemoval(t *testing.T) {
	t.Parallel()
	data := rendertest.ReadFile(t, "../../testdata/removals.txt")
	tested := 0
	for _, m := range regexp.MustCompile(`(?m)^1\.(\d+) (\S+) (\S+): (.+)$`).FindAllStringSubmatch(string(data), -1) {
		minor, _ := strconv.Atoi(m[1])
		if release(minor) <= oldest {
			continue // the release before it is not known
		}
		tested++
		k, err := New(nil, Options{KubeVersion: fmt.Sprintf("1.%d", minor-1)})
		rendertest.OK(t, err)
		got := k.Deprecated(policy.ParseGroupVersion(m[2]).WithKind(m[3]))
		if want := fmt.Sprintf(", unavailable in v1.%s+; use %s", m[1], m[4]); !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %q, want %q at its end", m[0], got, want)
		}
	}
	if tested < 5 {
		t.Errorf("only %d removals after the oldest release", tested)
	}
}

// TestDeprecatedIsServed holds that no release names a removal that is past, and that
// the most stable version of a kind is not deprecated unless its kind is.
func TestDeprecatedIsServed(t *testing.T) {
	t.Parallel()
	removes := regexp.MustCompile(`unavailable in v1\.(\d+)\+`)
	for _, v := range Versions() {
		k, err := New(nil, Options{KubeVersion: v})
		rendertest.OK(t, err)
		for gvk := range k.builtins {
			text := k.Deprecated(gvk)
			if m := removes.FindStringSubmatch(text); m != nil {
				if in, _ := strconv.Atoi(m[1]); release(in) <= k.release {
					t.Errorf("Kubernetes %s serves what it removed: %s", v, text)
				}
			}
			if text != "" && gvk.Version == "v1" && gvk != (schema.GroupVersionKind{Version: "v1", Kind: "ComponentStatus"}) && gvk.Kind != "Endpoints" {
				t.Errorf("Kubernetes %s: %s", v, text)
			}
		}
	}
}
