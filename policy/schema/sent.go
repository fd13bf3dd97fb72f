package schema

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// tooLong returns the refusal of an object whose manifest is too long for an annotation. kubectl apply, which Argo CD
// runs, adds such an annotation (CreateApplyAnnotation in k8s.io/kubectl/pkg/util). If no Application deploys the object,
// it is not known who applies it, so it is a warning.
func tooLong(req *policy.Request) []policy.Result {
	if req.Method != policy.Apply || req.Maker != nil || weigh(req.Object.Object) < maxAnnotations/8 {
		return nil
	}
	sent := runtime.DeepCopyJSON(req.Object.Object)
	place(sent, req.Resource.Namespaced, req.Namespace)
	data, err := json.Marshal(sent)
	if err != nil {
		return nil
	}
	size := len(corev1.LastAppliedConfigAnnotation) + len(data) + 1
	for key, value := range req.Object.GetAnnotations() {
		size += len(key) + len(value)
	}
	if size <= maxAnnotations {
		return nil
	}
	r := result(req.Kind, ruleTooLong, policy.Fail)
	r.Message = fmt.Sprintf("metadata.annotations: Too long: may not be more than %d bytes. The client adds the whole manifest as %s", maxAnnotations, corev1.LastAppliedConfigAnnotation)
	r.Hint, r.Fields, r.Reason = "apply it server-side: kubectl apply --server-side, in Argo CD the sync option ServerSideApply=true", []string{"/metadata"}, "Invalid"
	if unit := req.Object.Unit; unit == nil || unit.Owner == nil || unit.Owner.GetKind() != "Application" {
		r.Action, r.Assumed = policy.Warn, []string{"kubectl apply creates it, and not kubectl create"}
	}
	return []policy.Result{r}
}

// versioned returns the refusal of an object whose manifest has a resourceVersion. Only server-side apply may create such
// an object. On an update it conflicts with the stored one, whose version is another.
func versioned(req *policy.Request) []policy.Result {
	version, err := strconv.ParseUint(req.Object.GetResourceVersion(), 10, 64)
	creates := req.Operation == policy.Create
	if err != nil || version == 0 || req.Maker != nil || creates && (req.Method == policy.ApplyServerSide || req.Method == policy.ApplyAsData) {
		return nil
	}
	r := result(req.Kind, ruleInvalid, policy.Fail)
	r.Fields, r.Hint, r.Reason = []string{"/metadata/resourceVersion"}, "delete the field", "Conflict"
	if r.Message = "resourceVersion should not be set on objects to be created"; !creates {
		r.Message = fmt.Sprintf("Operation cannot be fulfilled on %s %q: the object has been modified; please apply your changes to the latest version and try again", req.Resource.GroupResource(), req.Name)
		r.Assumed = []string{"the object on the cluster has another resourceVersion"}
	}
	return []policy.Result{r}
}

// unnamable returns the refusal of the pods of a StatefulSet whose name is too long for their label
// controller-revision-hash (setPodRevision in pkg/controller/statefulset): it is the name with a hash of up to ten
// digits, of which nearly all have nine or ten.
func unnamable(req *policy.Request) []policy.Result {
	const most = validation.LabelValueMaxLength
	length := len(req.Name + "-")
	if req.Kind.Group != "apps" || req.Kind.Kind != "StatefulSet" || length+10 <= most {
		return nil
	}
	r := result(req.Kind, ruleTooLong, policy.Fail)
	r.Message = fmt.Sprintf("label controller-revision-hash of its pods, which is this name with a hash: must be no more than %d characters", most)
	r.Fields, r.Assumed = []string{"/metadata/name"}, []string{"the hash of its revision has at least nine digits"}
	replicas, _ := render.Lookup(req.Admitted, "/spec/replicas")
	switch {
	case fmt.Sprint(replicas) == "0":
		r.Action, r.Assumed = policy.Warn, []string{"it is scaled to at least one replica"}
	case length+9 <= most:
		r.Action, r.Assumed = policy.Warn, []string{"the hash of its revision has ten digits"}
	}
	r.AboutPods()
	return []policy.Result{r}
}
