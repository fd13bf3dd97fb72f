// Package kyvernodoc reads and checks the documents of Kyverno's own policies:
// ClusterPolicy, Policy and PolicyException of kyverno.io.
//
// [Read] takes objects and returns [Policy] and [Exception] values, and an error
// for each reason why Kyverno would refuse one. The values know which requests
// they apply to ([Rule.Matches], [Exception.Concerns], [Index]) and with which
// action, but evaluate nothing: package kyverno does, the only caller.
//
// document.go has the types. A document's shape is compared with that of the
// CustomResourceDefinition (strict.go, shapes.go), decoded (read*.go) and checked
// as Kyverno's webhook does (check*.go). autogen.go generates the rules for
// controllers of pods. match.go and roles.go answer whom a rule applies to.
package kyvernodoc

import (
	"maps"
	"slices"

	"github.com/preadmit/preadmit/policy/internal/conditions"
	"github.com/preadmit/preadmit/render"
)

// A Policy is a ClusterPolicy or a Policy, read, defaulted, and with the rules
// that Kyverno generates for pod controllers.
type Policy struct {
	Object    *render.Object
	Name      string
	Namespace string // of a Policy; "" of a ClusterPolicy
	Cluster   bool   // a ClusterPolicy

	ApplyOne        bool // applyRules: One
	Action          string
	Overrides       []ActionOverride
	Admission       bool
	Background      bool
	FailurePolicy   string
	MatchConditions []Expression // of webhookConfiguration, CEL

	Rules []*Rule // as written
	// controllers are the rules for kinds that autogen makes rules for, by
	// kind; for any other they are Rules.
	controllers map[string][]*Rule
}

// An ActionOverride gives another action in some namespaces.
type ActionOverride struct {
	Action            string
	Namespaces        []string // wildcards; none: all
	NamespaceSelector *Selector
}

// An Expression is a named CEL expression.
type Expression struct{ Name, Expression string }

// A Rule is one rule, as written or as autogen makes it. What variables may
// stand in is kept as the JSON value that the policy holds.
type Rule struct {
	Name    string         // as reported
	Base    *Rule          // the rule it was generated from; nil for one as written
	Pointer string         // of the rule as written, in the policy's object: /spec/rules/0
	Source  map[string]any // what the rule was read from, with what autogen changed; read-only
	Prefix  string         // of the pod in a controller's object: "", /spec/template, /spec/jobTemplate/spec/template

	Match, Exclude   *Match // Exclude may be nil
	Context          []*ContextEntry
	Preconditions    *conditions.Block // nil: none
	CELPreconditions []Expression
	ImageExtractors  map[string][]ImageExtractor // by kind
	ReportProperties map[string]string

	// One of these.
	Validate     *Validate
	Mutate       *Mutate
	Generate     *Generate
	VerifyImages []*VerifyImages
}

// A Match is a match or exclude block.
type Match struct {
	Any, All []*Filter // one of them, or neither for an empty block
}

// Filters returns the filters of either list.
func (m *Match) Filters() []*Filter {
	if m == nil {
		return nil
	}
	if len(m.Any) > 0 {
		return m.Any
	}
	return m.All
}

// A Filter names requests by their object and their user.
type Filter struct {
	Pointer           string // in the policy's object
	Kinds             []KindSelector
	byKind            map[string][]KindSelector // nil: there are few
	Names             []string                  // name and names
	both              bool                      // name and names were given
	Namespaces        []string
	Annotations       map[string]string
	Selector          *Selector
	NamespaceSelector *Selector
	Operations        []string
	Roles             []string
	ClusterRoles      []string
	Subjects          []Subject
}

// A Subject is a user, group or service account.
type Subject struct{ Kind, Name, Namespace string }

// A KindSelector is an entry of kinds, taken apart; every part may hold
// wildcards.
type KindSelector struct{ Group, Version, Kind, Subresource string }

// A Selector is a label selector whose matchLabels may hold wildcards.
type Selector struct {
	MatchLabels      map[string]string
	MatchExpressions []SelectorRequirement
}

// A SelectorRequirement is as in metav1.
type SelectorRequirement struct {
	Key, Operator string
	Values        []string
}

// A ContextEntry is a name that expressions may use and where its value comes
// from: one of the pointers.
type ContextEntry struct {
	Name            string
	Pointer         string // in the policy's object
	Variable        *VariableEntry
	ConfigMap       *ConfigMapEntry
	APICall         *APICallEntry
	ImageRegistry   *ImageRegistryEntry
	GlobalReference *GlobalReferenceEntry
}

// VariableEntry is context.variable. Value and Default are JSON values, and
// present when Has says so.
type VariableEntry struct {
	Value, Default       any
	HasValue, HasDefault bool
	JMESPath             string
}

// ConfigMapEntry is context.configMap.
type ConfigMapEntry struct{ Name, Namespace string }

// APICallEntry is context.apiCall.
type APICallEntry struct {
	Method, URLPath, JMESPath string
	ServiceURL                string // "" unless it calls a service
	Data                      []KeyValue
	Default                   any
	HasDefault                bool
}

// KeyValue is an entry of an apiCall's data.
type KeyValue struct {
	Key   string
	Value any
}

// ImageRegistryEntry is context.imageRegistry.
type ImageRegistryEntry struct{ Reference, JMESPath string }

// GlobalReferenceEntry is context.globalReference.
type GlobalReferenceEntry struct{ Name, JMESPath string }

