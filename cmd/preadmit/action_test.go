package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/testdata/action/runner"
)

// TestAction runs the action as GitHub would. make action, which sets
// PREADMIT_ACTION, runs more of the same.
func TestAction(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tests := map[string]func(*testing.T, *shop){
		"events": testActionEvents, "fork": testActionFork, "outputs": testActionOutputs, "repository": testActionRepository,
		"hostile git": testActionHostileGit, "injection": testActionInjection, "release": testActionRelease,
		"no report": testActionNoReport, "fetch": testActionFetch, "source": testActionSource, "readme": testActionReadme,
	}
	if everyActionCase {
		maps.Copy(tests, map[string]func(*testing.T, *shop){
			"private": testActionPrivate, "annotations": testActionAnnotations, "inputs": testActionInputs,
			"incomplete": testActionIncomplete, "sparse": testActionSparse, "environment": testActionEnvironment,
			"cache": testActionCache, "checkout path": testActionCheckoutPath,
			"comment": testActionComment, "reports": testActionReports,
		})
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

var everyActionCase = os.Getenv("PREADMIT_ACTION") != ""

// usualEvents are those that are always tried.
var usualEvents = []string{
	"pull request", "pull request, depth 1", "pull request, its head and one commit before", "push", "first push", "push, forced long ago", "merge group",
}

type outputsOf = map[string]string

// testActionEvents holds the base that each event is compared with, and that a
// pull request or merge group without one fails.
func testActionEvents(t *testing.T, s *shop) {
	for name, test := range map[string]struct {
		set    func(c *actionCase)
		base   func(s *shop) string // "" is no base
		notice string               // or warning
		failed string               // the error, where there has to be a base
	}{
		"pull request": {
			set:  func(c *actionCase) { c.checkout(c.shop.merge, "--depth=2") },
			base: func(s *shop) string { return s.main },
		},
		"pull request, depth 1": {
			set:  func(c *actionCase) { c.checkout(c.shop.merge, "--depth=1") },
			base: func(s *shop) string { return s.main },
		},
		"pull request, blobless": {
			set:  func(c *actionCase) { c.checkout(c.shop.merge, "--depth=2", "--filter=blob:none") },
			base: func(s *shop) string { return s.main },
		},
		"pull request, its head with all history": {
			set: func(c *actionCase) {
				c.checkout(c.shop.change)
				runGit(c.t, c.at, "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")
			},
			base:   func(s *shop) string { return s.first },
			notice: "may be older than those of the base branch",
		},
		"pull request, its head without history": {
			set:    func(c *actionCase) { c.checkout(c.shop.change, "--depth=1") },
			failed: "with fetch-depth: 2, or keep the ref with fetch-depth: 0",
		},
		"pull request, its head and one commit before": { // main is one commit ahead
			set: func(c *actionCase) {
				c.checkout(c.shop.change, "--depth=2")
				loosen(c.t, c.at)
			},
			failed: "with fetch-depth: 2, or keep the ref with fetch-depth: 0",
		},
		"pull request, reviewed": {
			set: func(c *actionCase) {
				c.job.GitHub["event_name"] = "pull_request_review"
				c.checkout(c.shop.merge, "--depth=2")
			},
			base: func(s *shop) string { return s.main },
		},
		"pull request, the base checked out": {
			set:    func(c *actionCase) { c.checkout(c.shop.main) },
			failed: "the base itself",
		},
		"pull request, another commit": {
			set:    func(c *actionCase) { c.checkout(c.shop.stray) },
			failed: "not enough history",
		},
		"push": {
			set: func(c *actionCase) {
				c.event("push", "", c.shop.main).checkout(c.shop.merge, "--depth=2")
			},
			base: func(s *shop) string { return s.main },
		},
		"push, depth 1": {
			set: func(c *actionCase) {
				c.event("push", "", c.shop.main).checkout(c.shop.merge, "--depth=1")
			},
			base: func(s *shop) string { return s.main },
		},
		"push, forced": { // what was before is on no branch, yet the server has it
			set: func(c *actionCase) {
				c.event("push", "", c.shop.stray).checkout(c.shop.merge, "--depth=1")
			},
			base: func(s *shop) string { return s.stray },
		},
		"push, forced long ago": {
			set: func(c *actionCase) {
				c.event("push", "", strings.Repeat("de", 20)).checkout(c.shop.merge, "--depth=1")
			},
			notice: "perhaps after a forced push",
		},
		"first push": {
			set: func(c *actionCase) {
				c.event("push", "", zeros).checkout(c.shop.merge, "--depth=1")
			},
			notice: "the first push",
		},
		"push, another commit": {
			set: func(c *actionCase) {
				c.event("push", "", c.shop.merge).checkout(c.shop.change)
			},
			notice: "not what was pushed",
		},
		"merge group": {
			set: func(c *actionCase) {
				c.event("merge_group", "", "").checkout(c.shop.merge, "--depth=1")
			},
			base: func(s *shop) string { return s.main },
		},
		"merge group, another commit": {
			set: func(c *actionCase) {
				c.event("merge_group", "", "").checkout(c.shop.change)
				loosen(c.t, c.at)
			},
			failed: "not the merge group",
		},
		"schedule": {
			set: func(c *actionCase) {
				c.job.GitHub["event_name"] = "schedule"
				c.checkout(c.shop.merge, "--depth=1")
			},
		},
		"none": {
			set: func(c *actionCase) { c.input("base", "none").checkout(c.shop.merge, "--depth=2") },
		},
		"a revision": {
			set:  func(c *actionCase) { c.input("base", "HEAD^2").checkout(c.shop.merge) },
			base: func(s *shop) string { return s.change },
		},
		"a commit that is not here": {
			set:  func(c *actionCase) { c.input("base", c.shop.first).checkout(c.shop.merge, "--depth=1") },
			base: func(s *shop) string { return s.first },
		},
		"a branch": {
			set: func(c *actionCase) {
				c.checkout(c.shop.merge, "--depth=2")
				runGit(c.t, c.at, "checkout", "-q", "-b", "here")
				runGit(c.t, c.at, "pack-refs", "--all")
			},
			base: func(s *shop) string { return s.main },
		},
		"a work tree": {
			set: func(c *actionCase) {
				c.checkout(c.shop.merge, "--depth=2")
				runGit(c.t, c.at, "worktree", "add", "-q", "--detach", "../other tree")
				c.input("working-directory", "../other tree")
			},
			base: func(s *shop) string { return s.main },
		},
		"no repository": {
			set: func(c *actionCase) {
				c.checkout(c.shop.merge, "--depth=2")
				os.RemoveAll(filepath.Join(c.at, ".git"))
			},
			failed: "no git repository",
		},
	} {
		if !everyActionCase && !slices.Contains(usualEvents, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newActionCase(t, s)
			test.set(c)
			r := c.run()
			if test.failed != "" {
				want(t, r, outputsOf{"exit-code": "3", "base": "", "denied": "", "report-json": ""})
				if got := said(r, "error"); !strings.Contains(got, test.failed) || !strings.Contains(got, "base: none") {
					t.Errorf("error %q, want one with %q\n%s", got, test.failed, r.Log)
				}
				return
			}
			base := ""
			if test.base != nil {
				base = test.base(c.shop)
			}
			outputs := outputsOf{"exit-code": "1", "base": base, "denied": "1", "new": "1", "undecided": "0", "suppressed": "0"}
			switch base {
			case "":
				outputs["denied"], outputs["new"] = "2", "2" // legacy too
			case c.shop.change, c.shop.stray:
				outputs["exit-code"], outputs["denied"], outputs["new"] = "0", "0", "0"
			}
			want(t, r, outputs)
			if got := said(r, "notice") + said(r, "warning"); (test.notice == "") != (got == "") || !strings.Contains(got, test.notice) {
				t.Errorf("notice %q, want one with %q\n%s", got, test.notice, r.Log)
			}
			if base == c.shop.main && !strings.Contains(r.Log, "change: 1 object updated,") {
				t.Errorf("the base is not whole:\n%s", r.Log)
			}
			checkUpload(t, c)
		})
	}
}

// loosen makes a checkout's configuration, suppressions and policies let
// everything pass.
func loosen(t *testing.T, at string) {
	t.Helper()
	put(t, filepath.Join(at, ".preadmit/config.yaml"), "fail-on: never\n")
	put(t, filepath.Join(at, ".preadmit/suppressions.yaml"), "suppressions:\n- {rule: '**', object: '**', reason: x, expires: 2099-01-01}\n")
	policy := filepath.Join(at, "policies/replicas.yaml")
	data := rendertest.ReadFile(t, policy)
	put(t, policy, strings.ReplaceAll(string(data), "[Deny]", "[Audit]"))
}

// checkUpload holds that the report was uploaded, and is true of the checkout.
func checkUpload(t *testing.T, c *actionCase) {
	t.Helper()
	root, err := os.OpenRoot(c.at)
	rendertest.OK(t, err)
	defer root.Close()
	if problems := report.Verify(c.sent, root.FS()); len(problems) > 0 {
		t.Errorf("the SARIF file: %v", problems)
	}
}

// testActionPrivate holds that the token fetches the base of a private
// repository, and that without one the check fails and says why.
func testActionPrivate(t *testing.T, s *shop) {
	c := newActionCase(t, s.private()).checkout(newestMerge, "--depth=1")
	want(t, c.run(), outputsOf{"exit-code": "1", "base": c.shop.main, "denied": "1"})

	c = newActionCase(t, s.private()).checkout(newestMerge, "--depth=1")
	c.job.Token = ""
	r := c.run()
	want(t, r, outputsOf{"exit-code": "3", "base": "", "denied": ""})
	if got := said(r, "error"); !strings.Contains(got, "may not read acme/shop") || strings.Contains(got, "forced push") {
		t.Errorf("the error is %q\n%s", got, r.Log)
	}
	for step, env := range c.run().Env {
		for k, v := range env {
			if k != "TOKEN" && strings.Contains(v, actionToken) || k == "TOKEN" && step != "base" && step != "Comment" {
				t.Errorf("the step %s has the token in %s", step, k)
			}
		}
	}
}

const newestMerge = "refs/pull/7/merge"

// testActionFork holds that a change from elsewhere is evaluated and annotated,
// whatever code scanning says to its report.
func testActionFork(t *testing.T, s *shop) {
	refuse := func(map[string]string) (map[string]string, error) {
		return nil, errors.New("Resource not accessible by integration")
	}
	c := newActionCase(t, s).event("pull_request", "mallory/shop", "").checkout(newestMerge, "--depth=2")
	c.job.Uses["github/codeql-action/upload-sarif"] = refuse
	r := c.run()
	want(t, r, outputsOf{"exit-code": "1", "denied": "1"})
	if !strings.Contains(said(r, "notice"), "may only read") || !strings.Contains(said(r, "error"), "at most 10 replicas") {
		t.Errorf("what was said:\n%s", r.Log)
	}

	c = newActionCase(t, s).event("pull_request", "mallory/shop", "").checkout(newestMerge, "--depth=2").input("fail-on", "never")
	c.job.Uses["github/codeql-action/upload-sarif"] = refuse
	want(t, c.run(), outputsOf{"exit-code": "0", "denied": "1"})

	c = newActionCase(t, s).checkout(newestMerge, "--depth=2").input("fail-on", "never")
	c.job.Uses["github/codeql-action/upload-sarif"] = refuse
	r = c.run()
	want(t, r, outputsOf{"exit-code": "3", "denied": "1"})
	if !strings.Contains(said(r, "error"), "security-events: write") {
		t.Errorf("what was said:\n%s", r.Log)
	}

	c = newActionCase(t, s).checkout(newestMerge, "--depth=2").input("fail-on", "never")
	c.job.GitHub["actor"] = "dependabot[bot]"
	c.job.Uses["github/codeql-action/upload-sarif"] = refuse
	want(t, c.run(), outputsOf{"exit-code": "0"})

	c = newActionCase(t, s).event("pull_request_target", "acme/shop", "").checkout(newestMerge, "--depth=2")
	r = c.run()
	want(t, r, outputsOf{"exit-code": "2", "denied": ""})
	if !strings.Contains(said(r, "error"), "run on pull_request") || r.Outcomes["run"] != "skipped" {
		t.Errorf("what was said:\n%s", r.Log)
	}
}

// testActionAnnotations holds who annotates: code scanning or the action.
func testActionAnnotations(t *testing.T, s *shop) {
	for _, test := range []struct {
		annotations, sarif string
		want               bool
	}{
		{"auto", "true", false},
		{"auto", "false", true},
		{"true", "true", true},
		{"false", "false", false},
	} {
		c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("annotations", test.annotations).input("sarif", test.sarif)
		r := c.run()
		if got := strings.Contains(said(r, "error"), "at most 10 replicas"); got != test.want {
			t.Errorf("annotations: %s, sarif: %s: annotated %v", test.annotations, test.sarif, got)
		}
		if uploaded := len(r.Used) > 0; uploaded != (test.sarif == "true") || r.Outputs["sarif-file"] == "" {
			t.Errorf("sarif: %s: used %v", test.sarif, r.Used)
		}
	}
	c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("annotations", "true")
	i := slices.IndexFunc(c.run().Commands, func(c runner.Command) bool {
		return c.Properties["file"] == "apps/web.yaml" && c.Properties["line"] == "7"
	})
	if i < 0 {
		t.Error("no annotation of the line")
	}
}

// testActionInputs holds what each input does, and that bad ones run nothing.
func testActionInputs(t *testing.T, s *shop) {
	for _, test := range []struct {
		name, value string
		outputs     outputsOf
		said        string // in the log
	}{
		{"base", "--output=/tmp/x", outputsOf{"exit-code": "2", "base": "", "denied": ""}, `begins with "-"`},
		{"base", "main\n::error::x", outputsOf{"exit-code": "2", "base": ""}, "control character"},
		{"base", "nowhere", outputsOf{"exit-code": "2", "base": "", "denied": ""}, "nowhere"},
		{"sarif", "yes", outputsOf{"exit-code": "2"}, "neither true nor false"},
		{"summary", "", outputsOf{"exit-code": "2"}, "neither true nor false"},
		{"cache", "1", outputsOf{"exit-code": "2"}, "neither true nor false"},
		{"annotations", "some", outputsOf{"exit-code": "2"}, "none of auto"},
		{"require-complete", "maybe\n::add-mask::x", outputsOf{"exit-code": "2"}, "neither true nor false"},
		{"working-directory", "nowhere", outputsOf{"exit-code": "2"}, "names no directory"},
		{"binary-path", "/bin/true", outputsOf{"exit-code": "2"}, "is not preadmit"},
		{"binary-path", "./nothing", outputsOf{"exit-code": "2"}, "is not a program"},
		{"version", "1.2.3", outputsOf{"exit-code": "2"}, "exclude each other"},
		{"fail-on", "never", outputsOf{"exit-code": "0", "denied": "1"}, ""},
		{"fail-on", "sometimes", outputsOf{"exit-code": "2", "denied": "", "sarif-file": ""}, "none of deny, warn"},
		{"paths", "apps/web.yaml\r\n\n  apps/legacy.yaml  ", outputsOf{"exit-code": "1", "denied": "1"}, ""},
		{"paths", "--help", outputsOf{"exit-code": "2"}, "no such file"},
		{"policies", "", outputsOf{"exit-code": "0", "denied": "0"}, "pod-security-baseline is used and only warns"},
		{"packs", "pod-security-restricted", outputsOf{"exit-code": "1"}, "of 2 policies"},
		{"args", "--timeout=1ns", outputsOf{"exit-code": "3"}, "not done after"},
		{"args", "--verbose\n--kube-version=1.33", outputsOf{"exit-code": "1", "denied": "1"}, "unchanged"},
		{"args", "--help", outputsOf{"exit-code": "2", "denied": ""}, `holds "--help"`},
		{"args", "-vh", outputsOf{"exit-code": "2"}, `holds "-vh"`},
		{"args", "--base=HEAD", outputsOf{"exit-code": "2", "base": ""}, "use the input base"},
		{"args", "--category=x", outputsOf{"exit-code": "2"}, "use the input category"},
		{"args", "--output=json=/tmp/x", outputsOf{"exit-code": "2"}, "sets reports"},
		{"args", "-ojson=x", outputsOf{"exit-code": "2"}, `holds "-ojson=x"`},
		{"args", "-qvo", outputsOf{"exit-code": "2"}, `holds "-qvo"`},
		{"args", "--", outputsOf{"exit-code": "2"}, `holds "--"`},
		{"args", "-", outputsOf{"exit-code": "2"}, `holds "-"`},
		{"args", "--kube-version\n1.33", outputsOf{"exit-code": "2"}, `"1.33", which is no flag`},
		{"args", "apps/legacy.yaml", outputsOf{"exit-code": "2"}, "use the input paths"},
		{"args", "--as", outputsOf{"exit-code": "3", "denied": ""}, "left no complete report"},
		{"kube-version", "1.33", outputsOf{"exit-code": "1", "denied": "1"}, ""},
		{"kube-version", "0.9", outputsOf{"exit-code": "2", "denied": ""}, "0.9"},
		{"values", "web.yaml", outputsOf{"exit-code": "1"}, "--values changes nothing"},
		{"config", "nothing.yaml", outputsOf{"exit-code": "2"}, "nothing.yaml: no such file"},
		{"summary-size", "64KiB", outputsOf{"exit-code": "2"}, "no number of KiB"},
		{"summary-size", "9", outputsOf{"exit-code": "2"}, "is not from 32768"},
		{"comment", "yes", outputsOf{"exit-code": "2"}, "none of always, failures, never"},
		{"with", "policies/replicas.yaml", outputsOf{"exit-code": "1", "denied": "1"}, ""},
	} {
		t.Run(test.name+" "+test.value, func(t *testing.T) {
			t.Parallel()
			c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input(test.name, test.value)
			r := c.run()
			want(t, r, test.outputs)
			if !strings.Contains(r.Log, test.said) {
				t.Errorf("the log lacks %q:\n%s", test.said, r.Log)
			}
			if said(r, "add-mask") != "" {
				t.Errorf("the input issued a command:\n%s", r.Log)
			}
		})
	}
}

// testActionRepository holds that a source of Argo CD that names this repository is
// followed, whatever its clone's origin is.
func testActionRepository(t *testing.T, s *shop) {
	c := newActionCase(t, s).checkout(newestMerge, "--depth=2")
	runGit(t, c.at, "remote", "set-url", "origin", "https://mirror.example/x")
	put(t, filepath.Join(c.at, "apps/deployed.yaml"), `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: extra, namespace: argocd}
spec:
  project: default
  destination: {server: https://kubernetes.default.svc, namespace: shop}
  source: {path: extra, repoURL: `+s.url+`/acme/shop}
`)
	put(t, filepath.Join(c.at, "extra/settings.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n")
	if r := c.run(); !strings.Contains(r.Log, "deployed: ") || strings.Contains(r.Log, "another repository") {
		t.Errorf("the Application is not followed:\n%s", r.Log)
	}
}

// testActionOutputs holds the outputs that tell of files and the program.
func testActionOutputs(t *testing.T, s *shop) {
	c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("category", "shop/prod")
	r := c.run()
	want(t, r, outputsOf{"exit-code": "1", "version": version, "unchanged": "1", "fixed": "0"})
	if !bytes.Contains(c.sent, []byte(`"id": "shop/prod/"`)) || c.uses["sarif_file"] != r.Outputs["sarif-file"] || c.uses["checkout_path"] != c.at {
		t.Errorf("uploaded %v", c.uses)
	}
	if !strings.HasPrefix(r.Summary, "## preadmit: 1 denied") {
		t.Errorf("summary:\n%s", r.Summary)
	}
	f, err := os.Open(r.Outputs["report-json"])
	rendertest.OK(t, err)
	defer f.Close()
	rep, err := report.Read(f)
	if err != nil || rep.Base == nil || rep.Base.Commit != c.shop.main {
		t.Errorf("the JSON report: %v", err)
	}
	if r := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("summary", "false").run(); r.Summary != "" {
		t.Errorf("summary: false:\n%s", r.Summary)
	}
	r = newActionCase(t, s).checkout(newestMerge, "--depth=2").input("base", "none").run()
	if !strings.Contains(r.Summary, "Not compared with a base: no base was asked for") {
		t.Errorf("summary:\n%s", r.Summary)
	}
}

// testActionCheckoutPath holds that the upload is told where the checkout is,
// when that is not the workspace.
func testActionCheckoutPath(t *testing.T, s *shop) {
	c := newActionCase(t, s).input("working-directory", "deploy/policies/..").input("base", "auto")
	workspace := c.at
	c.at = filepath.Join(workspace, "deploy")
	c.checkout(newestMerge, "--depth=2")
	want(t, c.run(), outputsOf{"exit-code": "1", "base": s.main, "denied": "1"})
	if c.uses["checkout_path"] != c.at || c.job.Workspace != workspace {
		t.Errorf("the upload has %v", c.uses)
	}
	checkUpload(t, c)
}

// testActionNoReport holds that a program that ends well without a report, or
// with half of one, does not pass.
func testActionNoReport(t *testing.T, s *shop) {
	for _, body := range []string{
		"", `report='{\n'`, `report='{\n  "schema": "preadmit.report/v1",\n  "results": [\n'`, `report='{\n  "schema": "preadmit.test/v1",\n}\n'`,
	} {
		c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("sarif", "false")
		program := filepath.Join(t.TempDir(), "preadmit")
		put(t, program, "#!/bin/bash\n[ \"$1\" = version ] && { echo 'preadmit 1 x'; exit; }\n"+body+"\nfor a; do case $a in --output=json=*) [ -z \"$report\" ] || printf \"$report\" >\"${a#*=*=}\";; esac; done\nexit 0\n")
		r := c.input("binary-path", program).run()
		want(t, r, outputsOf{"exit-code": "3"})
		if !strings.Contains(said(r, "error"), "left no complete report") {
			t.Errorf("%q: what was said:\n%s", body, r.Log)
		}
	}
	c := newActionCase(t, s).checkout(newestMerge, "--depth=2") // a report, but none to upload
	want(t, c.input("binary-path", stub(t, "1", false)).run(), outputsOf{"exit-code": "3"})
}

// stub is the text of a program that says to be preadmit of a version and
// leaves reports without results.
func stubScript(version string, sarif bool) string {
	script := "#!/bin/bash\n[ \"$1\" = version ] && { echo 'preadmit " + version + " x'; exit; }\nfor a; do case $a in\n" +
		"--output=json=*) printf '{\\n  \"schema\": \"preadmit.report/v1\",\\n  \"results\": []\\n}\\n' >\"${a#*=*=}\" ;;\n"
	if sarif {
		script += "--output=sarif=*) printf '{}' >\"${a#*=*=}\" ;;\n"
	}
	return script + "esac; done\nexit 0\n"
}

func stub(t *testing.T, version string, sarif bool) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "preadmit")
	put(t, program, stubScript(version, sarif))
	return program
}

