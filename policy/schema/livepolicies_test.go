package schema

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const admissionGroup = "admissionregistration.k8s.io/v1"

// liveCondition, liveVariable and liveValidation are expressions of made policies. Many fail for some
// objects.
var (
	liveCondition = []string{
		`request.operation == 'CREATE'`, `object.metadata.name.size() > 6`, `has(object.metadata.labels) && 'app' in object.metadata.labels`,
		`namespaceObject.metadata.labels['env'] == 'prod'`, `oldObject != null`, `!request.userInfo.groups.exists(g, g == 'system:nodes')`,
		`request.resource.resource.startsWith('p') || request.kind.kind.endsWith('Set')`, `request.dryRun`, `object.spec.replicas > 1`,
		`authorizer.group('apps').resource('deployments').namespace('default').check('get').allowed()`,
	}
	liveVariable = []string{
		`has(object.spec.template) ? object.spec.template.spec.containers : object.spec.containers`, `object.metadata.?labels.orValue({})`,
		`namespaceObject.metadata.name`, `oldObject == null ? object : oldObject`, `object.spec.replicas * 2`, `params == null ? 'none' : params.data.limit`,
	}
	liveValidation = []map[string]any{
		{"expression": `!has(object.spec.replicas) || object.spec.replicas <= 2`, "message": "too many replicas", "reason": "Forbidden"},
		{"expression": `variables.v0.all(c, has(c.resources) && has(c.resources.limits))`, "messageExpression": `'no limits: ' + string(variables.v0.size())`},
		{"expression": `object.metadata.namespace == variables.v2 && variables.v2.startsWith('live')`},
		{"expression": `variables.v3.metadata.name.size() < 20`, "messageExpression": `object.metadata.name + ' is long in ' + namespaceObject.metadata.name`},
		{"expression": `object.spec.template.spec.containers.all(c, c.image.contains(':') && !c.image.endsWith(':latest'))`, "messageExpression": `object.spec.nothing`},
		{"expression": `params != null && object.spec.replicas <= int(params.data.limit)`, "messageExpression": `'limit is ' + params.data.limit`},
		{"expression": `'team' in variables.v1`, "messageExpression": `''`},
		{"expression": `request.name == object.metadata.name`, "message": "the name of the request"},
		{"expression": `quantity(object.spec.resources.requests.storage).isLessThan(quantity('5Gi'))`},
		{"expression": `object.spec.ports.all(p, p.port < 1024 || p.protocol == 'TCP')`, "message": "ports"},
		{"expression": `type(object.data) == map && object.data.all(k, size(object.data[k]) < 100)`},
		{"expression": `variables.v5 != 'none' && variables.v4 > 2`},
		{"expression": `oldObject == null || oldObject.spec == object.spec`, "messageExpression": `'changed by ' + request.userInfo.username`},
		{"expression": `!has(object.spec.securityContext) || object.spec.securityContext.runAsNonRoot`},
		{"expression": `object.spec.?selector.matchLabels.orValue({}).all(k, k.matches('^[a-z/.]+$'))`, "message": "labels"},
		{"expression": `object.metadata.annotations.exists(k, k.startsWith('x'))`, "messageExpression": `'a'.replace('a', 'annotations\n')`},
		{"expression": `has(object.status) == has(oldObject.status)`},
		{"expression": `has(object.metadata.uid) && object.metadata.uid != '' && !has(object.metadata.selfLink)`, "message": "a uid"},
		{"expression": `oldObject == null || oldObject.metadata.uid == object.metadata.uid && oldObject.metadata.creationTimestamp == object.metadata.creationTimestamp`},
		{"expression": `!has(object.metadata.creationTimestamp)`, "message": "a time"},
		{"expression": `has(object.metadata.resourceVersion) == (request.operation == 'CREATE')`, "message": "a version"},
		{"expression": `object.metadata.generation < 1`, "message": "generation"},
		{"expression": `request.requestKind.version == 'none'`, "messageExpression": `request.kind.group + '/' + request.kind.version + ' ' + request.kind.kind + ' of ' + request.requestKind.version + ' ' + request.resource.resource + ' of ' + request.requestResource.version`},
		{"expression": `has(request.subResource) || has(request.requestSubResource)`, "message": "no subresource"},
		{"expression": `!has(request.options) || request.options.kind == 'x'`, "messageExpression": `'by ' + request.options.kind`},
		{"expression": `request.namespace == '' || object.apiVersion == 'x'`, "messageExpression": `object.apiVersion + ' ' + request.namespace`},
	}
	// liveMutation are the mutations of made policies.
	liveMutation = []map[string]any{
		apply(`Object{metadata: Object.metadata{labels: {"added": "yes", "of": object.metadata.name.lowerAscii().substring(0, 1)}}}`),
		apply(`Object{spec: Object.spec{replicas: object.spec.replicas + 1}}`),
		apply(`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{name: c.name, imagePullPolicy: "Always"})}}}}`),
		apply(`Object{spec: Object.spec{containers: [Object.spec.containers{name: "side", image: "side:1"}]}}`),
		apply(`has(object.spec.securityContext) ? Object{} : Object{spec: Object.spec{securityContext: Object.spec.securityContext{runAsNonRoot: true}}}`),
		apply(`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{tolerations: [Object.spec.template.spec.tolerations{key: "a", operator: "Exists"}]}}}}`),
		apply(`Object{data: {"added": variables.v2}}`),
		apply(`Object{spec: Object.spec{ports: object.spec.ports.map(p, Object.spec.ports{port: p.port, protocol: p.protocol, name: "p" + string(p.port)})}}`),
		patches(`[JSONPatch{op: "add", path: "/metadata/labels/a~1b", value: "c"}]`),
		// Not a part of the object: in 1.37 a match condition makes it one that a JSON patch can't hold (UseSchemalessTypeRef).
		patches(`has(object.metadata.labels) ? [JSONPatch{op: "test", path: "/metadata/name", value: object.metadata.name}, JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("x/y"), value: "z"}] : []`),
		patches(`[JSONPatch{op: "replace", path: "/spec/replicas", value: 7}]`),
		patches(`object.spec.containers.filter(c, !has(c.securityContext)).map(c, JSONPatch{op: "add", path: "/spec/containers/0/securityContext", value: Object.spec.containers.securityContext{readOnlyRootFilesystem: true}})`),
		patches(`[JSONPatch{op: "remove", path: "/metadata/annotations"}]`),
		patches(`[JSONPatch{op: "add", path: "/spec/template/spec/volumes", value: [Object.spec.template.spec.volumes{name: "tmp", emptyDir: Object.spec.template.spec.volumes.emptyDir{}}]}]`),
		patches(`[JSONPatch{op: "copy", from: "/metadata/name", path: "/metadata/labels/name"}]`),
		patches(`[JSONPatch{op: "add", path: "/spec/template/spec/containers/-", value: Object.spec.template.spec.containers{name: "last", image: "last:1"}}]`),
	}
)

