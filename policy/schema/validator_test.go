package schema

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A case is the first object of a file with the changes that a further
// document makes to it, a JSON merge patch each. In updates.yaml each document with a kind
// is a first object, and the ones after it are updates of that.
type validateCase struct {
	name   string
	object map[string]any
	old    map[string]any // that it updates; nil where it is created
}

// What Kubernetes 1.36.3 itself says about the objects in testdata/validate is
// recorded beside them (.json), and what we say (.txt): each fault with its
// rule and fields, and what the server says besides.
func TestValidateAsRecorded(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/validate/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no objects: %v", err)
	}
	kinds := newKinds(t, "1.36")
	v := NewValidator(kinds, nil)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			cases := readCases(t, file)
			answers := readAnswers(t, rendertest.ReadFile(t, strings.TrimSuffix(file, ".yaml")+".json"))
			if len(answers) != len(cases) {
				t.Fatalf("%d answers for %d objects", len(answers), len(cases))
			}
			var text strings.Builder
			for i, c := range cases {
				fmt.Fprintf(&text, "# %s\n", c.name)
				text.WriteString(tellCase(t, kinds, v, c, answers[i]))
			}
			rendertest.Golden(t, strings.TrimSuffix(file, ".yaml")+".txt", text.String())
		})
	}
}

func readCases(t *testing.T, file string) []validateCase {
	t.Helper()
	var cases []validateCase
	var first map[string]any
	updates := filepath.Base(file) == "updates.yaml"
	for _, d := range readDocuments(t, file) {
		c := validateCase{name: d.comment, object: d.object.Object}
		if first == nil || updates && d.object.GetKind() != "" {
			first = d.object.Object
		} else {
			c.object = mergePatch(runtime.DeepCopyJSON(first), d.object.Object)
			if updates {
				c.old = first
			}
		}
		cases = append(cases, c)
	}
	return cases
}

// mergePatch applies a JSON merge patch (RFC 7386).
func mergePatch(object, patch map[string]any) map[string]any {
	for key, value := range patch {
		below, ok := value.(map[string]any)
		was, _ := object[key].(map[string]any)
		switch {
		case value == nil:
			delete(object, key)
		case ok && was != nil:
			object[key] = mergePatch(was, below)
		default:
			object[key] = value
		}
	}
	return object
}

// tellCase says what we say, and fails for what the server doesn't.
func tellCase(t *testing.T, kinds *Kinds, v *Validator, c validateCase, server oracleAnswer) string {
	t.Helper()
	theirs := map[string]bool{}
	strict := false
	for _, f := range server.Faults {
		theirs[withoutValue(f.String())] = true
		strict = strict || f.Field == ""
	}
	req, err := requestOf(kinds, c.object, c.old)
	if err != nil {
		return fmt.Sprintf("refused: %v\n", err)
	}
	results, err := v.Validate(t.Context(), req)
	rendertest.OK(t, err)
	faults, err := v.builtin(req.Kind).validator().faults(req, nil)
	rendertest.OK(t, err)
	var b strings.Builder
	said, warned := map[string]bool{}, false
	for _, f := range faults {
		said[withoutValue(f.message)] = true
		warned = warned || f.warns
	}
	for _, r := range results {
		fmt.Fprintf(&b, "%s %s %s\n", r.Rule, strings.Join(r.Fields, ","), abbreviate(r.Message))
		if r.Hint != "" {
			fmt.Fprintf(&b, "  hint: %s\n", r.Hint)
		}
	}
	if (len(said) > 0) != (len(theirs) > 0) && !strict && !warned {
		t.Errorf("%s: refused by one alone: %v, recorded: %v", c.name, said, theirs)
	}
	for _, f := range slices.Sorted(maps.Keys(said)) {
		if !theirs[f] && !strict {
			fmt.Fprintf(&b, "not in 1.36: %s\n", abbreviate(f))
		}
	}
	for _, f := range slices.Sorted(maps.Keys(theirs)) {
		if !said[f] && !strict {
			fmt.Fprintf(&b, "in 1.36 instead: %s\n", abbreviate(f))
		}
	}
	return b.String()
}

// withoutValue cuts an error's value, which the releases write in different ways, and the diff
// after its text.
func withoutValue(fault string) string {
	field, message, _ := strings.Cut(fault, ": ")
	kind, _, text := splitMessage(message)
	text, _, _ = strings.Cut(text, "\n")
	return field + ": " + kind + ": " + text
}

// abbreviate leaves out the middle of the server's longest sentences.
func abbreviate(s string) string {
	s = strings.ReplaceAll(s, "\n", " ")
	if before, after, ok := strings.Cut(s, " must consist of "); ok {
		s = before + " must consist of …"
		if _, more, ok := strings.Cut(after, "), "); ok {
			s += ", " + abbreviate(more)
		}
	}
	return s
}

func validateObject(kinds *Kinds, v *Validator, object map[string]any) ([]policy.Result, error) {
	return validateUpdate(kinds, v, object, nil)
}

