package schema

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverjson "k8s.io/apimachinery/pkg/util/json"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A liveServer is a running kube-apiserver.
type liveServer struct {
	address, token string
	client         *http.Client
	mu             sync.Mutex
	made           map[string]bool // paths of objects that were created
}

// startLive starts the program that PREADMIT_APISERVER names (testdata/apiserver), or uses the server
// at the https address there, with the token in PREADMIT_APISERVER_TOKEN.
func startLive(t *testing.T) *liveServer {
	t.Helper()
	program := os.Getenv("PREADMIT_APISERVER")
	if program == "" {
		t.Skip("PREADMIT_APISERVER names no kube-apiserver; make apiserver builds one")
	}
	s := &liveServer{address: program, token: os.Getenv("PREADMIT_APISERVER_TOKEN"), made: make(map[string]bool)}
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 8}}
	if strings.HasPrefix(program, "https://") {
		return s
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	rendertest.OK(t, err)
	s.address = "https://" + free.Addr().String()
	_, port, _ := net.SplitHostPort(free.Addr().String())
	rendertest.OK(t, free.Close())
	dir := t.TempDir()
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, dir, port, "--runtime-config=api/all=true")
	cmd.Stdout, cmd.Stderr = &log, &log
	rendertest.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the end of the context has killed it
	for range 600 {
		if token, err := os.ReadFile(filepath.Join(dir, "token")); err == nil {
			s.token = string(token)
			if status, _ := s.do(t, http.MethodGet, "/readyz", nil); status == http.StatusOK {
				return s
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("kube-apiserver does not get ready:\n%s", log.String())
	return nil
}

// do sends a request and returns the answer. The status is 0 if there is none.
func (s *liveServer) do(t testing.TB, method, path string, body any) (status int, answer map[string]any) {
	t.Helper()
	status, answer, _ = s.ask(t, method, path, body)
	return status, answer
}

// ask is do with the warnings in the answer.
func (s *liveServer) ask(t testing.TB, method, path string, body any) (status int, answer map[string]any, warnings []string) {
	t.Helper()
	data, err := json.Marshal(body)
	rendertest.OK(t, err)
	req, err := http.NewRequest(method, s.address+path, bytes.NewReader(data))
	rendertest.OK(t, err)
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, nil
	}
	defer func() { _ = resp.Body.Close() }()
	data, err = io.ReadAll(resp.Body)
	rendertest.OK(t, err)
	_ = serverjson.Unmarshal(data, &answer) // else it has a text
	headers, _ := utilnet.ParseWarningHeaders(resp.Header["Warning"])
	for _, h := range headers {
		warnings = append(warnings, h.Text)
	}
	return resp.StatusCode, answer, warnings
}

// path returns the path of the objects of a resource.
func livePath(r policy.Resource, namespace string) string {
	path := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		path = "/api/" + r.Version
	}
	if r.Namespaced {
		path += "/namespaces/" + namespace
	}
	return path + "/" + r.Resource
}