func apply(expression string) map[string]any {
	return map[string]any{"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{"expression": expression}}
}

func patches(expression string) map[string]any {
	return map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": expression}}
}

// A policyMaker makes random policies, their bindings and their parameters.
type policyMaker struct{ *rand.Rand }

// oneIn reports true in one of n cases.
func (m *policyMaker) oneIn(n int) bool { return m.IntN(n) == 0 }

// selector returns a selector of namespaces with the label case, or of objects if number is "".
func (m *policyMaker) selector(number string) map[string]any {
	s := make(map[string]any)
	if number != "" {
		s["matchLabels"] = map[string]any{"case": number}
	}
	if m.oneIn(4) {
		key := choose(m.Rand, "env", "kubernetes.io/metadata.name", "case")
		if number == "" {
			key = choose(m.Rand, "app", "app.kubernetes.io/name", "env", "team")
		}
		e := map[string]any{"key": key, "operator": choose(m.Rand, "In", "NotIn", "Exists", "DoesNotExist")}
		if op := e["operator"]; op == "In" || op == "NotIn" {
			e["values"] = []any{choose(m.Rand, "prod", "dev", "nginx", "live"+number+"a")}
		}
		s["matchExpressions"] = []any{e}
	}
	return s
}

func choose[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// rule returns a rule that matches some kinds.
func (m *policyMaker) rule() map[string]any {
	rule := map[string]any{"operations": []any{choose(m.Rand, "CREATE", "UPDATE", "DELETE", "*", "*")}, "apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "resources": []any{"*"}}
	switch m.IntN(6) {
	case 0:
		rule["apiGroups"], rule["apiVersions"], rule["resources"] = []any{"autoscaling"}, []any{choose(m.Rand, "v1", "v2")}, []any{"horizontalpodautoscalers"}
	case 1:
		rule["apiGroups"], rule["resources"] = []any{"apps", ""}, []any{"deployments", "pods", "statefulsets", "*/scale"}
	case 2:
		rule["resources"] = []any{"*/*"}
	case 3:
		rule["apiGroups"], rule["apiVersions"], rule["resources"] = []any{""}, []any{"v1"}, []any{"configmaps", "services", "persistentvolumeclaims", "namespaces"}
	case 4:
		rule["scope"] = choose(m.Rand, "Namespaced", "Cluster", "*")
	}
	return rule
}

// resources returns the match constraints of a policy, or the match resources of a binding.
func (m *policyMaker) resources(number string, rules []any) map[string]any {
	r := map[string]any{"namespaceSelector": m.selector(number)}
	if rules != nil {
		r["resourceRules"] = rules
	}
	if m.oneIn(3) {
		r["matchPolicy"] = choose(m.Rand, "Exact", "Equivalent")
	}
	if m.oneIn(6) {
		r["objectSelector"] = m.selector("")
	}
	if m.oneIn(8) {
		rule := m.rule()
		if m.oneIn(2) {
			rule["resourceNames"] = []any{choose(m.Rand, "nginx", "web", "x")}
		}
		r["excludeResourceRules"] = []any{rule}
	}
	return r
}

// policy returns a policy of a kind and its bindings. from is a published spec, or nil.
func (m *policyMaker) policy(kind, number string, from map[string]any) (made []map[string]any) {
	spec := runtime.DeepCopyJSON(from)
	if spec == nil {
		spec = make(map[string]any)
	}
	constraints, _ := spec["matchConstraints"].(map[string]any)
	rules, _ := constraints["resourceRules"].([]any)
	if len(rules) == 0 || m.oneIn(3) {
		rules = []any{m.rule()}
	}
	spec["matchConstraints"] = m.resources(number, rules)
	if m.oneIn(3) {
		spec["failurePolicy"] = choose(m.Rand, "Ignore", "Fail")
	}
	withParams := spec["paramKind"] != nil || m.oneIn(3)
	delete(spec, "paramKind")
	if withParams {
		spec["paramKind"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	}
	for i := range m.IntN(3) {
		if m.oneIn(2) {
			old, _ := spec["matchConditions"].([]any)
			spec["matchConditions"] = append(old, map[string]any{"name": fmt.Sprint("made", i), "expression": choose(m.Rand, liveCondition...)})
		}
	}
	if from == nil || m.oneIn(4) {
		variables, _ := spec["variables"].([]any)
		for i, v := range liveVariable {
			if !withParams && strings.Contains(v, "params") {
				v = `'none'`
			}
			variables = append(variables, map[string]any{"name": fmt.Sprint("v", i), "expression": v})
		}
		spec["variables"] = variables
		field, pool := "validations", liveValidation
		if strings.HasPrefix(kind, "Mutating") {
			field, pool = "mutations", liveMutation
			spec["reinvocationPolicy"] = choose(m.Rand, "Never", "IfNeeded")
		}
		list, _ := spec[field].([]any)
		for range 1 + m.IntN(4) {
			if made := choose(m.Rand, pool...); withParams || !strings.Contains(asJSON(made), "params") {
				list = append(list, made)
			}
		}
		spec[field] = list
	}
	name := fmt.Sprintf("live%s", number)
	made = []map[string]any{{"apiVersion": admissionGroup, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}}
	for i := range 1 + m.IntN(2) {
		b := map[string]any{"policyName": name}
		if kind == "ValidatingAdmissionPolicy" {
			b["validationActions"] = choose(m.Rand, []any{"Warn"}, []any{"Warn"}, []any{"Warn"}, []any{"Deny"}, []any{"Audit", "Deny"}, []any{"Audit", "Warn"})
		}
		if m.oneIn(2) {
			b["matchResources"] = m.resources(number, choose(m.Rand, nil, nil, []any{m.rule()}))
		}
		if withParams {
			ref := map[string]any{"parameterNotFoundAction": choose(m.Rand, "Allow", "Deny")}
			if m.oneIn(2) {
				ref["name"] = choose(m.Rand, "limits", "others", "absent")
			} else {
				ref["selector"] = choose(m.Rand, map[string]any{}, map[string]any{"matchLabels": map[string]any{"params": "yes"}}, map[string]any{"matchLabels": map[string]any{"params": "no"}})
			}
			if m.oneIn(2) {
				ref["namespace"] = choose(m.Rand, "liveparams", "live"+number+"a")
			}
			b["paramRef"] = ref
		}
		made = append(made, map[string]any{"apiVersion": admissionGroup, "kind": kind + "Binding", "metadata": map[string]any{"name": fmt.Sprint(name, "-", i)}, "spec": b})
	}
	return made
}

// around returns the namespaces of a case and the parameters in them.
func (m *policyMaker) around(number string) (made []map[string]any) {
	for name, labels := range map[string]map[string]any{
		"live" + number + "a": {"case": number, "env": "prod"}, "live" + number + "b": {"case": number, "env": "dev"}, "live" + number + "c": {"case": number},
	} {
		made = append(made, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": labels}})
		made = append(made, map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "default", "namespace": name}})
	}
	slices.SortFunc(made, func(a, b map[string]any) int { return cmp.Compare(asJSON(a), asJSON(b)) })
	for _, namespace := range []string{"live" + number + "a", "live" + number + "b", "liveparams"} {
		for _, name := range []string{"limits", "others"} {
			if namespace == "liveparams" && number != "0" || m.oneIn(4) && namespace != "liveparams" {
				continue
			}
			o := map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]any{"params": choose(m.Rand, "yes", "no")}},
				"data": map[string]any{choose(m.Rand, "limit", "limit", "max"): strconv.Itoa(m.IntN(5))},
			}
			made = append(made, o)
		}
	}
	return made
}

