package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/render/store"
)

// storeIsSound holds that what is in a store has the digest of its name, and
// that the lock, if there is one, can be read.
func storeIsSound(t *testing.T, dir string) *store.Lock {
	t.Helper()
	vendor := filepath.Join(dir, ".preadmit/vendor/sha256")
	files, _ := os.ReadDir(vendor)
	for _, f := range files {
		data := rendertest.ReadFile(t, filepath.Join(vendor, f.Name()))
		if !strings.HasPrefix(f.Name(), ".preadmit-") && store.Digest(data) != "sha256:"+f.Name() {
			t.Errorf("the store's file %s holds something else", f.Name())
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, store.LockFile))
	if err != nil {
		return nil
	}
	lock, err := store.ParseLock(data)
	if err != nil {
		t.Errorf("the lock can't be read: %v\n%s", err, data)
	}
	return lock
}

// TestFetchHostile meets servers that do what they should not: each ends with a
// reason, and nothing is kept.
func TestFetchHostile(t *testing.T) {
	t.Parallel()
	bomb := bombArchive(t, 10<<30)
	elsewhere := newDepot(t, false)
	elsewhere.chart("podinfo", "6.9.2", standIn(t, "podinfo", "6.9.2"))
	for name, test := range map[string]struct {
		serve http.HandlerFunc // for all but the index
		index string           // in place of the depot's
		want  string
	}{
		"truncates":      {serve: truncated(standIn(t, "podinfo", "6.9.2")), want: "ends too early"},
		"lies":           {serve: answer(standIn(t, "podinfo", "6.6.6")), want: "does not have the digest that the repository's index says"},
		"bomb":           {serve: answer(bomb), index: indexOf("podinfo-6.9.2.tgz", store.Digest(bomb)), want: "larger than 100 MiB"},
		"no archive":     {serve: answer([]byte("<html>")), index: indexOf("podinfo-6.9.2.tgz", ""), want: "no tar archive"},
		"no chart":       {serve: answer(archived(t, map[string]string{"podinfo/x": ""})), index: indexOf("podinfo-6.9.2.tgz", ""), want: "no Chart.yaml"},
		"redirects away": {serve: redirect(elsewhere.URL + "/charts/podinfo-6.9.2.tgz"), want: "is not among fetch.hosts"},
		"redirects":      {serve: redirect("/again"), want: "more than 5 redirects"},
		"leads away":     {serve: answer(nil), index: indexOf(elsewhere.URL+"/charts/podinfo-6.9.2.tgz", ""), want: "is not among fetch.hosts"},
		"a file of ours": {serve: answer(nil), index: indexOf("file:///etc/passwd", ""), want: "no address of a file"},
		"without end":    {serve: endless, index: indexOf("podinfo-6.9.2.tgz", ""), want: "larger than 100 MiB"},
		"fails":          {serve: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) }, want: "answers 503"},
		"hostile index":  {serve: answer(nil), index: "entries: &a [*a", want: "no index of a Helm repository"},
		"no version":     {serve: answer(nil), index: `{"entries":{"podinfo":[{"version":"5.0.0","urls":["x"]}]}}`, want: "no version of it is 6.x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDepot(t, false)
			d.chart("podinfo", "6.9.2", standIn(t, "podinfo", "6.9.2"))
			d.serve = func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path != "/charts/index.yaml":
					test.serve(w, r)
				case test.index != "":
					fmt.Fprint(w, test.index)
				default:
					d.plain(w, r)
				}
			}
			dir := repositoryOf(t, map[string]string{"a.yaml": fluxRelease("podinfo", d.URL+"/charts", "6.x"), configFile: allow(d.host())})
			code, out, errs := program(t, dir, nil, "fetch")
			if code != exitIncomplete || !strings.Contains(errs, test.want) {
				t.Errorf("exit code %d, want %q\n%s%s", code, test.want, out, errs)
			}
			if lock := storeIsSound(t, dir); lock != nil && len(lock.Entries) > 0 {
				t.Errorf("the lock has %v", lock.Entries)
			}
			if files, _ := os.ReadDir(filepath.Join(dir, ".preadmit/vendor/sha256")); len(files) > 0 {
				t.Errorf("the store has %v", files)
			}
		})
	}
}

func answer(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }
}

func truncated(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data[:len(data)/2])
	}
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

