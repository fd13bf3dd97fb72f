package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// echoTemplate tells the whole review, and the parameters.
const echoTemplate = `apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: echo}
spec:
  crd: {spec: {names: {kind: Echo}, validation: {openAPIV3Schema: {type: object, properties: {%s}}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package echo
      violation[{"msg": msg}] { msg := json.marshal([input.review, input.parameters]) }
`

// echoConstraint has a spec.
func echoConstraint(spec string) string {
	return "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Echo\nmetadata: {name: c}\nspec: " + spec + "\n"
}

// matchSpecs are the criteria of constraints.
var matchSpecs = []string{
	`{}`, `{match: {}}`, `{match: {kinds: []}}`,
	`{match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}}`, `{match: {kinds: [{apiGroups: ["*"], kinds: ["*"]}]}}`, `{match: {kinds: [{kinds: [Pod, Namespace]}]}}`,
	`{match: {kinds: [{apiGroups: [apps]}]}}`, `{match: {kinds: [{apiGroups: [apps], kinds: [Pod]}, {apiGroups: [""], kinds: [Node]}]}}`, `{match: {kinds: [{apiGroups: [], kinds: []}]}}`, `{match: {kinds: [{}]}}`, `{match: {kinds: [{apiGroups: ["v1"], kinds: [pod, Pods]}]}}`,
	`{match: {namespaces: [a]}}`, `{match: {namespaces: ["kube-*"]}}`, `{match: {namespaces: ["*-system"]}}`, `{match: {namespaces: ["*e-s*"]}}`, `{match: {namespaces: [a, b]}}`, `{match: {namespaces: []}}`, `{match: {namespaces: ["*"]}}`, `{match: {namespaces: ["k*m"]}}`, `{match: {namespaces: [""]}}`,
	`{match: {excludedNamespaces: [a]}}`, `{match: {excludedNamespaces: ["kube-*"]}}`, `{match: {excludedNamespaces: ["*-system", b]}}`, `{match: {excludedNamespaces: ["*"]}}`,
	`{match: {namespaces: ["*"], excludedNamespaces: [a]}}`, `{match: {namespaces: [a], excludedNamespaces: [a]}}`,
	`{match: {scope: Cluster}}`, `{match: {scope: Namespaced}}`, `{match: {scope: "*"}}`, `{match: {scope: namespaced}}`,
	`{match: {labelSelector: {}}}`, `{match: {labelSelector: {matchLabels: {app: web}}}}`, `{match: {labelSelector: {matchExpressions: [{key: app, operator: In, values: [web, db]}]}}}`,
	`{match: {labelSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}}}`, `{match: {labelSelector: {matchExpressions: [{key: app, operator: Exists}]}}}`,
	`{match: {labelSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}}}`, `{match: {labelSelector: {matchExpressions: [{key: app, operator: Equals, values: [web]}]}}}`, `{match: {labelSelector: {matchExpressions: [{key: app, operator: In}]}}}`,
	`{match: {labelSelector: {matchLabels: {"a b": c}}}}`, `{match: {labelSelector: {matchLabels: {app: "x y"}}}}`, `{match: {labelSelector: {matchLabels: {app: 1}}}}`, `{match: {labelSelector: null}}`,
	`{match: {namespaceSelector: {}}}`, `{match: {namespaceSelector: {matchLabels: {env: prod}}}}`, `{match: {namespaceSelector: {matchExpressions: [{key: env, operator: DoesNotExist}]}}}`,
	`{match: {namespaceSelector: {matchLabels: {env: prod}}, kinds: [{apiGroups: [""], kinds: [Pod]}]}}`, `{match: {namespaceSelector: {matchExpressions: [{key: env, operator: Bad}]}}}`,
	`{match: {name: web}}`, `{match: {name: "w*"}}`, `{match: {name: "*b"}}`, `{match: {name: "*"}}`, `{match: {name: ""}}`, `{match: {name: "gen-*"}}`, `{match: {name: gen-x}}`,
	`{match: {source: All}}`, `{match: {source: Original}}`, `{match: {source: Generated}}`, `{match: {source: Other}}`, `{match: {source: ""}}`,
	`{match: {kinds: [{apiGroups: [""], kinds: [Pod]}], namespaces: [a], labelSelector: {matchLabels: {app: web}}, scope: Namespaced, name: "w*"}}`,
	`{match: 7}`, `{match: {kinds: 7}}`, `{match: {kinds: [7]}}`, `{match: {namespaces: a}}`, `{match: {namespaces: [7]}}`, `{match: {namespaces: ["a*b*"]}}`, `{match: {namespaces: ["-a"]}}`, `{match: {unknown: x}}`, `{match: {labelSelector: {matchLabels: 7}}}`, `{match: {scope: 7}}`, `{match: {name: 7}}`, `{match: {name: "a*b"}}`,
	`{enforcementAction: deny}`, `{enforcementAction: warn}`, `{enforcementAction: dryrun}`, `{enforcementAction: whatever}`, `{enforcementAction: 7}`, `{enforcementAction: ""}`,
	`{enforcementAction: scoped}`, `{enforcementAction: scoped, scopedEnforcementActions: []}`,
	`{enforcementAction: scoped, scopedEnforcementActions: [{action: deny, enforcementPoints: [{name: "*"}]}]}`, `{enforcementAction: scoped, scopedEnforcementActions: [{action: warn, enforcementPoints: [{name: gator.gatekeeper.sh}]}]}`,
	`{enforcementAction: scoped, scopedEnforcementActions: [{action: deny, enforcementPoints: [{name: audit.gatekeeper.sh}]}, {action: warn, enforcementPoints: [{name: validation.gatekeeper.sh}]}]}`,
	`{enforcementAction: scoped, scopedEnforcementActions: [{action: deny, enforcementPoints: [{name: audit.gatekeeper.sh}, {name: gator.gatekeeper.sh}]}]}`,
	`{enforcementAction: deny, scopedEnforcementActions: [{action: warn, enforcementPoints: [{name: audit.gatekeeper.sh}]}]}`,
	`{enforcementAction: scoped, scopedEnforcementActions: [{action: nonsense, enforcementPoints: [{name: "*"}]}]}`, `{enforcementAction: scoped, scopedEnforcementActions: [{action: deny}]}`, `{enforcementAction: scoped, scopedEnforcementActions: [{enforcementPoints: [{name: "*"}]}]}`,
	`{enforcementAction: scoped, scopedEnforcementActions: [{action: deny, enforcementPoints: [{name: nowhere}]}]}`,
	`null`, `7`, `[]`, `{unknown: 7}`, `{parameters: null}`, `{parameters: {}}`, `{parameters: 7}`, `{parameters: []}`, `{parameters: {x: 1}}`,
}