// publishedSpecs returns the different specs of the policies of a kind beside the project.
func publishedSpecs(t *testing.T, kind string) (specs []map[string]any) {
	seen := make(map[string]bool)
	if _, err := os.Stat(corporaRoot); err != nil {
		return nil
	}
	for _, o := range corpora(t) {
		spec, _ := o.Object["spec"].(map[string]any)
		if key := asJSON(spec); o.GetKind() == kind && spec != nil && o.GroupVersionKind().Group == "admissionregistration.k8s.io" && !seen[key] {
			seen[key] = true
			specs = append(specs, spec)
		}
	}
	return specs
}

// install creates objects on the server, and returns those that it takes.
func (c *comparison) install(t *testing.T, objects []map[string]any, refused func(why string)) (taken []*render.Object) {
	for _, o := range objects {
		u := &unstructured.Unstructured{Object: o}
		status, answer := c.do(t, http.MethodPost, livePath(c.kinds.Resource(u.GroupVersionKind()), u.GetNamespace()), o)
		if status != http.StatusCreated {
			refused(fmt.Sprint(answer["message"]))
			continue
		}
		taken = append(taken, parsed(t, o))
	}
	return taken
}

var warned = regexp.MustCompile(`(?s)^Validation failed for ValidatingAdmissionPolicy '(.*?)' with binding '(.*?)': (.*)$`)

