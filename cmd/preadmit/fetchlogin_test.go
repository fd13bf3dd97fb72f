package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// loginSecret is the password of the servers of these tests.
const loginSecret = "sEcReT-of-ann"

// holdsNoSecret holds that no file of a directory and no output has the password.
func holdsNoSecret(t *testing.T, dir string, outputs ...string) {
	t.Helper()
	encoded := base64.StdEncoding.EncodeToString([]byte("ann:" + loginSecret))
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if bytes.Contains(data, []byte(loginSecret)) || bytes.Contains(data, []byte(encoded)) {
			t.Errorf("%s holds the password", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, out := range outputs {
		if strings.Contains(out, loginSecret) || strings.Contains(out, encoded) {
			t.Errorf("the password is in the output:\n%s", out)
		}
	}
}

// gotNoLogin holds that a depot got no login.
func (d *depot) gotNoLogin(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.to) == 0 {
		t.Error("the other host was not asked")
	}
	for _, to := range d.to {
		if !strings.HasSuffix(to, " :") {
			t.Errorf("the other host got a login: %s", to)
		}
	}
}

// TestFetchRegistryLogins logs in to a registry by all that docker and Helm have
// for it, and not to the host that its content comes from.
func TestFetchRegistryLogins(t *testing.T) {
	t.Parallel()
	basic := base64.StdEncoding.EncodeToString([]byte("ann:" + loginSecret))
	for name, login := range map[string]func(home, host string) (files map[string]string, env []string){
		"docker's logins": func(home, host string) (map[string]string, []string) {
			return map[string]string{"docker/config.json": fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, basic)}, []string{"DOCKER_CONFIG=" + home + "/docker"}
		},
		"docker's helper of a host": func(home, host string) (map[string]string, []string) {
			return map[string]string{"docker/config.json": fmt.Sprintf(`{"credHelpers":{%q:"fake"}}`, host)}, []string{"DOCKER_CONFIG=" + home + "/docker", "PATH=" + home + "/bin:" + os.Getenv("PATH")}
		},
		"docker's helper of all": func(home, _ string) (map[string]string, []string) {
			return map[string]string{"docker/config.json": `{"credsStore":"fake"}`}, []string{"DOCKER_CONFIG=" + home + "/docker", "PATH=" + home + "/bin:" + os.Getenv("PATH")}
		},
		"Helm's logins": func(home, host string) (map[string]string, []string) {
			return map[string]string{"registry.json": fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, basic)}, []string{"HELM_REGISTRY_CONFIG=" + home + "/registry.json"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" && strings.Contains(name, "helper") {
				t.Skip("the helper is a shell script")
			}
			d, cdn := newDepot(t, false), newDepot(t, false)
			d.auth = "ann:" + loginSecret
			d.push("apps/web", "1.0.0", chartLayer, standIn(t, "web", "1.0.0"))
			for file, data := range d.files { // blobs come from another host, as those of large registries do
				if strings.Contains(file, "/blobs/") {
					cdn.files[file] = data
				}
			}
			d.serve = func(w http.ResponseWriter, r *http.Request) {
				if _, _, ok := r.BasicAuth(); ok && strings.Contains(r.URL.Path, "/blobs/") {
					http.Redirect(w, r, cdn.URL+r.URL.Path, http.StatusTemporaryRedirect)
					return
				}
				d.plain(w, r)
			}
			home := t.TempDir()
			files, env := login(home, d.host())
			writeFiles(t, home, files)
			helper := "#!/bin/sh\nread host\n[ \"$host\" = " + d.host() + " ] || { echo credentials not found in native keychain; exit 1; }\necho '{\"ServerURL\":\"x\",\"Username\":\"ann\",\"Secret\":\"" + loginSecret + "\"}'\n"
			writeFiles(t, home, map[string]string{"bin/docker-credential-fake": helper})
			rendertest.OK(t, os.Chmod(filepath.Join(home, "bin/docker-credential-fake"), 0o755))
			release := map[string]string{"a.yaml": artifactRelease("web", "oci://"+d.host()+"/apps/web", "1.0.0"), configFile: allow(d.host(), cdn.host())}
			dir := repositoryOf(t, release)
			code, out, errs := program(t, dir, env, "fetch")
			if code != exitOK {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			cdn.gotNoLogin(t)
			holdsNoSecret(t, dir, out, errs)
			if code, _, errs := program(t, repositoryOf(t, release), nil, "fetch"); code != exitIncomplete || !strings.Contains(errs, "401") && !strings.Contains(errs, "no login") && !strings.Contains(errs, "credential") {
				t.Errorf("without a login: exit code %d\n%s", code, errs)
			}
		})
	}
}

