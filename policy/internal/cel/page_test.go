package cel

import (
	"context"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/preadmit/preadmit/render/rendertest"
)

// An example is an expression of the Kubernetes documentation's page on CEL,
// in two forms: as the page has it, and one that comes out otherwise.
type example struct {
	expression  string
	in, want    string // the input in JSON, the value in CEL or "error: " and a part of the message
	or          string // the other expression; "" is the same, of another input
	orIn, other string
}

// A librarySection is a part of the page, with the first version that accepts it.
type librarySection struct {
	name     string
	since    Version // oldest: all
	examples []example
}

var page = []librarySection{
	{"macros", oldest, []example{
		{"has(o.a)", `{"o":{"a":1}}`, "true", "", `{"o":{"b":1}}`, "false"},
		{"o.all(x, x > 1)", `{"o":[2,3]}`, "true", "", `{"o":[2,1]}`, "false"},
		{"o.exists(x, x > 1)", `{"o":[1,2]}`, "true", "", `{"o":[1]}`, "false"},
		{"o.exists_one(x, x > 1)", `{"o":[1,2]}`, "true", "", `{"o":[2,2]}`, "false"},
		{"o.map(x, x * 2)", `{"o":[1,2]}`, "[2, 4]", "", `{"o":["a"]}`, "error: no such overload"},
		{"o.filter(x, x > 1)", `{"o":[1,2]}`, "[2]", "", `{"o":[1]}`, "[]"},
		// The page has a single = here.
		{"l.filter(e, e.name == 'MY_ENV').all(e, e.value.matches('^[a-zA-Z]*$'))", `{"l":[{"name":"MY_ENV","value":"a"},{"name":"X","value":"1"}]}`, "true", "l.filter(e, e.name = 'MY_ENV').all(e, e.value.matches('^[a-zA-Z]*$'))", `{"l":[]}`, "error: Syntax error"},
		{"has(object.namex) ? object.namex == 'special' : request.name == 'special'", `{"object":{"namex":"special"},"request":{"name":"x"}}`, "true", "", `{"object":{},"request":{"name":"x"}}`, "false"},
		{"has(object.namex) ? object.namex == 'special' : request.name == 'special'", `{"object":{},"request":{"name":"special"}}`, "true", "", `{"object":{"namex":"x"},"request":{"name":"special"}}`, "false"},
	}},
	{"strings", oldest, []example{
		{"s.charAt(1)", `{"s":"abc"}`, "'b'", "", `{"s":""}`, "error: index out of range"},
		{"s.indexOf('b')", `{"s":"abcb"}`, "1", "", `{"s":"x"}`, "-1"},
		{"s.lastIndexOf('b')", `{"s":"abcb"}`, "3", "", `{"s":"x"}`, "-1"},
		{"s.lowerAscii()", `{"s":"ABC"}`, "'abc'", "", `{"s":"\u00c4B"}`, "'\u00c4b'"},
		{"s.upperAscii()", `{"s":"abc"}`, "'ABC'", "", `{"s":"\u00e4b"}`, "'\u00e4B'"},
		{"s.replace('a', 'b')", `{"s":"aca"}`, "'bcb'", "s.replace('a', 'b', 1)", `{"s":"aca"}`, "'bca'"},
		{"s.split(',')", `{"s":"a,b"}`, "['a', 'b']", "", `{"s":"ab"}`, "['ab']"},
		{"l.join(',')", `{"l":["a","b"]}`, "'a,b'", "", `{"l":[1]}`, "error: no such overload"},
		{"s.substring(1, 3)", `{"s":"abcd"}`, "'bc'", "", `{"s":"ab"}`, "error: index out of range"},
		{"s.trim()", `{"s":" a b\t"}`, "'a b'", "", `{"s":" "}`, "''"},
	}},
	{"lists", oldest, []example{
		{"names.isSorted()", `{"names":["a","b","b"]}`, "true", "", `{"names":["b","a"]}`, "false"},
		{"items.map(x, x.weight).sum() == 1.0", `{"items":[{"weight":0.25},{"weight":0.75}]}`, "true", "", `{"items":[{"weight":0.25}]}`, "false"},
		{"lowPriorities.map(x, x.priority).max() < highPriorities.map(x, x.priority).min()", `{"lowPriorities":[{"priority":1},{"priority":4}],"highPriorities":[{"priority":9},{"priority":5}]}`, "true", "", `{"lowPriorities":[{"priority":1},{"priority":5}],"highPriorities":[{"priority":9},{"priority":5}]}`, "false"},
		{"lowPriorities.map(x, x.priority).max() < highPriorities.map(x, x.priority).min()", `{"lowPriorities":[{"priority":-2}],"highPriorities":[{"priority":-1}]}`, "true", "", `{"lowPriorities":[],"highPriorities":[{"priority":1}]}`, "error: max called on empty list"},
		{"names.indexOf('should-be-first') == 1", `{"names":["a","should-be-first"]}`, "true", "", `{"names":["should-be-first"]}`, "false"},
		{"names.lastIndexOf('a')", `{"names":["a","b","a"]}`, "2", "", `{"names":["b"]}`, "-1"},
		{"[duration('1m'), duration('30s')].sum()", "", "duration('90s')", "['a'].sum()", "", "error: no matching overload"},
	}},
	{"regex", oldest, []example{
		{`"abc 123".find('[0-9]+')`, "", "'123'", `"abc".find('[0-9]+')`, "", "''"},
		{`"1, 2, 3, 4".findAll('[0-9]+').map(x, int(x)).sum() < 100`, "", "true", `"1, 2, 3, 97".findAll('[0-9]+').map(x, int(x)).sum() < 100`, "", "false"},
		{"s.findAll('[0-9]', 1)", `{"s":"12"}`, "['1']", "", `{"s":"x"}`, "[]"},
		{"s.matches('^[a-zA-Z]*$')", `{"s":"Ab"}`, "true", "", `{"s":"a1"}`, "false"},
		{"s.find(r)", `{"s":"a1","r":"[0-9]"}`, "'1'", "", `{"s":"a1","r":"("}`, "error: missing closing )"},
	}},
	{"url", oldest, []example{
		{"url('https://example.com:80/').getHost()", "", "'example.com:80'", "url('https://example.com/').getHost()", "", "'example.com'"},
		{"url('https://example.com/path with spaces/').getEscapedPath()", "", "'/path%20with%20spaces/'", "url('https://example.com/path/').getEscapedPath()", "", "'/path/'"},
		{"isURL(s)", `{"s":"https://example.com/x"}`, "true", "", `{"s":"example.com"}`, "false"},
		{"url(s).getScheme()", `{"s":"ftp://h/"}`, "'ftp'", "", `{"s":"../x"}`, "error: URL parse error"},
		{"url(s).getHostname()", `{"s":"https://[::1]:80/"}`, "'::1'", "", `{"s":"/x"}`, "''"},
		{"url(s).getPort()", `{"s":"https://h:81/"}`, "'81'", "", `{"s":"https://h/"}`, "''"},
		{"url(s).getQuery()['k']", `{"s":"https://h/?k=a&k=b"}`, "['a', 'b']", "", `{"s":"https://h/"}`, "error: no such key"},
	}},
	{"authorizer", oldest, []example{
		{"authorizer.group('').resource('pods').namespace('default').check('create').allowed()", "", "true", "authorizer.group('').resource('pods').namespace('other').check('create').allowed()", "", "false"},
		{"authorizer.path('/healthz').check('get').allowed()", "", "true", "authorizer.path('/metrics').check('get').allowed()", "", "false"},
		// As the page has it, without a group, it does not compile.
		{"authorizer.serviceAccount('default', 'myserviceaccount').group('apps').resource('deployments').check('delete').allowed()", "", "true", "authorizer.serviceAccount('default', 'myserviceaccount').resource('deployments').check('delete').allowed()", "", "error: no matching overload for 'resource'"},
		{"authorizer.serviceAccount('default', 'myserviceaccount').group('apps').resource('deployments').check('delete').allowed()", "", "true", "authorizer.serviceAccount('default', 'other').group('apps').resource('deployments').check('delete').allowed()", "", "false"},
		{"authorizer.group('').resource('pods').subresource('log').name('a').namespace('default').check('get').allowed()", "", "true", "authorizer.group('').resource('pods').name('a').namespace('default').check('get').allowed()", "", "false"},
		{"authorizer.path('/healthz').check('get').reason()", "", "'so it is'", "authorizer.path('/healthz').check('put').reason()", "", "''"},
	}},
	{"quantity", 29, []example{
		{`quantity("500000G").isInteger()`, "", "true", `quantity("0.5").isInteger()`, "", "false"},
		{`quantity("50k").asInteger()`, "", "50000", `quantity("9999999999999999999999999999999999999G").asInteger()`, "", "error: cannot convert value to integer"},
		{`quantity("9999999999999999999999999999999999999G").asApproximateFloat()`, "", "1.0000000000000001e46", `quantity("1500m").asApproximateFloat()`, "", "1.5"},
		{`quantity("50k").add(quantity("20k"))`, "", `quantity("70k")`, `quantity("50k").add(quantity("-50k"))`, "", `quantity("0")`},
		{`quantity("50k").sub(20000)`, "", `quantity("30k")`, `quantity("50k").sub(quantity("60k"))`, "", `quantity("-10k")`},
		{`quantity("50k").add(20).sub(quantity("100k")).sub(-50000)`, "", `quantity("20")`, `quantity("50k").add(20).sub(quantity("100k")).sub(50000)`, "", `quantity("-99980")`},
		{`quantity("200M").compareTo(quantity("0.2G"))`, "", "0", `quantity("200M").compareTo(quantity("0.2Gi"))`, "", "-1"},
		{`quantity("150Mi").isGreaterThan(quantity("100Mi"))`, "", "true", `quantity("100Mi").isGreaterThan(quantity("100Mi"))`, "", "false"},
		{`quantity("50M").isLessThan(quantity("100M"))`, "", "true", `quantity("50Gi").isLessThan(quantity("100M"))`, "", "false"},
		{"isQuantity(s)", `{"s":"1.3Gi"}`, "true", "", `{"s":"1.3GiB"}`, "false"},
		// A member on the page, a function of the API server's.
		{"sign(quantity(s))", `{"s":"-1m"}`, "-1", "quantity(s).sign()", `{"s":"-1m"}`, "error: no matching overload for 'sign'"},
		{"sign(quantity(s))", `{"s":"1m"}`, "1", "", `{"s":"one"}`, "error: quantities must match"},
	}},
	{"optional", 29, []example{
		{"o.?a.orValue(7)", `{"o":{"a":1}}`, "1", "", `{"o":{}}`, "7"},
		{"o.?a.hasValue()", `{"o":{"a":null}}`, "true", "", `{"o":{}}`, "false"},
		{"l[?1].value()", `{"l":[1,2]}`, "2", "", `{"l":[1]}`, "error: optional.none() dereference"},
	}},
	{"numeric comparisons", 29, []example{
		{"1 < 1.5", "", "true", "2 < 1.5", "", "false"},
		{"2u >= 2", "", "true", "1u >= 2", "", "false"},
	}},
	{"sets", 30, []example{
		{"sets.contains(l, [1])", `{"l":[2,1]}`, "true", "", `{"l":[2]}`, "false"},
		{"sets.equivalent(l, [1, 2])", `{"l":[2,1,1]}`, "true", "", `{"l":[2]}`, "false"},
		{"sets.intersects(l, [1, 2])", `{"l":[3,1]}`, "true", "", `{"l":[]}`, "false"},
	}},
	{"format of strings", 30, []example{
		{"'%s has %d'.format([s, n])", `{"s":"a","n":3}`, "'a has 3'", "", `{"s":"a","n":"x"}`, "error: can only be used on integers"},
		{"strings.quote(s)", `{"s":"a"}`, `'"a"'`, "", `{"s":"\n"}`, `'"\\n"'`},
	}},
	{"ip", 31, []example{
		{"isIP(s)", `{"s":"127.0.0.1"}`, "true", "", `{"s":"127.0.0.1.0"}`, "false"},
		{"ip(s).family()", `{"s":"192.0.2.1"}`, "4", "", `{"s":"2001:db8::1"}`, "6"},
		{"ip.isCanonical(s)", `{"s":"2001:db8::1"}`, "true", "", `{"s":"2001:DB8::1"}`, "false"},
		{"ip(s).isLoopback()", `{"s":"::1"}`, "true", "", `{"s":"192.0.2.1"}`, "false"},
		{"ip(s).isUnspecified()", `{"s":"0.0.0.0"}`, "true", "", `{"s":"0.0.0.1"}`, "false"},
		{"ip(s).isGlobalUnicast()", `{"s":"192.0.2.1"}`, "true", "", `{"s":"224.0.0.1"}`, "false"},
		{"ip(s).isLinkLocalMulticast()", `{"s":"224.0.0.1"}`, "true", "", `{"s":"224.0.1.1"}`, "false"},
		{"ip(s).isLinkLocalUnicast()", `{"s":"169.254.0.1"}`, "true", "", `{"s":"169.253.0.1"}`, "false"},
		{"string(ip(s))", `{"s":"2001:db8:0::1"}`, "'2001:db8::1'", "", `{"s":"x"}`, "error: parse error"},
		{"ip(s) == ip('10.0.0.1')", `{"s":"10.0.0.1"}`, "true", "", `{"s":"10.0.0.2"}`, "false"},
	}},
	{"cidr", 31, []example{
		{"isCIDR(s)", `{"s":"192.0.2.0/24"}`, "true", "", `{"s":"192.0.2.0/33"}`, "false"},
		{"cidr('192.0.2.0/24').containsIP(ip(s))", `{"s":"192.0.2.9"}`, "true", "", `{"s":"192.0.3.9"}`, "false"},
		{"cidr('192.0.2.0/24').containsIP(s)", `{"s":"192.0.2.9"}`, "true", "", `{"s":"x"}`, "error: no such overload"},
		{"cidr('192.0.2.0/24').containsCIDR(cidr(s))", `{"s":"192.0.2.128/25"}`, "true", "", `{"s":"192.0.0.0/16"}`, "false"},
		{"cidr('192.0.2.0/24').containsCIDR(s)", `{"s":"192.0.2.0/24"}`, "true", "", `{"s":"192.0.2.0/23"}`, "false"},
		{"cidr(s).ip() == ip('192.0.2.1')", `{"s":"192.0.2.1/24"}`, "true", "", `{"s":"192.0.2.0/24"}`, "false"},
		{"cidr(s).masked() == cidr(s)", `{"s":"192.0.2.0/24"}`, "true", "", `{"s":"192.0.2.1/24"}`, "false"},
		{"cidr(s).prefixLength()", `{"s":"2001:db8::/32"}`, "32", "", `{"s":"2001:db8::"}`, "error: parse error"},
		{"string(cidr(s))", `{"s":"2001:db8:0::/32"}`, "'2001:db8::/32'", "", `{"s":"10.0.0.0/8"}`, "'10.0.0.0/8'"},
	}},
	{"format", 32, []example{
		{"!format.dns1123Label().validate(s).hasValue()", `{"s":"my-label"}`, "true", "", `{"s":"My_Label"}`, "false"},
		{"!format.dns1123Subdomain().validate(s).hasValue()", `{"s":"a.b"}`, "true", "", `{"s":"a..b"}`, "false"},
		{"!format.dns1035Label().validate(s).hasValue()", `{"s":"a1"}`, "true", "", `{"s":"1a"}`, "false"},
		{"!format.qualifiedName().validate(s).hasValue()", `{"s":"example.com/a"}`, "true", "", `{"s":"a/b/c"}`, "false"},
		{"!format.dns1123LabelPrefix().validate(s).hasValue()", `{"s":"a-"}`, "true", "", `{"s":"-a"}`, "false"},
		{"!format.dns1123SubdomainPrefix().validate(s).hasValue()", `{"s":"a.b-"}`, "true", "", `{"s":".a"}`, "false"},
		{"!format.dns1035LabelPrefix().validate(s).hasValue()", `{"s":"a-"}`, "true", "", `{"s":"1aa-"}`, "false"},
		{"!format.labelValue().validate(s).hasValue()", `{"s":"A_1"}`, "true", "", `{"s":"a b"}`, "false"},
		{"!format.uri().validate(s).hasValue()", `{"s":"https://h/x"}`, "true", "", `{"s":"h"}`, "false"},
		{"!format.uuid().validate(s).hasValue()", `{"s":"123e4567-e89b-12d3-a456-426614174000"}`, "true", "", `{"s":"123e4567"}`, "false"},
		{"!format.byte().validate(s).hasValue()", `{"s":"YQ=="}`, "true", "", `{"s":"*"}`, "false"},
		{"!format.date().validate(s).hasValue()", `{"s":"2024-02-29"}`, "true", "", `{"s":"2023-02-29"}`, "false"},
		{"!format.datetime().validate(s).hasValue()", `{"s":"2024-02-29T00:00:00Z"}`, "true", "", `{"s":"2024-02-29"}`, "false"},
		{"format.named(s).hasValue()", `{"s":"dns1123Label"}`, "true", "", `{"s":"dns"}`, "false"},
	}},
	{"authorizer selectors", 32, []example{
		{"authorizer.group('').resource('pods').fieldSelector('spec.nodeName=mynode').check('list').allowed()", "", "true", "authorizer.group('').resource('pods').fieldSelector('spec.nodeName=other').check('list').allowed()", "", "false"},
		{"authorizer.group('').resource('pods').labelSelector('example.com/mylabel=myvalue').check('list').allowed()", "", "true", "authorizer.group('').resource('pods').labelSelector('example.com/mylabel=other').check('list').allowed()", "", "false"},
	}},
	{"two variables", 33, []example{
		{"o.all(k, v, k == v)", `{"o":{"a":"a"}}`, "true", "", `{"o":{"a":"b"}}`, "false"},
		{"o.transformList(k, v, k + v)", `{"o":{"a":"b"}}`, "['ab']", "", `{"o":{}}`, "[]"},
	}},
	{"semver", 34, []example{
		{"isSemver(s)", `{"s":"1.0.0-beta.1"}`, "true", "", `{"s":"v1.0"}`, "false"},
		{"isSemver(s, true)", `{"s":"v1.0"}`, "true", "", `{"s":"one"}`, "false"},
		{"semver(s).major()", `{"s":"2.3.4"}`, "2", "", `{"s":"v2.3.4"}`, "error: Invalid character"},
		{"semver(s).minor()", `{"s":"2.3.4"}`, "3", "", `{"s":"2"}`, "error: No Major.Minor.Patch"},
		{"semver(s, true).patch()", `{"s":"2.3.4"}`, "4", "", `{"s":"v2"}`, "0"},
		{"semver(s).isLessThan(semver('1.0.0'))", `{"s":"1.0.0-rc.1"}`, "true", "", `{"s":"1.0.0"}`, "false"},
		{"semver(s).isGreaterThan(semver('1.0.0'))", `{"s":"1.0.1"}`, "true", "", `{"s":"1.0.0"}`, "false"},
		{"semver(s).compareTo(semver('1.0.0'))", `{"s":"1.0.0+b"}`, "0", "", `{"s":"0.9.9"}`, "-1"},
	}},
	{"more of lists", 35, []example{
		{"l.sort()", `{"l":[3,1,2]}`, "[1, 2, 3]", "", `{"l":[{}]}`, "error: comparable"},
		{"l.distinct()", `{"l":[1,1]}`, "[1]", "", `{"l":[1,2]}`, "[1, 2]"},
		{"l.flatten()", `{"l":[1,[2]]}`, "[1, 2]", "", `{"l":[]}`, "[]"},
		{"l.slice(0, 1)", `{"l":[1,2]}`, "[1]", "", `{"l":[]}`, "error: cannot slice"},
		{"lists.range(n)", `{"n":2}`, "[0, 1]", "", `{"n":0}`, "[]"},
	}},
}

