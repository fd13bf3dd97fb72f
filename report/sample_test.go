package report

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// sample is a report with every outcome, action and kind of place there is.
func sample(t testing.TB) *Report {
	r := &Report{
		Schema: Schema,
		Tool:   Tool{Name: "preadmit", Version: "0.1.0"},
		Units: []Unit{
			{Path: "apps/prod", Kind: "kustomize", Name: "prod", Status: "rendered", Objects: 1},
			{Path: "charts/db", Kind: "helm", Name: "db", Status: "not-rendered", Reason: "charts/db/Chart.yaml:5:3: dependency redis is not vendored"},
			{Path: "charts/web", Kind: "helm", Name: "web", Status: "rendered", Objects: 14},
			{Path: "secrets/login.yaml", Kind: "manifest", Name: "login.yaml", Cluster: "prod", Owner: "Application/argocd/login", Status: "rendered", Objects: 1},
		},
		Notes:   []string{"no policies were named, so those in the tree judged"},
		Rules:   sampleRules(),
		Results: sampleResults(),
		Tree:    sampleTree(t),
	}
	r.Summary = Summary{Units: 4, Rendered: 3, Objects: 16, Policies: 3, Rules: 4}
	for i := range r.Results {
		r.count(&r.Results[i])
	}
	return r
}

// sampleChange is the sample as a change of a base, with every kind of change,
// baseline and proposal there is.
func sampleChange(t testing.TB) *Report {
	r := sample(t)
	r.Base = &Base{Revision: "main", Commit: "0123456789abcdef0123456789abcdef01234567"}
	for i := range r.Results {
		x := &r.Results[i]
		switch {
		case x.Outcome == policy.Pass || x.Outcome == policy.Skip:
			x.Baseline = policy.Unchanged
		case i%4 == 1:
			x.Baseline = policy.Unchanged
		case i%4 == 2 && x.Engine == "ValidatingAdmissionPolicy":
			x.Baseline = policy.Absent
		default:
			x.Baseline = policy.New
		}
	}
	deployment := func(name, unit string) render.Key {
		return render.Key{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: name, Unit: unit}
	}
	r.Units[2].Owner = "apps/prod"
	old, older := deployment("moved", "apps/old"), deployment("api", "apps/prod")
	older.APIVersion = "apps/v1beta1"
	r.Changes = []Change{
		{Operation: policy.Create, Object: deployment("web-00", "charts/web")},
		{
			Operation: policy.Update, Object: deployment("web-01", "charts/web"), Origin: &render.Span{File: "charts/web/values.yaml", Line: 2, Column: 3},
			Diff: "@@ -6,3 +6,3 @@\n spec:\n-  replicas: 2\n+  replicas: 12\n   selector:\n",
		},
		{Operation: policy.Delete, Object: render.Key{APIVersion: "v1", Kind: "Service", Namespace: "prod", Name: "gone", Unit: "charts/web"}},
		{
			Operation: policy.Delete, Object: render.Key{APIVersion: "v1", Kind: "Namespace", Name: "old", Unit: "apps/old"}, Origin: &render.Span{File: "apps/old/ns.yaml", Line: 4, Column: 9},
			Takes: "everything in it; of the tree: 3 Deployment, 1 Secret",
		},
		{Operation: policy.Update, Object: deployment("moved", "apps/prod"), From: &old, Unchanged: true},
		{Operation: policy.Update, Object: deployment("api", "apps/prod"), From: &older},
	}
	for i := range 25 {
		r.Changes = append(r.Changes, Change{Operation: policy.Create, Object: render.Key{APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: fmt.Sprintf("c-%02d", i), Unit: "config"}})
	}
	newly, gone := webResult(0), webResult(1)
	newly.Policy, newly.Baseline, newly.Message = "new-policy", policy.New, "the new policy says $no to $this"
	gone.Baseline = policy.Absent
	r.Proposed = []policy.Result{newly, gone}
	r.Summary.New = 0
	for i := range r.Results {
		if r.Results[i].Baseline == policy.New {
			r.Summary.New++
		}
	}
	return r
}

func sampleTree(t testing.TB) fs.FS {
	data := rendertest.ReadFile(t, "testdata/sample.txtar")
	tree := fstest.MapFS{}
	for _, f := range txtar.Parse(data).Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return tree
}

