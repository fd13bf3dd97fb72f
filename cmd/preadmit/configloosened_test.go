package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A keyChange is a change of one key of the configuration, in a tree whose objects stay.
type keyChange struct {
	was, now string
	says     string            // in the result; "" if the change loosens nothing
	more     map[string]string // files on both sides
}

// hostNetworkIf is a chart whose Pod uses the host's network if a condition holds.
func hostNetworkIf(condition string) map[string]string {
	return files("c/Chart.yaml", chartFile, "c/values.yaml", "host: \"yes\"\n", "no.yaml", "host: \"no\"\n", "no.txt", "no",
		"c/templates/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: charted}\nspec: {hostNetwork: {{ "+condition+" }}, containers: [{name: a, image: a}]}\n")
}

// admissionFiles holds a ValidatingAdmissionPolicy for Pods.
func admissionFiles(match, expression string) map[string]string {
	return files("vap.yaml", "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: vap}\nspec:\n"+
		"  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]}\n"+match+
		"  validations: [{expression: \""+expression+"\"}]\n---\n"+
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: vap}\nspec: {policyName: vap, validationActions: [Deny]}\n")
}

// keyChanges holds changes of each key that a configuration may have.
func keyChanges() map[string][]keyChange {
	byUser := admissionFiles("  matchConditions: [{name: a, expression: \"request.userInfo.username != 'admin' && !('admins' in request.userInfo.groups)\"}]\n", "false")
	byUser["admin.yaml"] = "username: admin\n"
	regos := files("p/a.rego", "package a\n\ndeny contains \"a\" if input.kind == \"Pod\"\n", "p/b.rego", "package b\n\ndeny contains \"b\" if input.kind == data.forbidden\n", "d.yaml", "forbidden: Pod\n")
	followed := files("app.yaml", application, "apps/x.yaml", deniedObjects["job"])
	exempting := admissionFiles("", "false")
	exempting["vap.yaml"] = strings.Replace(exempting["vap.yaml"], "validationActions: [Deny]", "validationActions: [Deny], matchResources: {namespaceSelector: {matchExpressions: [{key: exempt, operator: DoesNotExist}]}}", 1)
	exempting[".cluster/ns.yaml"] = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {exempt: \"yes\"}}\n"
	exempting[".bare/ns.yaml"] = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n"
	byNamespace := admissionFiles("", "object.metadata.namespace == 'free'")
	set := strings.Replace(appSet, "  - list: {elements: [{name: a, path: apps, env: prod}]}\n", "  - pullRequest: {github: {owner: example, repo: repo}}\n", 1)
	const baseline = "pack: [pod-security-baseline]\n"
	const less, unchecked, unfound, unevaluated = "less fails", "no longer checked", "not found any more", "not evaluated any more"
	return map[string][]keyChange{
		"allow-new-suppressions": {{"", "allow-new-suppressions: true\n", less, nil}},
		"api-versions":           {{baseline, baseline + "api-versions: [e.com/v9]\n", unfound, hostNetworkIf(`not (.Capabilities.APIVersions.Has "e.com/v9")`)}},
		"as":                     {{"", "as: admin\n", unfound, byUser}},
		"as-file":                {{"", "as-file: admin.yaml\n", unfound, byUser}},
		"as-group":               {{"as: a\n", "as: a\nas-group: [admins]\n", unfound, byUser}},
		"disable-admission-plugins": {{"", "disable-admission-plugins: [LimitRanger]\n", unfound, files("limit.yaml", "apiVersion: v1\nkind: LimitRange\nmetadata: {name: a}\nspec: {limits: [{type: Container, max: {cpu: 1}}]}\n",
			"pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: large}\nspec: {containers: [{name: a, image: a, resources: {limits: {cpu: 2}}}]}\n")}},
		"authorizer": {{"", "authorizer: allow\n", unfound, admissionFiles("", "authorizer.group('').resource('pods').check('delete').allowed()")}},
		"clusters": {{
			baseline + ownRepository + "gitops: only\nclusters: [{name: prod, entry: [entry]}]\n", baseline + ownRepository + "gitops: only\nclusters: [{name: prod, entry: [fine.yaml]}]\n", unchecked,
			files("entry/s.yaml", gitSource, "entry/k.yaml", fluxKustomization, "apps/x.yaml", deniedObjects["job"]),
		}},
		"color":   {{"", "color: never\n", "", nil}},
		"combine": {{"policy: [p]\n", "policy: [p]\ncombine: true\n", unfound, regos}},
		"data":    {{"policy: [p]\ndata: [d.yaml]\n", "policy: [p]\n", unfound, regos}},
		"deployments": {
			{baseline + "gitops: only\ndeployments: [{path: pod.yaml}, {path: fine.yaml}]\n", baseline + "gitops: only\ndeployments: [{path: fine.yaml}]\n", unchecked, nil},
			{baseline + "deployments: [{path: c, set: {host: \"yes\"}}]\n", baseline + "deployments: [{path: c, set: {host: \"no\"}}]\n", unfound, hostNetworkIf(`eq .Values.host "yes"`)},
		},
		"diff":    {{"", "diff: {ignore: [{kind: Pod, jsonPointers: [/spec]}]}\n", "", nil}},
		"exclude": {{baseline, baseline + "exclude: ['pod.*']\n", "exclude", nil}},
		"fail-on": {
			{baseline, baseline + "fail-on: never\n", less, nil},
			{"fail-on: warn\n", "", less, nil},
			{"fail-on: audit\n", "fail-on: warn\n", less, nil},
			{"fail-on: deny\n", "fail-on: audit\n", "", nil},
			{"fail-on: never\n", "fail-on: deny\n", "", nil},
		},
		"fetch": {
			{"fetch: {verify: [{url: '*', key: k.pub}]}\n", "fetch: {hosts: [e.com]}\n", less, files("k.pub", newPublicKey())},
			{"", "fetch: {hosts: [e.com]}\n", "", nil},
		},
		"generators": {{
			baseline + ownRepository + "generators: [{applicationset: argocd/a, params: [{name: a, path: apps}]}]\n", baseline + ownRepository + "generators: [{applicationset: argocd/a, params: []}]\n", unchecked,
			files("set.yaml", set, "apps/x.yaml", deniedObjects["job"]),
		}},
		"gitops": {
			{baseline + ownRepository + "gitops: 'off'\n", baseline + ownRepository + "gitops: only\n", unchecked, followed},
			{baseline + ownRepository + "gitops: 'off'\n", baseline + ownRepository + "gitops: auto\n", unchecked, followed},
		},
		"include-crds":   {{"", "include-crds: false\n", unchecked, files("c/Chart.yaml", chartFile, "c/crds/x.yaml", fineObject)}},
		"include-hidden": {{"include-hidden: true\n", "", unchecked, files(".h/x.yaml", deniedObjects["job"])}},
		"jobs":           {{"", "jobs: 1\n", "", nil}},
		"kube-version":   {{baseline + "kube-version: \"1.36\"\n", baseline + "kube-version: \"1.34\"\n", unfound, hostNetworkIf(`semverCompare ">=1.35.0" .Capabilities.KubeVersion.Version`)}},
		"namespace":      {{"namespace: bound\n", "namespace: free\n", unfound, byNamespace}, {"namespace: bound\n", "namespace: more\n", "", byNamespace}},
		"no-tree-policies": {
			{"", "no-tree-policies: true\n", unevaluated, admissionFiles("", "false")},
			{"", "no-tree-policies: true\n", unevaluated, admissionFiles("", "true")}, // also if nothing fails today
			{"no-tree-policies: true\n", "", "", admissionFiles("", "true")},
		},
		"only-new": {{"", "only-new: true\n", less, nil}},
		"output":   {{"", "output: [json=report.json]\n", "", nil}},
		"pack": {
			{"pack: [pod-security-baseline, best-practices]\n", "pack: [best-practices]\n", unevaluated, nil},
			{baseline, "", unevaluated, nil}, // they only warn by default
			{baseline, "pack: [pod-security-restricted]\n", "", nil},
			{baseline, "pack: [pod-security-baseline, best-practices]\n", "", nil},
		},
		"policy": {
			{"policy: [p]\n", "policy: [p/b.rego]\n", unevaluated, regos},
			{"policy: [p/b.rego]\n", "policy: [p]\n", "", regos},
		},
		"quiet":            {{"", "quiet: true\n", "", nil}},
		"rego-namespace":   {{"policy: [p]\n", "policy: [p]\nrego-namespace: [b]\n", unevaluated, regos}},
		"release":          {{baseline, baseline + "release: other\n", unfound, hostNetworkIf(`eq .Release.Name "c"`)}},
		"repository":       {{baseline + ownRepository, baseline + "repository: [e.com/other]\n", unchecked, followed}},
		"require-complete": {{"require-complete: true\n", "", less, nil}},
		"set":              {{baseline, baseline + "set: [host=no]\n", unfound, hostNetworkIf(`eq .Values.host "yes"`)}},
		"set-file":         {{baseline, baseline + "set-file: [host=no.txt]\n", unfound, hostNetworkIf(`eq .Values.host "yes"`)}},
		"set-string":       {{baseline, baseline + "set-string: [host=no]\n", unfound, hostNetworkIf(`eq .Values.host "yes"`)}},
		"sources": {{
			baseline + "sources: [{url: https://github.com/example/repo, path: .}]\n", baseline + "sources: [{url: https://github.com/example/repo, path: other}]\n", unchecked,
			files("app.yaml", application, "apps/x.yaml", deniedObjects["job"], "other/apps/x.yaml", fineObject),
		}},
		"suppressions": {{"", "suppressions: more.yaml\n", less, files("more.yaml", "suppressions: []\n")}},
		"task-memory":  {{"", "task-memory: 200\n", less, nil}, {"task-memory: 200\n", "task-memory: 300\n", "", nil}},
		"task-time":    {{"", "task-time: 1s\n", less, nil}},
		"timeout":      {{"", "timeout: 1s\n", less, nil}},
		"values":       {{baseline, baseline + "values: [no.yaml]\n", unfound, hostNetworkIf(`eq .Values.host "yes"`)}},
		"verbose":      {{"", "verbose: true\n", "", nil}},
		"with": {
			{"with: [.bare]\n", "with: [.cluster]\n", unfound, exempting},
			{"with: [.cluster]\n", "with: [.bare]\n", "", exempting},
		},
	}
}

// newPublicKey returns a public key as cosign writes it.
func newPublicKey() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// TestLoosenedConfiguration holds that a change of the configuration with which less fails
// is a result at the line of its key, for each key that there is, and one that loosens
// nothing is a note.
func TestLoosenedConfiguration(t *testing.T) {
	t.Parallel()
	changes := keyChanges()
	for _, key := range slices.Concat(configurable, config.Keys()) {
		if len(changes[key]) == 0 {
			t.Errorf("no change of %s: does it loosen something?", key)
		}
	}
	for key, list := range changes {
		for i, c := range list {
			t.Run(key+"-"+string(rune('a'+i)), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				repo, err := gittest.Init(dir)
				rendertest.OK(t, err)
				writeFiles(t, dir, files("pod.yaml", deniedObjects["pod"], "fine.yaml", fineObject))
				writeFiles(t, dir, c.more)
				configuration := func(text string) map[string]string { return files(config.Path, "# the configuration\n"+text) }
				writeFiles(t, dir, configuration(c.was))
				if _, err := repo.CommitAll("base"); err != nil {
					t.Fatal(err)
				}
				writeFiles(t, dir, configuration(c.now))
				var out bytes.Buffer
				code := run(context.Background(), []string{"check", "--no-cache", "--base", "HEAD", dir}, strings.NewReader(""), &out, &out)
				said := out.String()
				loosens := strings.Contains(said, "loosened-configuration") || strings.Contains(said, "newly-unjudged") || strings.Contains(said, "newly-excluded")
				switch {
				case c.says == "" && (code != exitOK || loosens || !strings.Contains(said, key)):
					t.Errorf("exit %d: it loosens nothing\n%s", code, said)
				case c.says != "" && (code != exitIncomplete || !loosens || !strings.Contains(said, c.says) || !strings.Contains(said, "--> "+config.Path)):
					t.Errorf("exit %d: not said that it loosens something\n%s", code, said)
				}
			})
		}
	}
}
