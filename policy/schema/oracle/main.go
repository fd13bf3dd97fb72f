// Command oracle says what the API server makes of objects: it reads one
// request a line, decodes, defaults and converts its object with the API
// server's own scheme, and writes one answer a line.
//
// It is for tests. The objects of an answer are what admission policies see:
// the stored form converted back to the version asked for.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apiserverinternal/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"
	"k8s.io/kubernetes/pkg/capabilities"
)

// A request is an object and, unless it is its own, the version to convert
// it to; or one to validate.
type request struct {
	Object   json.RawMessage `json:"object"`
	To       string          `json:"to,omitempty"`
	Validate bool            `json:"validate,omitempty"`
	Old      json.RawMessage `json:"old,omitempty"` // before an update that is to be validated
}

// An answer is the object as the API server holds it, what is wrong with it,
// or the error that there is no telling.
type answer struct {
	Object map[string]any `json:"object,omitempty"`
	Faults []fault        `json:"faults,omitempty"`
	Error  string         `json:"error,omitempty"`
}

func main() {
	apiextensions.Install(legacyscheme.Scheme)
	apiregistration.Install(legacyscheme.Scheme)
	klog.SetLogger(logr.Discard())
	capabilities.Setup(true, 0) // --allow-privileged, which kubeadm and the rest set
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		if err := out.Encode(reply(in.Bytes())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func reply(line []byte) answer {
	var req request
	if err := json.Unmarshal(line, &req); err != nil {
		return answer{Error: err.Error()}
	}
	if req.Validate {
		faults, err := safely(req)
		if err != nil {
			return answer{Error: err.Error()}
		}
		return answer{Faults: faults}
	}
	object, err := admit(req)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Object: object}
}

// safely turns a panic into an error: some strategies ask the cluster.
func safely(req request) (faults []fault, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return validate(req)
}

func admit(req request) (map[string]any, error) {
	decoded, gvk, err := legacyscheme.Codecs.UniversalDeserializer().Decode(req.Object, nil, nil)
	if err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(decoded)
	to := gvk.GroupVersion()
	if req.To != "" {
		if to, err = schema.ParseGroupVersion(req.To); err != nil {
			return nil, err
		}
	}
	stored, err := legacyscheme.Scheme.ConvertToVersion(decoded, internal{gvk.GroupKind()})
	if err != nil {
		return nil, err
	}
	held, err := legacyscheme.Scheme.ConvertToVersion(stored, to)
	if err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(held)
}

// internal finds the stored form of a kind, which may be in another group, as
// that of events is.
type internal struct{ kind schema.GroupKind }

func (i internal) KindForGroupVersionKinds(kinds []schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	group := i.kind.Group
	if group == "events.k8s.io" || group == "extensions" {
		group = ""
	}
	want := schema.GroupVersionKind{Group: group, Version: runtime.APIVersionInternal, Kind: i.kind.Kind}
	return want, legacyscheme.Scheme.Recognizes(want)
}

func (internal) Identifier() string { return "internal" }
