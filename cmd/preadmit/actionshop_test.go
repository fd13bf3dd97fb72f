package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/testdata/action/runner"
)

// The action is run step by step on checkouts of a repository that a server
// here has, with functions in place of the actions that it uses.

const (
	actionDir   = "../../testdata/action"
	actionToken = "ghs_0123456789abcdef"
	zeros       = "0000000000000000000000000000000000000000"
)

// A shop is the repository: its main branch, a change of it, and the merge of
// both that a pull request is evaluated by.
type shop struct {
	url, privateURL      string // of the servers
	dir                  string // of what it serves
	first, main          string // commits of the main branch
	change, merge, stray string // stray is on no branch
}

// An actionCase is one use of the action.
type actionCase struct {
	t    *testing.T
	shop *shop
	job  *runner.Job
	dir  string            // of the action; "" is the repository's root
	uses map[string]string // the with of what was used
	sent []byte            // the SARIF file that was uploaded
	at   string            // the checkout
}

func newActionCase(t *testing.T, s *shop) *actionCase {
	t.Helper()
	c := &actionCase{t: t, shop: s, at: filepath.Join(t.TempDir(), "work space")}
	temp := filepath.Join(t.TempDir(), "run ner")
	rendertest.OK(t, os.Mkdir(temp, 0o777))
	self, err := os.Executable()
	rendertest.OK(t, err)
	program := filepath.Join(temp, "preadmit")
	if err := os.Symlink(self, program); err != nil {
		t.Skip(err)
	}
	c.job = &runner.Job{
		Workspace: c.at, Temp: temp, Path: os.Getenv("PATH"), Token: actionToken,
		GitHub: map[string]string{"repository": "acme/shop", "actor": "someone", "server_url": s.url, "sha": s.merge},
		Inputs: map[string]string{"binary-path": program, "paths": "apps", "policies": "policies"},
		Uses:   map[string]runner.Use{"github/codeql-action/upload-sarif": c.upload},
	}
	c.event("pull_request", "acme/shop", "")
	return c
}

// newShop makes the repository and serves it.
func newShop(t *testing.T) *shop {
	t.Helper()
	git, err := exec.LookPath("git")
	if _, bash := exec.LookPath("bash"); err != nil || bash != nil {
		t.Skip("the action is run by bash and git, which are not both here")
	}
	s := &shop{dir: t.TempDir()}
	repo := filepath.Join(s.dir, "acme", "shop")
	runGit(t, s.dir, "init", "-q", "-b", "main", repo)
	copyFiles(t, filepath.Join(actionDir, "base"), repo)
	os.Rename(filepath.Join(repo, "apps/web.yaml"), filepath.Join(repo, "web.yaml"))
	s.first = commitAll(t, repo, "first")
	os.Rename(filepath.Join(repo, "web.yaml"), filepath.Join(repo, "apps/web.yaml"))
	s.main = commitAll(t, repo, "main")
	runGit(t, repo, "checkout", "-q", "-b", "more-web", s.first)
	os.Remove(filepath.Join(repo, "web.yaml"))
	copyFiles(t, filepath.Join(actionDir, "change"), repo)
	s.change = commitAll(t, repo, "change\n\nparent "+zeros)
	runGit(t, repo, "checkout", "-q", s.main)
	runGit(t, repo, "merge", "-q", "--no-ff", "-X", "theirs", "-m", "merge", s.change)
	s.merge = runGit(t, repo, "rev-parse", "HEAD")
	runGit(t, repo, "update-ref", "refs/pull/7/merge", s.merge)
	runGit(t, repo, "update-ref", "refs/pull/7/head", s.change)
	runGit(t, repo, "checkout", "-q", "--orphan", "stray")
	s.stray = commitAll(t, repo, "stray")
	runGit(t, repo, "checkout", "-q", "main")
	runGit(t, repo, "branch", "-q", "-D", "stray")
	for _, c := range []string{"uploadpack.allowAnySHA1InWant", "uploadpack.allowFilter"} {
		runGit(t, repo, "config", c, "true")
	}
	s.url, s.privateURL = serve(t, git, s.dir, false), serve(t, git, s.dir, true)
	return s
}

