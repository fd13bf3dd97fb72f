package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testActionComment holds that a comment is made when there is something to
// say, replaced from then on, and never the reason of a verdict.
func testActionComment(t *testing.T, s *shop) {
	bin := t.TempDir()
	log, body, id := filepath.Join(bin, "log"), filepath.Join(bin, "body"), filepath.Join(bin, "id")
	put(t, filepath.Join(bin, "gh"), `#!/bin/bash
[ "$GH_TOKEN" = `+actionToken+` ] || exit 4
[ ! -f `+bin+`/refuse ] || { echo '::error::Resource not accessible by integration' >&2; exit 1; }
printf '%s\n' "$*" >>`+log+`
case "$*" in *--jq*) [[ $* == *'startswith("<!-- preadmit:'* ]] || exit 5; cat `+id+` 2>/dev/null; exit 0;; esac
for a; do case $a in body=@*) cp "${a#body=@}" `+body+`;; esac; done
`)
	run := func(head string, set func(*actionCase)) (string, string) {
		t.Helper()
		os.Remove(log)
		os.Remove(body)
		c := newActionCase(t, s).event("pull_request", head, "").checkout(newestMerge, "--depth=2").input("comment", "failures").input("sarif", "false")
		c.job.Path = bin + string(os.PathListSeparator) + c.job.Path
		code := "1"
		if set != nil {
			set(c)
			code = "0"
		}
		r := c.run()
		want(t, r, outputsOf{"exit-code": code})
		calls, _ := os.ReadFile(log)
		written, _ := os.ReadFile(body)
		if strings.Contains(said(r, "error"), "Resource") {
			t.Errorf("gh issued a command:\n%s", r.Log)
		}
		return string(calls) + said(r, "notice") + said(r, "warning"), string(written)
	}
	never := func(c *actionCase) { c.input("fail-on", "never") }
	for _, test := range []struct {
		name, head, id string
		set            func(*actionCase)
		refuse         bool
		called         string
		body           bool
	}{
		{"nothing to say", "acme/shop", "", never, false, "issues/7/comments?per_page=100", false},
		{"nothing to say, but always", "acme/shop", "", func(c *actionCase) { c.input("fail-on", "never").input("comment", "always") }, false, "--method POST repos/acme/shop/issues/7/comments ", true},
		{"made", "acme/shop", "", nil, false, "--method POST repos/acme/shop/issues/7/comments ", true},
		{"replaced", "acme/shop", "42\n43\n", nil, false, "--method PATCH repos/acme/shop/issues/comments/42 ", true},
		{"replaced when all is well", "acme/shop", "42\n", never, false, "--method PATCH repos/acme/shop/issues/comments/42 ", true},
		{"fork", "mallory/shop", "", nil, false, "may only read", false},
		{"refused", "acme/shop", "", nil, true, "pull-requests: write", false},
	} {
		put(t, id, test.id)
		os.Remove(filepath.Join(bin, "refuse"))
		if test.refuse {
			put(t, filepath.Join(bin, "refuse"), "")
		}
		calls, written := run(test.head, test.set)
		if !strings.Contains(calls, test.called) || strings.Contains(calls, "--method") != test.body {
			t.Errorf("%s: called %s", test.name, calls)
		}
		if test.body != (strings.HasPrefix(written, "<!-- preadmit:") && strings.Contains(written, "## preadmit: ")) {
			t.Errorf("%s: wrote %q", test.name, written)
		}
		if test.name == "made" && !actionLink.MatchString(written) {
			t.Errorf("no link to a line in the comment:\n%s", written)
		}
	}
}

// actionLink is the address of a line, by the event's server, repository and commit.
var actionLink = regexp.MustCompile(`https?://[^/ ]+/acme/shop/blob/[0-9a-f]{40}/[^#" ]+\.yaml#L[0-9]+`)

// testActionReports holds what the inputs about the program's input and its
// reports reach.
func testActionReports(t *testing.T, s *shop) {
	var with map[string]string
	c := newActionCase(t, s).checkout(newestMerge, "--depth=2").input("sarif", "false").input("artifact", "checked").input("summary-size", "32").input("config", "ci/preadmit.yaml")
	put(t, filepath.Join(c.at, "ci/preadmit.yaml"), "fail-on: never\n") // not there at the base
	c.job.Uses["actions/upload-artifact"] = func(w map[string]string) (map[string]string, error) {
		with = w
		return nil, errors.New("no space")
	}
	r := c.run()
	want(t, r, outputsOf{"exit-code": "1", "denied": "1"})
	files := strings.Fields(strings.ReplaceAll(with["path"], "run ner", "run_ner"))
	if with["name"] != "checked" || len(files) != 2 || !strings.HasSuffix(files[0], ".html") || !strings.HasSuffix(files[1], ".json") {
		t.Errorf("uploaded %v", with)
	}
	if page, err := os.ReadFile(r.Outputs["report-html"]); err != nil || !strings.Contains(string(page), "at most 10 replicas") || !actionLink.Match(page) {
		t.Errorf("the page: %v", err)
	}
	c.input("base", "none").input("artifact", "") // without a base the change's own file counts
	want(t, c.run(), outputsOf{"exit-code": "0", "denied": "2", "report-html": ""})
}
