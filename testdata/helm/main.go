// Helm runs Helm's own actions on changes of charts, so that the requests of preadmit can be compared with theirs.
// It reads the changes as JSON from standard input, and writes the requests of each to standard output.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
)

// A testCase has the template of a chart before and after a change. The chart writes ConfigMaps.
type testCase struct{ Was, Now string }

// An answer has what an upgrade from one to the other does after two upgrades, and what a first install of the
// latter does, as "CREATE name". Error is why the upgrade fails.
type answer struct {
	Upgrade, Install []string
	Error            string
}

func main() {
	var cases []testCase
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		fatal(err)
	}
	all := make([]answer, len(cases))
	for i, c := range cases {
		all[i] = c.answer()
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func (c testCase) answer() (a answer) {
	upgraded := run(func(h *action.Configuration, cl *cluster) error {
		if err := install(h, c.Was); err != nil {
			return err
		}
		for range 2 {
			if err := upgrade(h, c.Was); err != nil {
				return err
			}
		}
		cl.done = nil
		return upgrade(h, c.Now)
	}, &a.Error)
	first := run(func(h *action.Configuration, _ *cluster) error { return install(h, c.Now) }, new(string))
	a.Upgrade, a.Install = upgraded, first
	return a
}

// run calls f with an empty cluster, and returns what was done to it.
func run(f func(*action.Configuration, *cluster) error, failed *string) []string {
	cl := &cluster{objects: make(map[string][]byte)}
	server := httptest.NewServer(cl)
	defer server.Close()
	cache, err := os.MkdirTemp("", "helm")
	if err != nil {
		fatal(err)
	}
	defer os.RemoveAll(cache)
	flags, none := genericclioptions.NewConfigFlags(true), os.DevNull
	flags.APIServer, flags.CacheDir, flags.KubeConfig = &server.URL, &cache, &none
	flags.WrapConfigFn = func(c *rest.Config) *rest.Config { c.QPS = -1; return c }
	h := &action.Configuration{RESTClientGetter: flags, Releases: storage.Init(driver.NewMemory()), KubeClient: client{kube.New(flags)}, Log: func(string, ...any) {}}
	if err := f(h, cl); err != nil {
		*failed = err.Error()
	}
	slices.Sort(cl.done)
	return cl.done
}

// A client is Helm's, which here neither validates hooks nor waits for them.
type client struct{ *kube.Client }

func (c client) Build(r io.Reader, _ bool) (kube.ResourceList, error) {
	return c.Client.Build(r, false)
}
func (client) IsReachable() error                                     { return nil }
func (client) WatchUntilReady(kube.ResourceList, time.Duration) error { return nil }
func (client) WaitForDelete(kube.ResourceList, time.Duration) error   { return nil }

func install(h *action.Configuration, template string) error {
	i := action.NewInstall(h)
	i.ReleaseName, i.Namespace, i.DisableOpenAPIValidation = "c", "default", true
	_, err := i.Run(chartOf(template), nil)
	return err
}

func upgrade(h *action.Configuration, template string) error {
	u := action.NewUpgrade(h)
	u.Namespace, u.DisableOpenAPIValidation = "default", true
	_, err := u.Run("c", chartOf(template), nil)
	return err
}

func chartOf(template string) *chart.Chart {
	return &chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: "v2", Name: "c", Version: "0.1.0"},
		Templates: []*chart.File{{Name: "templates/o.yaml", Data: []byte(template)}},
	}
}

// A cluster is an API server for ConfigMaps. It keeps them as JSON, and records what is done to them.
type cluster struct {
	mu      sync.Mutex
	objects map[string][]byte
	done    []string
}

const configMaps = "/api/v1/namespaces/default/configmaps"

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, configMaps), "/")
	body, _ := io.ReadAll(r.Body)
	answer := func(code int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(body)
	}
	failed := func(code int, reason metav1.StatusReason) {
		answer(code, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reason})
	}
	switch {
	case r.URL.Path == "/version":
		answer(200, map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
	case r.URL.Path == "/api":
		answer(200, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case r.URL.Path == "/apis":
		answer(200, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}})
	case r.URL.Path == "/api/v1":
		verbs := metav1.Verbs{"create", "delete", "get", "list", "patch"}
		answer(200, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "v1",
			APIResources: []metav1.APIResource{{Name: "configmaps", SingularName: "configmap", Namespaced: true, Kind: "ConfigMap", Verbs: verbs}},
		})
	case !strings.HasPrefix(r.URL.Path, configMaps):
		failed(404, metav1.StatusReasonNotFound)
	case r.Method == http.MethodPost:
		var o v1.ConfigMap
		json.Unmarshal(body, &o)
		if c.objects[o.Name] != nil {
			failed(409, metav1.StatusReasonAlreadyExists)
			return
		}
		c.done, c.objects[o.Name] = append(c.done, "CREATE "+o.Name), body
		answer(201, json.RawMessage(body))
	case c.objects[name] == nil:
		failed(404, metav1.StatusReasonNotFound)
	case r.Method == http.MethodGet:
		answer(200, json.RawMessage(c.objects[name]))
	case r.Method == http.MethodDelete:
		c.done = append(c.done, "DELETE "+name)
		delete(c.objects, name)
		answer(200, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Success"})
	case r.Method == http.MethodPatch:
		patched, err := strategicpatch.StrategicMergePatch(c.objects[name], body, v1.ConfigMap{})
		if err != nil {
			failed(400, metav1.StatusReasonBadRequest)
			return
		}
		c.done, c.objects[name] = append(c.done, "UPDATE "+name), patched
		answer(200, json.RawMessage(patched))
	default:
		failed(405, metav1.StatusReasonMethodNotAllowed)
	}
}