// create creates an object, once.
func (s *liveServer) create(t testing.TB, path string, object map[string]any) {
	t.Helper()
	name, _ := render.Lookup(object, "/metadata/name")
	key := fmt.Sprint(path, " ", name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.made[key] {
		s.made[key] = true
		s.do(t, http.MethodPost, path, object) // a name that is not valid is refused later, too
	}
}

// around creates the namespace and the ServiceAccount that an object needs, because no controller does so
// here.
func (s *liveServer) around(t testing.TB, object map[string]any, namespace string) {
	t.Helper()
	s.create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": namespace}})
	account, _ := render.Lookup(object, "/spec/serviceAccountName")
	if old, _ := render.Lookup(object, "/spec/serviceAccount"); account == nil || account == "" {
		account = old
	}
	name, _ := account.(string)
	if object["kind"] == "Pod" {
		s.create(t, "/api/v1/namespaces/"+namespace+"/serviceaccounts", map[string]any{"metadata": map[string]any{"name": cmp.Or(name, "default")}})
	}
}

// liveUser is the user of the token.
var liveUser = policy.UserInfo{Username: "admin", UID: "admin", Groups: []string{"system:masters", "system:authenticated"}}

// A verdict is the answer to a request about an object.
type verdict struct {
	refusals           []string       // the refused fields, sorted, or the messages if none is named
	first              bool           // the server has stopped before validation: it may refuse more
	decoding           bool           // it refuses to decode the object
	mutated, undecided bool           // by policies
	object             map[string]any // as stored; nil if it is refused or exists
	text               string
}

var afterCode = regexp.MustCompile(`^.*? cannot be handled as a \w+: `)

// serverSide are the parameters of server-side apply.
const serverSide = "&fieldManager=m&force=true"

// verdict asks the server to create or update an object.
func (s *liveServer) verdict(t testing.TB, method, path string, object map[string]any) (v verdict, served bool) {
	t.Helper()
	path += "?dryRun=All&fieldValidation=Strict"
	if method == http.MethodPatch {
		path += serverSide
	}
	status, answer := s.do(t, method, path, object)
	v.text, _ = answer["message"].(string)
	switch {
	case status == http.StatusCreated || status == http.StatusOK:
		return verdict{object: answer}, true
	case status == http.StatusConflict && answer["reason"] == "AlreadyExists":
		return verdict{}, true
	case status == 0:
		t.Error("kube-apiserver does not answer")
		return v, false
	case status == http.StatusNotFound && v.text == "the server could not find the requested resource", status == http.StatusMethodNotAllowed:
		return v, false
	}
	causes, _ := render.Lookup(answer, "/details/causes")
	list, _ := causes.([]any)
	for _, c := range list {
		field, _ := c.(map[string]any)["field"].(string)
		v.refusals = append(v.refusals, field)
	}
	if len(list) == 0 || status == http.StatusInternalServerError || denied.MatchString(v.text) {
		text := afterCode.ReplaceAllString(v.text, "")
		v.first = true
		if v.decoding = status == http.StatusBadRequest; v.decoding {
			v.refusals = strings.Split(strings.ReplaceAll(beforeText.ReplaceAllString(text, ""), ", unknown field", "\nunknown field"), "\n")
		} else { // by a plugin
			v.refusals = []string{text}
		}
	}
	v.refusals = unique(v.refusals)
	return v, true
}

func unique(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// A keeper is a validator that keeps the object that it is given: first the one to be stored, then that
// with other values of what the cluster allocates.
type keeper struct{ objects []map[string]any }

func (k *keeper) Rules() []policy.Rule { return nil }

func (k *keeper) Validate(_ context.Context, req *policy.Request) ([]policy.Result, error) {
	k.objects = append(k.objects, req.Admitted)
	return nil, nil
}

var beforeText = regexp.MustCompile(`^(strict decoding error|the value is a placeholder, so this is not decided): `)

var causeField = regexp.MustCompile(`^([A-Za-z<](?:\{[^}]*\}|[^ ])*): `)

// ours returns this program's verdict about a request. other is the object with other values of what the
// cluster allocates; nil if there are none.
func ours(t testing.TB, c comparison, req policy.Request) (v verdict, other map[string]any) {
	t.Helper()
	k := &keeper{}
	chain := policy.Chain{Kinds: c.kinds, Mutators: c.mutators, Validators: append(slices.Clone(c.validators), k)}
	reqs := []policy.Request{req}
	if req.OldObject != nil {
		rendertest.OK(t, chain.StoreOld(t.Context(), reqs))
		v.undecided = strings.Contains(strings.Join(reqs[0].OldObject.Assumed, "\n"), "could not be applied")
	}
	k.objects = nil
	results, err := chain.Review(t.Context(), reqs)
	rendertest.OK(t, err)
	var texts []string
	for _, r := range results {
		if r.Pods {
			continue // another request
		}
		if v.mutated = v.mutated || r.Engine == policy.EngineMutation && r.Outcome == policy.Pass; r.Outcome == policy.Pass || r.Outcome == policy.Skip || r.Action != policy.Deny {
			continue
		}
		v.undecided = v.undecided || r.Engine == policy.EngineMutation && r.Outcome == policy.Unknown
		texts = append(texts, fmt.Sprintf("%s %v: %s", r.Rule, r.Fields, r.Message))
		text := afterCode.ReplaceAllString(beforeText.ReplaceAllString(r.Message, ""), "")
		if m := causeField.FindStringSubmatch(text); m != nil && m[1] != "json" {
			text = m[1]
		} else if strings.HasPrefix(text, "Invalid value: ") || strings.HasPrefix(text, "some validation rules were not checked") {
			text = "<nil>" // as the server says of a whole custom resource
		}
		v.refusals = append(v.refusals, text)
	}
	v.refusals, v.text = unique(v.refusals), strings.Join(texts, "\n")
	if len(k.objects) > 0 && len(v.refusals) == 0 {
		v.object = k.objects[0]
	}
	if len(k.objects) > 1 {
		other = k.objects[1]
	}
	return v, other
}

var tokenVolume = regexp.MustCompile(`^kube-api-access-[a-z0-9]{5}$`)

// comparable returns a stored object without the values that come from clocks, random numbers and the
// storage.
func comparable(object map[string]any) map[string]any {
	object = runtime.DeepCopyJSON(object)
	meta, _ := object["metadata"].(map[string]any)
	name, uid := "", fmt.Sprint(meta["uid"])
	for _, name := range []string{"uid", "creationTimestamp", "resourceVersion", "managedFields", "selfLink"} {
		delete(meta, name)
	}
	if prefix, ok := meta["generateName"].(string); ok && strings.HasPrefix(fmt.Sprint(meta["name"]), prefix[:min(len(prefix), 58)]) {
		name = meta["name"].(string)
	}
	return replaceTexts(object, func(text string) string {
		if name != "" && text == name {
			return "generated"
		}
		if text == uid {
			return "00000000-0000-4000-8000-000000000000"
		}
		return tokenVolume.ReplaceAllString(text, "kube-api-access-xxxxx")
	}).(map[string]any)
}

// readBack returns a stored object as the server reads it from the storage: with defaults for the fields
// that the preparation for storage has removed.
func readBack(t testing.TB, kinds *Kinds, gvk schema.GroupVersionKind, object map[string]any) map[string]any {
	if kinds.builtins[gvk] == nil {
		held, err := kinds.Admit(&render.Object{Unstructured: &unstructured.Unstructured{Object: object}}, "")
		rendertest.OK(t, err)
		return held
	}
	g := kinds.builtins[gvk].goType()
	typed, err := g.fromTree(object)
	rendertest.OK(t, err)
	typed, err = g.complete(kinds.release, typed, "", nil)
	rendertest.OK(t, err)
	object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	rendertest.OK(t, err)
	return object
}

func replaceTexts(value any, f func(string) string) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = replaceTexts(v[key], f)
		}
	case []any:
		if len(v) == 0 {
			return nil // the storage's format knows no empty lists
		}
		for i := range v {
			v[i] = replaceTexts(v[i], f)
		}
	case string:
		return f(v)
	}
	return value
}

