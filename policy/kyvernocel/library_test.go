package kyvernocel

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const aPod = `
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: prod, labels: {app: web}}
spec:
  hostNetwork: false
  serviceAccountName: sa
  containers:
  - {name: a, image: "nginx:1.25"}
  - {name: b, image: "ghcr.io/x/y@sha256:6aefddb645ee6963afd681b1845c661d0ea4c3b20ab9db86d9e753b203d385f2"}
`

// policyOf is a policy of a kind with a spec, about pods where it does not say.
func policyOf(t testing.TB, kind, spec string) *render.Object {
	t.Helper()
	var tree map[string]any
	rendertest.OK(t, yaml.Unmarshal([]byte(spec), &tree))
	if tree["matchConstraints"] == nil {
		tree["matchConstraints"] = map[string]any{"resourceRules": []any{map[string]any{
			"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"*"}, "resources": []any{"pods"},
		}}}
	}
	metadata := map[string]any{"name": "p"}
	if strings.HasPrefix(kind, "Namespaced") {
		metadata["namespace"] = "prod"
	}
	data, err := yaml.Marshal(map[string]any{"apiVersion": "policies.kyverno.io/v1", "kind": kind, "metadata": metadata, "spec": tree})
	rendertest.OK(t, err)
	return parsed(t, string(data))[0]
}

// validating is the spec of a policy with one validation.
func validating(expression string) string {
	data, _ := yaml.Marshal(map[string]any{"validations": []any{map[string]any{"expression": expression, "message": "m"}}})
	return string(data)
}

// respond is what a policy says, as Kyverno's command line has it.
func respond(t testing.TB, p *render.Object, object string, mocks *Mocks, more ...*render.Object) []Response {
	t.Helper()
	kinds := kindsOf(t)
	e, err := New(append([]*render.Object{p}, more...), Options{CLI: true, Kinds: kinds})
	if all := render.Errors(err); len(all) > 0 && !all[0].Warning {
		t.Fatal(err)
	}
	responses, err := e.Respond(context.Background(), requestOf(kinds, parsed(t, object)[0], policy.Create), mocks)
	rendertest.OK(t, err)
	return responses
}