func endless(w http.ResponseWriter, r *http.Request) {
	block := make([]byte, 1<<20)
	for r.Context().Err() == nil {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func indexOf(address, digest string) string {
	return fmt.Sprintf(`{"entries":{"podinfo":[{"version":"6.9.2","urls":[%q],"digest":%q}]}}`, address, digest)
}

// bombArchive is a chart's archive with a file of that many zeros.
func bombArchive(t *testing.T, size int64) []byte {
	t.Helper()
	// Of blocks that gzip packs once: 1 GiB of zeros are packed a thousandfold
	// already, and members of a gzip file follow each other.
	var head, block bytes.Buffer
	z := gzip.NewWriter(&head)
	w := tar.NewWriter(z)
	rendertest.OK(t, w.WriteHeader(&tar.Header{Name: "podinfo/Chart.yaml", Mode: 0o644, Size: size, Typeflag: tar.TypeReg}))
	rendertest.OK(t, z.Close())
	z = gzip.NewWriter(&block)
	const unit = 64 << 20
	if _, err := io.CopyN(z, zeroReader{}, unit); err != nil {
		t.Fatal(err)
	}
	rendertest.OK(t, z.Close())
	for range size / unit {
		head.Write(block.Bytes())
	}
	return head.Bytes()
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestFetchRegistryLies refuses layers and manifests that are not what their
// digests say.
func TestFetchRegistryLies(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{"layer": "/blobs/", "manifest": "/manifests/"} {
		d := newDepot(t, false)
		d.push("apps/web", "1.0.0", chartLayer, standIn(t, "web", "1.0.0"))
		other := standIn(t, "web", "6.6.6")
		for file, data := range d.files {
			if strings.Contains(file, part) && len(data) > 2 {
				d.files[file] = append(data[:len(data)-8:len(data)-8], other[:8]...)
			}
		}
		dir := repositoryOf(t, map[string]string{"a.yaml": artifactRelease("web", "oci://"+d.host()+"/apps/web", "1.0.0"), configFile: allow(d.host())})
		code, out, errs := program(t, dir, nil, "fetch")
		if code != exitIncomplete {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out, errs)
		}
		if lock := storeIsSound(t, dir); lock != nil && len(lock.Entries) > 0 {
			t.Errorf("%s: the lock has %v", name, lock.Entries)
		}
	}
}

// TestFetchPrivate asks no host with a private address that is not named.
func TestFetchPrivate(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	d.chart("podinfo", "6.9.2", standIn(t, "podinfo", "6.9.2"))
	dir := repositoryOf(t, map[string]string{"a.yaml": fluxRelease("podinfo", d.URL+"/charts", "6.x")})
	code, _, errs := program(t, dir, nil, "fetch")
	if code != exitIncomplete || !strings.Contains(errs, "has a private address") || d.requests.Load() > 0 {
		t.Errorf("exit code %d, %d requests\n%s", code, d.requests.Load(), errs)
	}
}

// TestFetchBaseHosts takes the hosts from the base, not from the change.
func TestFetchBaseHosts(t *testing.T) {
	t.Parallel()
	d, other := newDepot(t, false), newDepot(t, false)
	d.chart("podinfo", "6.9.2", standIn(t, "podinfo", "6.9.2"))
	other.chart("evil", "1.0.0", standIn(t, "evil", "1.0.0"))
	dir := repositoryOf(t, map[string]string{"a.yaml": fluxRelease("podinfo", d.URL+"/charts", "6.x"), configFile: allow(d.host())})
	rendertest.OK(t, os.Remove(filepath.Join(dir, ".git")))
	commitFiles(t, dir)
	writeFiles(t, dir, map[string]string{"b.yaml": fluxRelease("evil", other.URL+"/charts", "1.x"), configFile: allow(d.host(), other.host())})
	code, out, errs := program(t, dir, nil, "fetch", "--base", "HEAD")
	if code != exitIncomplete || !strings.Contains(errs, "is not among fetch.hosts") || other.requests.Load() > 0 || !strings.Contains(out, "1 fetched, 1 failed") {
		t.Errorf("exit code %d, %d requests\n%s%s", code, other.requests.Load(), out, errs)
	}
	if code, _, errs := program(t, dir, nil, "fetch"); code != exitOK {
		t.Errorf("without --base: exit code %d\n%s", code, errs)
	}
}

// TestFetchLogins sends logins to their own host, over TLS, and nowhere else.
func TestFetchLogins(t *testing.T) {
	t.Parallel()
	d, other := newDepot(t, true), newDepot(t, false)
	d.auth = "ann:secret-one"
	d.chart("podinfo", "6.9.2", standIn(t, "podinfo", "6.9.2"))
	archive := standIn(t, "moved", "1.0.0")
	d.chart("moved", "1.0.0", archive)
	other.files["/charts/moved-1.0.0.tgz"] = archive
	d.serve = func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "moved-") {
			http.Redirect(w, r, strings.Replace(d.URL, "https", "https", 1)+"/again", http.StatusFound)
			return
		}
		if r.URL.Path == "/again" {
			_, _ = w.Write(archive)
			return
		}
		d.plain(w, r)
	}
	away := newTLSRedirect(t, other.URL)
	home := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.Certificate().Raw})
	writeFiles(t, home, map[string]string{
		"ca.pem": string(ca),
		"repositories.yaml": "apiVersion: \"\"\nrepositories:\n- {name: d, url: " + d.URL + "/charts, username: ann, password: secret-one, caFile: " + filepath.Join(home, "ca.pem") + "}\n" +
			"- {name: away, url: " + away.URL + "/charts, username: ann, password: secret-two, caFile: " + filepath.Join(home, "ca.pem") + "}\n",
	})
	env := []string{"HELM_REPOSITORY_CONFIG=" + filepath.Join(home, "repositories.yaml")}
	dir := repositoryOf(t, map[string]string{
		"a.yaml": fluxRelease("podinfo", d.URL+"/charts", "6.x"), "b.yaml": fluxRelease("moved", d.URL+"/charts", "1.x"),
		"c.yaml":   fluxRelease("gone", away.URL+"/charts", "1.x"),
		configFile: allow("127.0.0.1"),
	})
	code, out, errs := program(t, dir, env, "fetch")
	if code != exitIncomplete || !strings.Contains(out, "2 fetched, 1 failed") || !strings.Contains(errs, "without encryption") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for _, to := range other.to {
		if !strings.HasSuffix(to, " :") {
			t.Errorf("the other host got a login: %s", to)
		}
	}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if bytes.Contains(data, []byte("secret-")) {
			t.Errorf("%s holds a password", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if strings.Contains(out+errs, "secret-") {
		t.Error("output holds a password")
	}
	if code, _, errs := program(t, dir, nil, "fetch", "--update"); code != exitIncomplete || !strings.Contains(errs, "certificate") {
		t.Errorf("without the authority: exit code %d\n%s", code, errs)
	}
}

// newTLSRedirect starts a server that sends everybody to another one.
func newTLSRedirect(t *testing.T, to string) *httptest.Server {
	s := httptest.NewTLSServer(redirect(to + "/charts/index.yaml"))
	t.Cleanup(s.Close)
	return s
}

// TestFetchSlow ends a download that does not.
func TestFetchSlow(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	d.serve = func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte("#\n"))
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	}
	dir := repositoryOf(t, map[string]string{"a.yaml": fluxRelease("podinfo", d.URL+"/charts", "6.x"), configFile: allow(d.host())})
	began := time.Now()
	code, _, errs := program(t, dir, nil, "fetch", "--timeout", "3s")
	if code != exitIncomplete || !strings.Contains(errs, "not done after --timeout 3s") || time.Since(began) > time.Minute {
		t.Errorf("exit code %d after %s\n%s", code, time.Since(began), errs)
	}
	storeIsSound(t, dir)
}

