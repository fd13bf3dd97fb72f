package cel

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// A guard checks the arguments of a call that could stall the process within the cost
// limit. It returns an error to use as the result, or nil.
type guard func(args []ref.Val) ref.Val

// guards maps functions to guards. "check" is no guard: it turns an undecided
// authorizer into an error (see Undecided).
var guards = map[string]guard{
	"quantity": guardQuantity, "isQuantity": guardQuantity,
	"matches": guardRegex, "find": guardRegex, "findAll": guardRegex,
	"replace": guardReplace, "join": guardJoin, "_+_": guardAdd,
}

func guardedOverloads(env *cel.Env) ([]*functions.Overload, error) {
	var guarded []*functions.Overload
	for name, f := range env.Functions() {
		bindings, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		for _, b := range bindings {
			if g, ok := guards[name]; ok {
				guarded = append(guarded, guardOverload(b, g))
			}
			if name == "check" && b.Binary != nil {
				o := *b
				o.Binary = undecidedCheck(b.Binary, env)
				guarded = append(guarded, &o)
			}
		}
	}
	return guarded, nil
}

func guardOverload(of *functions.Overload, g guard) *functions.Overload {
	o := *of
	if of.Unary != nil {
		o.Unary = func(v ref.Val) ref.Val {
			if err := g([]ref.Val{v}); err != nil {
				return err
			}
			return of.Unary(v)
		}
	}
	if of.Binary != nil {
		o.Binary = func(x, y ref.Val) ref.Val {
			if err := g([]ref.Val{x, y}); err != nil {
				return err
			}
			return of.Binary(x, y)
		}
	}
	if of.Function != nil {
		o.Function = func(args ...ref.Val) ref.Val {
			if err := g(args); err != nil {
				return err
			}
			return of.Function(args...)
		}
	}
	return &o
}

// guardQuantity refuses quantities for which the parser would allocate billions of
// digits.
func guardQuantity(args []ref.Val) ref.Val {
	if s, ok := args[0].(types.String); ok && !SafeQuantity(string(s)) {
		return types.NewErr("quantity out of range: more than %d characters or an exponent beyond %d", maxQuantity, maxExponent)
	}
	return nil
}

const (
	maxQuantity = 64
	maxExponent = 27
)

// SafeQuantity reports whether s is safe to parse as a quantity: it is short, and its
// decimal exponent, if any, is small.
func SafeQuantity(s string) bool {
	if len(s) > maxQuantity {
		return false
	}
	i := strings.LastIndexAny(s, "eE")
	if i < 0 {
		return true
	}
	digits := strings.TrimLeft(strings.TrimLeft(s[i+1:], "+-"), "0")
	if strings.Trim(digits, "0123456789") != "" || len(digits) == 0 {
		return true // a suffix such as Ei, or nonsense that the parser refuses
	}
	return len(digits) < 2 || len(digits) == 2 && digits <= "27"
}

// maxRegexWork bounds the steps of one match: instructions of the compiled
// expression times bytes of the text, some tenths of a second.
const maxRegexWork = 64 << 20

// expansion bounds the instructions for a byte of a pattern, as in x{1000}.
const expansion = 400

func guardRegex(args []ref.Val) ref.Val {
	if len(args) < 2 {
		return nil
	}
	text, ok := args[0].(types.String)
	pattern, ok2 := args[1].(types.String)
	if !ok || !ok2 || len(text)*len(pattern)*expansion <= maxRegexWork {
		return nil
	}
	if n := Instructions(string(pattern)); n*len(text) > maxRegexWork {
		return regexTooMuch(n, len(text))
	}
	return nil
}

func regexTooMuch(instructions, text int) ref.Val {
	return types.NewErr("regular expression of %d instructions refused on a text of %d bytes", instructions, text)
}

// Instructions returns the size of the compiled pattern; 0 for one that does not
// compile.
func Instructions(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0
	}
	return len(prog.Inst)
}

// guardedRegexes compiles constant patterns once. They replace those of cel-go and of
// the Kubernetes library, by overload.
func guardedRegexes() []*interpreter.RegexOptimization {
	return []*interpreter.RegexOptimization{
		guardedRegex("matches", "matches"),
		guardedRegex("matches", "matches_string"),
		guardedRegex("find", "string_find_string"),
		guardedRegex("findAll", "string_find_all_string"),
		guardedRegex("findAll", "string_find_all_string_int"),
	}
}

