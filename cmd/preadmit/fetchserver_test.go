package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/render/store"
)

// A depot is a server of charts, artifacts and files on the loopback address.
type depot struct {
	*httptest.Server
	requests atomic.Int64

	mu    sync.Mutex
	files map[string][]byte            // by path
	index map[string]map[string]string // of /charts: digests by version by name
	tags  map[string]string            // digests of manifests by name:tag
	auth  string                       // user:password that it asks for
	serve http.HandlerFunc             // in place of it, if it is set
	to    []string                     // hosts and logins that requests had
}

// newDepot starts a depot, with TLS if secure.
func newDepot(t testing.TB, secure bool) *depot {
	d := &depot{files: make(map[string][]byte), index: make(map[string]map[string]string), tags: make(map[string]string)}
	if secure {
		d.Server = httptest.NewTLSServer(d)
		d.Server.Config.ErrorLog = nil
	} else {
		d.Server = httptest.NewServer(d)
	}
	t.Cleanup(d.Close)
	return d
}

// host is the depot's address without a scheme.
func (d *depot) host() string { return d.Listener.Addr().String() }

// chart puts a chart into the Helm repository at /charts.
func (d *depot) chart(name, version string, archive []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files["/charts/"+name+"-"+version+".tgz"] = archive
	if d.index[name] == nil {
		d.index[name] = make(map[string]string)
	}
	d.index[name][version] = store.Digest(archive)
}

// push puts a layer with a tag into the registry.
func (d *depot) push(name, tag, mediaType string, layer []byte) {
	d.pushLayers(name, tag, ociLayer{mediaType: mediaType, data: layer})
}

// An ociLayer is a layer of an artifact.
type ociLayer struct {
	mediaType   string
	data        []byte
	annotations map[string]string
}

// pushLayers puts an artifact into the registry, and returns the digest of its
// manifest.
func (d *depot) pushLayers(name, tag string, layers ...ociLayer) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	descriptor := func(l ociLayer) map[string]any {
		d.files["/v2/"+name+"/blobs/"+store.Digest(l.data)] = l.data
		return map[string]any{"mediaType": l.mediaType, "digest": store.Digest(l.data), "size": len(l.data), "annotations": l.annotations}
	}
	var all []any
	for _, l := range layers {
		all = append(all, descriptor(l))
	}
	manifest, _ := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": descriptor(ociLayer{mediaType: "application/vnd.cncf.helm.config.v1+json", data: []byte("{}")}),
		"layers": all,
	})
	d.files["/v2/"+name+"/manifests/"+store.Digest(manifest)] = manifest
	if tag != "" {
		d.tags[name+":"+tag] = store.Digest(manifest)
	}
	return store.Digest(manifest)
}

// refer makes manifests refer to another one.
func (d *depot) refer(name, to, artifactType string, manifests ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := []any{}
	for _, digest := range manifests {
		all = append(all, map[string]any{
			"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "artifactType": artifactType,
			"size": len(d.files["/v2/"+name+"/manifests/"+digest]),
		})
	}
	index, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": all})
	d.files["/v2/"+name+"/referrers/"+to] = index
}

const chartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// ServeHTTP implements http.Handler.
func (d *depot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.requests.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	user, password, _ := r.BasicAuth()
	d.to = append(d.to, r.Host+" "+user+":"+password)
	if d.serve != nil {
		d.serve(w, r)
		return
	}
	d.plain(w, r)
}

// plain answers from the depot's files.
func (d *depot) plain(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	switch {
	case d.auth != "" && user+":"+password != d.auth:
		w.Header().Set("WWW-Authenticate", `Basic realm="depot"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
	case r.URL.Path == "/charts/index.yaml":
		d.writeIndex(w)
	case strings.HasSuffix(r.URL.Path, "/tags/list"):
		d.writeTags(w, strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v2/"), "/tags/list"))
	case r.URL.Path == "/v2/":
	default:
		d.writeFile(w, r)
	}
}

func (d *depot) writeFile(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path
	if dir, tag := path.Split(name); strings.HasSuffix(dir, "/manifests/") {
		if digest := d.tags[strings.TrimSuffix(strings.TrimPrefix(dir, "/v2/"), "/manifests/")+":"+tag]; digest != "" {
			name = dir + digest
		}
	}
	data, ok := d.files[name]
	if !ok {
		http.Error(w, `{"errors":[{"code":"NOT_FOUND"}]}`, http.StatusNotFound)
		return
	}
	if strings.Contains(name, "/manifests/") {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	}
	if strings.Contains(name, "/referrers/") {
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
	}
	if strings.HasPrefix(name, "/v2/") {
		w.Header().Set("Docker-Content-Digest", store.Digest(data))
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(data)
	}
}

func (d *depot) writeIndex(w http.ResponseWriter) {
	entries := make(map[string][]map[string]any)
	for name, versions := range d.index {
		for version, digest := range versions {
			entries[name] = append(entries[name], map[string]any{
				"name": name, "version": version, "digest": strings.TrimPrefix(digest, "sha256:"), "urls": []string{name + "-" + version + ".tgz"},
			})
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "entries": entries})
}

func (d *depot) writeTags(w http.ResponseWriter, name string) {
	var tags []string
	for tagged := range d.tags {
		if of, tag, _ := strings.Cut(tagged, ":"); of == name {
			tags = append(tags, tag)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "tags": tags})
}

// program runs this program in a process of its own, as a user without any
// configuration but that in env.
func program(t testing.TB, dir string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := programCommand(t, dir, env, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func programCommand(t testing.TB, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	name, err := os.Executable()
	rendertest.OK(t, err)
	home := t.TempDir()
	cmd := exec.Command(name)
	cmd.Args = append([]string{"preadmit"}, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"HOME=" + home, "XDG_CACHE_HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, env...)
	return cmd
}