// testActionIncomplete holds that what can't be looked at is told apart.
func testActionIncomplete(t *testing.T, s *shop) {
	const broken = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [\n"
	c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("fail-on", "never")
	put(t, filepath.Join(c.at, "apps/broken.yaml"), broken)
	want(t, c.run(), outputsOf{"exit-code": "3", "undecided": "1", "denied": "1"})

	// A base that does not render: the repair passes, what was broken stays.
	for _, repaired := range []bool{true, false} {
		c = newActionCase(t, s).checkout(newestMerge, "--depth=2").input("fail-on", "never")
		put(t, filepath.Join(c.at, "apps/broken.yaml"), broken)
		c.input("base", commitAll(t, c.at, "broken"))
		if repaired {
			put(t, filepath.Join(c.at, "apps/broken.yaml"), strings.Replace(broken, "[", "fine}", 1))
		}
		want(t, c.run(), outputsOf{"exit-code": "0", "undecided": "0", "denied": "0"})
		c.input("require-complete", "true")
		code := map[bool]string{true: "0", false: "3"}[repaired]
		want(t, c.run(), outputsOf{"exit-code": code})
	}
}

// TestActionFile holds what no run shows: pins, and that each input arrives.
func TestActionFile(t *testing.T) {
	t.Parallel()
	data := rendertest.ReadFile(t, "../../action.yml")
	a, err := runner.Load("../..")
	rendertest.OK(t, err)
	for name, in := range a.Inputs {
		if n := strings.Count(string(data), "inputs."+name+" "); n == 0 || in.Description == "" {
			t.Errorf("the input %s is used %d times, and described as %q", name, n, in.Description)
		}
	}
	files, _ := filepath.Glob("../../.github/workflows/*.yml")
	pinned := regexp.MustCompile(`^(\./|[\w.-]+/[\w./-]+@[0-9a-f]{40} # v[0-9.]+$)`)
	uses := regexp.MustCompile(`(?m)^\s*(?:- )?uses: (.*)$`)
	for _, file := range append(files, "../../action.yml") {
		data := rendertest.ReadFile(t, file)
		for _, m := range uses.FindAllStringSubmatch(string(data), -1) {
			if !pinned.MatchString(m[1]) {
				t.Errorf("%s: %s is not pinned", file, m[1])
			}
		}
	}
	if len(files) == 0 {
		t.Error("no workflows")
	}
}