// differences calls f with the pointers at which two values differ.
func differences(a, b any, at string, f func(pointer string, a, b any)) {
	am, aok := a.(map[string]any)
	bm, bok := b.(map[string]any)
	if aok && bok {
		keys := slices.Collect(maps.Keys(am))
		keys = slices.AppendSeq(keys, maps.Keys(bm))
		for _, key := range unique(keys) {
			differences(am[key], bm[key], at+"/"+key, f)
		}
		return
	}
	al, aok := a.([]any)
	bl, bok := b.([]any)
	if aok && bok && len(al) == len(bl) {
		for i := range al {
			differences(al[i], bl[i], at+"/"+strconv.Itoa(i), f)
		}
		return
	}
	if !render.Equal(a, b) {
		f(at, a, b)
	}
}

var index = regexp.MustCompile(`\d+`)

// A tally counts differences by class, each with an example.
type tally struct {
	mu       sync.Mutex
	asked    int
	agree    int
	verdicts int
	classes  map[string]int
	examples map[string]string
}

func newTally() *tally {
	return &tally{classes: make(map[string]int), examples: make(map[string]string)}
}

func (c *tally) add(class string, example func() string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.classes[class]++; c.examples[class] == "" {
		c.examples[class] = example()
	}
}

// report logs the classes, the largest first.
func (c *tally) report(t *testing.T) {
	t.Logf("%d of %d agree", c.agree, c.asked)
	classes := slices.SortedFunc(maps.Keys(c.classes), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.classes[b], c.classes[a]), cmp.Compare(a, b))
	})
	for _, class := range classes {
		if strings.HasPrefix(class, "explained: ") {
			t.Logf("%d × %s", c.classes[class], class)
			continue
		}
		t.Errorf("%d × %s\n%s", c.classes[class], class, c.examples[class])
	}
}