var denied = regexp.MustCompile(`(?s)olicy '(.*?)'(?: with binding '(.*?)')? denied request: (.*)$`)

// A said is a message of a policy.
type said struct{ policy, text string }

// policiesSay returns the messages of policies in a server's answer, and that with which it denies the
// request, or nil.
func policiesSay(warnings []string, answer map[string]any) (warns []said, denies *said) {
	for _, w := range warnings {
		if m := warned.FindStringSubmatch(w); m != nil {
			warns = append(warns, said{m[1], m[3]})
		}
	}
	text, _ := answer["message"].(string)
	if m := denied.FindStringSubmatch(text); m != nil {
		denies = &said{m[1], m[3]}
	}
	return warns, denies
}

// policies compares what policies say to the creation of an object, or to the update of old to it and the deletion of
// old.
func (c comparison) policies(t *testing.T, old, object map[string]any) {
	u := &unstructured.Unstructured{Object: object}
	r := c.kinds.Resource(u.GroupVersionKind())
	if r.Namespaced {
		c.around(t, object, u.GetNamespace())
	}
	path, method, sent := livePath(r, u.GetNamespace()), http.MethodPost, object
	req := policy.Request{Operation: policy.Create, Object: parsed(t, object), DryRun: true, UserInfo: liveUser}
	if old != nil {
		status, stored := c.do(t, http.MethodPost, path, old)
		if status != http.StatusCreated {
			return
		}
		defer c.do(t, http.MethodDelete, path+"/"+u.GetName()+"?gracePeriodSeconds=0", nil)
		var err error
		if sent, err = c.kinds.Merge(policy.Apply, u.GroupVersionKind(), old, object, stored); err != nil {
			return
		}
		method, path = http.MethodPut, path+"/"+u.GetName()
		req.Operation, req.OldObject = policy.Update, parsed(t, old)
	}
	if req.Object == nil || old != nil && req.OldObject == nil {
		return
	}
	c.answers(t, req, method, path, sent)
	if old != nil {
		req.Operation, req.Object = policy.Delete, nil
		c.answers(t, req, http.MethodDelete, path, map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": []any{"All"}})
	}
}

// answers compares what policies say to a request. sent is what the server gets for it.
func (c comparison) answers(t *testing.T, req policy.Request, method, path string, sent map[string]any) {
	var old, object map[string]any
	if req.Object != nil {
		object = req.Object.Object
	}
	if req.OldObject != nil {
		old = req.OldObject.Object
	}
	status, answer, warnings := c.ask(t, method, path+"?dryRun=All&fieldValidation=Strict", sent)
	chain := policy.Chain{Kinds: c.kinds, Mutators: c.mutators, Validators: c.validators}
	reqs := []policy.Request{req}
	if old != nil {
		rendertest.OK(t, chain.StoreOld(t.Context(), reqs))
	}
	results, err := chain.Review(t.Context(), reqs)
	rendertest.OK(t, err)
	warns, denies := policiesSay(warnings, answer)
	if status >= 300 && denies == nil || status == 0 {
		return // TestLive compares these
	}
	var weWarn, weDeny, all []said
	undecided := make(map[string]string) // why, by policy
	for _, r := range results {
		s := said{r.Policy, r.Message}
		switch {
		case r.Pods || r.Engine != policy.EngineAdmission || r.Outcome == policy.Pass || r.Outcome == policy.Skip:
		case r.Outcome == policy.Unknown:
			undecided[r.Policy] = r.Message
		case strings.HasPrefix(r.Message, "ignored error: "):
		default:
			all = append(all, s)
			if r.Action == policy.Warn {
				weWarn = append(weWarn, s)
			} else if r.Action == policy.Deny {
				weDeny = append(weDeny, s)
			}
		}
	}
	same := true
	differ := func(class string, s said) {
		if why, ok := undecided[s.policy]; ok {
			c.add("explained: undecided here: "+index.ReplaceAllString(why, "N"), func() string { return "" })
			return
		}
		same = false
		c.add(class+": "+index.ReplaceAllString(s.text[:min(len(s.text), 60)], "N"), func() string {
			return fmt.Sprintf("%s: %s\nserver: %v %v\nhere: %v\n%s\n%s\n%s", s.policy, s.text, warns, denies, all, c.described[s.policy], asJSON(old), asJSON(object))
		})
	}
	for _, s := range warns {
		if !slices.ContainsFunc(all, s.means) {
			differ("server alone warns", s)
		}
	}
	for _, s := range weWarn {
		if len(warnings) < 10 && !strings.Contains(s.text, "\n") && !slices.ContainsFunc(warns, func(w said) bool { return w.means(s) }) { // else it is left out of the headers
			differ("warned here alone", s)
		}
	}
	if denies != nil && !slices.ContainsFunc(weDeny, denies.means) {
		differ("server alone denies", *denies)
	}
	if denies == nil && len(weDeny) > 0 {
		differ("denied here alone", weDeny[0])
	}
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	c.verdicts += len(all)
	if c.asked++; same {
		c.agree++
	}
}

// means reports whether a message of the server is another one: it may be cut off, join several, or quote a
// Secret.
func (s said) means(other said) bool {
	before, hidden := strings.CutSuffix(other.text, "not shown, since it may quote a Secret")
	return s.policy == other.policy && (s.text == other.text || len(s.text) > 100 && strings.HasPrefix(other.text, s.text) || len(other.text) > 500 ||
		strings.HasPrefix(s.text, "[") && strings.Contains(s.text, other.text) || hidden && strings.HasPrefix(s.text, before))
}

// A livePair is an object to create, or to which old is updated.
type livePair struct{ old, object map[string]any }

// policyCases installs policies of a kind on the server and returns the pairs to compare: published
// objects with random changes, in the namespaces that the policies select.
func (c *comparison) policyCases(t *testing.T, kind string) (pairs []livePair) {
	size, _ := strconv.Atoi(cmp.Or(os.Getenv("PREADMIT_LIVE"), "2000"))
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("PREADMIT_SEED"), "1"), 10, 64)
	random := rand.New(rand.NewPCG(seed, 1))
	objects := liveObjects(t, c.kinds)
	random.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	changes := &changer{Rand: random, seen: make(map[string]map[string]any), keys: make(map[string][]string)}
	byResource := make(map[string][]map[string]any)
	for _, o := range objects {
		changes.learn(fmt.Sprint(o["apiVersion"], o["kind"]), o)
		r := c.kinds.Resource((&unstructured.Unstructured{Object: o}).GroupVersionKind())
		byResource[r.Resource] = append(byResource[r.Resource], o)
	}
	m := &policyMaker{random}
	published := publishedSpecs(t, kind)
	random.Shuffle(len(published), func(i, j int) { published[i], published[j] = published[j], published[i] })
	cases := min(max(size/20, 10), 200)
	matched := make([][]string, cases) // resources that the policy of a case names
	around := []map[string]any{{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "liveparams"}}}
	var policies []map[string]any
	for i := range cases {
		number := strconv.Itoa(i)
		for _, o := range m.around(number) {
			around = append(around, o)
			c.described["live"+number] += asJSON(o) + "\n"
		}
		var from map[string]any
		if i%2 == 0 && i/2 < len(published) {
			from = published[i/2]
		}
		made := m.policy(kind, number, from)
		policies = append(policies, made...)
		for _, o := range made {
			c.described["live"+number] += asJSON(o) + "\n"
		}
		matched[i] = append(namedResources(made[0]), "deployments", "pods")
	}
	context := c.install(t, around, func(why string) { t.Error(why) })
	taken := c.install(t, policies, func(why string) {
		c.add("explained: refused by the server: "+index.ReplaceAllString(why[:min(len(why), 400)], "N"), func() string { return "" })
	})
	taken = slices.DeleteFunc(taken, func(o *render.Object) bool { // bindings of refused policies
		name, binds := render.Lookup(o.Object, "/spec/policyName")
		return binds && !slices.ContainsFunc(taken, func(p *render.Object) bool { return p.GetName() == name })
	})
	t.Logf("%d policies and bindings", len(taken))
	c.kinds = c.kinds.On(policy.NewCluster(context...))
	options := admission.Options{Cluster: policy.NewCluster(append(context, taken...)...), Kinds: c.kinds}
	c.validators = []policy.Validator{NewValidator(c.kinds, nil)}
	var err error
	if kind == "ValidatingAdmissionPolicy" {
		var engine *admission.Engine
		engine, err = admission.New(taken, options)
		c.validators = append(c.validators, policy.NewSystemFields(taken), engine)
	} else {
		var mutator *admission.Mutating
		mutator, err = admission.NewMutating(taken, options)
		c.mutators = append(c.mutators, mutator)
	}
	for _, e := range render.Errors(err) {
		if !e.Warning {
			c.add("refused here alone: "+index.ReplaceAllString(e.Error(), "N"), e.Error)
		}
	}
	for i := range size {
		number := random.IntN(cases)
		from := objects[i%len(objects)]
		if of := byResource[choose(random, matched[number]...)]; len(of) > 0 && random.IntN(5) > 0 {
			from = choose(random, of...)
		}
		from = runtime.DeepCopyJSON(from)
		u := &unstructured.Unstructured{Object: from}
		r := c.kinds.Resource(u.GroupVersionKind())
		if slices.Contains(acting, u.GetKind()) && u.GetKind() != "Namespace" || u.GetName() == "" || !r.Namespaced && random.IntN(10) > 0 {
			continue
		}
		if r.Namespaced {
			u.SetNamespace(fmt.Sprintf("live%d%s", number, choose(random, "a", "b", "c")))
		}
		p := livePair{object: from}
		if i%2 == 0 && u.GetKind() != "Namespace" && u.GetKind() != "ConfigMap" { // it would stay, or be a parameter on the server
			rename(from, fmt.Sprintf("x%d", i))
			p.old, p.object = from, runtime.DeepCopyJSON(from)
		}
		changed := &unstructured.Unstructured{Object: changes.changed(p.object)}
		if changed.GetName() == u.GetName() && changed.GetNamespace() == u.GetNamespace() {
			p.object = changed.Object
		}
		pairs = append(pairs, p)
	}
	time.Sleep(20 * time.Second) // until the server has compiled the policies
	return pairs
}

