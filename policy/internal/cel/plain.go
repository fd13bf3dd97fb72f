package cel

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/preadmit/preadmit/render"
)

// SuggestFields adds suggestions to issues about unknown fields, from the given
// types, which is called only if there are such issues. env is the expression's
// environment.
func (c *CompileError) SuggestFields(env *cel.Env, source string, types func() *apiservercel.DeclTypeProvider) {
	for n := range c.Issues {
		i := &c.Issues[n]
		if m := undefinedField.FindStringSubmatch(i.Message); m != nil && n < mostPlain {
			i.Plain = hinted(fmt.Sprintf("there is no field %q", m[1]), m[1], fieldsBefore(env, source, *i, types))
		}
	}
}

// PlainError returns the error with the API server's words about an expression
// replaced by plain ones. The rest of the error stays.
func PlainError(err error) error {
	wrong, ok := errors.AsType[*CompileError](err)
	if !ok || len(wrong.Issues) == 0 {
		return err
	}
	return errors.New(strings.Replace(err.Error(), wrong.text, wrong.Plain(), 1))
}

// PlaceOf returns the span of an expression's error: where it is in the expression if it
// is a *CompileError, or else the span of the expression.
func PlaceOf(err error, o *render.Object, pointer, source string) render.Span {
	if wrong, ok := errors.AsType[*CompileError](err); ok {
		return Place(wrong.Issues, o, pointer, source)
	}
	return o.Span(pointer)
}

// Place returns the span of the first issue in an expression, or else the span of the
// expression.
func Place(issues []Issue, o *render.Object, pointer, source string) render.Span {
	if len(issues) > 0 {
		if s, ok := o.Inside(pointer, source, issues[0].Offset(source)); ok {
			return s
		}
	}
	return o.Span(pointer)
}

// Plain returns the first issue, in a user's words. Issues after a syntax error
// mostly repeat it and are left out.
func (c *CompileError) Plain() string {
	first := c.Issues[0]
	more := len(c.Issues) - 1
	if strings.HasPrefix(first.Message, syntaxError) || more == 0 {
		return first.Plain
	}
	return fmt.Sprintf("%s (and %d more in this expression)", first.Plain, more)
}

const syntaxError = "Syntax error: "

var (
	missingToken    = regexp.MustCompile(`^missing (\S+) at (.+)$`)
	unexpectedToken = regexp.MustCompile(`^(?:mismatched|extraneous) input (.+?)(?: expecting .*)?$`)
	noAlternative   = regexp.MustCompile(`^no viable alternative at input (.+)$`)
	noToken         = regexp.MustCompile(`^token recognition error at: '(.*)'?$`)
	undeclared      = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	undefinedField  = regexp.MustCompile(`^undefined field '([^']*)'`)
	noOverload      = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
)

// plain returns an issue in a user's words.
func plain(env *cel.Env, i Issue) string {
	if text, ok := strings.CutPrefix(i.Message, syntaxError); ok {
		return plainSyntax(text)
	}
	if m := undeclared.FindStringSubmatch(i.Message); m != nil {
		return hinted(fmt.Sprintf("there is no variable or function %q", m[1]), m[1], declared(env))
	}
	if m := undefinedField.FindStringSubmatch(i.Message); m != nil {
		return hinted(fmt.Sprintf("there is no field %q", m[1]), m[1], nil)
	}
	if m := noOverload.FindStringSubmatch(i.Message); m != nil {
		return fmt.Sprintf("%s does not take %s", operator(m[1]), m[2])
	}
	return i.Message
}

func hinted(text, name string, names []string) string {
	if meant := render.DidYouMean(name, names); meant != "" && !slices.Contains(names, name) {
		return text + "; " + meant
	}
	return text
}

func plainSyntax(text string) string {
	if m := missingToken.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("syntax error: a %s is missing %s", token(m[1]), before(m[2]))
	}
	if m := unexpectedToken.FindStringSubmatch(text); m != nil {
		if m[1] == "'<EOF>'" {
			return "syntax error: the expression is incomplete"
		}
		text := fmt.Sprintf("syntax error: unexpected %s", token(m[1]))
		if meant := map[string]string{"and": "&&", "or": "||", "not": "!"}[strings.ToLower(token(m[1]))]; meant != "" {
			text += "; did you mean " + meant + "?"
		}
		return text
	}
	if m := noAlternative.FindStringSubmatch(text); m != nil {
		if strings.HasSuffix(m[1], "<EOF>'") {
			return "syntax error: the expression is incomplete"
		}
		return fmt.Sprintf("syntax error: %s is not an expression", token(m[1]))
	}
	if m := noToken.FindStringSubmatch(text); m != nil {
		return plainCharacter(strings.TrimSpace(strings.TrimSuffix(m[1], "'")), m[1])
	}
	return "syntax error: " + text
}

// plainCharacter describes a character that can't begin anything in CEL.
func plainCharacter(c, raw string) string {
	switch {
	case strings.HasPrefix(raw, "'"), strings.HasPrefix(raw, `"`):
		return fmt.Sprintf("syntax error: the quote %s that opens here is never closed", raw[:1])
	case strings.HasPrefix(c, "="):
		return "syntax error: = is not an operator; did you mean ==?"
	case strings.HasPrefix(c, "&"):
		return "syntax error: & is not an operator; did you mean &&?"
	case strings.HasPrefix(c, "|"):
		return "syntax error: | is not an operator; did you mean ||?"
	}
	return fmt.Sprintf("syntax error: %s means nothing in CEL", c)
}

// token returns a token without the parser's quotes.
func token(s string) string { return strings.TrimSuffix(strings.TrimPrefix(s, "'"), "'") }

func before(next string) string {
	if next == "'<EOF>'" {
		return "at the end"
	}
	return "before " + token(next)
}

// operator returns a function as people write it: == for _==_.
func operator(name string) string {
	switch name {
	case "_?_:_":
		return "the condition ? :"
	case "_[_]":
		return "an index [ ]"
	case "@in":
		return "in"
	}
	if s := strings.Trim(name, "_"); s != "" && strings.HasPrefix(name, "_") || strings.HasPrefix(name, "!") || strings.HasPrefix(name, "-") {
		return strings.Trim(name, "_")
	}
	return name
}

// declared returns the names of an environment's variables and functions that users
// may write.
func declared(env *cel.Env) []string {
	var names []string
	for _, v := range env.Variables() {
		names = append(names, v.Name())
	}
	for name := range env.Functions() {
		if !strings.ContainsAny(name, "_@!-") {
			names = append(names, name)
		}
	}
	return names
}

var pathBefore = regexp.MustCompile(`[\w.?\[\]"'-]+$`)

// fieldsBefore returns the fields of the value before an unknown field: of
// object.spec in object.spec.replcas.
func fieldsBefore(env *cel.Env, source string, i Issue, types func() *apiservercel.DeclTypeProvider) []string {
	runes := []rune(source)
	at := i.Offset(source)
	if at <= 0 || at > len(runes) {
		return nil
	}
	path := strings.TrimSuffix(pathBefore.FindString(string(runes[:at])), ".")
	ast, issues := env.Compile(path)
	if path == "" || issues != nil && issues.Err() != nil {
		return nil
	}
	t, ok := types().FindDeclType(ast.OutputType().TypeName())
	if !ok {
		return nil
	}
	return slices.Collect(maps.Keys(t.Fields))
}