// pageEnv is the environment of a version with what the page's expressions read.
func pageEnv(t *testing.T, v Version) *cel.Env {
	t.Helper()
	d := Declarations{Variables: map[string]*cel.Type{"authorizer": library.AuthorizerType}}
	for _, name := range []string{"o", "s", "l", "n", "r", "names", "items", "lowPriorities", "highPriorities", "object", "request"} {
		d.Variables[name] = cel.DynType
	}
	env, err := v.Env(d)
	rendertest.OK(t, err)
	return env
}

// TestPage evaluates the examples of the documentation, each in a form where
// it holds and in one where it does not.
func TestPage(t *testing.T) {
	t.Parallel()
	env := pageEnv(t, Newest())
	for _, s := range page {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, e := range s.examples {
				if e.other == e.want {
					t.Errorf("%s: both forms give %s", e.expression, e.want)
				}
				checkExample(t, env, e.expression, e.in, e.want)
				if e.or == "" {
					e.or = e.expression
				}
				checkExample(t, env, e.or, e.orIn, e.other)
			}
		})
	}
}

func checkExample(t *testing.T, env *cel.Env, expression, in, want string) {
	t.Helper()
	got, err := pageValue(env, expression, in)
	if message, fails := strings.CutPrefix(want, "error: "); fails {
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s of %s: want the error %q, got %v, %v", expression, in, message, got, err)
		}
		return
	}
	value, bad := pageValue(env, want, "")
	if bad != nil {
		t.Fatal(want, bad)
	}
	if err != nil || !sameValue(got, value) {
		t.Errorf("%s of %s: want %s, got %v (%T), %v", expression, in, want, got, got, err)
	}
}