// matchObjects are what is held against criteria.
var matchObjects = map[string]string{
	"pod-a":          `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: a, labels: {app: web}}}`,
	"pod-b":          `{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: b, labels: {app: db}}, spec: {containers: []}}`,
	"pod-system":     `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: kube-system}}`,
	"pod-nowhere":    `{apiVersion: v1, kind: Pod, metadata: {name: web}}`,
	"pod-default":    `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default}}`,
	"pod-generated":  `{apiVersion: v1, kind: Pod, metadata: {generateName: gen-, namespace: a}}`,
	"deployment":     `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: a, labels: {app: web}}}`,
	"namespace-a":    `{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {env: prod, app: web}}}`,
	"namespace-sys":  `{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}`,
	"namespace-fake": `{apiVersion: example.com/v1, kind: Namespace, metadata: {name: a, namespace: b, labels: {env: prod}}}`,
	"node":           `{apiVersion: v1, kind: Node, metadata: {name: web, labels: {app: web}}}`,
	"node-in-a":      `{apiVersion: v1, kind: Node, metadata: {name: web, namespace: a}}`,
	"custom":         `{apiVersion: example.com/v1alpha1, kind: Widget, metadata: {name: web, namespace: a}, size: 1.5, big: 9007199254740993, n: null, e: {}, l: []}`,
	"bare":           `{apiVersion: v1, kind: Pod}`,
	"odd":            `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: a, labels: {app: 7}}}`,
	"odder":          `{apiVersion: v1, kind: Pod, metadata: {name: 7, namespace: [a], labels: [app]}}`,
	"create":         `{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {uid: u, operation: CREATE, kind: {group: "", version: v1, kind: Pod}, namespace: a, name: web, userInfo: {username: me, groups: [g], uid: x, extra: {k: [v]}}, object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: a, labels: {app: web}}}}}`,
	"update":         `{apiVersion: admission.k8s.io/v1beta1, kind: AdmissionReview, request: {operation: UPDATE, object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: a}}, oldObject: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: b, labels: {app: web}}}}}`,
	"delete":         `{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {operation: DELETE, dryRun: true, subResource: x, resource: {group: "", version: v1, resource: pods}, requestKind: {group: "", version: v1, kind: Pod}, options: {apiVersion: meta.k8s.io/v1, kind: DeleteOptions}, oldObject: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: a}}}}`,
	"delete-nothing": `{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {operation: DELETE, object: {apiVersion: v1, kind: Pod, metadata: {name: web}}}}`,
	"no-request":     `{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {}}`,
	"other-review":   `{apiVersion: example.com/v1, kind: AdmissionReview, request: {}}`,
	"user":           `{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {operation: CONNECT, userInfo: {username: ""}, object: {apiVersion: v1, kind: Widget, metadata: {name: web, namespace: kube-system}}}}`,
}

const inventoryOfNamespaces = `{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {env: prod}, annotations: {k: v}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: b}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, labels: {env: test}}}
`