// explained gives the reason for each difference that is meant, by a part of its text.
var explained = map[string]string{
	"is not in the valid range. The range of valid IPs is": "the range of addresses is the cluster's own (--service-cluster-ip-range)",
	"not configured on this cluster":                       "the families of addresses are the cluster's own",
	"this cluster is not configured for dual-stack":        "the families of addresses are the cluster's own",
	"The range of valid ports is":                          "a warning, since the range of ports is the cluster's own (--service-node-port-range)",
	"first value must match `clusterIP`":                   "the address that the cluster has given is not known",
	`"]: may not change once set`:                          "a warning, since the address that the cluster has given is not known",
	"spec is immutable after creation except resources":    "a claim is taken to be bound",
	"metadata.labels[pod-security.kubernetes.io/":          "the engine of Pod Security says this",
	"Secret stored /data/":                                 "the storage holds an empty value for null",
	"Operation cannot be fulfilled on":                     "the uid or the version in the object is not that of the stored one",
	"LimitRange stored /metadata/name":                     "the server gives a LimitRange a random name",
	"Node stored /spec/taints":                             "the plugin TaintNodesByCondition is not run: nodes register themselves",
	"PersistentVolumeClaim stored /status/":                "a claim is taken to be bound",
	"error looking up service account":                     "the comparison makes the ServiceAccounts that pods name",
	"resourceVersion should not be set on objects to be":   "a dry run does not ask the storage",
	"metadata.resourceVersion of type string":              "the comparison sets the version of the object that it replaces",
	"metadata.uid: Invalid value":                          "the uid or the version in the object is not that of the stored one",
	"provided port is already allocated":                   "another object has the port",
	`must be of type object: "null"`:                       "server-side apply makes null of a map that loses all its fields, and refuses it",
	"stored /metadata/ownerReferences":                     "the server removes references that are there twice",
}

// explainedFields is explained for objects that both refuse, at different fields.
var explainedFields = map[string]string{
	`" is invalid: spec.clusterIPs`:                                                     "the server refuses an address before it validates the rest of a Service",
	`" is invalid: [spec.clusterIPs`:                                                    "the server refuses an address before it validates the rest of a Service",
	`" is invalid: spec.ipFamil`:                                                        "the server refuses the families of addresses before it validates the rest",
	`" is invalid: [spec.ipFamil`:                                                       "the server refuses the families of addresses before it validates the rest",
	"].nodePort: Duplicate value: 3":                                                    "the server allocates ports to a Service that it refuses",
	"exactly one of `exactly` or `firstAvailable` is requ":                              "a list that is empty, and so absent from what is stored, counts as given before",
	"Only one reference can have Controller set to true":                                "the server removes references that are there twice",
	"fields: server alone [spec.devices.requests[N].adminAccess], here alone []":        "a warning, since the labels of the namespace are not known",
	"Pod fields: server alone [spec.containers[N].volumeMounts[N].name], here alone []": "the name of the token's volume is another one on each cluster",
	"spec.volumeClaimTemplates[N].metadata.name":                                        "the server counts a claim template as a volume of the pods",
	"Overhead set without corresponding RuntimeClass":                                   "the server validates before the plugin RuntimeClass refuses",
	" quota: ":               "the server validates before the plugin ResourceQuota refuses",
	" usage per ":            "the server validates before the plugin LimitRanger refuses",
	"limit to request ratio": "the server validates before the plugin LimitRanger refuses",
}

// A comparison compares this program's verdicts with those of a server.
type comparison struct {
	*liveServer
	*tally
	kinds      *Kinds
	mutators   []policy.Mutator
	validators []policy.Validator
	described  map[string]string // policies and their bindings by name, as JSON
	converted  map[string]bool   // custom kinds that the server stores in another version
}

