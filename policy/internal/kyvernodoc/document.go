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

	ApplyOne        bool             // applyRules: One
	Action          string           `kyverno:"validationFailureAction,action"`
	Overrides       []ActionOverride `kyverno:"validationFailureActionOverrides"`
	Admission       bool             `kyverno:"admission,true"`
	Background      bool             `kyverno:"background,true"`
	FailurePolicy   string           `kyverno:"webhookConfiguration/failurePolicy"`
	MatchConditions []Expression     `kyverno:"webhookConfiguration/matchConditions"` // CEL

	Rules []*Rule // as written
	// controllers are the rules for kinds that autogen makes rules for, by
	// kind; for any other they are Rules.
	controllers map[string][]*Rule
}

// An ActionOverride gives another action in some namespaces.
type ActionOverride struct {
	Action            string    `kyverno:"action,action"`
	Namespaces        []string  `kyverno:"namespaces"` // wildcards; none: all
	NamespaceSelector *Selector `kyverno:"namespaceSelector"`
}

// An Expression is a named CEL expression.
type Expression struct {
	Name       string `kyverno:"name"`
	Expression string `kyverno:"expression"`
}

// A Rule is one rule, as written or as autogen makes it. What variables may
// stand in is kept as the JSON value that the policy holds.
type Rule struct {
	Name    string         `kyverno:"name"` // as reported
	Base    *Rule          // the rule it was generated from; nil for one as written
	Pointer string         `kyverno:".,pointer"` // of the rule as written, in the policy's object: /spec/rules/0
	Source  map[string]any `kyverno:"."`         // what the rule was read from, with what autogen changed; read-only
	Prefix  string         // of the pod in a controller's object: "", /spec/template, /spec/jobTemplate/spec/template

	Match            *Match                      `kyverno:"match"`
	Exclude          *Match                      `kyverno:"exclude"` // may be nil
	Context          []*ContextEntry             `kyverno:"context"`
	Preconditions    *conditions.Block           `kyverno:"preconditions"` // nil: none
	CELPreconditions []Expression                `kyverno:"celPreconditions"`
	ImageExtractors  map[string][]ImageExtractor `kyverno:"imageExtractors"` // by kind
	ReportProperties map[string]string           `kyverno:"reportProperties"`

	// One of these.
	Validate     *Validate       `kyverno:"validate"`
	Mutate       *Mutate         `kyverno:"mutate,filled"`
	Generate     *Generate       `kyverno:"generate,filled"`
	VerifyImages []*VerifyImages `kyverno:"verifyImages"`
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
	Pointer           string                    `kyverno:".,pointer"` // in the policy's object
	Kinds             []KindSelector            `kyverno:"resources/kinds"`
	byKind            map[string][]KindSelector // nil: there are few
	Names             []string                  `kyverno:"resources/names"` // and name
	both              bool                      // name and names were given
	Namespaces        []string                  `kyverno:"resources/namespaces"`
	Annotations       map[string]string         `kyverno:"resources/annotations"`
	Selector          *Selector                 `kyverno:"resources/selector"`
	NamespaceSelector *Selector                 `kyverno:"resources/namespaceSelector"`
	Operations        []string                  `kyverno:"resources/operations"`
	Roles             []string                  `kyverno:"roles"`
	ClusterRoles      []string                  `kyverno:"clusterRoles"`
	Subjects          []Subject                 `kyverno:"subjects"`
}

// A Subject is a user, group or service account.
type Subject struct {
	Kind      string `kyverno:"kind"`
	Name      string `kyverno:"name"`
	Namespace string `kyverno:"namespace"`
}

// A KindSelector is an entry of kinds, taken apart; every part may hold
// wildcards.
type KindSelector struct{ Group, Version, Kind, Subresource string }

// A Selector is a label selector whose matchLabels may hold wildcards.
type Selector struct {
	MatchLabels      map[string]string     `kyverno:"matchLabels"`
	MatchExpressions []SelectorRequirement `kyverno:"matchExpressions"`
}

// A SelectorRequirement is as in metav1.
type SelectorRequirement struct {
	Key      string   `kyverno:"key"`
	Operator string   `kyverno:"operator"`
	Values   []string `kyverno:"values"`
}

// A ContextEntry is a name that expressions may use and where its value comes
// from: one of the pointers.
type ContextEntry struct {
	Name            string                `kyverno:"name"`
	Pointer         string                `kyverno:".,pointer"` // in the policy's object
	Variable        *VariableEntry        `kyverno:"variable"`
	ConfigMap       *ConfigMapEntry       `kyverno:"configMap"`
	APICall         *APICallEntry         `kyverno:"apiCall"`
	ImageRegistry   *ImageRegistryEntry   `kyverno:"imageRegistry"`
	GlobalReference *GlobalReferenceEntry `kyverno:"globalReference"`
}

