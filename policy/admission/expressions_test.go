package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// expressions are evaluated on expressionObjects both by us and by the API
// server's own code: values, errors, laziness, types. Left out are integers as
// keys of an object's maps: these are errors for the API server in built-in
// kinds, as they are here, but in other words.
var expressions = []string{
	`true`, `false`, `object == null`, `oldObject == null`, `object != oldObject`, `object == oldObject`,
	`object.metadata.name.startsWith('w')`, `object.spec.replicas <= 5`, `object.spec.nope == 1`, `has(object.spec.nope)`, `has(object.nope.nope)`,
	`object.metadata.labels == {'app': 'web'}`, `object.metadata.labels != {}`, `'app' in object.metadata.labels`, `object.metadata.labels['app'] == 'web'`,
	`object.metadata.labels.all(k, k.size() < 10)`, `object.metadata.labels.exists(k, object.metadata.labels[k] == 'web')`,
	`object.metadata.labels.all(k, v, k != v)`, `object.metadata.labels.transformMap(k, v, v + '!') == {'app': 'web!'}`,
	`object.spec.template.spec.containers.all(c, has(c.resources.limits))`, `object.spec.template.spec.containers.exists_one(c, c.name == 'a')`,
	`object.spec.template.spec.containers[5].name == 'a'`, `object.spec.template.spec.containers[0].name == 'a'`, `object.spec.template.spec.containers[-1].name == 'a'`,
	`object.spec.template.spec.containers[0] == object.spec.template.spec.containers[0]`,
	`object.spec.template.spec.containers + [] == object.spec.template.spec.containers`,
	`(object.spec.template.spec.containers + object.spec.template.spec.containers).size() == 4`,
	`object.spec.template.spec.containers.map(c, c.image).join(',').matches('^[a-z:0-9,./]+$')`,
	`object.spec.template.spec.containers.map(c, c.name) == ['a', 'b']`, `['a', 'b'] == object.spec.template.spec.containers.map(c, c.name)`,
	`object.spec.template.spec.containers.filter(c, c.name in ['a']).size() == 1`,
	`object.spec.template.spec.containers[0].args == ['x', 'y']`, `['x', 'y'] == object.spec.template.spec.containers[0].args`,
	`sets.contains(object.spec.template.spec.containers[0].args, ['x'])`, `sets.equivalent(['y','x'], object.spec.template.spec.containers[0].args)`,
	`object.spec.template.spec.containers[0].args.indexOf('y') == 1`, `object.spec.template.spec.containers[0].args.isSorted()`,
	`object.spec.template.spec.containers[0].args.join('-') == 'x-y'`, `'x' in object.spec.template.spec.containers[0].args`,
	`object.spec.template.spec.containers.map(c, c.resources).exists(r, r == {})`, `object.spec.template.spec.containers[0].args.sort() == ['x','y']`,
	`object.spec.template.spec.containers[0].args.flatten() == ['x', 'y']`, `object.spec.template.spec.containers.map(c, c.?args.orValue([])).flatten().size() == 2`,
	`object.spec.template.spec.?volumes.orValue([]).size() == 0`, `object.?spec.?template.?nope.hasValue()`, `object[?'spec'].hasValue()`,
	`optional.ofNonZeroValue(object.metadata.labels).hasValue()`, `object.spec.template.spec.?containers[?7].hasValue()`, `object.spec.template.spec.containers[?0].value().name == 'a'`,
	`quantity(object.spec.template.spec.containers[0].resources.limits.memory).isLessThan(quantity('2Gi'))`, `isQuantity(object.metadata.name)`,
	`quantity('1').add(quantity('1')).compareTo(quantity('2')) == 0`, `quantity(object.metadata.name).sign() == 1`,
	`object.spec.replicas + 1 == 4`, `object.spec.replicas / 0 == 1`, `object.spec.replicas % 0 == 1`, `object.spec.replicas * 9223372036854775807 > 0`, `object.spec.replicas == 3.0`, `object.spec.replicas > 2.5`,
	`string(object.spec.replicas) == '3'`, `int(object.metadata.name) == 1`, `type(object.spec.replicas) == int`, `type(object) == map`, `type(object.spec.template.spec.containers) == list`,
	`object.metadata.name + 1 == 'x'`, `object.spec + object.spec == object.spec`, `-object.metadata.name == ''`, `!object.metadata.name`, `object.spec ? true : false`,
	`object.spec.nope || true`, `true || object.spec.nope`, `object.spec.nope && false`, `object.spec.nope == 1 || object.metadata.name == 'web'`, `object.spec.nope == 1 && object.metadata.name == 'web'`,
	`object.spec.template.spec.containers.all(c, c.nope == 1)`, `object.spec.template.spec.containers.exists(c, c.nope == 1)`, `object.spec.template.spec.containers.all(c, c.name == 'zz' || c.nope == 1)`,
	`object.metadata.name.all(c, true)`, `object.spec.replicas.exists(c, true)`, `object.spec.replicas.size() == 1`, `object.metadata.name.size() == 3`, `size(object.metadata) > 2`,
	`request.operation == 'CREATE'`, `request.kind.kind == 'Deployment'`, `request.kind.group == 'apps'`, `request.resource.resource == 'deployments'`, `request.requestKind == request.kind`, `request.requestResource.version == 'v1'`,
	`request.name == object.metadata.name`, `request.namespace == 'prod'`, `has(request.namespace)`, `has(request.subResource)`, `request.subResource == ''`, `has(request.requestSubResource)`, `request.dryRun`, `has(request.dryRun)`, `request.options.kind == 'CreateOptions'`, `has(request.options)`, `request.options.apiVersion == 'meta.k8s.io/v1'`, `request.options.kind != dyn(1)`,
	`request.userInfo.username == 'alice'`, `'dev' in request.userInfo.groups`, `has(request.userInfo.extra)`, `has(request.userInfo.uid)`, `request.userInfo.uid == ''`, `request.userInfo.groups.exists(g, g == 'ops')`, `has(request.name)`,
	`dyn(request).object == null`, `has(dyn(request).object)`, `dyn(request).uid == ''`, `dyn(request) == null`, `dyn(request).userInfo == {}`, `dyn(request).nope == 1`, `type(dyn(request)) == map`,
	`namespaceObject == null`, `namespaceObject.metadata.name == 'prod'`, `namespaceObject.metadata.labels['team'] == 'red'`, `has(namespaceObject.metadata.labels.team)`, `namespaceObject.metadata.labels.exists(k, k == 'team')`, `has(namespaceObject.metadata.annotations)`, `namespaceObject.status.phase == 'Active'`, `namespaceObject.spec.finalizers == ['kubernetes']`,
	`has(namespaceObject.metadata.generateName)`, `namespaceObject.metadata.?annotations.orValue({}).size() == 0`,
	`authorizer.group('apps').resource('deployments').namespace('prod').check('create').allowed()`, `authorizer.group('').resource('pods').namespace('x').check('get').allowed()`, `authorizer.requestResource.check('update').allowed()`, `authorizer.requestResource.check('update').reason() == 'because'`,
	`authorizer.path('/healthz').check('get').allowed()`, `authorizer.path('').check('get').allowed()`, `authorizer.group('').resource('pods').check('fail').errored()`, `authorizer.group('').resource('pods').check('fail').error() == 'no answer'`,
	`authorizer.serviceAccount('prod', 'x').group('').resource('secrets').namespace('prod').check('get').allowed()`, `authorizer.serviceAccount('-', 'x').group('').resource('secrets').check('get').allowed()`,
	`authorizer.group('').resource('pods').fieldSelector('a=b').namespace('prod').check('list').allowed()`,
	`variables.count == 2`, `variables.broken == 1`, `variables.broken == 1 || true`, `has(variables.count)`, `variables.names.exists(n, n == 'a')`, `variables.twice.size() == 4`, `variables.onBroken == 2`, `variables.allowed`, `variables.label == 'web'`, `variables.pair.a == 1`,
	`dyn(variables).count == 2`, `dyn(variables).nope == 2`, `variables.optional.hasValue()`,
	`params == null`, `params.data.max == '5'`, `has(params.data)`, `object.spec.replicas <= int(params.data.max)`, `params.metadata.namespace == 'prod'`, `params.kind == 'ConfigMap'`, `params.apiVersion == 'v1'`,
	`'%s %d'.format([object.metadata.name, object.spec.replicas]) == 'web 3'`, `'%s'.format([object.metadata.labels]) == '{app: web}'`, `'%s'.format([object.spec.template.spec.containers[0].args]) == '[x, y]'`, `'%d'.format([object.metadata.name]) == ''`,
	`object.metadata.name.replace('w', 'v') == 'veb'`, `object.metadata.name.split('') == ['w', 'e', 'b']`, `object.metadata.name.find('[a-e]+') == 'eb'`, `object.metadata.name.findAll('[a-e]') == ['e', 'b']`, `object.metadata.name.findAll('[a-e]', 1).size() == 1`, `object.metadata.name.matches('(')`, `object.metadata.name.matches(object.metadata.name)`, `object.spec.replicas.matches('3')`,
	`url('https://' + object.metadata.name).getHost() == 'web'`, `isURL(object.metadata.name)`, `ip('10.0.0.1').family() == 4`, `isIP(object.metadata.name)`, `cidr('10.0.0.0/8').containsIP('10.1.1.1')`, `format.dns1123Label().validate(object.metadata.name).hasValue()`, `isSemver('1.2.3')`, `semver('1.2.3').isGreaterThan(semver('1.2.0'))`,
	`duration('5m') < duration('1h')`, `timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020`, `timestamp(object.metadata.name) < timestamp('2020-01-01T00:00:00Z')`,
	`object.data.a == 'b'`, `object.data == {'a': 'b', 'n': '1'}`, `object.data.map(k, object.data[k]).size() == 2`, `object.spec.port == 80`, `object.spec.ratio == 0.5`, `object.spec.list.sum() == 6`, `object.spec.list.max() == 3`, `object.spec.list == [1, 2, 3]`, `object.spec.list == [1.0, 2.0, 3.0]`, `2 in object.spec.list`, `2.0 in object.spec.list`, `object.spec.nothing == null`, `has(object.spec.nothing)`, `object.spec.mixed == [1, 'a', null, true]`, `null in object.spec.mixed`, `object.spec.list.indexOf(2) == 1`,
	`object.spec.list.slice(0, 2) == [1, 2]`, `object.spec.list.distinct().size() == 3`, `object.spec.list.reverse() == [3, 2, 1]`, `lists.range(3) == [0, 1, 2]`, `object.spec.list.all(i, v, v == i + 1)`, `object.spec.list.map(x, x > 1, x * 2) == [4, 6]`, `object.spec.list.sortBy(x, -x) == [3, 2, 1]`, `object.spec.list.isSorted()`, `object.spec.list[1.0] == 2`, `object.spec['port'] == 80`, `object.spec.list['a'] == 1`,
	`object.spec == {'port': 80}`, `{'port': 80} == object.spec`, `[object.spec] == [object.spec]`, `object.spec in [object.spec]`, `object.metadata in [1, {}, object.metadata]`,
	`dyn(request) != 1`, `dyn(request.userInfo) == 'x'`, `dyn(request.userInfo.groups) == 'x'`, `dyn(request.kind) == 1`, `'x' == dyn(request)`, `dyn(request) == null`, `dyn(namespaceObject) != 1`, `dyn(namespaceObject.metadata) == 'x'`, `dyn(namespaceObject.metadata.labels) == 'x'`, `dyn(namespaceObject.spec) == 1`, `'x' == dyn(namespaceObject)`, `dyn(namespaceObject) == null`, `[dyn(namespaceObject)] == ['x']`, `dyn(request.userInfo.groups) != {}`, `dyn(namespaceObject.spec) != []`,
	`object.spec == 'x'`, `object.spec != 1`, `object.metadata.labels == 'x'`, `object.metadata.labels != 'x'`, `'x' == object.metadata.labels`, `object.spec.template.spec.containers == 'a'`, `object.spec.template.spec.containers != {}`, `object.metadata.labels == []`, `object.spec == null`, `object.spec != null`, `null == object.spec`, `object == 'x'`, `object == oldObject.metadata`, `[object.spec] == ['x']`, `['x'] == [object.spec]`, `{'a': object.spec} == {'a': 'x'}`, `object.spec in ['x']`, `'x' in [object.spec]`, `[object.spec].exists(s, s == 'x')`, `object.spec.template.spec.containers[0] == 'a'`, `object.spec.template.spec.containers[0].args == 'x'`, `object.spec.template.spec.containers[0].args != 1`, `object.spec.template.spec.containers == ['a', 'b']`, `object.spec.template.spec.containers.map(c, c) == ['a', 'b']`, `object.spec.template.spec.containers + ['a'] == ['a', 'b', 'c']`, `object.spec.template.spec.containers.indexOf('x') == 1`, `'x' in object.spec.template.spec.containers`, `object.metadata.labels == {'app': {}}`, `object.metadata.labels == {'app': 1}`, `object.spec.selector == {'matchLabels': 'x'}`, `object.spec.selector == {'matchLabels': {'app': {}}}`, `object.spec.selector.matchLabels == {'app': {}}`, `{'matchLabels': 'x'} == object.spec.selector`, `{'matchLabels': {'app': 'web'}} == object.spec.selector`, `object.spec.selector == {'matchLabels': {'app': 'web'}}`, `request.userInfo.groups == ['dev', 'ops']`, `params.data == 'x'`, `params == 'x'`, `object.data == 'x'`, `object.spec.list == 'x'`, `object.spec.mixed == {}`, `variables.pair == 'x'`, `dyn(variables.pair) == 'x'`, `variables.names == 'x'`, `object.spec.template.spec.containers[0].resources == 'x'`, `object.spec.template.spec.containers[0].resources.limits == 'x'`, `object.spec.template.spec.containers[0].resources.limits == {'memory': {}}`, `object.spec.template.spec.containers[0].resources == {'limits': 1}`, `[dyn(1), object.spec].indexOf('x') == 1`, `[object.spec].distinct().size() == 1`, `sets.contains([object.spec], ['x'])`, `sets.contains(['x'], [object.spec])`, `sets.intersects([object.spec], [1])`, `object.metadata.labels == object.spec`, `object.spec == object.metadata.labels`, `object.spec == object.spec.template.spec.containers`, `object.spec ? 1 : 2 == 1`, `optional.of(object.spec) == optional.of('x')`, `object.?spec == optional.of('x')`, `object.?spec.orValue('x') == 'x'`, `object.spec == 'x' || true`, `object.spec == 'x' && false`, `object.metadata.name == object.metadata.labels`, `object.spec.replicas == object.spec`,
}

