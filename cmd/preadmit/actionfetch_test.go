package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// testActionFetch brings what both sides of a change are locked to, which is not
// committed, and checks by it.
func testActionFetch(t *testing.T, _ *shop) {
	d := newDepot(t, false)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		d.chart("web", version, standIn(t, "web", version))
	}
	s := &shop{dir: t.TempDir()}
	repo := filepath.Join(s.dir, "acme", "shop")
	runGit(t, s.dir, "init", "-q", "-b", "main", repo)
	commit := func(release string) string {
		writeFiles(t, repo, map[string]string{"apps/web.yaml": release, configFile: allow(d.host()), ".gitignore": ".preadmit/vendor\n"})
		if code, out, errs := program(t, repo, nil, "fetch"); code != exitOK {
			t.Fatalf("exit code %d\n%s%s", code, out, errs)
		}
		return commitAll(t, repo, "release")
	}
	s.main = commit(fluxRelease("web", d.URL+"/charts", "1.0.0"))
	s.change = commit(fluxRelease("web", d.URL+"/charts", "1.1.0") + "  values: {privileged: true}\n")
	s.merge = s.change
	before := d.requests.Load()
	var used []string
	run := func(set func(c *actionCase)) (outputs map[string]string, log string) {
		c := newActionCase(t, s)
		delete(c.job.Inputs, "policies")
		c.input("packs", "pod-security-baseline").input("paths", ".").input("sarif", "false")
		c.checkout(s.change, "--depth=2")
		c.event("push", "", s.main)
		for _, name := range []string{"restore", "save"} {
			c.job.Uses["actions/cache/"+name] = func(with map[string]string) (map[string]string, error) {
				used = append(used, name+" "+with["key"])
				return nil, nil
			}
		}
		set(c)
		r := c.run()
		return r.Outputs, r.Log
	}
	outputs, log := run(func(c *actionCase) { c.input("only-new", "true") })
	if outputs["exit-code"] != "1" || outputs["denied"] != "1" || outputs["undecided"] != "0" || outputs["unchanged"] != "1" || d.requests.Load()-before != 2 {
		t.Errorf("%v, %d requests\n%s", outputs, d.requests.Load()-before, log)
	}
	if len(used) != 2 || !strings.HasPrefix(used[0], "restore preadmit-store-") || used[1] != strings.Replace(used[0], "restore", "save", 1) {
		t.Errorf("the cache is used for %v", used)
	}
	outputs, log = run(func(c *actionCase) { c.input("fetch", "false") })
	if outputs["denied"] != "0" || outputs["exit-code"] == "0" && !strings.Contains(log, "not rendered") {
		t.Errorf("fetch: false: %v\n%s", outputs, log)
	}
	if outputs, _ = run(func(c *actionCase) { c.input("fetch", "maybe") }); outputs["exit-code"] != "2" {
		t.Errorf("fetch: maybe: %v", outputs)
	}
	// A bot raises the version and locks nothing.
	d.chart("web", "1.2.0", standIn(t, "web", "1.2.0"))
	writeFiles(t, repo, map[string]string{"apps/web.yaml": fluxRelease("web", d.URL+"/charts", "1.2.0") + "  values: {privileged: true}\n"})
	s.main, s.change = s.change, commitAll(t, repo, "next version")
	s.merge = s.change
	if outputs, log = run(func(*actionCase) {}); outputs["exit-code"] != "3" || outputs["undecided"] == "0" {
		t.Errorf("not locked: %v\n%s", outputs, log)
	}
	outputs, log = run(func(c *actionCase) { c.input("fetch", "new").input("only-new", "true") })
	if outputs["exit-code"] != "0" || outputs["unchanged"] != "2" || outputs["undecided"] != "0" || !strings.Contains(log, "::notice") || !strings.Contains(log, "digest: sha256:") || strings.Contains(log, "removed:") {
		t.Errorf("fetch: new: %v\n%s", outputs, log)
	}
	writeFiles(t, repo, map[string]string{"apps/web.yaml": fluxRelease("web", "https://elsewhere.example/charts", "1.2.0")})
	s.main, s.change = s.change, commitAll(t, repo, "another host")
	s.merge = s.change
	if outputs, log = run(func(c *actionCase) { c.input("fetch", "new") }); outputs["exit-code"] != "3" || !strings.Contains(log, "elsewhere.example is not") {
		t.Errorf("another host: %v\n%s", outputs, log)
	}
	rendertest.OK(t, os.RemoveAll(filepath.Join(repo, ".preadmit")))
	s.change = commitAll(t, repo, "no lock")
	if outputs, log = run(func(c *actionCase) { c.input("fetch", "locked") }); outputs["exit-code"] != "2" || !strings.Contains(log, "preadmit fetch writes it") {
		t.Errorf("without a lock: %v\n%s", outputs, log)
	}
}