// TestFetchKilled kills fetches at random points. The next one completes, and
// neither lock nor store is ever half written. PREADMIT_KILLS says how often.
func TestFetchKilled(t *testing.T) {
	t.Parallel()
	kills := 4
	if n, err := strconv.Atoi(os.Getenv("PREADMIT_KILLS")); err == nil {
		kills = n
	}
	d := newDepot(t, false)
	files := map[string]string{configFile: allow(d.host())}
	for i := range 12 {
		name := "chart" + strconv.Itoa(i)
		d.chart(name, "1.0.0", standIn(t, name, "1.0.0"))
		files[name+".yaml"] = fluxRelease(name, d.URL+"/charts", "1.x")
	}
	random := rand.New(rand.NewPCG(1, 2))
	dir := repositoryOf(t, files)
	began := time.Now()
	if code, _, errs := program(t, repositoryOf(t, files), nil, "fetch"); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	whole := time.Since(began)
	for range kills {
		cmd := programCommand(t, dir, nil, "fetch")
		rendertest.OK(t, cmd.Start())
		time.Sleep(time.Duration(random.Int64N(int64(whole))))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		storeIsSound(t, dir)
		if random.IntN(3) == 0 { // and from the start again
			_ = os.RemoveAll(filepath.Join(dir, ".preadmit/vendor"))
			_ = os.Remove(filepath.Join(dir, ".preadmit/lock.yaml"))
		}
	}
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if code, out, errs := program(t, dir, nil, "fetch"); code != exitOK {
				t.Errorf("two at once: exit code %d\n%s%s", code, out, errs)
			}
		})
	}
	group.Wait()
	if lock := storeIsSound(t, dir); lock == nil || len(lock.Entries) != 12 {
		t.Errorf("the lock is %v", lock)
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".preadmit", "*", "*", ".preadmit-*"))
	more, _ := filepath.Glob(filepath.Join(dir, ".preadmit", ".preadmit-*"))
	if len(left)+len(more) > 0 {
		t.Errorf("left behind: %v %v", left, more)
	}
	if code, out, _ := program(t, dir, nil, "fetch", "--check"); code != exitOK {
		t.Errorf("--check: exit code %d\n%s", code, out)
	}
}
