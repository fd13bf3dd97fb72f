package report

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report/internal/sarif"
)

const (
	maxDescriptors = 25000
	maxDescription = 1024 // characters, by GitHub
	maxRuleName    = 255
	maxHelp        = 8 << 10
	maxAllHelp     = 16 << 20 // help of all rules together
	homepage       = "https://github.com/preadmit/preadmit"
)

type ruleKey struct{ engine, policy, rule string }

func ruleKeyOf(x *policy.Result) ruleKey { return ruleKey{x.Engine, x.Policy, x.Rule} }

// ruleIDs assigns SARIF ids to rules: policy/rule, preceded by the engine if two engines have the
// same policy/rule. GitHub identifies alerts by the id, so it must depend on the rule only.
type ruleIDs struct {
	byKey map[ruleKey]string
	rules map[string]*policy.Rule
	ids   []string       // sorted
	index map[string]int // in ids
}

// newRuleIDs returns the ids of the evaluated rules and of undocumented rules in results, such as
// errors of rendering.
func newRuleIDs(r *Report, results *list) *ruleIDs {
	rules := make(map[ruleKey]*policy.Rule)
	for i := range r.Rules {
		x := &r.Rules[i]
		key := ruleKey{x.Engine, x.Policy, x.Name}
		if rules[key] == nil {
			copied := *x
			rules[key] = &copied
		}
	}
	for _, x := range results.all() {
		addRule(rules, x)
	}
	for x := range r.Passes.Rules() {
		addRule(rules, x)
	}
	ids := &ruleIDs{byKey: make(map[ruleKey]string), rules: make(map[string]*policy.Rule), index: make(map[string]int)}
	ids.assign(rules)
	ids.number()
	return ids
}

func (r *ruleIDs) number() {
	clear(r.index)
	for i, id := range r.ids {
		r.index[id] = i
	}
}

func addRule(rules map[ruleKey]*policy.Rule, x *policy.Result) {
	key := ruleKeyOf(x)
	rule := rules[key]
	if rule == nil {
		rule = &policy.Rule{Engine: x.Engine, Policy: x.Policy, Name: x.Rule, Origin: x.PolicyOrigin}
		rules[key] = rule
	}
	rule.Severity = cmp.Or(rule.Severity, x.Severity)
	if x.Action != "" && (rule.Action == "" || !rule.Action.AtLeast(x.Action)) {
		rule.Action = x.Action
	}
}

func (r *ruleIDs) assign(rules map[ruleKey]*policy.Rule) {
	var keys []ruleKey
	plain := make(map[string]int)
	for k := range rules {
		keys = append(keys, k)
		plain[ruleName(k.engine, k.policy, k.rule)]++
	}
	keys = sortedKeys(keys, func(k ruleKey) string { return k.engine + "\x00" + k.policy + "\x00" + k.rule })
	for _, k := range keys {
		id := ruleName(k.engine, k.policy, k.rule)
		if plain[id] > 1 {
			id = name(k.engine) + "/" + id
		}
		for n, base := 2, id; r.rules[id] != nil; n++ {
			id = base + "~" + strconv.Itoa(n)
		}
		r.byKey[k], r.rules[id] = id, rules[k]
		r.ids = append(r.ids, id)
	}
	slices.Sort(r.ids)
}

func (r *ruleIDs) id(x *policy.Result) string {
	return r.byKey[ruleKeyOf(x)]
}

func (r *ruleIDs) severity(id string) policy.Severity { return r.rules[id].Severity }

// securitySeverity returns GitHub's number for a severity.
func securitySeverity(s policy.Severity) string {
	return map[policy.Severity]string{
		policy.Critical: "9.5", policy.High: "8.0", policy.Medium: "5.5", policy.Low: "2.5", policy.Info: "0.5",
	}[s]
}

func (r *ruleIDs) descriptors() []sarif.Descriptor {
	all := make([]sarif.Descriptor, 0, len(r.ids))
	help := 0
	for _, id := range r.ids {
		d := descriptor(id, r.rules[id])
		if help += len(d.Help.Markdown); help > maxAllHelp {
			d.Help = &sarif.Text{Text: d.FullDescription.Text}
		}
		all = append(all, d)
	}
	return all
}

// trim removes rules without results if there are more rules than GitHub accepts. It returns the
// number removed.
func (r *ruleIDs) trim(used map[string]bool) int {
	excess := len(r.ids) - maxDescriptors
	if excess <= 0 {
		return 0
	}
	left := 0
	r.ids = slices.DeleteFunc(r.ids, func(id string) bool {
		if used[id] || left == excess {
			return false
		}
		left++
		return true
	})
	r.number()
	return left
}