func guardedRegex(function, overload string) *interpreter.RegexOptimization {
	return &interpreter.RegexOptimization{
		Function: function, OverloadID: overload, RegexIndex: 1,
		Factory: func(call interpreter.InterpretableCall, text string) (interpreter.InterpretableCall, error) {
			p, err := newPattern(text, patterns[overload])
			if err != nil {
				return nil, err
			}
			return interpreter.NewCall(call.ID(), function, overload, call.Args(), func(args ...ref.Val) ref.Val {
				return p.match(args[0], args[2:])
			}), nil
		},
	}
}

// patterns maps overloads of functions with a regular expression to their
// implementation.
var patterns = map[string]func(*regexp.Regexp, string, []ref.Val) ref.Val{
	"matches": matchString, "matches_string": matchString, "string_find_string": findString,
	"string_find_all_string": findAllString, "string_find_all_string_int": findAllString,
}

// A pattern is a compiled regular expression, with the function that applies it.
type pattern struct {
	re    *regexp.Regexp
	size  int // instructions
	apply func(re *regexp.Regexp, text string, more []ref.Val) ref.Val
}

func newPattern(text string, apply func(*regexp.Regexp, string, []ref.Val) ref.Val) (*pattern, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{re, Instructions(text), apply}, nil
}

func (p *pattern) match(text ref.Val, more []ref.Val) ref.Val {
	s, ok := text.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(text)
	}
	if p.size*len(s) > maxRegexWork {
		return regexTooMuch(p.size, len(s))
	}
	return p.apply(p.re, string(s), more)
}

func matchString(re *regexp.Regexp, text string, _ []ref.Val) ref.Val {
	return types.Bool(re.MatchString(text))
}

func findString(re *regexp.Regexp, text string, _ []ref.Val) ref.Val {
	return types.String(re.FindString(text))
}

func findAllString(re *regexp.Regexp, text string, limit []ref.Val) ref.Val {
	n := types.Int(-1)
	if len(limit) > 0 {
		var ok bool
		if n, ok = limit[0].(types.Int); !ok {
			return types.MaybeNoSuchOverloadErr(limit[0])
		}
	}
	return types.NewStringList(types.DefaultTypeAdapter, re.FindAllString(text, int(n)))
}

// maxString bounds the strings that expressions make. The API server stores shorter
// ones, and its cost limit counts a function's arguments, not its result.
const maxString = 16 << 20

func guardReplace(args []ref.Val) ref.Val {
	if len(args) < 3 {
		return nil
	}
	s, ok := args[0].(types.String)
	old, ok2 := args[1].(types.String)
	with, ok3 := args[2].(types.String)
	if !ok || !ok2 || !ok3 || (len(s)+1)*(len(with)+1) <= maxString {
		return nil
	}
	return tooLong(len(s) + strings.Count(string(s), string(old))*len(with))
}

func guardJoin(args []ref.Val) ref.Val {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return nil
	}
	size, _ := list.Size().(types.Int)
	total, separator := 0, types.String("")
	if len(args) > 1 {
		separator, _ = args[1].(types.String)
	}
	for i := types.Int(0); i < size && total <= maxString; i++ {
		s, _ := list.Get(i).(types.String)
		total += len(s) + len(separator)
	}
	return tooLong(total)
}

func tooLong(n int) ref.Val {
	if n <= maxString {
		return nil
	}
	return types.NewErr("a string of more than %d bytes refused", maxString)
}

// An Undecided is the error of an authorizer that can't answer, with the fact that it
// would need.
type Undecided struct{ Question string }

const undecidedMark = "undecided: "

func (u *Undecided) Error() string { return undecidedMark + u.Question }

// undecidedCheck turns a check that the authorizer can't answer into an error, unlike
// a denied one. So `a || check` is decided if a is true, and undecided otherwise.
func undecidedCheck(check functions.BinaryOp, env *cel.Env) functions.BinaryOp {
	errorOf := unary(env, "error", "decision_error")
	return func(receiver, verb ref.Val) ref.Val {
		decision := check(receiver, verb)
		if types.IsUnknownOrError(decision) {
			return decision
		}
		if s, ok := errorOf(decision).(types.String); ok && strings.HasPrefix(string(s), undecidedMark) {
			return types.WrapErr(fmt.Errorf("%s", s))
		}
		return decision
	}
}

func unary(env *cel.Env, function, overload string) functions.UnaryOp {
	f := env.Functions()[function]
	if bindings, err := f.Bindings(); err == nil {
		for _, b := range bindings {
			if b.Operator == overload && b.Unary != nil {
				return b.Unary
			}
		}
	}
	return func(ref.Val) ref.Val { return types.NullValue }
}
