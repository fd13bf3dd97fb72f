package engines

import (
	"fmt"
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/packs"
	"github.com/preadmit/preadmit/policy/podsecurity"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
)

// A pack is a set of policies embedded in the program.
type pack struct{ Name, level, Doc string }

const (
	DefaultPack    = "pod-security-baseline"
	restrictedPack = "pod-security-restricted"
)

// Packs lists the packs: those of the Pod Security engine, and those that consist of
// ValidatingAdmissionPolicies.
func Packs() []pack {
	all := []pack{
		{DefaultPack, "baseline", "Pod Security Standards, baseline: prevents known privilege escalations"},
		{restrictedPack, "restricted", "Pod Security Standards, restricted: current hardening practice; includes baseline"},
	}
	for _, p := range packs.All {
		all = append(all, pack{Name: p.Name, Doc: p.Doc})
	}
	return all
}

// PodSecurity is the admission plugin that judges by the labels of Namespaces.
const PodSecurity = "PodSecurity"

// PluginNames returns the names of the default admission plugins that can be disabled.
func PluginNames() []string { return append(schema.PluginNames(), PodSecurity) }

func PackNames() []string {
	var names []string
	for _, p := range Packs() {
		names = append(names, p.Name)
	}
	return names
}

// CheckPacks returns an error if one of the names is no pack.
func CheckPacks(names []string) error {
	for _, name := range names {
		if !slices.Contains(PackNames(), name) {
			return fmt.Errorf("--pack %q: no such pack; %s", name, render.Instead(name, PackNames()))
		}
	}
	return nil
}

// newPack returns the engine of a pack. Failures only warn if --pack does not name it.
func newPack(name string, s *Settings, kinds policy.Kinds, cluster *policy.Cluster, mutators []policy.Mutator) (policy.Validator, error) {
	all := Packs()
	i := slices.IndexFunc(all, func(p pack) bool { return p.Name == name })
	if i < 0 {
		return nil, CheckPacks([]string{name})
	}
	if level := all[i].level; level != "" {
		return podsecurity.New(podsecurity.Options{
			Level: level, KubeVersion: s.KubeVersion, Cluster: cluster, Implied: !slices.Contains(s.Packs, name),
			Mutators: mutators, Unlabelled: slices.Contains(s.DisabledPlugins, PodSecurity),
		})
	}
	policies, err := packs.Objects(name, s.KubeVersion)
	if err != nil {
		return nil, err
	}
	return admission.New(policies, admission.Options{Cluster: cluster, Kinds: kinds, KubeVersion: s.KubeVersion, Valid: true})
}

// withoutRepeats returns each name once, and leaves out baseline if restricted is there, which
// includes it.
func withoutRepeats(names []string) []string {
	var once []string
	for _, n := range names {
		if slices.Contains(once, n) || n == DefaultPack && slices.Contains(names, restrictedPack) {
			continue
		}
		once = append(once, n)
	}
	return once
}

func PackRules(name string) ([]policy.Rule, error) {
	kinds, err := schema.New(nil, schema.Options{})
	if err != nil {
		return nil, err
	}
	engine, err := newPack(name, &Settings{Packs: []string{name}}, kinds, policy.NewCluster(), nil)
	if err != nil {
		return nil, err
	}
	return engine.Rules(), nil
}
