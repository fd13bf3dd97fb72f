package admission

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

func kindsOf(t testing.TB, crds ...*render.Object) *schema.Kinds {
	t.Helper()
	kinds, err := schema.New(crds, schema.Options{})
	rendertest.OK(t, err)
	return kinds
}

// upstreamTypes is the API server's type checker over the same kinds.
func upstreamTypes(kinds *schema.Kinds) *validating.TypeChecker {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, r := range kinds.Resources() {
		if !strings.Contains(r.Name, "/") {
			gv := apischema.GroupVersion{Group: r.Group, Version: r.Version}
			mapper.AddSpecific(gv.WithKind(r.Kind), gv.WithResource(r.Name), gv.WithResource(strings.ToLower(r.Kind)), meta.RESTScopeRoot)
		}
	}
	return &validating.TypeChecker{SchemaResolver: kindsResolver{kinds}, RestMapper: mapper}
}

type kindsResolver struct{ kinds *schema.Kinds }

func (k kindsResolver) ResolveSchema(gvk apischema.GroupVersionKind) (*spec.Schema, error) {
	if s, ok := k.kinds.Schema(gvk); ok {
		return s, nil
	}
	return nil, resolver.ErrSchemaNotFound
}

var (
	warningLine = regexp.MustCompile(`(?m)^(?:(\S*, Kind=\w+): )?(ERROR: <input>:.*)$`)
	uniqueName  = regexp.MustCompile(`\b([A-Z][A-Za-z]*)\d{3,9}\b`)
	ourName     = regexp.MustCompile(`(?:params:)?[\w.-]*/?v\d\w*\.([A-Z])`)
)

// upstreamWarnings are the API server's, one an issue, without what it is
// known to be wrong about.
func upstreamWarnings(checker *validating.TypeChecker, p *v1.ValidatingAdmissionPolicy) (all []string, quirks int) {
	for _, w := range checker.Check(p) {
		kind := ""
		for _, m := range warningLine.FindAllStringSubmatch(w.Warning, -1) {
			if m[1] != "" {
				kind = m[1]
			}
			if strings.Contains(m[2], "unexpected failed resolution of 'kubernetes.authorization.Authorizer'") {
				quirks++
				continue
			}
			all = append(all, fmt.Sprintf("%s %s: %s", w.FieldRef, kind, uniqueName.ReplaceAllString(m[2], "$1")))
		}
	}
	slices.Sort(all)
	return all, quirks
}

func ourWarnings(t testing.TB, checker *typeChecker, c *compiled) []string {
	t.Helper()
	found, err := checker.find(c)
	rendertest.OK(t, err)
	var all []string
	for _, w := range found {
		for _, kind := range w.kinds {
			for _, i := range w.issues {
				field := strings.NewReplacer("validations/", "validations[", "/expression", "].expression", "/messageExpression", "].messageExpression").Replace(strings.TrimPrefix(w.Pointer, "/spec/"))
				all = append(all, fmt.Sprintf("spec.%s %s: %s", field, kind, ourName.ReplaceAllString(i.String(), "$1")))
			}
		}
	}
	slices.Sort(all)
	return all
}

// compareTypes checks the policies of a file both ways and says how many
// warnings there were.
func compareTypes(t *testing.T, name string, objects []*render.Object, kinds *schema.Kinds, checker *typeChecker, upstream *validating.TypeChecker) (policies, warnings, quirks int) {
	t.Helper()
	for _, o := range objects {
		if !isKind(o, policyKind) {
			continue
		}
		c, errs := newPolicy(&compiler{version: cel.Newest(), envs: map[cel.Version]*environments{}}, o)
		if c == nil || len(errs) > 0 {
			continue // the API server would not take it
		}
		want, q := upstreamWarnings(upstream, c.policy)
		got := ourWarnings(t, checker, c)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s: %s", name, o.GetName(), diff)
		}
		policies, warnings, quirks = policies+1, warnings+len(got), quirks+q
	}
	return policies, warnings, quirks
}