// VariableEntry is context.variable. Value and Default are JSON values, and
// present when Has says so.
type VariableEntry struct {
	Value      any    `kyverno:"value"`
	HasValue   bool   `kyverno:"value,has"`
	Default    any    `kyverno:"default"`
	HasDefault bool   `kyverno:"default,has"`
	JMESPath   string `kyverno:"jmesPath"`
}

// ConfigMapEntry is context.configMap.
type ConfigMapEntry struct {
	Name      string `kyverno:"name"`
	Namespace string `kyverno:"namespace"`
}

// APICallEntry is context.apiCall.
type APICallEntry struct {
	Method     string     `kyverno:"method,GET"`
	URLPath    string     `kyverno:"urlPath"`
	JMESPath   string     `kyverno:"jmesPath"`
	ServiceURL string     `kyverno:"service/url"` // "" unless it calls a service
	Data       []KeyValue `kyverno:"data"`
	Default    any        `kyverno:"default"`
	HasDefault bool       `kyverno:"default,has"`
}

// KeyValue is an entry of an apiCall's data.
type KeyValue struct {
	Key   string `kyverno:"key"`
	Value any    `kyverno:"value"`
}

// ImageRegistryEntry is context.imageRegistry.
type ImageRegistryEntry struct {
	Reference string `kyverno:"reference"`
	JMESPath  string `kyverno:"jmesPath"`
}

// GlobalReferenceEntry is context.globalReference.
type GlobalReferenceEntry struct {
	Name     string `kyverno:"name"`
	JMESPath string `kyverno:"jmesPath"`
}

// An ImageExtractor says where objects of a kind hold images.
type ImageExtractor struct {
	Path     string `kyverno:"path"`
	Value    string `kyverno:"value"`
	Name     string `kyverno:"name"`
	Key      string `kyverno:"key"`
	JMESPath string `kyverno:"jmesPath"`
}

// Validate is a rule's validate. One of the fields after Message is set.
type Validate struct {
	Message       string           `kyverno:"message"`
	Action        string           `kyverno:"failureAction,action"` // "" as the policy
	Overrides     []ActionOverride `kyverno:"failureActionOverrides"`
	AllowExisting bool             `kyverno:"allowExistingViolations,true"`

	Pattern     any                `kyverno:"pattern"`
	HasPattern  bool               `kyverno:"pattern,has"`
	AnyPattern  []any              `kyverno:"anyPattern"`
	Deny        *Deny              `kyverno:"deny"`
	Foreach     []*ForeachValidate `kyverno:"foreach"`
	PodSecurity *PodSecurity       `kyverno:"podSecurity"`
	CEL         *CEL               `kyverno:"cel"`
	Manifests   *Manifests         `kyverno:"manifests"`  // nil: no attestors
	Assert      bool               `kyverno:"assert,has"` // in the schema, and ignored by Kyverno since 1.19
}

// Manifests is validate.manifests: who must have signed an object's manifest.
type Manifests struct {
	Attestors    []*AttestorSet `kyverno:"attestors"`
	Domain       string         `kyverno:"annotationDomain"`
	Repository   string         `kyverno:"repository"`
	IgnoreFields []IgnoreFields `kyverno:"ignoreFields"`
	DryRun       bool           `kyverno:"dryRun/enable"`
}

// IgnoreFields are fields that may differ from the manifest, in some objects.
type IgnoreFields struct {
	Fields  []string          `kyverno:"fields"`
	Objects []ObjectReference `kyverno:"objects"`
}

// An ObjectReference selects objects by patterns; "" matches all.
type ObjectReference struct {
	Group     string `kyverno:"group"`
	Version   string `kyverno:"version"`
	Kind      string `kyverno:"kind"`
	Name      string `kyverno:"name"`
	Namespace string `kyverno:"namespace"`
}

// An AttestorSet holds if at least Count of its entries do; 0 is all.
type AttestorSet struct {
	Count   int
	Entries []*Attestor
}

// An Attestor is a public key, a list of other attestors, or something that
// only a registry or a sigstore service can verify.
type Attestor struct {
	Form        string            // keys, certificates, keyless or attestor; "" for none
	Key         string            `kyverno:"keys/publicKeys"`
	Annotations map[string]string `kyverno:"annotations"`
	Repository  string            `kyverno:"repository"`
	Nested      *AttestorSet
}

// Deny is validate.deny. Conditions are nil for `deny: {}`.
type Deny struct {
	Conditions *conditions.Block `kyverno:"conditions"`
}

// ForeachValidate is an entry of validate.foreach.
type ForeachValidate struct {
	Pointer       string             `kyverno:".,pointer"` // in the policy's object, as written
	List          string             `kyverno:"list"`      // JMESPath
	ElementScope  *bool              `kyverno:"elementScope"`
	Context       []*ContextEntry    `kyverno:"context"`
	Preconditions *conditions.Block  `kyverno:"preconditions"`
	Pattern       any                `kyverno:"pattern"`
	HasPattern    bool               `kyverno:"pattern,has"`
	AnyPattern    []any              `kyverno:"anyPattern"`
	Deny          *Deny              `kyverno:"deny"`
	Foreach       []*ForeachValidate `kyverno:"foreach"`
}

