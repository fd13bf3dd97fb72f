package policytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A gatorCase is one object with its expected violations.
type gatorCase struct {
	Case
	t          *gatorTest
	object     *render.Object
	inventory  []*render.Object
	files      []string // of the inventory
	assertions []gatorAssertion
	errs       []error
}

// A gatorAssertion bounds the number of violations whose message matches.
type gatorAssertion struct {
	least, most int
	words       string         // how many, in words
	message     *regexp.Regexp // nil matches any message
}

// runCase runs one case of the test.
func (g *gatorTest) runCase(item node) {
	before := len(g.errs)
	f := item.folded("name", "object", "inventory", "assertions", "skip")
	name := f["name"].text()
	if f["skip"].flag() {
		g.note("%s: case %s is skipped", g.shown(item.span()), strings.Trim(g.name+"/"+name, "/"))
		return
	}
	c := &gatorCase{Case: g.start(item, name), t: g}
	c.readObject(item, f["object"])
	for _, item := range f["inventory"].items() {
		objects, err := c.t.read(item)
		if err != nil {
			c.t.fail(err)
		}
		for _, o := range objects {
			if o.GetAPIVersion() == "" {
				item.fail("%s: a %.63s in it has no apiVersion", item.text(), o.GetKind())
			}
		}
		c.inventory = append(c.inventory, objects...)
		c.files = append(c.files, item.text())
	}
	c.readAssertions(item, f["assertions"])
	c.errs = append(c.errs, g.errs[before:]...)
	c.Want = c.wants()
	c.evaluate()
	g.Cases = append(g.Cases, c.Case)
}

// readObject reads the object to evaluate.
func (g *gatorCase) readObject(item, at node) {
	if at.text() == "" {
		item.fail("object is missing")
		return
	}
	objects, err := g.t.read(at)
	switch {
	case err != nil:
		g.t.fail(err)
		return
	case len(objects) > 1:
		at.fail("%s contains %d objects, not one", at.text(), len(objects))
		return
	}
	g.object = objects[0]
	g.subject(g.object)
	if !isReview(g.object) {
		return
	}
	r, broken := reviewOf(g.object)
	if broken != nil {
		at.fail("%s: %w", at.text(), broken)
		return
	}
	g.object = r.typed
	g.subject(r.subject)
	g.Operation = r.operation
}

// subject sets the object of the case.
func (g *gatorCase) subject(o *render.Object) {
	key := o.Key()
	g.Kind, g.Resource = key.Kind, key.Name
	if key.Namespace != "" {
		g.Resource = key.Namespace + "/" + key.Name
	}
}

func (g *gatorCase) readAssertions(item, list node) {
	items := list.items()
	if len(items) == 0 {
		item.fail("the case has no assertions")
	}
	for _, a := range items {
		f := a.folded("violations", "message")
		one := readViolations(f["violations"])
		if m := f["message"]; m.value != nil {
			var err error
			if one.message, err = regexp.Compile(m.text()); err != nil {
				m.fail("message is not a regular expression: %w", err)
			}
		}
		g.assertions = append(g.assertions, one)
	}
}

// readViolations reads yes, no or a number.
func readViolations(at node) gatorAssertion {
	switch v := at.value.(type) {
	case nil:
		return gatorAssertion{least: 1, most: math.MaxInt, words: "violations"}
	case int64:
		if v >= 0 && v <= math.MaxInt32 {
			return gatorAssertion{least: int(v), most: int(v), words: counted(int(v))}
		}
	case string:
		switch v {
		case "yes":
			return gatorAssertion{least: 1, most: math.MaxInt, words: "violations"}
		case "no":
			return gatorAssertion{words: "no violations"}
		}
	}
	at.fail(`violations must be "yes", "no" or a number that is not negative`)
	return gatorAssertion{least: math.MaxInt, words: "?"}
}

func counted(n int) string {
	switch n {
	case 0:
		return "no violations"
	case 1:
		return "1 violation"
	default:
		return fmt.Sprintf("%d violations", n)
	}
}

// evaluate evaluates the constraint and compares the results with the
// assertions.
func (g *gatorCase) evaluate() {
	if len(g.t.failures) > 0 {
		g.errs = append(g.errs, g.t.failures...)
	}
	if len(g.errs) > 0 {
		g.Reason = g.t.text(g.errs...)
		return
	}
	engine := g.t.compile()
	for _, e := range engine.faults {
		g.errs = append(g.errs, e)
	}
	if len(g.errs) > 0 {
		g.Reason = g.t.text(g.errs...)
		return
	}
	results, err := engine.among(g.files, g.inventory).Evaluate(g.t.ctx, g.object)
	if err != nil {
		g.Reason = g.t.text(err)
		return
	}
	g.compare(results)
}

// compare compares the results with the assertions.
func (g *gatorCase) compare(results []policy.Result) {
	var messages, undecided []string
	g.Vacuous = len(results) == 0
	for i := range results {
		r := &results[i]
		g.assume(r.Assumed)
		switch r.Outcome {
		case policy.Fail:
			messages = append(messages, r.Message)
		case policy.Error, policy.Unknown:
			undecided = append(undecided, r.Message)
		}
	}
	if len(undecided) > 0 {
		g.Reason = joined(undecided)
		return
	}
	g.Got, g.OK = g.found(messages), true
	for _, a := range g.assertions {
		g.OK = g.OK && a.holds(a.count(messages))
	}
	switch {
	case len(messages) > 0:
		g.Reason = joined(messages)
	case g.Vacuous:
		g.Reason = "the constraint is not evaluated: it does not match the object, or is not enforced in gator"
	}
}

