package podsecurity

import (
	_ "embed"
	"sync"

	"go.yaml.in/yaml/v3"
	"k8s.io/pod-security-admission/api"

	"github.com/preadmit/preadmit/policy"
)

const (
	standards  = "https://kubernetes.io/docs/concepts/security/pod-security-standards/#"
	labelsPage = "https://kubernetes.io/docs/concepts/security/pod-security-admission/#pod-security-admission-labels-for-namespaces"
)

// A document describes a control.
type document struct {
	Level       api.Level // with the control; "" if it is not a control
	Severity    policy.Severity
	Title       string
	Description string
	Fix         string // a sentence
	Bad, Good   string // YAML, without the fields that don't matter
}

func (d document) rule(level, id string, action policy.Action) policy.Rule {
	url := labelsPage
	if d.Level != "" {
		url = standards + string(d.Level)
	}
	return policy.Rule{
		Engine: policy.EnginePodSecurity, Policy: level, Name: id,
		Severity: d.Severity, Action: action,
		Title: d.Title, Description: d.Description, URL: url,
		Help: d.Fix + "\n\nRefused:\n\n```yaml\n" + d.Bad + "```\n\nAllowed:\n\n```yaml\n" + d.Good + "```\n",
	}
}

//go:embed controls.yaml
var controls []byte

// documents returns the documents of the controls by ID. A test holds that none is
// missing and that the examples are refused and allowed.
var documents = sync.OnceValue(func() map[string]document {
	var all map[string]document
	if err := yaml.Unmarshal(controls, &all); err != nil {
		panic(err) // the file is part of the program
	}
	return all
})