func sampleRules() []policy.Rule {
	return []policy.Rule{
		{
			Engine: "PodSecurity", Policy: "baseline", Name: "hostNamespaces", Severity: policy.High, Action: policy.Deny,
			Title: "Sharing the host namespaces must be disallowed", Description: "Sharing the host namespaces must be disallowed.\nA pod that shares them sees the node.",
			Help: "Remove `hostNetwork: true`.", URL: "https://kubernetes.io/docs/concepts/security/pod-security-standards/",
		},
		{Engine: "PodSecurity", Policy: "baseline", Name: "privileged", Severity: policy.Critical, Action: policy.Deny, Title: "Privileged containers"},
		{
			Engine: "ValidatingAdmissionPolicy", Policy: "require-limits", Name: "validations[0]", Action: policy.Deny,
			Expression: "object.spec.template.spec.containers.all(c, has(c.resources.limits))",
			Origin:     render.Span{File: "policies/limits.yaml", Line: 7, Column: 5, EndLine: 8, EndColumn: 42},
		},
		{Engine: "ValidatingAdmissionPolicy", Policy: "labels", Name: "validations[0]", Action: policy.Audit, Severity: policy.Info},
	}
}

func sampleResults() []policy.Result {
	var results []policy.Result
	for i := range 12 {
		results = append(results, webResult(i))
	}
	return append(results, otherResults()...)
}

// webResult is one of a dozen findings that one line of values makes.
func webResult(i int) policy.Result {
	return policy.Result{
		Engine: "ValidatingAdmissionPolicy", Policy: "require-limits", Rule: "validations[0]", Operation: policy.Create,
		Object:  render.Key{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: fmt.Sprintf("web-%02d", i), Unit: "charts/web"},
		Outcome: policy.Fail, Action: policy.Deny, Message: "every container needs limits",
		Fields: []string{"/spec/template/spec/containers/0/resources"},
		Origins: []render.Origin{
			{Span: render.Span{File: "charts/web/values.yaml", Line: 5, Column: 1, EndLine: 5, EndColumn: 14}, Role: render.Value},
			{Span: render.Span{File: "charts/web/templates/deployment.yaml", Line: 11, Column: 9, EndLine: 11, EndColumn: 50}, Role: render.Template},
		},
		PolicyOrigin: render.Span{File: "policies/limits.yaml", Line: 7, Column: 5, EndLine: 8, EndColumn: 42},
		Fingerprint:  fmt.Sprintf("%032x", i),
	}
}