// object compares the creation of an object, or the update of old to it by a method.
func (c comparison) object(t *testing.T, by policy.Method, old, object map[string]any) {
	u := &unstructured.Unstructured{Object: object}
	gvk := u.GroupVersionKind()
	r := c.kinds.Resource(gvk)
	if r.Namespaced && u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	namespace := cmp.Or(u.GetNamespace(), "default")
	if r.Namespaced {
		c.around(t, object, namespace)
	}
	path, method, sent := livePath(r, namespace), http.MethodPost, object
	req := policy.Request{Operation: policy.Create, Object: parsed(t, object), DryRun: true, UserInfo: liveUser}
	if old != nil {
		name := u.GetName()
		if name == "" || name != (&unstructured.Unstructured{Object: old}).GetName() || strings.Contains(asJSON(object), ":null") {
			return
		}
		created, of := method, path
		if path += "/" + url.PathEscape(name); by == policy.ApplyServerSide {
			created, of = http.MethodPatch, path+"?"+serverSide
		}
		status, stored := c.do(t, created, of, old)
		if status != http.StatusCreated {
			return
		}
		defer c.do(t, http.MethodDelete, path+"?gracePeriodSeconds=0", nil)
		switch method = http.MethodPut; by {
		case policy.Apply:
			var err error
			if sent, err = c.kinds.Merge(by, gvk, old, object, stored); err != nil {
				return
			}
		case policy.ApplyServerSide:
			method = http.MethodPatch
		case policy.Replace: // Helper.Replace of k8s.io/cli-runtime
			if gvk.Kind == "PersistentVolumeClaim" { // a controller would bind it
				rendertest.OK(t, unstructured.SetNestedField(stored, "bound-volume", "spec", "volumeName"))
				_, stored = c.do(t, http.MethodPut, path, stored)
			}
			u = u.DeepCopy()
			if sent = u.Object; u.GetResourceVersion() == "" {
				u.SetResourceVersion((&unstructured.Unstructured{Object: stored}).GetResourceVersion())
			}
		}
		req.Operation, req.OldObject, req.Method = policy.Update, parsed(t, old), by
	}
	if req.Object == nil || req.Operation == policy.Update && req.OldObject == nil {
		return
	}
	theirs, served := c.verdict(t, method, path, sent)
	if !served {
		return
	}
	we, other := ours(t, c, req)
	if we.undecided {
		c.add("explained: undecided here", func() string { return "" })
		return
	}
	// kubectl sends elements of lists in another order, and the server counts the claim templates of a
	// StatefulSet as volumes.
	if old != nil || gvk.Kind == "StatefulSet" {
		theirs.refusals, we.refusals = generic(theirs.refusals), generic(we.refusals)
		we.text = index.ReplaceAllString(we.text, "N")
	}
	same := true
	differ := func(class, text string) {
		same = false
		known, whole := []map[string]string{explained}, gvk.Kind+" "+class+"\n"+text
		if old != nil {
			whole += asJSON(object)
		}
		if strings.HasPrefix(class, "fields") {
			known = append(known, explainedFields)
		}
		for _, table := range known {
			for part, why := range table {
				if strings.Contains(whole, part) {
					c.add("explained: "+why, func() string { return "" })
					return
				}
			}
		}
		c.add(gvk.Kind+" "+class, func() string {
			return text + "\n" + c.described[strings.TrimRight(namespace, "abc")] + asJSON(old) + "\n" + asJSON(object)
		})
	}
	if (len(theirs.refusals) > 0) != (len(we.refusals) > 0) {
		differ(fmt.Sprintf("refused by one alone: server %v, here %v", generic(theirs.refusals), generic(we.refusals)), theirs.text+"\n--- here:\n"+we.text)
	} else if strings.Contains(we.text, "…") {
		// Not all fields are named.
	} else if !theirs.first && !contains(theirs.refusals, we.refusals) || (!theirs.first || theirs.decoding) && !we.says(theirs.refusals) {
		alone := func(all, others []string) []string {
			return slices.DeleteFunc(generic(all), func(text string) bool { return slices.Contains(generic(others), text) })
		}
		differ(fmt.Sprintf("fields: server alone %v, here alone %v", alone(theirs.refusals, we.refusals), alone(we.refusals, theirs.refusals)), theirs.text+"\n--- here:\n"+we.text)
	}
	if theirs.object != nil && we.object != nil && !c.converted[u.GetAPIVersion()+" "+u.GetKind()] {
		unknown := make(map[string]bool)
		if other != nil {
			differences(we.object, other, "", func(pointer string, _, _ any) { unknown[pointer] = true })
		}
		differences(comparable(theirs.object), comparable(readBack(t, c.kinds, gvk, we.object)), "", func(pointer string, a, b any) {
			if !unknown[pointer] {
				differ("stored "+index.ReplaceAllString(pointer, "N"), fmt.Sprintf("server %v, here %v", a, b))
			}
		})
	}
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	if we.mutated {
		c.verdicts++
	}
	if c.asked++; same {
		c.agree++
	}
}

// parsed returns an object as this program reads it, or nil if it reads none or several, as from a List.
func parsed(t testing.TB, object map[string]any) *render.Object {
	objects, err := render.Parse("object.json", []byte(asJSON(object)))
	if err != nil || len(objects) != 1 {
		return nil
	}
	return objects[0]
}