// PodSecurity is validate.podSecurity.
type PodSecurity struct {
	Level   string               `kyverno:"level"`
	Version string               `kyverno:"version"`
	Exclude []PodSecurityExclude `kyverno:"exclude"`
}

// PodSecurityExclude is an entry of its exclude, and of an exception's
// podSecurity.
type PodSecurityExclude struct {
	ControlName     string   `kyverno:"controlName"`
	Images          []string `kyverno:"images"`
	RestrictedField string   `kyverno:"restrictedField"`
	Values          []string `kyverno:"values"`
}

// CEL is validate.cel, with the fields of a ValidatingAdmissionPolicy.
type CEL struct {
	Expressions []Validation `kyverno:"expressions"`
	Variables   []Expression `kyverno:"variables"`
	ParamKind   any          `kyverno:"paramKind"`
	ParamRef    any          `kyverno:"paramRef"`
}

// Validation is an entry of validate.cel.expressions.
type Validation struct {
	Expression        string `kyverno:"expression"`
	Message           string `kyverno:"message"`
	MessageExpression string `kyverno:"messageExpression"`
	Reason            string `kyverno:"reason"`
}

// Mutate is a rule's mutate. Patches are JSON values (patchesJson6902 is the
// text that the policy holds).
type Mutate struct {
	StrategicMerge    any              `kyverno:"patchStrategicMerge"`
	HasStrategicMerge bool             `kyverno:"patchStrategicMerge,has"`
	JSON6902          string           `kyverno:"patchesJson6902"`
	Foreach           []*ForeachMutate `kyverno:"foreach"`
	Targets           []*MutateTarget  `kyverno:"targets"`
}

// ForeachMutate is an entry of mutate.foreach.
type ForeachMutate struct {
	Pointer           string            `kyverno:".,pointer"`
	List              string            `kyverno:"list"`
	Order             string            `kyverno:"order"`
	Context           []*ContextEntry   `kyverno:"context"`
	Preconditions     *conditions.Block `kyverno:"preconditions"`
	StrategicMerge    any               `kyverno:"patchStrategicMerge"`
	HasStrategicMerge bool              `kyverno:"patchStrategicMerge,has"`
	JSON6902          string            `kyverno:"patchesJson6902"`
	Foreach           []*ForeachMutate  `kyverno:"foreach"`
}

// MutateTarget is an entry of mutate.targets.
type MutateTarget struct {
	APIVersion    string            `kyverno:"apiVersion"`
	Kind          string            `kyverno:"kind"`
	Namespace     string            `kyverno:"namespace"`
	Name          string            `kyverno:"name"`
	Selector      *Selector         `kyverno:"selector"`
	Context       []*ContextEntry   `kyverno:"context"`
	Preconditions *conditions.Block `kyverno:"preconditions"`
}

// Generate is a rule's generate, whole, as the JSON value that the policy
// holds: variables may stand anywhere in it.
type Generate struct {
	Spec    map[string]any     `kyverno:"."`
	Foreach []*ForeachGenerate `kyverno:"foreach"`
}

// ForeachGenerate is an entry of generate.foreach.
type ForeachGenerate struct {
	List          string            `kyverno:"list"`
	Context       []*ContextEntry   `kyverno:"context"`
	Preconditions *conditions.Block `kyverno:"preconditions"`
	Spec          map[string]any    `kyverno:"."`
}

// VerifyImages is an entry of a rule's verifyImages.
type VerifyImages struct {
	Pointer             string   `kyverno:".,pointer"`
	ImageReferences     []string `kyverno:"imageReferences"` // and image
	SkipImageReferences []string `kyverno:"skipImageReferences"`
	Attestors           int      `kyverno:"attestors"` // their number alone: checking them needs a registry
	Attestations        int      `kyverno:"attestations"`
	Required            bool     `kyverno:"required,true"`
	MutateDigest        bool     `kyverno:"mutateDigest,true"`
	VerifyDigest        bool     `kyverno:"verifyDigest,true"`
	Action              string   `kyverno:"failureAction,action"`
}

// An Exception is a PolicyException of kyverno.io.
type Exception struct {
	Object      *render.Object
	Name        string
	Namespace   string
	Exceptions  []ExceptionOf        `kyverno:"exceptions"`
	Background  bool                 `kyverno:"background,true"`
	Match       *Match               `kyverno:"match"`
	Conditions  *conditions.Block    `kyverno:"conditions"` // nil: none
	PodSecurity []PodSecurityExclude `kyverno:"podSecurity"`
}

// ExceptionOf names a policy and rules of it, with wildcards.
type ExceptionOf struct {
	PolicyName string   `kyverno:"policyName"`
	RuleNames  []string `kyverno:"ruleNames"`
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