func validateUpdate(kinds *Kinds, v *Validator, object, old map[string]any) ([]policy.Result, error) {
	req, err := requestOf(kinds, object, old)
	if err != nil {
		return nil, err
	}
	return v.Validate(context.Background(), req)
}

func requestOf(kinds *Kinds, object, old map[string]any) (*policy.Request, error) {
	req := policy.Request{Namespace: "default", Operation: policy.Create, Object: &render.Object{Unstructured: &unstructured.Unstructured{Object: object}}}
	req.Kind = req.Object.GroupVersionKind()
	if own := req.Object.GetNamespace(); own != "" {
		req.Namespace = own
	}
	var err error
	if req.Admitted, err = kinds.Admit(req.Object, "default"); err != nil {
		return nil, err
	}
	if old == nil {
		return &req, nil
	}
	asked := &asker{}
	chain := policy.Chain{Kinds: kinds, Validators: []policy.Validator{asked, NewValidator(kinds, nil)}}
	reqs := []policy.Request{{Operation: policy.Update}}
	for to, from := range map[**render.Object]map[string]any{&reqs[0].Object: object, &reqs[0].OldObject: old} {
		objects, err := render.Parse("object.json", []byte(asJSON(from)))
		if err != nil {
			return nil, err
		}
		*to = objects[0]
	}
	if err = chain.StoreOld(context.Background(), reqs); err == nil {
		_, err = chain.Review(context.Background(), reqs)
	}
	return asked.last, err
}

// An asker keeps the last request.
type asker struct{ last *policy.Request }

func (a *asker) Rules() []policy.Rule { return nil }

func (a *asker) Validate(_ context.Context, req *policy.Request) ([]policy.Result, error) {
	kept := *req
	a.last = &kept
	return nil, nil
}

// A field that another release knows is said to be of that release.
func TestUnknownFieldsByRelease(t *testing.T) {
	t.Parallel()
	const text = `
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  hostnameOverride: x
  resourceClaims: [{name: a, source: {resourceClaimName: b}}]
  containers: [{name: a, image: b, securityContext: {fsGroup: 1}}]
`
	for version, want := range map[string][]string{
		"1.29": {
			"/spec/containers/0/securityContext/fsGroup: fsGroup is a field of spec.securityContext",
			"/spec/hostnameOverride: added in Kubernetes 1.34",
		},
		"1.36": {
			"/spec/containers/0/securityContext/fsGroup: fsGroup is a field of spec.securityContext",
			"/spec/resourceClaims/0/source: Kubernetes 1.30 was the last version with it",
		},
	} {
		kinds := newKinds(t, version)
		results, err := validateObject(kinds, NewValidator(kinds, nil), parse(t, text).Object)
		rendertest.OK(t, err)
		var got []string
		for _, r := range results {
			if r.Rule == ruleUnknown {
				got = append(got, r.Fields[0]+": "+r.Hint)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", version, diff)
		}
	}
}

// Objects that are right everywhere are right in every release.
func TestValidInEveryRelease(t *testing.T) {
	t.Parallel()
	for r := oldest; r <= newest; r++ {
		kinds := newKinds(t, r.String())
		v := NewValidator(kinds, nil)
		results, err := validateObject(kinds, v, parse(t, benchDeployment).Object)
		if err != nil || len(results) != 1 || results[0].Outcome != policy.Pass || results[0].Rule != ruleValid {
			t.Errorf("%s: %v %v", r, results, err)
		}
	}
}

// What depends on the release: each text is refused by the first version alone.
func TestValidationByRelease(t *testing.T) {
	t.Parallel()
	pod := func(spec string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: b" + spec + "}]}\n"
	}
	for _, c := range []struct{ refused, accepted, text string }{
		{"1.31", "1.32", pod(`, env: [{name: "a b"}]`)},
		{"1.35", "1.36", "apiVersion: v1\nkind: Service\nmetadata: {name: 1web}\nspec: {ports: [{port: 1}]}\n"},
		{"1.33", "1.32", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {serviceName: a.b, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}}\n"},
		{"1.36", "1.37", "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {minReplicas: 0, maxReplicas: 1, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}, metrics: [{type: External, external: {metric: {name: a}, target: {type: Value, value: 1}}}]}\n"},
		{"1.37", "1.36", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}], volumes: [{name: a, image: {}}]}}}\n"},
		{"1.36", "1.37", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {securityContext: {seLinuxChangePolicy: MountOption}, containers: [{name: a, image: b}]}\n"},
		{"1.35", "1.36", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {initContainers: [{name: c, image: b, restartPolicy: Always, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]}], containers: [{name: a, image: b}]}\n"},
		{"1.33", "1.32", pod(`, resizePolicy: [{resourceName: gpu, restartPolicy: NotRequired}]`)},
		{"1.33", "1.34", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {trafficDistribution: PreferSameZone, ports: [{port: 1}]}\n"},
	} {
		for version, want := range map[string]policy.Outcome{c.refused: policy.Fail, c.accepted: policy.Pass} {
			kinds := newKinds(t, version)
			results, err := validateObject(kinds, NewValidator(kinds, nil), parse(t, c.text).Object)
			if err != nil || results[0].Outcome != want {
				t.Errorf("%s: %v %v, want %s of\n%s", version, results, err, want, c.text)
			}
		}
	}
}