const expressionCluster = `
apiVersion: v1
kind: Namespace
metadata: {name: prod, labels: {team: red}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: prod}
data: {max: "5"}
`

const expressionObjects = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: prod, labels: {app: web}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: a, image: "a:1", args: [x, "y"], resources: {limits: {memory: 1Gi}}}
      - {name: b, image: "b.io/b"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: prod}
data: {a: b, "n": "1"}
---
apiVersion: v1
kind: Namespace
metadata: {name: prod, labels: {app: web}}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: web, namespace: prod}
spec:
  port: 80
  ratio: 0.5
  list: [1, 2, 3]
  nothing: null
  mixed: [1, a, null, true]
  template: {spec: {containers: [{name: a, args: [x, "y"], resources: {limits: {memory: 3Gi}}}]}}
`

const expressionPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: "p%d"}
spec:
  failurePolicy: %s
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConditions: %s
  variables:
  - {name: count, expression: "object.spec.template.spec.containers.size()"}
  - {name: broken, expression: "object.broken"}
  - {name: onBroken, expression: "variables.broken + 1"}
  - {name: names, expression: "object.spec.template.spec.containers.map(c, c.name)"}
  - {name: twice, expression: "variables.names + variables.names"}
  - {name: allowed, expression: "authorizer.requestResource.check('create').allowed()"}
  - {name: label, expression: "object.metadata.?labels['app'].orValue('none')"}
  - {name: pair, expression: "{'a': 1, 'b': variables.count}"}
  - {name: optional, expression: "object.metadata.?labels"}
  validations:
  - expression: %q
    message: " no "
  - expression: "!(%s)"
    reason: Forbidden
    messageExpression: "'count ' + string(variables.count) + ' of ' + object.metadata.name + (variables.allowed ? '!' : '?')"
  auditAnnotations:
  - {key: k, valueExpression: "(%s) ? 'yes' : ''"}
`