func asJSON(object map[string]any) string {
	data, _ := json.Marshal(object) // made of JSON
	return string(data)
}

// contains reports whether all has each of the others.
func contains(all, others []string) bool {
	return !slices.ContainsFunc(others, func(text string) bool { return !slices.Contains(all, text) })
}

// says reports whether a verdict has each of the refused fields or messages.
func (v verdict) says(all []string) bool {
	return !slices.ContainsFunc(all, func(text string) bool {
		return !slices.Contains(v.refusals, text) && !strings.Contains(v.text, ", "+text+": ") // results at one place are joined
	})
}

func generic(all []string) []string {
	var short []string
	for _, text := range all {
		text = index.ReplaceAllString(text, "N")
		short = append(short, text[:min(len(text), 120)])
	}
	return unique(short)
}

// A changer makes random changes of objects, with values that other objects of the corpus have at the
// same path.
type changer struct {
	*rand.Rand
	seen map[string]map[string]any // values by path and their JSON
	keys map[string][]string       // of the maps at a path
}

// learn keeps the values of an object.
func (c *changer) learn(kind string, value any) {
	key := kind
	if at, ok := value.(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(at)) { // so that a seed always makes the same changes
			if !slices.Contains(c.keys[key], name) {
				c.keys[key] = append(c.keys[key], name)
			}
			c.learn(key+"/"+name, at[name])
		}
	}
	if list, ok := value.([]any); ok {
		for _, child := range list {
			c.learn(key+"/*", child)
		}
	}
	if c.seen[key] == nil {
		c.seen[key] = make(map[string]any)
	}
	if data, err := json.Marshal(value); err == nil && len(c.seen[key]) < 50 && len(data) < 2000 {
		c.seen[key][string(data)] = value
	}
}

func (c *changer) valueAt(path string) any {
	all := c.seen[path]
	if len(all) == 0 || c.IntN(4) == 0 {
		return []any{nil, "", "x", int64(0), int64(-1), int64(100000), 1.5, true, []any{}, map[string]any{}, "100Mi", "2"}[c.IntN(12)]
	}
	names := slices.Sorted(maps.Keys(all))
	return runtime.DeepCopyJSONValue(all[names[c.IntN(len(names))]])
}

// change changes one place of a value, which is not the object's kind.
func (c *changer) change(path string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		names = slices.DeleteFunc(names, func(n string) bool { return n == "apiVersion" || n == "kind" })
		if keys := c.keys[path]; len(keys) > 0 && c.IntN(4) == 0 || len(names) == 0 {
			if len(keys) > 0 {
				if name := keys[c.IntN(len(keys))]; name != "apiVersion" && name != "kind" {
					v[name] = c.valueAt(path + "/" + name)
				}
			}
			return v
		}
		name := names[c.IntN(len(names))]
		if c.IntN(8) == 0 {
			delete(v, name)
		} else {
			v[name] = c.change(path+"/"+name, v[name])
		}
		return v
	case []any:
		if len(v) == 0 || c.IntN(8) == 0 {
			return append(v, c.valueAt(path+"/*"))
		}
		i := c.IntN(len(v))
		if c.IntN(10) == 0 {
			return slices.Delete(v, i, i+1)
		}
		if c.IntN(10) == 0 {
			return append(v, runtime.DeepCopyJSONValue(v[i]))
		}
		v[i] = c.change(path+"/*", v[i])
		return v
	}
	return c.valueAt(path)
}

// liveObjects returns the objects of built-in kinds that can be stored, of testdata and beside the project.
func liveObjects(t *testing.T, kinds *Kinds) []map[string]any {
	all, err := readManifests("testdata/validate", "../../testdata/repos", "../../testdata/mistakes")
	rendertest.OK(t, err)
	if _, err := os.Stat(corporaRoot); err == nil {
		all = append(all, corpora(t)...)
	} else {
		t.Logf("%s is absent: only objects of testdata are compared", corporaRoot)
	}
	var objects []map[string]any
	for _, o := range all {
		b := kinds.builtins[o.GroupVersionKind()]
		if b == nil || b.goType() == nil || slices.Contains(notStored, o.GetKind()) || o.Object["sops"] != nil {
			continue
		}
		objects = append(objects, o.Object)
	}
	return objects
}