func descriptor(id string, r *policy.Rule) sarif.Descriptor {
	long := cmp.Or(sentences(r.Description), sentences(r.Title), undocumented(r))
	brief := cmp.Or(sentences(r.Title), firstSentence(long))
	d := sarif.Descriptor{
		ID: id, Name: pascal(r.Policy + " " + r.Name),
		ShortDescription:     &sarif.Text{Text: cutRunes(brief, maxDescription)},
		FullDescription:      &sarif.Text{Text: cutRunes(long, maxDescription)},
		Help:                 help(r, long),
		HelpURI:              webURL(r.URL),
		DefaultConfiguration: &sarif.Configuration{Level: defaultLevel(r.Action)},
		Properties: &sarif.RuleTags{
			Tags: tags(r), Precision: "high", ProblemSeverity: problemSeverity(r.Action), SecuritySeverity: securitySeverity(r.Severity),
		},
	}
	return d
}

// undocumented returns a description of a rule that has none.
func undocumented(r *policy.Rule) string {
	switch r.Engine {
	case policy.EngineRender:
		if r.Name == policy.RuleStillReferenced {
			return "An object names another one that the change deletes."
		}
		return fmt.Sprintf("A source could not be rendered as it stands (%s).", name(r.Name))
	case policy.EngineCompile:
		return fmt.Sprintf("A policy can't be used as it is written (%s).", name(r.Name))
	case policy.EngineSchema:
		return fmt.Sprintf("The API server would not take the object as its type (%s).", name(r.Name))
	default:
		return fmt.Sprintf("Rule %s of the %s %s.", name(r.Name), name(r.Engine), name(r.Policy))
	}
}

// help returns the help text of a rule: its description and expression, how to fix a failure, its
// place and its URL.
func help(r *policy.Rule, long string) *sarif.Text {
	written := r.Origin
	written.File = visible(written.File, maxMessage)
	var text, md []string
	add := func(plain, markdown string) {
		text, md = append(text, plain), append(md, markdown)
	}
	if long != sentences(r.Expression) {
		add(long, escapeMarkdown(long))
	}
	if r.Expression != "" {
		e := lines(r.Expression)
		add("Expression: "+e, fenced(e))
	}
	if r.Help != "" {
		add("How to fix it: "+lines(r.Help), "**How to fix it**\n\n"+markdown(lines(r.Help)))
	}
	if p := written.String(); p != "" {
		add("Written at "+p+".", "Written at "+codeSpan(p)+".")
	}
	if u := webURL(r.URL); u != "" {
		add("See "+u, "[More on this rule]("+u+")")
	}
	return &sarif.Text{Text: render.Cut(strings.Join(text, "\n\n"), maxHelp), Markdown: render.Cut(strings.Join(md, "\n\n"), maxHelp)}
}

func tags(r *policy.Rule) []string {
	all := []string{"kubernetes", kebab(r.Engine)}
	if securitySeverity(r.Severity) != "" {
		all = append(all, "security")
	}
	slices.Sort(all)
	return slices.Compact(slices.DeleteFunc(all, func(s string) bool { return s == "" }))
}

func defaultLevel(a policy.Action) string {
	switch a {
	case policy.Warn:
		return "warning"
	case policy.Audit:
		return "note"
	default:
		return "error"
	}
}

func problemSeverity(a policy.Action) string {
	switch a {
	case policy.Warn:
		return "warning"
	case policy.Audit:
		return "recommendation"
	default:
		return "error"
	}
}

var word = regexp.MustCompile(`[A-Za-z0-9]+`)

// pascal converts a name to CamelCase, as SARIF recommends for rule names.
func pascal(s string) string {
	var b strings.Builder
	for _, w := range word.FindAllString(s, -1) {
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	if b.Len() == 0 {
		return "Rule"
	}
	return b.String()[:min(b.Len(), maxRuleName)]
}

var hump = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// kebab converts a name such as ValidatingAdmissionPolicy to validating-admission-policy.
func kebab(s string) string {
	words := word.FindAllString(hump.ReplaceAllString(name(s), "$1-$2"), -1)
	return strings.ToLower(strings.Join(words, "-"))
}

// sentences puts a text on one line and ends it with a full stop.
func sentences(s string) string {
	s = prose(s)
	if s != "" && !strings.ContainsAny(s[len(s)-1:], ".!?") {
		s += "."
	}
	return s
}

func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i > 0 {
		return s[:i+1]
	}
	return s
}

func cutRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// lines makes text of several lines safe to show, and keeps the line breaks.
func lines(s string) string {
	all := splitLines(strings.TrimRightFunc(s, unicode.IsSpace))
	for i, l := range all {
		all[i] = visible(strings.ReplaceAll(l, "\t", "    "), maxMessage)
	}
	return strings.Join(all, "\n")
}

// webURL returns the URL if it is http or https, and "" otherwise.
func webURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return ""
	}
	return strings.NewReplacer("(", "%28", ")", "%29").Replace(u.String())
}