// each calls f for all pairs, some at a time.
func each(pairs []livePair, f func(old, object map[string]any)) {
	var group sync.WaitGroup
	for part := range slices.Chunk(pairs, (len(pairs)+3)/4) {
		group.Go(func() {
			for _, p := range part {
				f(p.old, p.object)
			}
		})
	}
	group.Wait()
}

// TestLivePolicies compares what policies say with a running server: published and made
// ValidatingAdmissionPolicies with bindings and parameters, for published objects with random changes.
func TestLivePolicies(t *testing.T) {
	found := comparison{liveServer: startLive(t), tally: newTally(), kinds: newKinds(t, ""), described: make(map[string]string)}
	each(found.policyCases(t, "ValidatingAdmissionPolicy"), func(old, object map[string]any) { found.policies(t, old, object) })
	t.Logf("%d failures of policies", found.tally.verdicts)
	found.report(t)
}

// TestLiveMutations compares the objects that are stored after MutatingAdmissionPolicies have changed them.
func TestLiveMutations(t *testing.T) {
	found := comparison{liveServer: startLive(t), tally: newTally(), kinds: newKinds(t, ""), described: make(map[string]string)}
	each(found.policyCases(t, "MutatingAdmissionPolicy"), func(old, object map[string]any) {
		found.object(t, policy.Apply, old, object)
		if old != nil {
			found.object(t, policy.ApplyServerSide, old, object)
			found.object(t, policy.Replace, old, object)
		}
	})
	t.Logf("%d objects changed by policies", found.tally.verdicts)
	found.report(t)
}

// namedResources returns the resources in the rules of a policy.
func namedResources(made map[string]any) (names []string) {
	for pointer, value := range render.Fields(made, "") {
		if text, ok := value.(string); ok && strings.Contains(pointer, "/matchConstraints/resourceRules/") && strings.Contains(pointer, "/resources/") {
			names = append(names, text, text)
		}
	}
	return names
}