// TestValidateQuotesNoSecrets holds that no result quotes a Secret, and that results
// are bounded.
func TestValidateQuotesNoSecrets(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "")
	v := NewValidator(kinds, nil)
	for _, text := range []string{
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ntype: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: hunter2}\n",
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a}\nwebhooks: [{name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: 'https://user:hunter2@host'}}]\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: '" + strings.Repeat("é", 10000) + "'}}\n",
		`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"` + strings.Repeat("x ", 500) + `": "b"}}`,
	} {
		results, err := validateObject(kinds, v, parse(t, text).Object)
		if err != nil || len(results) == 0 || results[0].Outcome != policy.Fail {
			t.Errorf("%v %v", results, err)
		}
		for _, r := range results {
			if strings.Contains(r.Message, "hunter2") || len(r.Message) > 4<<10 {
				t.Errorf("%.100s", r.Message)
			}
		}
	}
}

// A hundred unknown fields are told, as by the API server's decoder.
func TestManyUnknownFields(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "")
	o := object("v1", "ConfigMap")
	for i := range 5000 {
		o.Object[fmt.Sprintf("x%04d", i)] = "a"
	}
	first, err := validateObject(kinds, NewValidator(kinds, nil), o.Object)
	if err != nil || len(first) != maxUnknown {
		t.Fatalf("%d results, %v", len(first), err)
	}
	second, _ := validateObject(kinds, NewValidator(kinds, nil), o.Object)
	rendertest.Equal(t, first, second)
}

// Many ask at once, of kinds that nobody asked about before.
func TestValidateConcurrently(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "1.33")
	v := NewValidator(kinds, nil)
	o := parse(t, benchDeployment)
	o.Object["spec"].(map[string]any)["replica"] = int64(1)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			results, err := validateObject(kinds, v, o.Object)
			if err != nil || len(results) != 1 || results[0].Hint != "did you mean replicas?" {
				t.Errorf("%v %v", results, err)
			}
		})
	}
	wait.Wait()
}

func TestRulesOfTheKindsThatAreThere(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "1.33", widgets)
	rules := NewValidator(kinds, []*render.Object{
		object("v1", "Pod"), object("apps/v1", "Deployment"), object("v1", "Pod"), object("example.com/v1", "Widget"),
	}).Rules()
	var policies []string
	for _, r := range rules {
		if r.Engine != policy.EngineSchema || r.Title == "" || !strings.Contains(r.Description, "Kubernetes 1.33") {
			t.Errorf("%+v", r)
		}
		if !slices.Contains(policies, r.Policy) {
			policies = append(policies, r.Policy)
		}
	}
	rendertest.Equal(t, []string{"Deployment.apps", "Pod"}, policies)
}

// What fails has a documented rule.
func TestEveryRuleIsDocumented(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, d := range documentation {
		documented[d.rule] = true
	}
	for _, rule := range []string{
		ruleRequired, ruleInvalid, ruleUnsupported, ruleDuplicate,
		ruleNotFound, ruleForbidden, ruleTooLong, ruleImmutable,
	} {
		if !documented[rule] {
			t.Error(rule)
		}
	}
	if len(documented) != len(documentation) || !slices.IsSortedFunc(documentation, func(a, b ruleText) int {
		return strings.Compare(a.rule, b.rule)
	}) {
		t.Error("not sorted, or twice")
	}
}

// Every value of a wrong type is told, each in the words that the API server
// has for it alone.
func TestEveryMistypedField(t *testing.T) {
	t.Parallel()
	o := parse(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, labels: {b: 1}}
spec:
  replicas: two
  paused: true
  template: {spec: {containers: [{name: a, image: [b], ports: {http: 80}}, c]}}
`)
	kinds := newKinds(t, "1.36")
	chain := policy.Chain{Kinds: kinds, Validators: []policy.Validator{NewValidator(kinds, nil)}}
	results, err := chain.Review(t.Context(), []policy.Request{{Operation: policy.Create, Object: o}})
	rendertest.OK(t, err)
	var got []string
	for _, r := range results {
		_, text, _ := strings.Cut(r.Message, "cannot be handled as a Deployment: ")
		got = append(got, r.Rule+" "+strings.Join(r.Fields, ",")+" "+text)
	}
	slices.Sort(got)
	want := []string{
		"decode /metadata/labels/b json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
		"decode /spec/replicas json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
		"decode /spec/template/spec/containers/0/image json: cannot unmarshal array into Go struct field Container.spec.template.spec.containers.image of type string",
		"decode /spec/template/spec/containers/0/ports json: cannot unmarshal object into Go struct field Container.spec.template.spec.containers.ports of type []v1.ContainerPort",
		"decode /spec/template/spec/containers/1 json: cannot unmarshal string into Go struct field PodSpec.spec.template.spec.containers of type v1.Container",
	}
	rendertest.Equal(t, want, got)
}
