package document

import (
	"regexp"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/render"
)

// Variables are checked without their values: each name must be Kyverno's or defined
// in the rule's context. Kyverno searches for names anywhere in the expression.
var (
	// VariablePattern matches an innermost variable, such as {{ request.name }},
	// as group 2. Group 1 is the character before it.
	VariablePattern = regexp.MustCompile(`(^|[^\\])(\{\{(?:\{[^{}]*\}|[^{}])*\}\})`)
	bracedText      = regexp.MustCompile(`\{\{[^{}]*\}\}`)

	knownNames           = regexp.MustCompile(`request|serviceAccountName|serviceAccountNamespace|element|@|image|[a-z_0-9]+\([^{}]`)
	knownNamesBackground = regexp.MustCompile(`request\.|element|@|images|image\.|[a-z_0-9]+\([^{}]`)
	userNames            = regexp.MustCompile(`[^.](serviceAccountName|serviceAccountNamespace|request\.userInfo|request\.roles|request\.clusterRoles)\b`)
)

// MaxPasses bounds how often the variables of a text are replaced, since their values
// may contain variables.
const MaxPasses = 64

// variableMark replaces a variable in text that is parsed without its value.
const variableMark = "preadmitvariable"

func withoutVariables(s string) string {
	for range MaxPasses {
		next := VariablePattern.ReplaceAllString(s, "${1}"+variableMark)
		if next == s {
			break
		}
		s = next
	}
	return s
}

// noVariables refuses variables in a value.
func (c checker) noVariables(x field, message string) {
	for pointer, s := range render.Texts(x.value, x.pointer) {
		if strings.Contains(s, "{{") && bracedText.MatchString(s) {
			c.add(pointer, "%s", message)
		}
	}
}

// variables checks the variables of the whole policy.
func (c checker) variables(spec field) {
	if c.usersForbidden(spec) {
		for pointer, s := range render.Texts(c.Object.Object, "") {
			if !strings.HasPrefix(pointer, "/metadata/annotations/kubectl.kubernetes.io~1last-applied") && !strings.HasPrefix(pointer, "/status") {
				c.noUser(s, pointer)
			}
		}
	}
	for _, r := range c.Rules {
		c.ruleVariables(r, spec)
	}
}

// usersForbidden reports whether the rule runs without a user: in background
// scans, and when the policy itself changes. Kyverno allows users in policies
// that change existing objects.
func (c checker) usersForbidden(spec field) bool {
	onUpdate := false
	for _, r := range c.Rules {
		if r.Mutate != nil && len(r.Mutate.Targets) > 0 {
			return false
		}
		onUpdate = onUpdate || r.Mutate != nil && c.updatesExisting(r, spec)
	}
	return c.Background || onUpdate
}

func (c checker) noUser(s, pointer string) {
	if !strings.Contains(s, "{{") {
		return
	}
	for _, v := range VariablePattern.FindAllStringSubmatch(s, -1) {
		if name := userNames.FindStringSubmatch(v[2]); name != nil {
			c.add(pointer, "%s is not known in background scans: set spec.background to false", name[1])
		}
	}
}

// ruleVariables checks the variables of one rule.
func (c checker) ruleVariables(r *Rule, spec field) {
	known := knownNames
	if c.Background || r.Mutate != nil && c.updatesExisting(r, spec) {
		known = knownNamesBackground
	}
	targets := r.Mutate != nil && len(r.Mutate.Targets) > 0
	n := names{known: known, own: r.names()}
	for pointer, s := range render.Texts(r.Source, r.Pointer) {
		in := strings.TrimPrefix(pointer, r.Pointer)
		if !strings.Contains(s, "{{") || dynamic(in) {
			continue
		}
		n.target = targets && !beforeTarget(in)
		n.foreach = strings.Contains(in, "/foreach/")
		c.text(s, pointer, n)
	}
}

// dynamic reports whether variables at a pointer are those of an attestation, which
// have values only when it is verified.
func dynamic(pointer string) bool {
	return strings.HasPrefix(pointer, "/verifyImages/") && strings.Contains(pointer, "/attestations/")
}

// beforeTarget reports whether a field of the rule is evaluated before the target is
// known.
func beforeTarget(pointer string) bool {
	parts := render.Path(pointer)
	switch parts[0] {
	case "context", "preconditions":
		return true
	case "mutate":
		return len(parts) > 3 && parts[1] == "targets" && slices.Contains([]string{"apiVersion", "kind", "namespace", "name"}, parts[3])
	}
	return false
}

// names holds the names that variables may use at a place.
type names struct {
	known   *regexp.Regexp
	own     []string // wildcards: those of the rule's context
	target  bool
	foreach bool
}

// names returns the names that the rule's contexts define. As in Kyverno (buildContext in
// pkg/validation/policy/validate.go), those of a nested foreach are not among them.
func (r *Rule) names() []string {
	var all []string
	add := func(entries []*ContextEntry) {
		for _, e := range entries {
			if e.ConfigMap != nil {
				all = append(all, e.Name+".data", e.Name+".metadata", e.Name+".data.*", e.Name+".metadata.*")
			}
			if e.Variable != nil || e.APICall != nil || e.ImageRegistry != nil || e.GlobalReference != nil {
				all = append(all, e.Name+"*")
			}
		}
	}
	add(r.Context)
	if v := r.Validate; v != nil {
		for _, f := range v.Foreach {
			add(f.Context)
		}
	}
	if m := r.Mutate; m != nil {
		for _, f := range m.Foreach {
			add(f.Context)
		}
		for _, t := range m.Targets {
			add(t.Context)
		}
	}
	if r.Generate != nil {
		for _, f := range r.Generate.Foreach {
			add(f.Context)
		}
	}
	return append(all, r.attested()...)
}

// attested returns the names of attestations, which validate of verifyImages
// can read.
func (r *Rule) attested() []string {
	var all []string
	for _, v := range (field{value: r.Source}).at("verifyImages").list() {
		for _, a := range v.at("attestations").list() {
			if name := a.text("name"); name != "" {
				all = append(all, name+"*")
			}
		}
	}
	return all
}

// text checks the variables of a text, the innermost first. A variable within another
// one is replaced by variableMark.
func (c checker) text(s, pointer string, n names) {
	for range MaxPasses {
		found := VariablePattern.FindAllStringSubmatch(s, -1)
		if found == nil {
			return
		}
		for _, v := range found {
			if !c.variable(v[2], pointer, n) {
				return
			}
		}
		s = VariablePattern.ReplaceAllString(s, "${1}null")
	}
}

func (c checker) variable(text, pointer string, n names) bool {
	expr := strings.TrimSpace(strings.TrimPrefix(strings.NewReplacer("{{", "", "}}", "").Replace(text), "-"))
	if strings.HasPrefix(expr, "element") && !n.foreach {
		c.add(pointer, "%.200s is the element of a foreach, but is not inside one", expr)
		return false
	}
	if _, err := jmespath.Compile(expr); err != nil {
		c.add(pointer, "variable %.200s: %s", expr, err)
		return false
	}
	if !n.defines(strings.ReplaceAll(expr, `"`, "")) {
		c.add(pointer, "variable %.200s is defined neither by Kyverno nor in the rule's context", expr)
		return false
	}
	return true
}

func (n *names) defines(expr string) bool {
	if n.known.MatchString(expr) || n.target && strings.Contains(expr, "target.") {
		return true
	}
	return slices.ContainsFunc(n.own, func(name string) bool { return pattern.Wildcard(name, expr) })
}
