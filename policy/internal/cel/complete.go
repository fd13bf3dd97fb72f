package cel

import (
	"slices"
	"strings"

	"github.com/antlr4-go/antlr/v4"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser/gen"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/preadmit/preadmit/policy"
)

// A Scope is the environment of an expression, with the types of objects that it declares.
type Scope struct {
	*cel.Env
	Types []*apiservercel.DeclTypeProvider
}

// maxIncomplete bounds the size of an expression that is completed.
const maxIncomplete = 64 << 10

// maxBinders bounds the macros around the cursor: each may double the size of the type of a variable.
const maxBinders = 16

// Complete returns what may be written at the end of before, the beginning of an expression of a policy: with objects
// of any of the kinds. scope returns the scope for a kind, without the policy's variables that the expression may read.
// names is nil if it may read none.
func (v Version) Complete(kinds []schema.GroupVersionKind, names *Names, variables []*Expression, before string, scope func(schema.GroupVersionKind) (Scope, error)) []policy.Completion {
	var all []policy.Completion
	index := make(map[[2]string]int)
	for _, kind := range kinds {
		s, err := scope(kind)
		if err == nil && names != nil {
			s, err = s.with(v, names, variables)
		}
		if err != nil {
			continue
		}
		for _, c := range s.complete(before) {
			key := [2]string{c.Name, string(c.Kind)}
			i, found := index[key]
			switch {
			case !found:
				i, index[key] = len(all), len(all)
				all = append(all, c)
			case all[i].Type == anyType:
				all[i].Type = c.Type
			case all[i].Type != c.Type && c.Type != anyType:
				all[i].Type += " or " + c.Type
			}
			all[i].Kinds = append(all[i].Kinds, kind)
		}
	}
	for i := range all {
		if len(all[i].Kinds) == len(kinds) {
			all[i].Kinds = nil
		}
	}
	slices.SortStableFunc(all, func(a, b policy.Completion) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// with adds the variables of a policy. Unlike the API server, it keeps their types if these are of objects.
func (s Scope) with(v Version, names *Names, variables []*Expression) (Scope, error) {
	declared := VariablesType()
	env, err := v.WithVariables(s.Env, declared)
	if err != nil {
		return s, err
	}
	for i, e := range variables {
		t := cel.DynType // if it does not compile
		if ast, err := Compile(env, e.Source); err == nil && sizeOf(ast.OutputType(), maxType) < maxType {
			t = ast.OutputType()
		}
		declared.Fields[names.At(i)] = apiservercel.NewDeclField(names.At(i), apiservercel.NewSimpleTypeWithMinSize(t.TypeName(), t, nil, 0), true, nil, nil)
	}
	return Scope{env, append(s.Types, apiservercel.NewDeclTypeProvider(declared))}, nil
}

// maxType bounds the size of the type of a variable: each variable may double that of one before it.
const maxType = 64

// sizeOf counts the parts of a type, to a limit.
func sizeOf(t *cel.Type, limit int) int {
	size := 1
	for _, p := range t.Parameters() {
		if size < limit {
			size += sizeOf(p, limit-size)
		}
	}
	return size
}

// complete returns what may be written at the end of an incomplete expression, where a part of the name may stand
// already: fields and methods of the value before a dot, or else all names in scope. It finds the type of that
// value by checking it alone, in the comprehensions around it.
func (s Scope) complete(before string) []policy.Completion {
	c := &cursor{runes: []rune(before)}
	if len(before) > maxIncomplete || !c.read(before) {
		return nil
	}
	end := len(c.tokens)
	if end > 0 && c.tokens[end-1].GetStop() == len(c.runes)-1 && isWord(c.tokens[end-1]) {
		end-- // the name that is being written
	}
	optional := end > 1 && c.is(end-1, gen.CELLexerQUESTIONMARK) && c.is(end-2, gen.CELLexerDOT)
	if optional {
		end--
	}
	if !c.is(end-1, gen.CELLexerDOT) {
		binders, naming := c.binders(end)
		if naming {
			return nil
		}
		return s.names(binders)
	}
	end--
	from := c.operand(end)
	binders, _ := c.binders(from)
	return s.after(c.text(from, end), binders, optional)
}

// after returns what may follow an operand and a dot. After .? it is fields.
func (s Scope) after(operand string, binders []binder, optional bool) []policy.Completion {
	var all []policy.Completion
	if operand == "" || len(binders) > maxBinders {
		return nil
	}
	if !optional {
		all = s.inLibrary(operand + ".")
	}
	expression := operand
	for _, b := range slices.Backward(binders) {
		expression = b.around(expression)
	}
	if ast, err := Compile(s.Env, expression); err == nil {
		t := ast.OutputType()
		for _, b := range binders {
			if b.macro != "bind" && len(t.Parameters()) > 0 {
				t = t.Parameters()[0]
			}
		}
		all = append(all, s.fields(t)...)
		if !optional {
			all = append(all, s.methods(t)...)
		}
	}
	return all
}

func (s Scope) fields(t *cel.Type) []policy.Completion {
	if t.TypeName() == optionalType {
		t = t.Parameters()[0]
	}
	var all []policy.Completion
	for _, types := range s.Types {
		if declared, ok := types.FindDeclType(t.TypeName()); ok {
			for name, f := range declared.Fields {
				if plain, ok := apiservercel.Unescape(name); ok { // reserved words, if they may be names of fields
					if _, ok := s.CELTypeProvider().FindStructFieldType(t.TypeName(), plain); ok {
						name = plain
					}
				}
				all = append(all, policy.Completion{Name: name, Kind: policy.NameField, Type: typeText(f.Type.CelType())})
			}
		}
	}
	return all
}

const optionalType = "optional_type"

// methods returns the functions and macros that may be called on a value of a type.
func (s Scope) methods(t *cel.Type) []policy.Completion {
	all := s.functions("", func(o *decls.OverloadDecl) bool {
		return o.IsMemberFunction() && accepts(o.ArgTypes()[0], t)
	})
	return append(all, s.macros(func(name string) bool {
		switch {
		case t.TypeName() == optionalType:
			return binding[name].as == "optMap"
		case t.Kind() == types.ListKind || t.Kind() == types.MapKind && name != "sortBy":
			return binding[name].as == "map" || binding[name].as == "transformList"
		}
		return false
	})...)
}

// inLibrary returns the names that begin with a prefix such as "math.", without it.
func (s Scope) inLibrary(prefix string) []policy.Completion {
	all := s.functions(prefix, func(o *decls.OverloadDecl) bool { return !o.IsMemberFunction() })
	all = append(all, s.macros(func(name string) bool { return libraryOf[name]+"." == prefix })...)
	for _, v := range s.Variables() {
		if name, ok := strings.CutPrefix(v.Name(), prefix); ok {
			all = append(all, policy.Completion{Name: name, Kind: policy.NameVariable, Type: typeText(v.Type()), Doc: v.Description()})
		}
	}
	return all
}

// names returns the names in scope.
func (s Scope) names(binders []binder) []policy.Completion {
	var all []policy.Completion
	for _, b := range binders {
		for _, name := range b.variables {
			all = append(all, policy.Completion{Name: name, Kind: policy.NameVariable})
		}
	}
	all = append(all, s.functions("", func(o *decls.OverloadDecl) bool { return !o.IsMemberFunction() })...)
	all = append(all, s.macros(func(name string) bool { return name == "has" })...)
	add := func(c policy.Completion) {
		if name, rest, _ := strings.Cut(c.Name, "."); rest != "" {
			c = policy.Completion{Name: name, Kind: policy.NameLibrary}
		}
		if isPublic(c.Name) && !slices.ContainsFunc(all, func(x policy.Completion) bool { return x.Name == c.Name }) {
			all = append(all, c)
		}
	}
	for _, v := range s.Variables() {
		add(policy.Completion{Name: v.Name(), Kind: policy.NameVariable, Type: typeText(v.Type()), Doc: v.Description()})
	}
	for name, f := range s.Functions() {
		if strings.Contains(name, ".") && isPublic(name) && !f.OverloadDecls()[0].IsMemberFunction() {
			add(policy.Completion{Name: name})
		}
	}
	for _, m := range s.Macros() {
		if of := libraryOf[m.Function()]; of != "" {
			add(policy.Completion{Name: of, Kind: policy.NameLibrary})
		}
	}
	return all
}

// functions returns the functions with a prefix that have a suitable overload.
func (s Scope) functions(prefix string, suits func(*decls.OverloadDecl) bool) []policy.Completion {
	var all []policy.Completion
	for name, f := range s.Functions() {
		name, ok := strings.CutPrefix(name, prefix)
		if !ok || !isPublic(name) || strings.Contains(name, ".") || f.IsDeclarationDisabled() {
			continue
		}
		doc := f.Documentation()
		var signatures []string
		text := doc.Description
		for i, o := range f.OverloadDecls() {
			if suits(o) {
				signatures = append(signatures, doc.Children[i].Signature)
				text += examples(doc.Children[i])
			}
		}
		if len(signatures) > 0 {
			all = append(all, policy.Completion{Name: name, Kind: policy.NameFunction, Type: strings.Join(signatures, "\n"), Doc: strings.TrimSpace(text)})
		}
	}
	return all
}

// macros returns the macros with suitable names, each once.
func (s Scope) macros(suits func(name string) bool) []policy.Completion {
	var all []policy.Completion
	for _, m := range s.Macros() {
		name := m.Function()
		if !suits(name) {
			continue
		}
		i := slices.IndexFunc(all, func(c policy.Completion) bool { return c.Name == name })
		if i < 0 {
			i = len(all)
			all = append(all, policy.Completion{Name: name, Kind: policy.NameMacro})
		}
		if d, ok := m.(common.Documentor); ok {
			all[i].Doc = strings.TrimSpace(all[i].Doc + "\n" + d.Documentation().Description + examples(d.Documentation()))
		}
	}
	return all
}

// isPublic reports whether expressions may use a name: it is of no operator, and of no helper of macros.
func isPublic(name string) bool {
	return !strings.ContainsAny(name, "@!-") && !strings.HasPrefix(name, "_") && !strings.HasPrefix(name, "kyverno_")
}

func examples(d *common.Doc) (text string) {
	for _, x := range d.Children {
		text += "\n" + x.Description
	}
	return text
}

// accepts reports whether a parameter takes values of a type. If the type is unknown, all methods might do, so none is
// offered.
func accepts(parameter, t *cel.Type) bool {
	switch {
	case parameter.Kind() == types.TypeParamKind || parameter.Kind() == types.DynKind:
		return t.Kind() != types.DynKind
	case parameter.Kind() != t.Kind() || parameter.TypeName() != t.TypeName() || len(parameter.Parameters()) != len(t.Parameters()):
		return false
	}
	for i, p := range parameter.Parameters() {
		if inner := t.Parameters()[i]; inner.Kind() != types.DynKind && !accepts(p, inner) {
			return false
		}
	}
	return true
}

const anyType = "any"

// typeText describes a type. The names that types of objects have here mean nothing to a reader.
func typeText(t *cel.Type) string {
	var of []string
	for _, p := range t.Parameters() {
		of = append(of, typeText(p))
	}
	switch {
	case t.Kind() == types.StructKind:
		return "object"
	case t.Kind() == types.TypeKind:
		return "type"
	case t.Kind() == types.DynKind:
		return anyType
	case len(of) > 0:
		return t.TypeName() + "(" + strings.Join(of, ", ") + ")"
	}
	return t.TypeName()
}

// binding lists the macros that declare variables.
var binding = map[string]struct {
	as          string // a macro with the same variables that returns the values of its expression
	least, most int    // variables
}{
	"all": {"map", 1, 2}, "exists": {"map", 1, 2}, "exists_one": {"map", 1, 1}, "existsOne": {"map", 1, 2},
	"filter": {"map", 1, 1}, "map": {"map", 1, 1}, "sortBy": {"map", 1, 1},
	"transformList": {"transformList", 2, 2}, "transformMap": {"transformList", 2, 2}, "transformMapEntry": {"transformList", 2, 2},
	"bind": {"bind", 1, 1}, "optMap": {"optMap", 1, 1}, "optFlatMap": {"optMap", 1, 1},
}

// libraryOf is what macros that are no methods are called on.
var libraryOf = map[string]string{"bind": "cel", "greatest": "math", "least": "math", "now": "time"}

// A binder is a call of a macro around the cursor that declares variables.
type binder struct {
	target, macro string
	variables     []string
	value         string // of the variable of bind
}

// around returns an expression with the variables of the binder. Its value holds that of the inner expression.
func (b *binder) around(expression string) string {
	args := append(slices.Clone(b.variables), expression)
	if b.value != "" {
		args = slices.Insert(args, 1, b.value)
	}
	return b.target + "." + b.macro + "(" + strings.Join(args, ", ") + ")"
}

// A cursor is the end of an incomplete expression.
type cursor struct {
	antlr.DefaultErrorListener
	runes  []rune
	tokens []antlr.Token
	opener map[int]int // of closing brackets
	open   []bracket   // not closed, the outermost first
	failed bool
}

// A bracket is one that is not closed, with the commas in it.
type bracket struct {
	at     int
	commas []int
}

// SyntaxError implements antlr.ErrorListener.
func (c *cursor) SyntaxError(antlr.Recognizer, any, int, int, string, antlr.RecognitionException) {
	c.failed = true
}

// read splits the text into tokens. It returns false if the end is in a string or a comment.
func (c *cursor) read(text string) bool {
	lexer := gen.NewCELLexer(antlr.NewInputStream(text))
	lexer.RemoveErrorListeners()
	lexer.AddErrorListener(c)
	for _, t := range lexer.GetAllTokens() {
		switch t.GetTokenType() {
		case gen.CELLexerWHITESPACE:
		case gen.CELLexerCOMMENT:
			c.failed = c.failed || t.GetStop() == len(c.runes)-1
		default:
			c.tokens = append(c.tokens, t)
		}
	}
	c.opener = make(map[int]int)
	for i, t := range c.tokens {
		last := len(c.open) - 1
		switch t.GetTokenType() {
		case gen.CELLexerLPAREN, gen.CELLexerLBRACKET, gen.CELLexerLBRACE:
			c.open = append(c.open, bracket{at: i})
		case gen.CELLexerRPAREN, gen.CELLexerRPRACKET, gen.CELLexerRBRACE:
			if last < 0 {
				return false
			}
			c.opener[i], c.open = c.open[last].at, c.open[:last]
		case gen.CELLexerCOMMA:
			if last >= 0 {
				c.open[last].commas = append(c.open[last].commas, i)
			}
		}
	}
	return !c.failed
}

func (c *cursor) is(i, kind int) bool { return i >= 0 && c.tokens[i].GetTokenType() == kind }

// isWord reports whether a token may be the beginning of a name, as "in" is one of initContainers.
func isWord(t antlr.Token) bool {
	return slices.Contains([]int{gen.CELLexerIDENTIFIER, gen.CELLexerIN, gen.CELLexerCEL_TRUE, gen.CELLexerCEL_FALSE, gen.CELLexerNUL}, t.GetTokenType())
}

func (c *cursor) text(from, to int) string {
	if from >= to {
		return ""
	}
	return string(c.runes[c.tokens[from].GetStart() : c.tokens[to-1].GetStop()+1])
}

// operand returns the first token of the operand that ends before a token.
func (c *cursor) operand(end int) int {
	for i := end; ; {
		open, closes := c.opener[i-1]
		switch {
		case closes:
			i = open
			called := c.is(i-1, gen.CELLexerIDENTIFIER)
			_, inBrackets := c.opener[i-1]
			indexed := c.is(i, gen.CELLexerLBRACKET) && (inBrackets || c.is(i-1, gen.CELLexerSTRING))
			if called || indexed {
				continue
			}
		case i > 0 && (isWord(c.tokens[i-1]) || slices.Contains([]int{gen.CELLexerSTRING, gen.CELLexerBYTES, gen.CELLexerESC_IDENTIFIER}, c.tokens[i-1].GetTokenType())):
			i--
		default:
			return i
		}
		dots := 1
		if c.is(i-1, gen.CELLexerQUESTIONMARK) {
			dots++
		}
		if !c.is(i-dots, gen.CELLexerDOT) {
			return i
		}
		i -= dots
	}
}

// binders returns the calls of macros around a token that declare variables, the outermost first. naming is true
// if the token names such a variable.
func (c *cursor) binders(at int) (all []binder, naming bool) {
	for n, b := range c.open {
		m, known := binding[c.text(max(0, b.at-1), b.at)]
		if b.at >= at || !known || !c.is(b.at, gen.CELLexerLPAREN) || !c.is(b.at-2, gen.CELLexerDOT) {
			continue
		}
		from := b.at + 1
		x := binder{target: c.text(c.operand(b.at-2), b.at-2), macro: m.as}
		for i := 0; i < min(m.most, len(b.commas)) && b.commas[i] == from+1; i++ {
			x.variables = append(x.variables, c.text(from, b.commas[i]))
			from = b.commas[i] + 1
		}
		if len(x.variables) > 1 {
			x.macro = "transformList"
		}
		if m.as == "bind" && len(b.commas) > 1 {
			x.value = c.text(from, b.commas[1])
		}
		if len(x.variables) >= m.least && (m.as != "bind" || x.value != "") {
			all = append(all, x)
		}
		naming = n == len(c.open)-1 && len(b.commas) < m.least
	}
	return all, naming
}
