package kyvernocel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/kyvernocel/internal/kyvernolib"
	"github.com/preadmit/preadmit/render"
)

// isException reports whether an object is a PolicyException of
// policies.kyverno.io.
func isException(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == group && gvk.Kind == "PolicyException" && slices.Contains(versions, gvk.Version)
}

// An exception is a PolicyException, compiled.
type exception struct {
	object     *render.Object
	spec       exceptionSpec
	conditions []*cel.Expression
}

type exceptionSpec struct {
	PolicyRefs []struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
	} `json:"policyRefs"`
	MatchConditions []v1.MatchCondition `json:"matchConditions"`
	Images          []string            `json:"images"`
	AllowedValues   []string            `json:"allowedValues"`
	ReportResult    string              `json:"reportResult"`
	ExpiresAt       *metav1.Time        `json:"expiresAt"`
	Properties      map[string]string   `json:"properties"`
	EvaluationMode  string              `json:"evaluationMode"`
}

// readException reads and compiles a PolicyException. If Kyverno would refuse it,
// readException returns nil and the errors.
func readException(o *render.Object) (*exception, []error) {
	var d struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   metav1.ObjectMeta `json:"metadata"`
		Spec       exceptionSpec     `json:"spec"`
	}
	const rule = "exception"
	if errs := decode(o, &d, rule); len(errs) > 0 {
		return nil, errs
	}
	x := &exception{object: o, spec: d.Spec}
	errs := x.check(rule)
	f := flavour{}
	dialect, err := f.dialect()
	if err != nil {
		return nil, append(errs, policy.ErrorAt(o, "", rule, err))
	}
	errs = append(errs, x.compile(dialect)...)
	if len(errs) > 0 {
		return nil, errs
	}
	return x, nil
}

func (e *exception) check(rule string) (errs []error) {
	add := func(pointer, format string, args ...any) {
		errs = append(errs, policy.ErrorAt(e.object, pointer, rule, fmt.Errorf(format, args...)))
	}
	if len(e.spec.PolicyRefs) == 0 {
		add("/spec", "spec.policyRefs: must specify at least one policy ref")
	}
	for i, r := range e.spec.PolicyRefs {
		if r.Name == "" || r.Kind == "" {
			add(render.Pointer("spec", "policyRefs", i), "spec.policyRefs[%d]: name and kind are required", i)
		}
	}
	if r := e.spec.ReportResult; r != "" && r != "skip" && r != "pass" {
		add("/spec/reportResult", "spec.reportResult: unsupported value %q: must be skip or pass", r)
	}
	return errs
}

func (e *exception) compile(d *cel.Dialect) (errs []error) {
	s, err := newScope(d)
	if err != nil {
		return []error{policy.ErrorAt(e.object, "", "exception", err)}
	}
	for i, m := range e.spec.MatchConditions {
		expr := &cel.Expression{
			Name: m.Name, Rule: "matchConditions[" + m.Name + "]", Pointer: render.Pointer("spec", "matchConditions", i, "expression"),
			Source: m.Expression, Want: boolean,
		}
		expr.Origin = e.object.Span(expr.Pointer)
		if err := s.compile(d, expr, s.before); err != nil {
			errs = append(errs, brokenAt(e.object, expr, err))
		}
		e.conditions = append(e.conditions, expr)
	}
	return errs
}

// names reports whether the exception refers to p.
func (e *exception) names(p *Policy) bool {
	for _, r := range e.spec.PolicyRefs {
		kind, namespaced := strings.CutPrefix(r.Kind, "Namespaced")
		name := r.Name
		if p.Namespace != "" {
			name = strings.TrimPrefix(name, p.Namespace+"/")
		}
		if kind == p.Kind && name == p.Name && namespaced == (p.Namespace != "") {
			return true
		}
	}
	return false
}

// String names the exception as Kyverno does.
func (e *exception) String() string {
	if ns := e.object.GetNamespace(); ns != "" {
		return ns + "/" + e.object.GetName()
	}
	return e.object.GetName()
}

// expired reports whether the exception has expired. At the zero time none has.
func (e *exception) expired(now time.Time) bool {
	return e.spec.ExpiresAt != nil && !now.IsZero() && now.After(e.spec.ExpiresAt.Time)
}

// exempt reports whether an exception exempts the request. Exceptions that only
// allow values don't exempt; expressions read those values.
func (r *run) exempt() (v verdict, done bool) {
	var full []*exception
	var allowedImages, allowedValues []any
	for _, exc := range r.c.policy.exceptions {
		if exc.expired(r.engine.options.Now) {
			continue
		}
		held, culprit, err := r.all(exc.conditions)
		switch {
		case err != nil && len(full) == 0:
			return r.broken(culprit, "failed to load context: ", err), true
		case !held:
		case len(exc.spec.Images)+len(exc.spec.AllowedValues) == 0:
			full = append(full, exc)
		default:
			allowedImages = append(allowedImages, policy.Anys(exc.spec.Images)...)
			allowedValues = append(allowedValues, policy.Anys(exc.spec.AllowedValues)...)
		}
	}
	if len(full) == 0 {
		if len(allowedImages)+len(allowedValues) > 0 {
			r.exceptions = kyvernolib.Frozen(map[string]any{"allowedImages": orNone(allowedImages), "allowedValues": orNone(allowedValues)})
		}
		return verdict{}, false
	}
	return r.exemption(full), true
}

func orNone(list []any) []any {
	if list == nil {
		return []any{}
	}
	return list
}

func (r *run) exemption(by []*exception) verdict {
	names := make([]string, len(by))
	v := verdict{outcome: policy.Skip, origin: by[0].object.Span(""), assumed: r.assumptions()}
	for i, exc := range by {
		names[i] = exc.String()
		if exc.spec.ExpiresAt != nil && r.engine.options.Now.IsZero() {
			v.assumed = append(v.assumed, fmt.Sprintf("PolicyException %s, which expires, has not expired", exc))
		}
	}
	if decisive(by).spec.ReportResult == "pass" {
		v.outcome = policy.Pass
	}
	v.message = "rule is skipped due to policy exception: " + strings.Join(names, ", ")
	return v
}

// priorityLabel is the label by which Kyverno chooses the exception to report.
const priorityLabel = "polex.kyverno.io/priority"

// decisive returns the first exception with the highest priority.
func decisive(by []*exception) *exception {
	best, highest := by[0], 0
	for _, exc := range by {
		if n, err := strconv.Atoi(exc.object.GetLabels()[priorityLabel]); err == nil && n > highest {
			best, highest = exc, n
		}
	}
	return best
}

// now returns Options.Now, or a fixed time if it is zero.
func (e *Engine) now() time.Time {
	if e.options.Now.IsZero() {
		return kyvernolib.FixedNow()
	}
	return e.options.Now
}