const typeHead = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [%s]}
`

const deploymentsRule = `{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}`

// TestTypesAsUpstream holds type checking of policies that probe it against
// the API server's own.
func TestTypesAsUpstream(t *testing.T) {
	t.Parallel()
	kinds := kindsOf(t, rendertest.Parse(t, "crd.yaml", gadgetCRD)...)
	checker, upstream := newTypeChecker(cel.Newest(), kinds), upstreamTypes(kinds)
	total, quirks := 0, 0
	for _, rule := range []string{
		deploymentsRule,
		`{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods, deployment, events, Services]}`,
		`{apiGroups: [apps, ""], apiVersions: [v1], operations: [CREATE], resources: [pods, deployments, deployments/scale, statefulsets, "*"]}`,
		`{apiGroups: ["*"], apiVersions: [v1], operations: [CREATE], resources: [pods]}`,
		`{apiGroups: [example.com], apiVersions: [v1, v2], operations: [CREATE], resources: [gadgets]}`,
		`{apiGroups: [none.example.com], apiVersions: [v1], operations: [CREATE], resources: [gadgets]}`,
		`{apiGroups: [apps, batch, "", autoscaling], apiVersions: [v1], operations: [CREATE], resources: [pods, deployments, jobs, cronjobs, services, secrets, configmaps, events, nodes, endpoints, statefulsets, daemonsets]}`,
	} {
		text := fmt.Sprintf(typeHead, rule) + typeProbes
		_, n, q := compareTypes(t, rule, rendertest.Parse(t, "p.yaml", text), kinds, checker, upstream)
		total, quirks = total+n, quirks+q
	}
	t.Logf("%d warnings, %d of the API server's left out", total, quirks)
	if total < 100 || quirks == 0 {
		t.Error("too few")
	}
}

const typeProbes = `
  paramKind: {apiVersion: v1, kind: ConfigMap}
  variables:
  - {name: containers, expression: object.spec.template.spec.containers}
  - {name: first, expression: "variables.containers[0]"}
  - {name: broken, expression: object.spec.nothing}
  - {name: names, expression: "variables.containers.map(c, c.name)"}
  validations:
  - expression: object.namex == 'x'
  - expression: has(object.metadata.namex)
  - expression: object.metadata.name > 1
  - expression: object.spec.replicas == 'x' || object.spec == 1
  - expression: oldObject == null || oldObject.spec.replica < 2
  - expression: params.data.x == 1
  - expression: params.date.x == 1
  - expression: object == params
  - expression: "variables.containers.all(c, has(c.resources.limits) && c.resources.limits.all(k, quantity(c.resources.limits[k]).isGreaterThan(quantity('1'))))"
  - expression: "variables.containers.all(c, c.imagex != '')"
  - expression: variables.first.namex == ''
  - expression: variables.broken.anything == 1
  - expression: "variables.names.all(n, n > 1)"
  - expression: "object.spec.template.spec.?securityContext.?runAsUser.orValue('x') == 1"
  - expression: "authorizer.requestResource.check('get').allowed()"
  - expression: authorizer.group('').resource('pods').check('get').allowed()
  - expression: object.metadata.creationTimestamp > 3
  - expression: "object.metadata.labels.app == 1 && object.metadata.labels['a'] == 2"
  - expression: object.spec.selector.matchLabels.all(k, k)
  - expression: type(object.spec) == map
  - expression: object.spec.ports.exists(p, p.targetPort == 'http' || p.targetPort == 80)
  - expression: object.data.all(k, object.data[k] == 'x')
  - expression: object.spec.size == 'x'
  - expression: "object.spec.namespace == 'x'"
  - expression: request.namespace == namespaceObject.metadata.name
  - expression: "object.spec.replicas <= 5"
    messageExpression: "'too many: ' + object.spec.replicas"
  - expression: "object.spec.replicas <= 5"
    messageExpression: "'too many: ' + string(object.specc.replicas)"
`

const gadgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  names: {plural: gadgets, kind: Gadget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}, namespace: {type: string}}}}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// TestTypesOfPublishedPolicies does the same with other people's policies.
func TestTypesOfPublishedPolicies(t *testing.T) {
	t.Parallel()
	kinds := kindsOf(t)
	checker, upstream := newTypeChecker(cel.Newest(), kinds), upstreamTypes(kinds)
	for _, dir := range []string{"corpora/kubescape-vap", "corpora/kaptest", "repos/infra-deployments"} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			root := filepath.Join("../../../shared", dir)
			rendertest.SkipWithout(t, root)
			policies, warnings, quirks := 0, 0, 0
			eachPolicyFile(t, root, func(name string, objects []*render.Object) {
				p, w, q := compareTypes(t, name, objects, kinds, checker, upstream)
				policies, warnings, quirks = policies+p, warnings+w, quirks+q
			})
			t.Logf("%d policies, %d warnings, %d of the API server's left out", policies, warnings, quirks)
			if policies == 0 {
				t.Error("no policies")
			}
		})
	}
}

func eachPolicyFile(t testing.TB, root string, f func(string, []*render.Object)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "ml") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), "kind: "+policyKind+"\n") {
			return err
		}
		objects, _ := render.Parse(path, data)
		f(path, objects)
		return nil
	})
	rendertest.OK(t, err)
}

// BenchmarkTypes compiles 30 policies of three validations, each about three
// kinds, with and without the checking of types. What is known of kinds is
// new in each round, as it is in a run.
func BenchmarkTypes(b *testing.B) {
	var text strings.Builder
	for i := range 30 {
		p := fmt.Sprintf(benchPolicy, i)
		text.WriteString(strings.ReplaceAll(p, "resources: [deployments]", "resources: [deployments, statefulsets, daemonsets]"))
	}
	objects := rendertest.Parse(b, "p.yaml", text.String())
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprint(with), func(b *testing.B) {
			for b.Loop() {
				options := Options{Kinds: testKinds{}}
				if with {
					options.Types = kindsOf(b)
				}
				if _, err := New(objects, options); (err != nil) != with {
					b.Fatal(err)
				}
			}
		})
	}
}