// serve serves what is below dir, and returns its URL.
func serve(t *testing.T, git, dir string, private bool) string {
	t.Helper()
	h := &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"}, Stderr: io.Discard}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, token, ok := r.BasicAuth(); private && (!ok || user != "x-access-token" || token != actionToken) {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// private is the repository for those who have the job's token.
func (s shop) private() *shop {
	s.url = s.privateURL
	return &s
}

func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func commitAll(t *testing.T, repo, message string) string {
	t.Helper()
	runGit(t, repo, "add", "-A")
	runGit(t, repo, "commit", "-q", "-m", message)
	return runGit(t, repo, "rev-parse", "HEAD")
}

func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	rendertest.OK(t, filepath.WalkDir(from, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, name)
		return errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o777), os.WriteFile(filepath.Join(to, rel), data, 0o666))
	}))
}

// checkout does what actions/checkout does: a fetch of one commit, with as
// much history as asked for.
func (c *actionCase) checkout(commit string, args ...string) *actionCase {
	c.t.Helper()
	runGit(c.t, c.job.Temp, "init", "-q", c.at)
	runGit(c.t, c.at, "remote", "add", "origin", "file://"+filepath.Join(c.shop.dir, "acme/shop"))
	runGit(c.t, c.at, append(append([]string{"fetch", "-q", "--no-tags"}, args...), "origin", commit)...)
	runGit(c.t, c.at, "checkout", "-q", "--detach", "FETCH_HEAD")
	return c
}

// event sets what happened. head is the repository that a pull request comes
// from, before what a branch was before a push.
func (c *actionCase) event(name, head, before string) *actionCase {
	c.t.Helper()
	file := strings.TrimSuffix(name, "_target") + ".json"
	data, err := os.ReadFile(filepath.Join(actionDir, "events", file))
	rendertest.OK(c.t, err)
	values := map[string]string{"MAIN": c.shop.main, "CHANGE": c.shop.change, "MERGE": c.shop.merge, "BEFORE": before, "HEAD_REPOSITORY": head}
	c.job.Event = nil
	rendertest.OK(c.t, json.Unmarshal([]byte(os.Expand(string(data), func(k string) string { return values[k] })), &c.job.Event))
	c.job.GitHub["event_name"] = name
	return c
}

func (c *actionCase) input(name, value string) *actionCase {
	c.job.Inputs[name] = value
	return c
}

// upload is upload-sarif: the file must be one that this program calls true.
func (c *actionCase) upload(with map[string]string) (map[string]string, error) {
	c.uses = with
	data, err := os.ReadFile(with["sarif_file"])
	c.sent = data
	return nil, err
}

func (c *actionCase) run() *runner.Result {
	c.t.Helper()
	dir, err := filepath.Abs("../..")
	rendertest.OK(c.t, err)
	if c.dir != "" {
		dir = c.dir
	}
	a, err := runner.Load(dir)
	rendertest.OK(c.t, err)
	r, err := a.Run(c.t.Context(), c.job)
	rendertest.OK(c.t, err)
	if strings.Contains(strings.ReplaceAll(r.Log, "::add-mask::", ""), actionToken) {
		c.t.Error("the token is in the log")
	}
	return r
}

// want compares outputs, and that the job failed as the exit code says.
func want(t *testing.T, r *runner.Result, outputs map[string]string) {
	t.Helper()
	got := map[string]string{}
	for k := range outputs {
		got[k] = r.Outputs[k]
	}
	if diff := cmp.Diff(outputs, got); diff != "" {
		t.Errorf("outputs: -want +got:\n%s\n%s", diff, r.Log)
	}
	if r.Failed != (r.Outputs["exit-code"] != "0") {
		t.Errorf("exit-code %s, failed %v\n%s", r.Outputs["exit-code"], r.Failed, r.Log)
	}
}

// said are the messages of a kind.
func said(r *runner.Result, kind string) string {
	var all []string
	for _, c := range r.Commands {
		if c.Name == kind {
			all = append(all, c.Data)
		}
	}
	return strings.Join(all, "\n")
}

func put(t *testing.T, name, content string) {
	t.Helper()
	rendertest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(content), 0o777)))
}