func otherResults() []policy.Result {
	api := render.Key{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: "api", Unit: "apps/prod"}
	web := render.Key{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: "web-00", Unit: "charts/web"}
	login := render.Key{APIVersion: "v1", Kind: "Secret", Namespace: "prod", Name: "login", Unit: "secrets/login.yaml"}
	patch := func(from, to int) []render.Origin {
		return []render.Origin{
			{Span: render.Span{File: "apps/prod/patch.yaml", Line: 7, Column: from, EndLine: 7, EndColumn: to}, Role: render.Patch},
			{Span: render.Span{File: "apps/base/deployment.yaml", Line: 5, Column: 1, EndLine: 6, EndColumn: 14}, Role: render.Manifest},
		}
	}
	return []policy.Result{
		{
			Engine: "PodSecurity", Policy: "baseline", Rule: "hostNamespaces", Operation: policy.Create, Object: api, Outcome: policy.Fail, Action: policy.Deny, Severity: policy.High,
			Message: "host namespaces (hostNetwork=true)", Fields: []string{"/spec/template/spec/hostNetwork"}, Origins: patch(74, 91),
			Hint: "remove hostNetwork, or run in a namespace that allows it", Fingerprint: "aa",
		},
		{
			Engine: "PodSecurity", Policy: "baseline", Rule: "privileged", Operation: policy.Create, Object: api, Outcome: policy.Fail, Action: policy.Warn, Severity: policy.Critical,
			Message: "privileged (container \"api\" must not set securityContext.privileged=true)", Fields: []string{"/spec/template/spec/containers/0/securityContext/privileged"},
			Origins: patch(182, 198), Assumed: []string{"the namespace prod has no labels: no Namespace of that name was rendered or given"}, Fingerprint: "bb",
		},
		{
			Engine: "ValidatingAdmissionPolicy", Policy: "labels", Rule: "validations[0]", Operation: policy.Create, Object: api, Outcome: policy.Fail, Action: policy.Audit,
			Message: "label team is not a known team", Origins: patch(56, 63), Fingerprint: "cc",
		},
		{
			Engine: "ValidatingAdmissionPolicy", Policy: "labels", Rule: "validations[0]", Operation: policy.Create, Object: web, Outcome: policy.Unknown, Action: policy.Deny,
			Message: "authorizer: may system:serviceaccount:argocd:argocd create teams?", Origins: webResult(0).Origins, Fingerprint: "dd",
		},
		{
			Engine: "ValidatingAdmissionPolicy", Policy: "labels", Rule: "validations[0]", Operation: policy.Create, Object: login, Outcome: policy.Fail, Action: policy.Deny,
			Message: "a Secret must not hold a password", Fields: []string{"/stringData/password"},
			Origins: []render.Origin{{Span: render.Span{File: "secrets/login.yaml", Line: 6, Column: 13, EndLine: 6, EndColumn: 20}, Role: render.Manifest}}, Fingerprint: "ee",
		},
		{
			Engine: policy.EngineRender, Policy: "helm", Rule: "missing-dependency", Operation: policy.Create, Object: render.Key{Unit: "charts/db"}, Outcome: policy.Error, Action: policy.Deny,
			Message: "dependency redis is not vendored", Hint: "run `helm dependency build` and commit charts/",
			Origins: []render.Origin{{Span: render.Span{File: "charts/db/Chart.yaml", Line: 5, Column: 3, EndLine: 5, EndColumn: 14}, Role: render.Manifest}}, Fingerprint: "ff",
		},
		sourceResult("apps/a", "oci://registry.example/charts/web"),
		sourceResult("apps/b", "oci://registry.example/charts/web"),
		sourceResult("apps/c", "oci://registry.example/charts/db"),
		waitingResult("web-00", "baseline", "prod"), waitingResult("web-01", "baseline", "prod"),
		waitingResult("web-01", "restricted", "prod"), waitingResult("web-02", "restricted", "dev"),
		{
			Engine: policy.EngineCompile, Policy: "broken", Rule: "validations[0]", Operation: policy.Create, Outcome: policy.Error, Action: policy.Deny,
			Message:      "ERROR: <input>:1:23: Syntax error: mismatched input '<EOF>'\n | object.spec.replicas >\n | ......................^",
			PolicyOrigin: render.Span{File: "policies/broken.yaml", Line: 7, Column: 17, EndLine: 7, EndColumn: 39}, Fingerprint: "a0",
		},
		{Engine: "PodSecurity", Policy: "baseline", Rule: "privileged", Operation: policy.Create, Object: web, Outcome: policy.Pass, Action: policy.Deny},
		{Engine: "PodSecurity", Policy: "baseline", Rule: "hostNamespaces", Operation: policy.Create, Object: web, Outcome: policy.Skip, Action: policy.Deny, Message: "exempted by the namespace"},
		{
			Engine: "PodSecurity", Policy: "baseline", Rule: "privileged", Operation: policy.Update, Object: web, Outcome: policy.Fail, Action: policy.Deny, Severity: policy.Critical,
			Message: "privileged", Origins: webResult(0).Origins[1:], Fingerprint: "a1",
			Suppression: &policy.Suppression{Rule: "baseline/privileged", Object: "apps/Deployment/prod/web-00", Reason: "node agent, see #123", Expires: "2027-03-31"},
		},
		{
			Engine: "ValidatingAdmissionPolicy", Policy: "labels", Rule: "validations[0]", Operation: policy.Delete, Object: render.Key{APIVersion: "v1", Kind: "Service", Namespace: "prod", Name: "gone", Unit: "charts/web"},
			Outcome: policy.Fail, Action: policy.Warn, Message: "the object has no place at all", Fingerprint: "a2",
		},
		{
			Engine: "ValidatingAdmissionPolicy", Policy: "labels", Rule: "validations[0]", Operation: policy.Create, Object: render.Key{APIVersion: "v1", Kind: "Service", Namespace: "prod", Name: "whole", Unit: "charts/web"},
			Outcome: policy.Fail, Action: policy.Warn, Message: "only the file is known", Fingerprint: "a3",
			Origins: []render.Origin{{Span: render.Span{File: "charts/web/Chart.yaml"}, Role: render.Reference}},
		},
	}
}

// sourceResult says that a unit was not rendered for want of a chart.
func sourceResult(unit, source string) policy.Result {
	return policy.Result{
		Engine: policy.EngineRender, Policy: "flux", Rule: "foreign-repository", Operation: policy.Create, Object: render.Key{Unit: unit},
		Outcome: policy.Error, Action: policy.Deny, Message: "OCIRepository " + unit + " fetches " + source + ", which is not in the tree", Hint: "declare it under `sources`",
		Missing:     []policy.Missing{{Kind: policy.MissingSource, Name: source}},
		Origins:     []render.Origin{{Span: render.Span{File: "apps/prod/patch.yaml", Line: 3, Column: 3, EndLine: 3, EndColumn: 9}, Role: render.Manifest}},
		Fingerprint: "b0" + unit,
	}
}

// waitingResult waits for the labels of a Namespace.
func waitingResult(name, rule, namespace string) policy.Result {
	return policy.Result{
		Engine: "Kyverno", Policy: "labels", Rule: rule, Operation: policy.Create,
		Object:  render.Key{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: name, Unit: "charts/web"},
		Outcome: policy.Unknown, Action: policy.Deny, Message: "labels of namespace " + namespace + " are unknown: give the Namespace with --with",
		Missing: []policy.Missing{{Kind: "Namespace", Name: namespace}}, Assumed: []string{"it is assumed"}, Fingerprint: "b1" + name + rule,
	}
}