// TestFetchTokens asks the token service that a registry names with the login of
// the registry, unless that is a host that may not be asked.
func TestFetchTokens(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{true, false} {
		d, tokens := newDepot(t, false), newDepot(t, false)
		d.push("apps/web", "1.0.0", chartLayer, standIn(t, "web", "1.0.0"))
		tokens.serve = func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "ann" || password != loginSecret {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, `{"token":"t0ken"}`)
		}
		d.serve = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer t0ken" {
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+tokens.URL+`/token",service="depot"`)
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			d.plain(w, r)
		}
		home := t.TempDir()
		writeFiles(t, home, map[string]string{"config.json": fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, d.host(), base64.StdEncoding.EncodeToString([]byte("ann:"+loginSecret)))})
		hosts := []string{d.host()}
		if allowed {
			hosts = append(hosts, tokens.host())
		}
		dir := repositoryOf(t, map[string]string{"a.yaml": artifactRelease("web", "oci://"+d.host()+"/apps/web", "1.0.0"), configFile: allow(hosts...)})
		code, out, errs := program(t, dir, []string{"DOCKER_CONFIG=" + home}, "fetch")
		if (code == exitOK) != allowed || !allowed && (!strings.Contains(errs, "is not among fetch.hosts") || tokens.requests.Load() > 0) {
			t.Errorf("allowed %t: exit code %d\n%s%s", allowed, code, out, errs)
		}
		holdsNoSecret(t, dir, out, errs)
	}
}

// TestFetchNetrc logs in by netrc, to the machine that it names alone.
func TestFetchNetrc(t *testing.T) {
	t.Parallel()
	d, other := newDepot(t, false), newDepot(t, false)
	d.auth = "ann:" + loginSecret
	archive := standIn(t, "web", "1.0.0")
	d.chart("web", "1.0.0", archive)
	other.files["/elsewhere.tgz"] = archive
	d.serve = func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			http.Redirect(w, r, other.URL+"/elsewhere.tgz", http.StatusFound)
			return
		}
		d.plain(w, r)
	}
	home := t.TempDir()
	writeFiles(t, home, map[string]string{"netrc": "machine " + d.host() + " login ann password " + loginSecret + "\ndefault login eve password x\n"})
	dir := repositoryOf(t, map[string]string{"a.yaml": fluxRelease("web", d.URL+"/charts", "1.x"), configFile: allow(d.host(), other.host())})
	code, out, errs := program(t, dir, []string{"NETRC=" + filepath.Join(home, "netrc")}, "fetch")
	if code != exitOK {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	other.gotNoLogin(t)
	holdsNoSecret(t, dir, out, errs)
}

// TestFetchSSH reaches a repository by ssh, through the git program and no other
// way.
func TestFetchSSH(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no git program, or no shell")
	}
	work, bare := t.TempDir(), filepath.Join(t.TempDir(), "base.git")
	writeFiles(t, work, map[string]string{"kustomization.yaml": "resources: [deployment.yaml]\n", "deployment.yaml": deployment})
	r, err := gittest.Init(work)
	rendertest.OK(t, err)
	if _, err := r.CommitAll("one"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(git, "clone", "--quiet", "--bare", work, bare).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	home := t.TempDir()
	// In the place of ssh: what the other side would run is run here.
	writeFiles(t, home, map[string]string{"ssh": "#!/bin/sh\necho \"$@\" >>" + home + "/asked\nfor last; do :; done\nexec sh -c \"$last\"\n"})
	rendertest.OK(t, os.Chmod(filepath.Join(home, "ssh"), 0o755))
	env := []string{"GIT_SSH_COMMAND=" + filepath.Join(home, "ssh"), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}
	files := map[string]string{"kustomization.yaml": "resources:\n- ssh://git@git.example.org" + bare + "?ref=master\n", configFile: allow("git.example.org")}
	if out, err := exec.Command(git, "-C", bare, "rev-parse", "--verify", "--quiet", "master").CombinedOutput(); err != nil {
		files["kustomization.yaml"] = strings.Replace(files["kustomization.yaml"], "master", "main", 1)
		_ = out
	}
	dir := repositoryOf(t, files)
	if code, _, errs := program(t, dir, env, "fetch"); code != exitIncomplete || !strings.Contains(errs, "--git allows it") {
		t.Errorf("without --git: exit code %d\n%s", code, errs)
	}
	if code, out, errs := program(t, dir, env, "fetch", "--git"); code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	if asked := readFileText(t, home, "asked"); !strings.Contains(asked, "git@git.example.org") {
		t.Errorf("ssh was asked for %q", asked)
	}
	if code, out, errs := program(t, dir, nil, "render"); code != exitOK || !strings.Contains(out, "name: base") {
		t.Errorf("render: exit code %d\n%s%s", code, out, errs)
	}
	// A host that is not named is not asked.
	writeFiles(t, dir, map[string]string{configFile: allow("other.example.org")})
	if code, _, errs := program(t, dir, env, "fetch", "--git", "--update"); code != exitIncomplete || !strings.Contains(errs, "is not among fetch.hosts") {
		t.Errorf("another host: exit code %d\n%s", code, errs)
	}
}