// joined joins messages, up to a limit.
func joined(messages []string) string {
	return render.Cut(strings.Join(messages, "; "), maxText)
}

// wants returns the assertions in words.
func (g *gatorCase) wants() string {
	words := make([]string, len(g.assertions))
	for i, a := range g.assertions {
		words[i] = a.withMessage(a.words)
	}
	return strings.Join(words, ", ")
}

// found describes the violations in the form of the assertions. If the
// assertions hold, the text equals theirs.
func (g *gatorCase) found(messages []string) string {
	words := make([]string, len(g.assertions))
	for i, a := range g.assertions {
		words[i] = a.withMessage(a.words)
		if n := a.count(messages); !a.holds(n) {
			words[i] = a.withMessage(counted(n))
		}
	}
	return strings.Join(words, ", ")
}

// withMessage appends the expected message to words.
func (g *gatorAssertion) withMessage(words string) string {
	if g.message == nil {
		return words
	}
	return fmt.Sprintf("%s with %q", words, g.message)
}

// count returns how many messages match the assertion.
func (g *gatorAssertion) count(messages []string) int {
	n := 0
	for _, m := range messages {
		if g.message == nil || g.message.MatchString(m) {
			n++
		}
	}
	return n
}

func (g *gatorAssertion) holds(n int) bool { return g.least <= n && n <= g.most }

// A gatorReview is the request of an AdmissionReview.
type gatorReview struct {
	operation string
	subject   *render.Object // the object, or the old one where there is none
	typed     *render.Object // the review as gator passes it on, without empty fields
}

// isReview reports whether an object is an AdmissionReview, of whatever version.
func isReview(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	return gvk.Kind == "AdmissionReview" && gvk.Group == "admission.k8s.io"
}

// reviewOf parses an AdmissionReview as strictly as gator does: unknown fields
// are errors.
func reviewOf(o *render.Object) (*gatorReview, error) {
	var review admissionv1.AdmissionReview
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &review, true); err != nil {
		return nil, fmt.Errorf("is not an AdmissionReview: %s", bounded(err))
	}
	if review.Request == nil {
		return nil, errors.New("is an AdmissionReview without a request")
	}
	object, err := reviewed(o, "object")
	if err != nil {
		return nil, err
	}
	old, err := reviewed(o, "oldObject")
	if err != nil {
		return nil, err
	}
	r := &gatorReview{operation: string(review.Request.Operation), subject: object}
	if object == nil {
		r.subject = old
	}
	switch {
	case r.subject == nil:
		return nil, errors.New("is an AdmissionReview with neither an object nor an oldObject")
	case r.operation == string(admissionv1.Delete) && old == nil:
		return nil, errors.New("is an AdmissionReview of a DELETE without an oldObject")
	}
	r.typed, err = typedReview(o, review.Request)
	return r, err
}

// typedReview returns the review with its request re-encoded from the Go type.
func typedReview(o *render.Object, request *admissionv1.AdmissionRequest) (*render.Object, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("is not an AdmissionReview: %s", bounded(err))
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("is not an AdmissionReview: %s", bounded(err))
	}
	typed := *o
	typed.Unstructured = &unstructured.Unstructured{Object: maps.Clone(o.Object)}
	typed.Object["request"] = tree
	return &typed, nil
}

// reviewed returns an object of a review's request, or nil.
func reviewed(o *render.Object, field string) (*render.Object, error) {
	request, _ := o.Object["request"].(map[string]any)
	v := request[field]
	if v == nil {
		return nil, nil
	}
	object, err := objectOf(v, nil)
	if err != nil {
		return nil, fmt.Errorf("its request's %s %w", field, err)
	}
	return object, nil
}

// bounded returns the first line of an error, cut to a limit.
func bounded(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return render.Cut(text, 512)
}

// A GatorPolicy evaluates objects by the constraint of one test, as gator verify
// does. It is compiled once and safe for concurrent use.
type GatorPolicy interface {
	// Evaluate evaluates the constraint for an object as written, or for the
	// request of an AdmissionReview. It returns a failure for each violation,
	// whatever its action, or a pass, or nothing if the constraint does not
	// match. Results for objects that expansion templates create from it are
	// included. It fails if the object can't be evaluated.
	Evaluate(ctx context.Context, o *render.Object) ([]policy.Result, error)
	// Among returns the policy with an inventory: the objects of
	// data.inventory, and Namespaces. The caller must pass each object once.
	Among(inventory []*render.Object) GatorPolicy
}

// A GatorSetup holds the inputs of a test besides the objects to evaluate.
type GatorSetup struct {
	Template, Constraint *render.Object
	Expansions           []*render.Object
	Kinds                policy.Kinds // objects are used as written
}

// RuleConstraintSchema is the Rule of a *render.Error about a constraint that
// breaks its template's schema. A test with `invalid` expects it.
const RuleConstraintSchema = "constraint-schema"