// pageValue evaluates an expression as engines do, under the API server's
// limit.
func pageValue(env *cel.Env, expression, in string) (ref.Val, error) {
	ast, err := Compile(env, expression)
	if err != nil {
		return nil, err
	}
	program, err := Plan(ast)
	if err != nil {
		return nil, err
	}
	input := map[string]any{"authorizer": library.NewAuthorizerVal(&user.DefaultInfo{Name: "alice"}, documented{})}
	var tree map[string]any
	if in != "" {
		if err := json.Unmarshal([]byte(in), &tree); err != nil {
			return nil, err
		}
	}
	for name, value := range tree {
		input[name] = Freeze(value)
	}
	activation, err := cel.NewActivation(input)
	if err != nil {
		return nil, err
	}
	v, _, err := program.Eval(context.Background(), activation)
	return v, err
}

// sameValue compares by type too, and quantities, which CEL does not compare.
func sameValue(a, b ref.Val) bool {
	if q, ok := a.Value().(*resource.Quantity); ok {
		p, ok := b.Value().(*resource.Quantity)
		return ok && q.Cmp(*p) == 0
	}
	return a.Type().TypeName() == b.Type().TypeName() && types.Equal(a, b) == types.True
}

// documented allows what the page's examples ask for, and has no opinion of the rest.
type documented struct{}