// TestLive compares verdicts, refused fields and stored objects with those of a running server, for
// published objects, random changes of them, random objects of each kind, and updates.
func TestLive(t *testing.T) {
	s := startLive(t)
	kinds := newKinds(t, "")
	kinds = kinds.On(policy.NewCluster()) // which has nothing else
	objects := liveObjects(t, kinds)
	size, _ := strconv.Atoi(cmp.Or(os.Getenv("PREADMIT_LIVE"), "2000"))
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("PREADMIT_SEED"), "1"), 10, 64)
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	c := &changer{Rand: random, seen: make(map[string]map[string]any), keys: make(map[string][]string)}
	for _, o := range objects {
		c.learn(fmt.Sprint(o["apiVersion"], o["kind"]), o)
	}
	type pair struct {
		by          policy.Method
		old, object map[string]any
	}
	cases := make(map[string][]pair)
	for i := range size {
		from := objects[i%len(objects)]
		if i < len(objects) {
			cases["published"] = append(cases["published"], pair{object: from})
		}
		cases["changed"] = append(cases["changed"], pair{object: c.changed(from)})
		if kind := fmt.Sprint(from["kind"]); strings.HasSuffix(kind, "Class") || slices.Contains(acting, kind) {
			continue
		}
		old := runtime.DeepCopyJSON(from)
		name := fmt.Sprintf("x%d-%d-%d", seed, time.Now().Unix(), i)
		rename(old, name)
		now := c.changed(old)
		rename(now, name)
		cases["updated"] = append(cases["updated"], pair{policy.Apply, old, now})
		cases["applied server-side"] = append(cases["applied server-side"], pair{policy.ApplyServerSide, old, now})
		cases["replaced"] = append(cases["replaced"], pair{policy.Replace, old, now})
	}
	g := &generator{Rand: random}
	all := kinds.sortedKinds(func(b *builtin) bool {
		return b.goType() != nil && !slices.Contains(notStored, b.gvk.Kind)
	})
	for i := range size {
		o := g.kind(all[i%len(all)])
		(&unstructured.Unstructured{Object: o}).SetNamespace("")
		unstructured.RemoveNestedField(o, "metadata", "ownerReferences") // the server removes equal ones
		rename(o, "generated")
		cases["generated"] = append(cases["generated"], pair{object: o})
	}
	for name, pairs := range cases {
		t.Run(name, func(t *testing.T) {
			found := comparison{liveServer: s, tally: newTally(), kinds: kinds, validators: []policy.Validator{NewValidator(kinds, nil)}}
			var group sync.WaitGroup
			for part := range slices.Chunk(pairs, (len(pairs)+3)/4) {
				group.Go(func() {
					for _, p := range part {
						found.object(t, p.by, p.old, p.object)
					}
				})
			}
			group.Wait()
			found.report(t)
		})
	}
}

