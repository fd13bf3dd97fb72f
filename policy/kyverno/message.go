package kyverno

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
)

// message returns the rule's message with its variables substituted.
func (r *run) message(t *template, s *scope) (any, error) {
	if r.secret() && !t.static {
		open := false
		f := &filling{scope: s, seen: func(v *variable, source string) { open = open || r.mayQuote(source) }}
		v, err := t.root.fill(f)
		if open {
			return hidden, nil
		}
		return v, err
	}
	asked := r.review.questions // a message that needs something unknown does not make the rule undecided
	v, err := t.fill(s)
	r.review.questions = asked
	if err == nil && !t.static && r.secret() { // the message itself looked up a Secret
		return r.message(t, s)
	}
	return v, err
}

const noText = "the produced message didn't resolve to a string, check your policy definition."

// denyMessage joins the rule's message and the messages of the conditions that
// held.
func (r *run) denyMessage(b *block, decided []*conditions.Condition, s *scope) string {
	own, more := r.program.rule.Validate.Message, ""
	if b != nil {
		more = b.messages(decided, nil)
	}
	t := r.program.message
	switch {
	case own == "" && more == "":
		return fmt.Sprintf("validation error: rule %s failed", r.program.rule.Name)
	case own == "":
		t = newTemplate(more)
	case more != "":
		t = newTemplate(own + "; " + more)
	}
	v, err := r.message(t, s)
	switch {
	case err != nil && more == "" && !r.review.engine.options.CLI: // Kyverno denies without a message
		return fmt.Sprintf("validation error: rule %s failed", r.program.rule.Name)
	case err != nil:
		return more
	}
	if text, ok := v.(string); ok {
		return text
	}
	return noText
}

// patternMessage returns the message of a pattern that does not match at path.
// Without a path, the pattern could not be evaluated because of err.
func (r *run) patternMessage(s *scope, path, err string) string {
	name := r.program.rule.Name
	end := "rule " + name + " failed at path " + path
	if path == "" {
		end = "rule " + name + " execution error: " + err
	}
	if r.program.rule.Validate.Message == "" {
		return "validation error: " + end
	}
	v, broken := r.message(r.program.message, s)
	if broken != nil {
		return "validation error: variables substitution error in rule " + name + " execution error: " + err
	}
	text, ok := v.(string)
	if !ok {
		text = noText
	}
	return "validation error: " + sentence(text) + " " + end
}

func sentence(text string) string {
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// anyMessage returns the message of an anyPattern when none of its patterns
// matches. Like Kyverno it does not substitute variables.
func (r *run) anyMessage(failed []string) string {
	all := strings.Join(failed, " ")
	if r.program.rule.Validate.Message == "" {
		return "validation error: " + all
	}
	return "validation error: " + sentence(r.program.rule.Validate.Message) + " " + all
}

// hidden replaces text that may quote a Secret's values.
const hidden = "not shown, since it may quote a Secret"

// harmless matches variables whose values may be shown even if the object is a
// Secret. ofThisRequest matches variables that hold nothing of other objects.
var (
	harmless      = regexp.MustCompile(`^request\.(operation|namespace|name|object\.(kind|apiVersion|type|metadata\.(name|namespace|labels\.[^|]*)))$`)
	ofThisRequest = regexp.MustCompile(`^request\.[\w."]*$`)
)

// secret reports whether messages could quote values of a Secret: the object's
// own, or one that the rule looked up.
func (r *run) secret() bool {
	return !r.review.engine.options.CLI && (r.isSecret() || len(r.review.secrets) > 0)
}

func (r *run) isSecret() bool {
	return r.review.req.Kind.Kind == "Secret" && r.review.req.Kind.Group == ""
}

// mayQuote reports whether a variable's value may quote a Secret.
func (r *run) mayQuote(source string) bool {
	return !harmless.MatchString(source) && (r.isSecret() || !ofThisRequest.MatchString(source))
}

// quoting returns text, or a placeholder if text may quote a Secret.
func (r *run) quoting(text string) string {
	if r.secret() {
		return hidden
	}
	return text
}

// saw records that a rule has read an object, which may be a Secret.
func (n *notes) saw(object map[string]any) {
	if object["kind"] == "Secret" && object["apiVersion"] == "v1" && len(n.secrets) < maxQuestions {
		n.secrets = append(n.secrets, object)
	}
}

// redact hides messages that quote a Secret's values after all, such as a name
// that is derived from one.
func (r *run) redact(resp *Response) {
	if !r.secret() {
		return
	}
	values := r.secretValues()
	quotes := func(text string) bool {
		return slices.ContainsFunc(values, func(v string) bool { return strings.Contains(text, v) })
	}
	if quotes(resp.Message) {
		resp.Message = hidden
	}
	resp.Fields = slices.DeleteFunc(slices.Clone(resp.Fields), quotes)
	resp.Assumed = slices.DeleteFunc(slices.Clone(resp.Assumed), quotes)
}

// minSecret is the shortest value that is searched for in messages. Shorter
// ones would match ordinary words.
const minSecret = 6

// secretValues returns the values of the Secrets that the rule read,
// base64-encoded and decoded.
func (r *run) secretValues() []string {
	var values []string
	add := func(text string) {
		if len(text) >= minSecret {
			values = append(values, text)
		}
	}
	secrets := r.review.secrets
	if r.isSecret() {
		secrets = append(slices.Clip(secrets), r.review.object, r.review.old)
	}
	for _, secret := range secrets {
		for _, v := range textsOf(secret["data"]) {
			add(v)
			if plain, err := base64.StdEncoding.DecodeString(v); err == nil {
				add(string(plain))
			}
		}
		for _, v := range textsOf(secret["stringData"]) {
			add(v)
		}
	}
	return values
}

// textsOf returns the strings in a map.
func textsOf(value any) []string {
	m, _ := value.(map[string]any)
	var all []string
	for _, v := range m {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// A yamlWriter writes JSON values as YAML for people to read, with keys sorted.
// It stops when the text is longer than most.
type yamlWriter struct {
	b    strings.Builder
	most int
}

// yamlText formats a value as YAML. Beyond most bytes the text may end
// anywhere.
func yamlText(v any, most int) string {
	w := yamlWriter{most: most}
	w.value(v, 0, true)
	return w.b.String()
}

// value writes the value after a key, or after a dash (open), at a depth of
// indentation.
func (y *yamlWriter) value(v any, depth int, open bool) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			y.fields(v, depth, open)
			return
		}
	case []any:
		if len(v) > 0 {
			y.items(v, depth, open)
			return
		}
	}
	if !open {
		y.b.WriteByte(' ')
	}
	y.b.WriteString(scalarText(v, depth))
	y.b.WriteByte('\n')
}