func (documented) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if allowedOnPage(a) {
		return authorizer.DecisionAllow, "so it is", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func (d documented) ConditionalAuthorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return d.Authorize(ctx, a)
}

func allowedOnPage(a authorizer.Attributes) bool {
	if !a.IsResourceRequest() {
		return a.GetPath() == "/healthz" && a.GetVerb() == "get"
	}
	switch a.GetVerb() + " " + a.GetAPIGroup() + "/" + a.GetResource() {
	case "create /pods":
		return a.GetNamespace() == "default" && a.GetUser().GetName() == "alice"
	case "get /pods":
		return a.GetSubresource() == "log" && a.GetName() == "a"
	case "delete apps/deployments":
		return a.GetUser().GetName() == serviceaccount.MakeUsername("default", "myserviceaccount")
	case "list /pods":
		return selectsOnPage(a)
	}
	return false
}

func selectsOnPage(a authorizer.Attributes) bool {
	fields, err := a.GetFieldSelector()
	if err == nil && len(fields) == 1 {
		return fields[0].Field == "spec.nodeName" && fields[0].Value == "mynode"
	}
	labels, err := a.GetLabelSelector()
	return err == nil && len(labels) == 1 && labels[0].Key() == "example.com/mylabel" && labels[0].Values().Has("myvalue")
}

// TestPageAvailability: every section compiles from the version that the page
// says, and at the one before each of its examples is told to need it.
func TestPageAvailability(t *testing.T) {
	t.Parallel()
	for _, s := range page {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			first := max(s.since, 28) // the first with an authorizer
			before, since := pageEnv(t, s.since-1), pageEnv(t, first)
			for _, e := range s.examples {
				if _, err := Compile(since, e.expression); err != nil {
					t.Errorf("%v: %s: %v", first, e.expression, err)
				}
				if s.since == oldest {
					continue
				}
				if _, err := Compile(before, e.expression); err == nil {
					t.Errorf("%v compiles %s", s.since-1, e.expression)
				}
				needed, ok := (s.since - 1).NeededVersion(func(v Version) bool {
					_, err := Compile(pageEnv(t, v), e.expression)
					return err == nil
				})
				if !ok || needed != s.since {
					t.Errorf("%s needs %v, %v, want %v", e.expression, needed, ok, s.since)
				}
			}
		})
	}
}