// TestLivePlugins compares the effects of admission plugins with those of a running server, whose cluster
// has the objects that the plugins look up.
func TestLivePlugins(t *testing.T) {
	s := startLive(t)
	around := rendertest.Parse(t, "around.yaml", `
{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: limited}, spec: {limits: [
  {type: Container, max: {cpu: 2, memory: 2Gi}, min: {cpu: 1m}, default: {cpu: 100m, memory: 64Mi}, defaultRequest: {cpu: 50m}, maxLimitRequestRatio: {cpu: 20}},
  {type: Pod, max: {cpu: 3}}, {type: PersistentVolumeClaim, max: {storage: 10Gi}, min: {storage: 1Mi}}]}}
---
{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: limited}, spec: {hard: {requests.memory: 1Gi, limits.cpu: "2"}, scopes: [NotTerminating]}}
---
{apiVersion: v1, kind: ResourceQuota, metadata: {name: r, namespace: limited}, spec: {hard: {requests.cpu: 900m, limits.memory: 1Gi}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000, preemptionPolicy: Never}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 10, globalDefault: true}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: sandbox}, handler: h, overhead: {podFixed: {cpu: 10m}}, scheduling: {nodeSelector: {kind: vm}, tolerations: [{key: vm, operator: Exists}]}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, provisioner: p}
---
{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: nginx, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}, spec: {controller: c/c}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: quiet, namespace: limited}, automountServiceAccountToken: false, imagePullSecrets: [{name: pull}]}
`)
	kinds := newKinds(t, "")
	s.create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": "limited"}})
	for _, o := range around {
		path := livePath(kinds.Resource(o.GroupVersionKind()), "limited")
		s.create(t, path, o.Object)
		if o.GetKind() == "ResourceQuota" { // no controller counts
			counted := runtime.DeepCopyJSON(o.Object)
			hard, _ := render.Lookup(counted, "/spec/hard")
			used := make(map[string]any)
			for name := range hard.(map[string]any) {
				used[name] = "0"
			}
			counted["status"] = map[string]any{"hard": hard, "used": used}
			if status, answer := s.do(t, http.MethodPut, path+"/"+o.GetName()+"/status", counted); status != http.StatusOK {
				t.Fatal(answer)
			}
		}
	}
	time.Sleep(3 * time.Second) // until the plugins have read them
	random := rand.New(rand.NewPCG(1, 0))
	found := comparison{liveServer: s, tally: newTally(), kinds: kinds.On(policy.NewCluster(around...))}
	found.validators = []policy.Validator{NewValidator(found.kinds, nil)}
	published := liveObjects(t, kinds)
	c := &changer{Rand: random, seen: make(map[string]map[string]any), keys: make(map[string][]string)}
	for _, o := range published {
		c.learn(fmt.Sprint(o["apiVersion"], o["kind"]), o)
	}
	var updates [][2]map[string]any
	for _, from := range published {
		if kind := from["kind"]; kind != "Pod" && kind != "PersistentVolumeClaim" && kind != "Ingress" {
			continue
		}
		o := c.changed(from)
		rename(o, "x")
		(&unstructured.Unstructured{Object: o}).SetNamespace("limited")
		if spec, ok := o["spec"].(map[string]any); ok && o["kind"] == "Pod" {
			choices := map[string][]any{
				"priorityClassName": {"high", "absent", "system-node-critical"}, "runtimeClassName": {"sandbox", "absent"}, "serviceAccountName": {"quiet"},
				"nodeSelector": {map[string]any{"kind": "metal"}, map[string]any{"a": "b"}}, "priority": {int64(1000), int64(10)}, "overhead": {map[string]any{"cpu": "10m"}},
				"resources": {map[string]any{"limits": map[string]any{"cpu": "1"}}},
			}
			for _, field := range slices.Sorted(maps.Keys(choices)) {
				values := choices[field]
				if i := random.IntN(4 * len(values)); i < len(values) {
					spec[field] = values[i]
				}
			}
			if list, ok := spec["containers"].([]any); ok && len(list) > 0 && random.IntN(2) == 0 {
				if first, ok := list[0].(map[string]any); ok {
					amounts := []string{"1m", "20m", "100m", "1", "2", "3"}
					first["resources"] = map[string]any{"limits": map[string]any{"cpu": amounts[random.IntN(6)]}, "requests": map[string]any{"cpu": amounts[random.IntN(6)]}}
				}
			}
		}
		found.object(t, 0, nil, o)
		old := runtime.DeepCopyJSON(from)
		rename(old, "x")
		(&unstructured.Unstructured{Object: old}).SetNamespace("limited")
		updates = append(updates, [2]map[string]any{old, o})
	}
	around = slices.DeleteFunc(around, func(o *render.Object) bool { // the pods that updates create would use the quotas up
		quota := o.GetKind() == "ResourceQuota"
		if quota {
			s.do(t, http.MethodDelete, livePath(kinds.Resource(o.GroupVersionKind()), "limited")+"/"+o.GetName(), nil)
		}
		return quota
	})
	time.Sleep(time.Second)
	found.kinds = kinds.On(policy.NewCluster(around...))
	found.validators = []policy.Validator{NewValidator(found.kinds, nil)}
	for _, u := range updates {
		for _, by := range []policy.Method{policy.Apply, policy.ApplyServerSide, policy.Replace} {
			found.object(t, by, u[0], u[1])
		}
	}
	found.report(t)
}

// acting are the kinds of objects that change what the server says to others.
var acting = []string{
	"APIService", "LimitRange", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "Namespace", "ResourceQuota",
	"ServiceCIDR", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
}

// rename gives an object a name, if it has metadata.
func rename(object map[string]any, name string) {
	if meta, ok := object["metadata"].(map[string]any); ok {
		meta["name"] = name
		delete(meta, "generateName")
	}
}

// changed returns a copy of an object with one or two changes.
func (c *changer) changed(object map[string]any) map[string]any {
	object = runtime.DeepCopyJSON(object)
	for range 1 + c.IntN(2) {
		object = c.change(fmt.Sprint(object["apiVersion"], object["kind"]), object).(map[string]any)
	}
	return object
}