func (y *yamlWriter) fields(m map[string]any, depth int, open bool) {
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if y.b.Len() > y.most {
			return
		}
		y.begin(depth, open && i == 0, i == 0)
		y.b.WriteString(scalarText(key, depth) + ":")
		_, isList := m[key].([]any)
		inner := depth + 1
		if isList { // dashes are not indented
			inner = depth
		}
		y.value(m[key], inner, false)
	}
}

func (y *yamlWriter) items(list []any, depth int, open bool) {
	for i, item := range list {
		if y.b.Len() > y.most {
			return
		}
		y.begin(depth, open && i == 0, i == 0)
		y.b.WriteString("- ")
		y.value(item, depth+1, true)
	}
}

// begin starts the line of a field or item. With open, the first one continues
// the current line.
func (y *yamlWriter) begin(depth int, open, first bool) {
	if open {
		return
	}
	if first {
		y.b.WriteByte('\n')
	}
	y.b.WriteString(strings.Repeat("  ", depth))
}

// plainText matches text that needs no quotes.
var plainText = regexp.MustCompile(`^[A-Za-z_/$(]([^:#'"{}\[\],&*!|>%@\x60\n\t\\]*[^:#'"{}\[\],&*!|>%@\x60\s\\])?$`)

// scalarText formats a scalar, or an empty map or list.
func scalarText(v any, depth int) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "{}"
	case []any:
		return "[]"
	case string:
		return stringText(v, depth)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// words are those that YAML does not read as strings.
var words = map[string]bool{
	"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "true": true, "false": true, "null": true,
}

func stringText(s string, depth int) string {
	switch {
	case plainText.MatchString(s) && !words[strings.ToLower(s)] && printable(s):
		return s
	case strings.Contains(s, "\n") && !strings.HasPrefix(s, " ") && printable(s):
		return literal(s, depth)
	case printable(s) && !strings.Contains(s, "\n"):
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	default:
		return strconv.Quote(s)
	}
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) })
}

// literal formats text of several lines as a block literal.
func literal(s string, depth int) string {
	indent := strings.Repeat("  ", max(depth, 1))
	end := "|-"
	if strings.HasSuffix(s, "\n") {
		end, s = "|", strings.TrimSuffix(s, "\n")
		if strings.HasSuffix(s, "\n") {
			end = "|+"
		}
	}
	return end + "\n" + indent + strings.ReplaceAll(s, "\n", "\n"+indent)
}