// parameterSchemas and the parameters that are held against them.
var (
	parameterSchemas = []string{
		``, `n: {type: integer}`, `n: {type: integer, default: 7}, s: {type: string, default: x}`, `o: {type: object, properties: {a: {type: string, default: y}, b: {type: array, items: {type: object, properties: {c: {type: integer, default: 3}}}}}}`,
		`o: {type: object, default: {}, properties: {a: {type: string, default: y}}}`, `l: {type: array, items: {type: string}, maxItems: 2}`, `e: {type: string, enum: [a, b]}`, `p: {type: string, pattern: "^a+$"}`, `n: {type: integer, minimum: 3}`,
		`m: {type: object, additionalProperties: {type: string}}`, `x: {x-kubernetes-preserve-unknown-fields: true}`, `x: {type: object, required: [a], properties: {a: {type: string}}}`, `n: {type: integer, nullable: true}`, `i: {x-kubernetes-int-or-string: true}`,
		`f: {type: number}`, `b: {type: boolean}`, `a: {anyOf: [{type: string}, {type: integer}]}`,
	}
	parameterValues = []string{
		`null`, `{}`, `{n: 1}`, `{n: x}`, `{n: 1.5}`, `{n: null}`, `{n: 2147483648}`, `{s: null}`, `{o: {}}`, `{o: {b: [{}, {c: 1}]}}`, `{o: null}`, `{o: x}`, `{l: [a, b]}`, `{l: [a, b, c]}`, `{l: [1]}`, `{l: {}}`, `{e: a}`, `{e: c}`, `{p: aa}`, `{p: b}`,
		`{m: {a: b}}`, `{m: {a: 1}}`, `{x: {a: {b: [1]}}}`, `{x: {}}`, `{x: 7}`, `{i: 1}`, `{i: x}`, `{i: []}`, `{f: 1}`, `{f: 1.0}`, `{f: 1e3}`, `{b: yes}`, `{b: true}`, `{a: 1}`, `{a: x}`, `{a: []}`, `{unknown: 1}`,
	}
	specs = []string{`{}`, `{parameters: %s}`}
)

// TestGatorGenerated holds generated suites against gator: every criterion by
// every object, with Namespaces in the inventory and without, and parameters
// against schemas.
func TestGatorGenerated(t *testing.T) {
	t.Parallel()
	gator := needProgram(t, "PREADMIT_GATOR", "gator")
	dir := t.TempDir()
	put := func(name, text string) {
		putFile(t, filepath.Join(dir, name), text)
	}
	put("matching/template.yaml", fmt.Sprintf(echoTemplate, ""))
	put("matching/inventory.yaml", inventoryOfNamespaces)
	put("matching/expansion.yaml", expansionTemplates)
	for name, text := range matchObjects {
		put("matching/objects/"+name+".yaml", text+"\n")
	}
	var b strings.Builder
	for i, spec := range matchSpecs {
		put(fmt.Sprintf("matching/c%d.yaml", i), echoConstraint(spec))
		matchingTest(&b, i)
	}
	put("matching/suite.yaml", suiteHead+b.String())
	b.Reset()
	for i, schema := range parameterSchemas {
		put(fmt.Sprintf("parameters/t%d.yaml", i), fmt.Sprintf(echoTemplate, schema))
		for j, value := range parameterValues {
			put(fmt.Sprintf("parameters/c%d.yaml", j), echoConstraint(fmt.Sprintf(specs[1], value)))
			fmt.Fprintf(&b, "- {name: t%d-c%d, template: t%d.yaml, constraint: c%d.yaml, cases: [{name: p, object: o.yaml, assertions: [{violations: no}]}]}\n", i, j, i, j)
			fmt.Fprintf(&b, "- {name: i%d-c%d, template: t%d.yaml, constraint: c%d.yaml, invalid: true}\n", i, j, i, j)
		}
	}
	put("parameters/o.yaml", matchObjects["pod-a"]+"\n")
	put("parameters/suite.yaml", suiteHead+b.String())
	if same := compareSuites(t, gator, dir); same < 3000 {
		t.Errorf("only %d cases are the same", same)
	}
}

const suiteHead = "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests:\n"

// expansionTemplates make Pods of Deployments.
const expansionTemplates = `apiVersion: expansion.gatekeeper.sh/v1beta1
kind: ExpansionTemplate
metadata: {name: expand}
spec:
  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]
  templateSource: spec.template
  generatedGVK: {group: "", version: v1, kind: Pod}
`

// matchingTest writes the tests of one constraint.
func matchingTest(b *strings.Builder, i int) {
	fmt.Fprintf(b, "- name: m%d\n  template: template.yaml\n  constraint: c%d.yaml\n  cases:\n", i, i)
	for _, name := range slices.Sorted(maps.Keys(matchObjects)) {
		fmt.Fprintf(b, "  - {name: %s, object: objects/%s.yaml, assertions: [{violations: no}]}\n", name, name)
		fmt.Fprintf(b, "  - {name: %s+ns, object: objects/%s.yaml, inventory: [inventory.yaml], assertions: [{violations: no}]}\n", name, name)
	}
	fmt.Fprintf(b, "- {name: v%d, template: template.yaml, constraint: c%d.yaml, invalid: true}\n", i, i)
	fmt.Fprintf(b, "- {name: e%d, template: template.yaml, constraint: c%d.yaml, expansion: expansion.yaml, cases: [{name: d, object: objects/deployment.yaml, assertions: [{violations: no}]}]}\n", i, i)
}