func libraryMocks(t testing.TB) *Mocks {
	return &Mocks{
		Resources: parsed(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: cm, namespace: prod, labels: {team: a}}
data: {k: v}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: dev}
data: {k: w}
---
apiVersion: v1
kind: Namespace
metadata: {name: prod}
`),
		Images: []map[string]any{{"image": "nginx:1.25", "registry": "index.docker.io", "config": map[string]any{"user": "root"}}},
		HTTP: []HTTPCall{
			{URL: "http://svc/get", Body: map[string]any{"ok": true}},
			{Method: "POST", URL: "http://svc/post", Body: "text", Status: 201},
		},
		Global:     map[string]any{"entry": map[string]any{"n": int64(3)}, "entry.names": []any{"a", "b"}},
		Namespaces: map[string]*render.Object{"prod": parsed(t, "{apiVersion: v1, kind: Namespace, metadata: {name: prod, labels: {env: prod}}}")[0]},
		UserInfo:   &policy.UserInfo{Username: "system:serviceaccount:ci:deployer", Groups: []string{"g"}},
	}
}

// TestLibrary holds the functions of expressions: each of these is true.
func TestLibrary(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		// resource
		`resource.Get('v1', 'configmaps', 'prod', 'cm').data.k == 'v'`,
		`resource.get('v1', 'configmaps', 'prod', 'cm').metadata.labels.team == 'a'`,
		`dyn(resource.get('v1', 'configmaps', 'prod', 'none')) == null`,
		`resource.Get('v1', 'namespaces', '', 'prod').kind == 'Namespace'`,
		`resource.List('v1', 'configmaps', '').items.size() == 2`,
		`resource.list('v1', 'configmaps', 'dev').items[0].data.k == 'w'`,
		`dyn(resource.List('v1', 'configmaps', '', {'team': 'a'}).items).all(i, i.metadata.name == 'cm')`,
		`resource.List('v1', 'configmaps', 'prod').kind == 'ConfigMapList'`,
		`resource.Get(resource.ToGVR('v1', 'ConfigMap'), 'prod', 'cm').data.k == 'v'`,
		`resource.list(resource.toGVR('v1', 'ConfigMap'), 'prod').items.size() == 1`,
		`resource.ToGVR('v1', 'Pod') == resource.toGVR('v1', 'Pod')`,
		// http
		`http.Get('http://svc/get').body.ok`,
		`http.get('http://svc/get', {'a': 'b'}).statusCode == 200`,
		`http.Post('http://svc/post', {'a': 1}).body == 'text'`,
		`http.post('http://svc/post', {'a': 1}, {'h': 'v'}).statusCode == 201`,
		`http.Client('pem').Get('http://svc/get').statusCode == 200`,
		// globalContext
		`globalContext.Get('entry').n == 3`,
		`globalContext.get('entry', '').n == 3`,
		`globalContext.Get('entry', 'names') == ['a', 'b']`,
		`globalContext.Get('none') == null`,
		// image
		`image.GetMetadata('nginx:1.25').config.user == 'root'`,
		`image.getMetadata('docker.io/library/nginx:1.25').registry == 'index.docker.io'`,
		`object.spec.containers.map(c, parseImageReference(c.image).registry()) == ['index.docker.io', 'ghcr.io']`,
		`image('nginx').repository() == 'library/nginx' && image('nginx').tag() == 'latest' && image('nginx').identifier() == 'latest'`,
		`image('localhost:5000/a/b:v1').registry() == 'localhost:5000' && image('localhost:5000/a/b:v1').identifierWithSeparator() == ':v1'`,
		`object.spec.containers.exists_one(c, image(c.image).containsDigest())`,
		`image(object.spec.containers[1].image).digest().startsWith('sha256:') && image(object.spec.containers[1].image).tag() == ''`,
		`image('a/b:1@sha256:6aefddb645ee6963afd681b1845c661d0ea4c3b20ab9db86d9e753b203d385f2').identifier().startsWith('1@sha256:')`,
		`isImage('nginx') && !isImage('') && !isImage('UPPER/x') && !isImage('a@sha256:1')`,
		`image('nginx') == parseImageReference('docker.io/nginx:latest')`,
		// user
		`parseServiceAccount(request.userInfo.username).Name == 'deployer'`,
		`user.parseServiceAccount('jane').Namespace == '' && 'g' in request.userInfo.groups`,
		// hash
		`sha256('a') == 'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb'`,
		`sha1('a') == '86f7e437faa5a7fce15d1ddcb9eaeaea377667b8' && hash.sha1('a') == sha1('a')`,
		`md5('a') == '0cc175b9c0f1b6a831c399e269772661' && hash.md5('a') == md5('a') && hash.sha256('b') != sha256('a')`,
		// json, yaml
		`json.unmarshal('{"a": [1, {"b": null}]}').a[0] == 1`,
		`json.unmarshal(json.marshal({'a': 'b'})) == {'a': 'b'}`,
		`yaml.parse('a: [x, y]').a.size() == 2`,
		// math, random, time
		`math.round(1.256, 2) == 1.26 && math.round(125.0, -1) == 130.0 && math.greatest(1, 2) == 2`,
		`random().matches('^[0-9a-z]{8}$') && random.random('[A-C]{3}x?').matches('^[A-C]{3}x?$')`,
		`random('(foo|bar)-\\d+').matches('^(foo|bar)-[0-9]+$')`,
		`time.now() > timestamp('2020-01-01T00:00:00Z')`,
		`time.truncate(timestamp('2024-05-06T07:08:09Z'), duration('1h')) == timestamp('2024-05-06T07:00:00Z')`,
		`time.toCron(timestamp('2024-05-06T07:08:09Z')) == '8 7 6 5 1'`,
		// transform, gzip
		`listObjToMap([{'n': 'a'}, {'n': 'b'}], [{'v': '1'}, {'v': '2'}], 'n', 'v') == {'a': '1', 'b': '2'}`,
		`transform.listObjToMap([{'n': 'a'}], [{'v': '1'}], 'n', 'v').a == '1'`,
		`gzip.decompress(gzip.compress('hello')) == 'hello'`,
		// what CEL and Kubernetes have
		`object.spec.hostNetwork.orValue(true) == false`,
		`object.spec.?nope.orValue([]).size() == 0 && object.spec.?hostNetwork.orValue(true) == false`,
		`optional.of('x').orValue('y') == 'x' && [1, 2][?5].orValue(7) == 7`,
		`cel.bind(x, object.metadata.name, x + x == 'pp')`,
		`base64.encode(b'a') == 'YQ==' && [3, 1, 2].sort() == [1, 2, 3] && sets.contains([1, 2], [1])`,
		`quantity('1Gi').isGreaterThan(quantity('1000Mi')) && ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3')`,
		`semver('1.10.0').isGreaterThan(semver('1.9.0')) && url('https://a/b').getHost() == 'a'`,
		`'a-b'.split('-').join('+') == 'a+b' && 'abc'.find('b') == 'b' && regex.replace('abc', 'b(.)', r'\1') == 'ac'`,
		`{'a': 1}.all(k, v, k == 'a' && v == 1)`,
		// what a request has
		`oldObject == {} && !has(oldObject.spec)`,
		`request.operation == 'CREATE' && request.namespace == 'prod' && request.name == 'p' && request.kind.kind == 'Pod' && request.resource.resource == 'pods'`,
		`!has(request.subResource) && request.dryRun == false && request.requestKind.version == 'v1'`,
		`request.object.metadata.name == 'p' && request.oldObject == {}`,
		`namespaceObject.metadata.labels.env == 'prod'`,
		`exceptions.allowedImages == [] && exceptions.allowedValues.size() == 0`,
	} {
		responses := respond(t, policyOf(t, Validating, validating("bool("+expression+")")), aPod, libraryMocks(t))
		if len(responses) != 1 || responses[0].Status != StatusPass {
			t.Errorf("%s: %v", expression, said(responses))
		}
	}
}

