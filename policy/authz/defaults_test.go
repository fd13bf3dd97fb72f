package authz

import (
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
)

// TestVersions holds how the default roles changed (the changes to
// plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata).
func TestVersions(t *testing.T) {
	t.Parallel()
	cluster := policy.NewCluster(objects(t, "b.yaml", defaultBindings)...)
	for check, want := range map[string]string{ // by version, from 1.28 to 1.37
		"viewer get pods":                              "++++++++++",
		"viewer get secrets":                           "----------",
		"viewer list resourceclaims.resource.k8s.io":   "------++++",
		"editor create resourceclaims.resource.k8s.io": "------++++",
		"viewer get events.events.k8s.io":              "-------+++",
		"viewer get events":                            "++++++++++",
		"jane;system:authenticated get /version":       "++++++++++",
		"jane;system:monitoring get nodes/metrics":     "------++++",
		"system:serviceaccount:kube-system:leader-election-controller update leases.coordination.k8s.io kube-controller-manager -n kube-system":                "---+++++++",
		"system:serviceaccount:kube-system:validatingadmissionpolicy-status-controller update validatingadmissionpolicies.admissionregistration.k8s.io/status": "--++++++++",
	} {
		got := ""
		for minor := 28; minor <= 37; minor++ {
			a := mustNew(t, "rbac", Options{Cluster: cluster, KubeVersion: fmt.Sprintf("1.%d", minor)})
			if strings.HasPrefix(ask(t, a, check), "allow") {
				got += "+"
			} else {
				got += "-"
			}
		}
		if got != want {
			t.Errorf("%s: %s from 1.28 on, want %s", check, got, want)
		}
	}
}

func TestIncludes(t *testing.T) {
	t.Parallel()
	for versions, want := range map[string]string{"29-": "+++", "29-29": "+--", "30-": "-++", "29-29,31-": "+-+", "30-30": "-+-"} {
		got := ""
		for v := 29; v <= 31; v++ {
			in, err := includes(versions, v)
			if err != nil {
				t.Error(err)
			}
			got += map[bool]string{true: "+", false: "-"}[in]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", versions, got, want)
		}
	}
	for _, bad := range []string{"", "x-", "29-x", "29-30,"} {
		if _, err := includes(bad, 33); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}