func TestExpressionsAgreeWithUpstream(t *testing.T) {
	t.Parallel()
	objects, cluster := rendertest.Parse(t, "objects.yaml", expressionObjects), rendertest.Parse(t, "cluster.yaml", expressionCluster)
	n := 0
	for i, x := range expressions {
		conditions, failure := "[]", "Fail"
		switch i % 3 {
		case 1:
			conditions, failure = fmt.Sprintf(`[{name: a, expression: %q}, {name: b, expression: "request.operation != 'DELETE'"}]`, x), "Ignore"
		case 2:
			conditions = fmt.Sprintf(`[{name: a, expression: %q}]`, x)
		}
		inside := strings.ReplaceAll(strings.ReplaceAll(x, `\`, `\\`), `"`, `\"`)
		text := fmt.Sprintf(expressionPolicy, i, failure, conditions, x, inside, inside)
		policies := rendertest.Parse(t, "policy.yaml", text)
		if _, err := New(policies, Options{Kinds: testKinds{}}); err != nil {
			t.Logf("%s: %v", x, strings.ReplaceAll(err.Error(), "\n", " "))
			if conditions == "[]" {
				continue // upstream reports what does not compile for each request, and we once
			}
		}
		n += compareWithOracle(t, policies, objects, cluster)
	}
	t.Logf("%d verdicts compared", n)
	if n < 5000 {
		t.Errorf("only %d verdicts compared", n)
	}
}