func said(responses []Response) string {
	var b strings.Builder
	for _, r := range responses {
		fmt.Fprintf(&b, "%s %s; ", r.Status, r.Message)
	}
	return b.String()
}

// TestBroken holds what gives errors, and what is not known.
func TestBroken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, want string }{
		{`object.spec.nope == 'x'`, "error error: no such key: nope"},
		{`resource.List('v1', 'secrets', '').items.size() == 0`, "error error: not shown, since it may quote a Secret"},
		{`resource.List('v1', 'services', '').items.size() == 0`, "error error: failed to list resource: services resource not found"},
		{`json.unmarshal('{').a == 1`, "error error: invalid JSON"},
		{`yaml.parse('a: [').a == 1`, "error error: invalid YAML"},
		{`image('UPPER').tag() == ''`, "error error: could not parse reference: invalid repository"},
		{`x509.decode('no').Issuer == 1`, "error error: failed to decode PEM block"},
		{`gzip.decompress(b'no') == ''`, "error error: unexpected EOF"},
		{`listObjToMap([{'a': 1}], [{'b': 1}, {'b': 2}], 'a', 'b').size() == 0`, "error error: listObjToMap: lists of different lengths"},
		{`random('[') == ''`, "error error: invalid regular expression"},
		{`random('a{1000}b{1000}c{1000}d{1000}e{1000}') == ''`, "error error: a random string of more than 4096 bytes refused"},
		{`http.Get('http://u:p@svc/none?token=x').statusCode == 200`, "unknown needs the answer of http://svc/none to GET"},
		{`image.GetMetadata('busybox').config.user == ''`, `unknown needs the metadata of image "busybox" from its registry`},
		{`true || http.Get('http://svc/none').statusCode == 200`, "pass success"},
		{`object.spec.containers.exists(c, http.Get('http://' + c.image).statusCode == 200)`, "unknown needs the answer of http://nginx:1.25 to GET"},
		{`resource.Post('v1', 'pods', 'prod', {'a': dyn(1)}).a == 1`, "unknown needs the answer of the API server to a new object of pods"},
		{`[1, 2, 3].all(i, i == 1)`, "fail m"},
	} {
		responses := respond(t, policyOf(t, Validating, validating(c.expression)), aPod, libraryMocks(t))
		if len(responses) != 1 || string(responses[0].Status)+" "+responses[0].Message != c.want {
			t.Errorf("%s: %s, want %s", c.expression, said(responses), c.want)
		}
	}
}

// TestNamespacedLookups holds that a namespaced policy looks into its own
// namespace alone.
func TestNamespacedLookups(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		`resource.Get('v1', 'configmaps', 'cm').data.k == 'v'`,
		`resource.List('v1', 'configmaps').items.size() == 1`,
		`resource.list('v1', 'configmaps', {'team': 'b'}).items.size() == 0`,
		`resource.Get(resource.ToGVR('v1', 'ConfigMap'), 'cm').data.k == 'v'`,
		`dyn(resource.get('v1', 'configmaps', 'other')) == null`,
	} {
		responses := respond(t, policyOf(t, "NamespacedValidatingPolicy", validating(expression)), aPod, libraryMocks(t))
		if len(responses) != 1 || responses[0].Status != StatusPass {
			t.Errorf("%s: %v", expression, said(responses))
		}
	}
	elsewhere := strings.Replace(aPod, "namespace: prod", "namespace: dev", 1)
	if got := respond(t, policyOf(t, "NamespacedValidatingPolicy", validating("false")), elsewhere, libraryMocks(t)); len(got) != 0 {
		t.Errorf("a policy of another namespace says %s", said(got))
	}
}

// TestStubs holds that results say which stubs they rest on.
func TestStubs(t *testing.T) {
	t.Parallel()
	spec := "variables: [{name: r, expression: random()}]\n" + validating("variables.r != '' && time.now() > timestamp('2000-01-01T00:00:00Z')")
	got := respond(t, policyOf(t, Validating, spec), aPod, nil)
	if len(got) != 1 || strings.Join(got[0].Assumed, "; ") != assumedRandom+"; "+assumedTime {
		t.Errorf("%+v", got)
	}
}