// An ImageExtractor says where objects of a kind hold images.
type ImageExtractor struct{ Path, Value, Name, Key, JMESPath string }

// Validate is a rule's validate. One of the fields after Message is set.
type Validate struct {
	Message       string
	Action        string // failureAction; "" as the policy
	Overrides     []ActionOverride
	AllowExisting bool // allowExistingViolations

	Pattern     any
	HasPattern  bool
	AnyPattern  []any
	Deny        *Deny
	Foreach     []*ForeachValidate
	PodSecurity *PodSecurity
	CEL         *CEL
	Manifests   *Manifests // nil: no attestors
	Assert      bool       // in the schema, and ignored by Kyverno since 1.19
}

// Manifests is validate.manifests: who must have signed an object's manifest.
type Manifests struct {
	Attestors    []*AttestorSet
	Domain       string // of the annotations
	Repository   string
	IgnoreFields []IgnoreFields
	DryRun       bool
}

// IgnoreFields are fields that may differ from the manifest, in some objects.
type IgnoreFields struct {
	Fields  []string
	Objects []ObjectReference
}

// An ObjectReference selects objects by patterns; "" matches all.
type ObjectReference struct{ Group, Version, Kind, Name, Namespace string }

// An AttestorSet holds if at least Count of its entries do; 0 is all.
type AttestorSet struct {
	Count   int
	Entries []*Attestor
}

// An Attestor is a public key, a list of other attestors, or something that
// only a registry or a sigstore service can verify.
type Attestor struct {
	Form        string // keys, certificates, keyless or attestor; "" for none
	Key         string // publicKeys
	Annotations map[string]string
	Repository  string
	Nested      *AttestorSet
}

// Deny is validate.deny. Conditions are nil for `deny: {}`.
type Deny struct{ Conditions *conditions.Block }

// ForeachValidate is an entry of validate.foreach.
type ForeachValidate struct {
	Pointer       string // in the policy's object, as written
	List          string // JMESPath
	ElementScope  *bool
	Context       []*ContextEntry
	Preconditions *conditions.Block
	Pattern       any
	HasPattern    bool
	AnyPattern    []any
	Deny          *Deny
	Foreach       []*ForeachValidate
}

// PodSecurity is validate.podSecurity.
type PodSecurity struct {
	Level, Version string
	Exclude        []PodSecurityExclude
}

// PodSecurityExclude is an entry of its exclude, and of an exception's
// podSecurity.
type PodSecurityExclude struct {
	ControlName     string
	Images          []string
	RestrictedField string
	Values          []string
}

// CEL is validate.cel, with the fields of a ValidatingAdmissionPolicy.
type CEL struct {
	Expressions      []Validation
	Variables        []Expression
	AuditAnnotations []KeyValue
	ParamKind        any
	ParamRef         any
}

// Validation is an entry of validate.cel.expressions.
type Validation struct{ Expression, Message, MessageExpression, Reason string }

// Mutate is a rule's mutate. Patches are JSON values (patchesJson6902 is the
// text that the policy holds).
type Mutate struct {
	StrategicMerge    any
	HasStrategicMerge bool
	JSON6902          string
	Foreach           []*ForeachMutate
	Targets           []*MutateTarget
}

// ForeachMutate is an entry of mutate.foreach.
type ForeachMutate struct {
	Pointer           string
	List              string
	Order             string
	Context           []*ContextEntry
	Preconditions     *conditions.Block
	StrategicMerge    any
	HasStrategicMerge bool
	JSON6902          string
	Foreach           []*ForeachMutate
}

// MutateTarget is an entry of mutate.targets.
type MutateTarget struct {
	APIVersion, Kind, Namespace, Name string
	Selector                          *Selector
	Context                           []*ContextEntry
	Preconditions                     *conditions.Block
}

// Generate is a rule's generate, whole, as the JSON value that the policy
// holds: variables may stand anywhere in it.
type Generate struct {
	Spec    map[string]any
	Foreach []*ForeachGenerate
}

// ForeachGenerate is an entry of generate.foreach.
type ForeachGenerate struct {
	List          string
	Context       []*ContextEntry
	Preconditions *conditions.Block
	Spec          map[string]any
}

// VerifyImages is an entry of a rule's verifyImages.
type VerifyImages struct {
	Pointer             string
	ImageReferences     []string
	SkipImageReferences []string
	Attestors           int // how many: what they hold needs a registry
	Attestations        int
	Required            bool
	MutateDigest        bool
	VerifyDigest        bool
	Action              string
}

// An Exception is a PolicyException of kyverno.io.
type Exception struct {
	Object      *render.Object
	Name        string
	Namespace   string
	Exceptions  []ExceptionOf
	Background  bool
	Match       *Match
	Conditions  *conditions.Block // nil: none
	PodSecurity []PodSecurityExclude
}

// ExceptionOf names a policy and rules of it, with wildcards.
type ExceptionOf struct {
	PolicyName string
	RuleNames  []string
}

// AllRules returns the rules as written and as generated by autogen, each once.
func (p *Policy) AllRules() []*Rule {
	rules := append([]*Rule{}, p.Rules...)
	seen := map[*Rule]bool{}
	for _, r := range rules {
		seen[r] = true
	}
	for _, kind := range slices.Sorted(maps.Keys(p.controllers)) {
		for _, r := range p.controllers[kind] {
			if !seen[r] {
				seen[r] = true
				rules = append(rules, r)
			}
		}
	}
	return rules
}
