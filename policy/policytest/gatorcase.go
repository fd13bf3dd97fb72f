package policytest

import (
	"fmt"
	"math"
	"regexp"
	"strings"

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

// A gatorAssertion is how many violations there are with a message.
type gatorAssertion struct {
	least, most int
	words       string         // how many, in words
	message     *regexp.Regexp // nil: any
}

// runCase runs one case of the test.
func (t *gatorTest) runCase(item node) {
	before := len(t.errs)
	f := item.folded("name", "object", "inventory", "assertions", "skip")
	name := f["name"].text()
	if f["skip"].flag() {
		t.note("%s: case %s is skipped", t.shown(item.span()), strings.Trim(t.name+"/"+name, "/"))
		return
	}
	c := &gatorCase{Case: t.start(item, name), t: t}
	c.readObject(item, f["object"])
	c.readInventory(f["inventory"])
	c.readAssertions(item, f["assertions"])
	c.errs = append(c.errs, t.errs[before:]...)
	c.Want = c.wants()
	c.evaluate()
	t.Cases = append(t.Cases, c.Case)
}

// readObject reads the object to evaluate.
func (c *gatorCase) readObject(item, at node) {
	if at.text() == "" {
		item.fail("object is missing")
		return
	}
	objects, err := c.t.read(at)
	switch {
	case err != nil:
		c.t.fail(err)
		return
	case len(objects) > 1:
		at.fail("%s holds %d objects, not one", at.text(), len(objects))
		return
	}
	c.object = objects[0]
	c.subject(c.object)
	if !isReview(c.object) {
		return
	}
	r, broken := reviewOf(c.object)
	if broken != nil {
		at.fail("%s: %w", at.text(), broken)
		return
	}
	c.object = r.typed
	c.subject(r.subject)
	c.Operation = r.operation
}

// subject says which object the case is about.
func (c *gatorCase) subject(o *render.Object) {
	key := o.Key()
	c.Kind, c.Resource = key.Kind, key.Name
	if key.Namespace != "" {
		c.Resource = key.Namespace + "/" + key.Name
	}
}

// readInventory reads the objects beside which it is evaluated.
func (c *gatorCase) readInventory(list node) {
	for _, item := range list.items() {
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
}

func (c *gatorCase) readAssertions(item, list node) {
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
				m.fail("message is no regular expression: %w", err)
			}
		}
		c.assertions = append(c.assertions, one)
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

// evaluate asks the constraint and holds what it says against the assertions.
func (c *gatorCase) evaluate() {
	if len(c.t.failures) > 0 {
		c.errs = append(c.errs, c.t.failures...)
	}
	if len(c.errs) > 0 {
		c.Reason = c.t.text(c.errs...)
		return
	}
	engine := c.t.compile()
	for _, e := range engine.faults {
		c.errs = append(c.errs, e)
	}
	if len(c.errs) > 0 {
		c.Reason = c.t.text(c.errs...)
		return
	}
	results, err := engine.among(c.files, c.inventory).Evaluate(c.t.ctx, c.object)
	if err != nil {
		c.Reason = c.t.text(err)
		return
	}
	c.compare(results)
}

// compare holds results against the assertions.
func (c *gatorCase) compare(results []policy.Result) {
	var messages, undecided []string
	c.Vacuous = len(results) == 0
	for i := range results {
		r := &results[i]
		for _, a := range r.Assumed {
			c.assume(a)
		}
		switch r.Outcome {
		case policy.Fail:
			messages = append(messages, r.Message)
		case policy.Error, policy.Unknown:
			undecided = append(undecided, r.Message)
		}
	}
	if len(undecided) > 0 {
		c.Reason = joined(undecided)
		return
	}
	c.Got, c.OK = c.says(messages), true
	for _, a := range c.assertions {
		c.OK = c.OK && a.holds(a.count(messages))
	}
	switch {
	case len(messages) > 0:
		c.Reason = joined(messages)
	case c.Vacuous:
		c.Reason = "the constraint is not asked: it does not match the object, or is not enforced in gator"
	}
}

func (c *gatorCase) assume(text string) {
	for _, n := range c.Notes {
		if n == text {
			return
		}
	}
	c.Notes = append(c.Notes, text)
}

// joined are messages in one, within bounds.
func joined(messages []string) string {
	return render.Cut(strings.Join(messages, "; "), maxText)
}

// wants puts the assertions into words.
func (c *gatorCase) wants() string {
	words := make([]string, len(c.assertions))
	for i, a := range c.assertions {
		words[i] = a.about(a.words)
	}
	return strings.Join(words, ", ")
}

// says puts what is so into the words of the assertions: the same where it is
// as they want it.
func (c *gatorCase) says(messages []string) string {
	words := make([]string, len(c.assertions))
	for i, a := range c.assertions {
		words[i] = a.about(a.words)
		if n := a.count(messages); !a.holds(n) {
			words[i] = a.about(counted(n))
		}
	}
	return strings.Join(words, ", ")
}

// about adds the message that is asked for.
func (a *gatorAssertion) about(words string) string {
	if a.message == nil {
		return words
	}
	return fmt.Sprintf("%s with %q", words, a.message)
}

// count is how many of the messages the assertion is about.
func (a *gatorAssertion) count(messages []string) int {
	n := 0
	for _, m := range messages {
		if a.message == nil || a.message.MatchString(m) {
			n++
		}
	}
	return n
}

func (a *gatorAssertion) holds(n int) bool { return a.least <= n && n <= a.most }
