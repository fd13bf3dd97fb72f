package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestCountedBranches holds the number of branches of published policies, counted by
// hand from their text. A constant that gets a name, as in msg := "text", is none.
func TestCountedBranches(t *testing.T) {
	t.Parallel()
	const corpora = "../../../shared/corpora/"
	object := filepath.Join(t.TempDir(), "object.yaml")
	rendertest.OK(t, os.WriteFile(object, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"), 0o600))
	const (
		match, outcome, both = 1, 2, 2 // match: all are about kinds alone, so that it has no false
		list                 = 2       // empty and not
		kinds                = 3 * 2   // conditions of the ternaries that tell Pods, workloads and CronJobs apart
		exempt, update       = 9, 1    // expressions of the library's modules
	)
	for _, engine := range []struct {
		name   string
		args   []string
		counts map[string]int // by the end of the policy's path
	}{
		{"Kyverno", []string{"test", "-q", corpora + "upstream/kyverno-policies/best-practices", corpora + "upstream/kyverno-policies/pod-security"}, map[string]int{
			"/add-network-policy.yaml":             match,
			"/add-ns-quota.yaml":                   2 * match,
			"/add-safe-to-evict.yaml":              2 * match,
			"/podsecurity-subrule-baseline.yaml":   match + outcome,
			"/restricted-exclude-seccomp.yaml":     match + outcome,
			"/restricted-latest.yaml":              match + outcome,
			"/disallow-empty-ingress-host.yaml":    match + outcome + both,
			"/require-labels.yaml":                 match + outcome + both,
			"/restrict-node-port.yaml":             match + outcome + both,
			"/restrict-service-external-ips.yaml":  match + outcome + both,
			"/disallow-host-path.yaml":             match + outcome + 2*both, // volumes, hostPath
			"/disallow-helm-tiller.yaml":           match + outcome + 3*both, // image, three times
			"/disallow-host-namespaces.yaml":       match + outcome + 3*both,
			"/disallow-host-ports-range.yaml":      match + outcome + both + 2*both, // precondition, conditions of deny
			"/restrict-sysctls.yaml":               match + outcome + 3*both,        // securityContext, sysctls, name
			"/disallow-default-namespace.yaml":     2 * (match + outcome + both),
			"/require-probes.yaml":                 match + outcome + both + 3*both,
			"/restrict-image-registries.yaml":      match + outcome + 2*2*both + both,
			"/disallow-privilege-escalation.yaml":  match + outcome + 2*2*both + both,
			"/disallow-capabilities-strict.yaml":   2 * (match + outcome + both + both),
			"/disallow-host-ports.yaml":            match + outcome + 2*3*both + 2*both,
			"/disallow-privileged-containers.yaml": match + outcome + 2*3*both + 2*both,
			"/disallow-proc-mount.yaml":            match + outcome + 2*3*both + 2*both,
			"/require-run-as-non-root-user.yaml":   match + outcome + 2*both + 2*3*both + 2*both,
		}},
		{"Gatekeeper", []string{"test", "-q", corpora + "upstream/gatekeeper-library/library", corpora + "upstream/gatekeeper"}, map[string]int{
			"/block-nodeport-services/template.yaml":          both * 2,
			"/block-endpoint-edit-default-role/template.yaml": both * (2 + 2 + 1 + 1 + 1),
			"/allowedrepos/template.yaml":                     both * 3 * 3,
			"/externalip/template.yaml":                       both * (7 + 2), // two comprehensions
			"/uniqueingresshost/template.yaml":                both * (2 + 8),
			"/volumes/template.yaml":                          both * (5 + 2 + 1 + 1 + update),
			"/automount-serviceaccount-token/template.yaml":   both * (4 + 1 + 2 + 1 + 1 + 1 + update),
			"/disallowanonymous/template.yaml":                both * (4 + 4 + 1 + 1 + 1),
			"/requiredannotations/template.yaml":              both * (5 + 2 + 6),
			"/requiredprobes/template.yaml":                   both * (1 + 1 + 5 + 1 + 1 + 3 + 1 + 1 + update),
			"/horizontalpodautoscaler/template.yaml":          both * (4 + 4 + 5 + 3 + 2 + 2),
			"/disallowinteractive/template.yaml":              both * (4 + 2 + 2 + 3 + 1 + exempt),
			"/imagedigests/template.yaml":                     both * (3*4 + exempt),
			"/uniqueserviceselector/template.yaml":            both * (4 + 2 + 4 + 2 + 2 + 9),
			"/disallowedtags/template.yaml":                   both * (5 + 2 + 5 + 3 + exempt),
			"/containerresources/template.yaml":               both * (1 + 1 + 2*(7+2) + exempt),
			"/poddisruptionbudget/template.yaml":              both * (4 + 2*(7+2+2) + 2 + 2),
			"/selinux/template.yaml":                          both * (4 + 6 + 5 + 1 + 1 + 3*2 + 1 + exempt + update),
			"/storageclass/template.yaml":                     both * (2 + 2 + 2 + 2 + 2 + 2 + 4 + 6 + 2 + 3 + 3 + 4 + 6 + 2 + 3 + 3),
			"/gator/verify/template.yaml":                     both * 5,
		}},
		{"ValidatingAdmissionPolicy", []string{"check", "--no-cache", "-q", "-p", corpora + "kubescape-vap", object}, map[string]int{
			"/C-0212/policies/policy.yaml": outcome + 2*both,
			"/C-0263/policies/policy.yaml": outcome + 2*both,
			"/C-0195/policies/policy.yaml": outcome + 2*both + kinds,
			"/C-0275/policies/policy.yaml": outcome + 2*both + kinds,
			"/C-0276/policies/policy.yaml": outcome + 2*both + kinds,
			"/C-0262/policies/policy.yaml": outcome + 2*both + list + 2*both,
			"/C-0268/policies/policy.yaml": outcome + list + 3*both + 3*both + kinds,
			"/C-0269/policies/policy.yaml": outcome + list + 3*both + 3*both + kinds,
			"/C-0270/policies/policy.yaml": outcome + list + 3*both + 3*both + kinds,
			"/C-0271/policies/policy.yaml": outcome + list + 3*both + 3*both + kinds,
			"/C-0231/policies/policy.yaml": outcome + 5*both + 2*both + 2*(list+both),
			"/C-0197/policies/policy.yaml": outcome + list + 3*both + kinds + 6*both,
			"/C-0207/policies/policy.yaml": outcome + list + 2*both + list + 2*both + kinds + 4*both,
			"/C-0234/policies/policy.yaml": outcome + list + 6*both + kinds + 3*both,
			"/C-0056/policies/policy.yaml": 3*(outcome+2*both+list+both) + both,
			"/C-0225/policies/policy.yaml": outcome + 4*both + 3*both + list + 2*both + outcome + 3*both + 2*both,
			"/C-0295/policies/policy.yaml": outcome + list + 2*both + list + both + list + both + kinds + 6*both,
			"/C-0001/policies/policy.yaml": outcome + list + both + list + both + 2*both + 2*both + 3*both + 3*both + both + kinds,
			"/C-0004/policies/policy.yaml": 2*(outcome+list+3*both+3*both) + kinds,
			"/C-0048/policies/policy.yaml": 3*(outcome+3*both+list+both) + both,
			"/C-0203/policies/policy.yaml": 3*(outcome+3*both+list+both) + both,
			"/C-0017/policies/policy.yaml": 3*(outcome+2*both+list+3*both) + both,
		}},
	} {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			rendertest.SkipWithout(t, corpora)
			file := filepath.Join(t.TempDir(), "coverage.json")
			var errOut bytes.Buffer
			if code := run(t.Context(), append(engine.args, "--coverage=json="+file), nil, new(bytes.Buffer), &errOut); code == exitUsage {
				t.Fatal(errOut.String())
			}
			data := rendertest.ReadFile(t, file)
			var report struct{ Branches []policy.Branch }
			rendertest.OK(t, json.Unmarshal(data, &report))
			for end, want := range engine.counts {
				got := 0
				for _, b := range report.Branches {
					if strings.HasSuffix(b.Origin.File, end) && !strings.Contains(b.Origin.File, "/artifacthub/") {
						got++
					}
				}
				if got != want {
					t.Errorf("%s: %d branches, want %d", end, got, want)
				}
			}
		})
	}
}
