package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/testdata/action/runner"
)

// testActionHostileGit holds that nothing in the checkout's .git, and no
// directory that looks like one, is obeyed.
func testActionHostileGit(t *testing.T, s *shop) {
	marker := filepath.Join(t.TempDir(), "ran")
	touch := "touch " + marker
	config := "[core]\n\tfsmonitor = " + touch + "\n\tsshCommand = " + touch + "\n\tpager = " + touch + "\n\tgitProxy = " + touch + "\n\taskPass = " + touch +
		"\n\thooksPath = hooks\n\talternateRefsCommand = " + touch + "\n[credential]\n\thelper = !" + touch + "\n[http]\n\tproxy = http://127.0.0.1:1\n" +
		"[url \"ext::" + touch + " \"]\n\tinsteadOf = http\n[remote \"origin\"]\n\tuploadpack = " + touch + "\n\turl = ext::" + touch + "\n\tpromisor = true\n" +
		"[extensions]\n\tpartialClone = origin\n[protocol]\n\tallow = always\n[uploadpack]\n\tpackObjectsHook = " + touch + "\n[include]\n\tpath = /dev/zero.none\n"
	hooks := []string{"post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc", "fsmonitor-watchman"}

	c := newActionCase(t, s).checkout(newestMerge, "--depth=1")
	put(t, filepath.Join(c.at, ".git/config"), config)
	for _, h := range hooks {
		put(t, filepath.Join(c.at, ".git/hooks", h), "#!/bin/sh\n"+touch+"\n")
	}
	want(t, c.run(), outputsOf{"exit-code": "1", "base": c.shop.main, "denied": "1"})

	c = newActionCase(t, s).checkout(newestMerge, "--depth=2").input("working-directory", "bare").input("paths", "../apps").input("policies", "../policies")
	runGit(t, c.at, "init", "-q", "--bare", "bare")
	put(t, filepath.Join(c.at, "bare/config"), config)
	for _, h := range hooks {
		put(t, filepath.Join(c.at, "bare/hooks", h), "#!/bin/sh\n"+touch+"\n")
	}
	want(t, c.run(), outputsOf{"exit-code": "1", "base": c.shop.main, "denied": "1"})

	for _, head := range []string{"ref: refs/../../../../etc/passwd", "ref: --output=x", "", strings.Repeat("z", 1<<16), "\x00\xff"} {
		c = newActionCase(t, s).checkout(newestMerge, "--depth=2")
		put(t, filepath.Join(c.at, ".git/HEAD"), head)
		r := c.run()
		want(t, r, outputsOf{"exit-code": "3", "base": ""})
		if !strings.Contains(said(r, "error"), "has no commit") {
			t.Errorf("HEAD %.20q:\n%s", head, r.Log)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a command of the checkout was run")
	}
}

// testActionSparse holds that a checkout that is not whole is said to be.
func testActionSparse(t *testing.T, s *shop) {
	for _, base := range []string{"auto", "none", "HEAD^1"} {
		c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("base", base)
		runGit(t, c.at, "sparse-checkout", "set", "apps", "policies")
		if base != "auto" {
			runGit(t, c.at, "config", "--worktree", "core.sparseCheckout", "yes")
		}
		if r := c.run(); !strings.Contains(said(r, "warning"), "without sparse-checkout") {
			t.Errorf("base %s: no warning:\n%s", base, r.Log)
		}
	}
}

// testActionInjection holds that manifests, and a program's output, can issue
// no workflow command and set no output.
func testActionInjection(t *testing.T, s *shop) {
	only := func(t *testing.T, r *runner.Result) {
		t.Helper()
		for _, c := range r.Commands {
			if !slices.Contains([]string{"error", "warning", "notice"}, c.Name) || strings.Contains(c.Data, "forged") && c.Properties["title"] == "" {
				t.Errorf("issued %+v", c)
			}
		}
	}
	c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("annotations", "true").input("policies", "").input("packs", "pod-security-restricted")
	name := "x\n::add-mask::forged\r::stop-commands::forged\u2028##[add-mask]forged\u00a0::error::forged"
	manifest, _ := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": name},
		"spec": map[string]any{"hostNetwork": true, "containers": []any{map[string]any{"name": name, "image": name, "securityContext": map[string]any{"privileged": true}}}},
	})
	put(t, filepath.Join(c.at, "apps/forged.json"), string(manifest))
	put(t, filepath.Join(c.at, "apps/::error::forged\n::add-mask::forged.json"), string(manifest))
	r := c.run()
	want(t, r, outputsOf{"exit-code": "1"})
	only(t, r)
	if strings.Contains(r.Summary, "\n::") {
		t.Errorf("summary:\n%s", r.Summary)
	}

	// A program whose files and output are as bad as can be.
	c = newActionCase(t, s).checkout(newestMerge, "--depth=2").input("annotations", "true")
	program := filepath.Join(t.TempDir(), "preadmit")
	put(t, program, `#!/bin/bash
[ "$1" = version ] && { printf 'preadmit 9.9 x\nexit-code=0\n'; exit; }
printf '::add-mask::forged\n  ::set-output name=denied::9\n##[error]forged\n::stop-commands::x\n'
printf '::add-mask::forged\r' >&2
for a; do case $a in
--output=github=*) printf 'x\n::add-mask::forged\n##[error]forged\n::error file=a,line=1,title=t::fine\r::add-mask::forged\n' >"${a#*=*=}";;
--output=json=*) printf '{\n  "schema": "preadmit.report/v1",\n  "results": [\n    {"outcome":"pass","action":"deny","message":"\\"outcome\\":\\"fail\\",\\"action\\":\\"deny\\",","baseline":"new","suppression":null,"fingerprint":""},\n    {"outcome":"fail","action":"deny","message":"","baseline":"new","suppression":null,"fingerprint":""}\n  ],\n  "proposed": [\n    {"outcome":"fail","action":"deny","baseline":"new","suppression":null,"fingerprint":""}\n  ]\n}\n' >"${a#*=*=}";;
--output=markdown=*) { printf '## head\n\n### a\n\n'; head -c 3000000 /dev/zero | tr '\0' x; } >"${a#*=*=}";;
esac; done
exit 1
`)
	c.input("binary-path", program).input("sarif", "false")
	r = c.run()
	want(t, r, outputsOf{"exit-code": "1", "denied": "1", "new": "1", "sarif-file": "", "version": "9.9"})
	only(t, r)
	if !strings.HasPrefix(r.Summary, "## head\n") || !strings.Contains(r.Summary, "longer than GitHub shows") || len(r.Summary) > 70_000 {
		t.Errorf("summary of %d bytes: %.200q", len(r.Summary), r.Summary)
	}
}

// testActionEnvironment holds that the program sees nothing of the job's
// environment.
func testActionEnvironment(t *testing.T, s *shop) {
	c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("sarif", "false")
	seen := filepath.Join(t.TempDir(), "seen")
	program := filepath.Join(t.TempDir(), "preadmit")
	put(t, program, "#!/bin/bash\n[ \"$1\" = version ] && { echo 'preadmit 1 x'; exit; }\nexport -p >"+seen+"\n"+strings.TrimPrefix(stubScript("1", false), "#!/bin/bash\n"))
	want(t, c.input("binary-path", program).run(), outputsOf{"exit-code": "0", "denied": "0"})
	data := rendertest.ReadFile(t, seen)
	names := regexp.MustCompile(`declare -x ([A-Z_]+)`).FindAllStringSubmatch(string(data), -1)
	for _, n := range names {
		if !slices.Contains([]string{"NO_COLOR", "TMPDIR", "OLDPWD", "PWD", "SHLVL"}, n[1]) {
			t.Errorf("the program sees %s", n[1])
		}
	}
}
