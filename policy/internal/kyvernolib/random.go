package kyvernolib

import (
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// defaultPattern is the pattern of random() without an argument.
const defaultPattern = "[0-9a-z]{8}"

// Limits of the texts that random makes.
const (
	maxRandom      = 4 << 10
	unboundedTimes = 3 // repetitions of * and + beyond the minimum
)

// randomString returns a string that a regular expression matches. It is always
// the same one, and results that depend on it have an assumption.
func randomString(pattern string) ref.Val {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return types.NewErr("invalid regular expression")
	}
	var g generatorOf
	if g.write(re.Simplify()); g.b.Len() > maxRandom {
		return types.NewErr("a random string of more than %d bytes refused", maxRandom)
	}
	return types.String(g.b.String())
}

// A generatorOf walks a regular expression. It cycles through the characters of a
// class, so that a string looks random.
type generatorOf struct {
	b strings.Builder
	n rune
}

func (g *generatorOf) write(re *syntax.Regexp) {
	if g.b.Len() > maxRandom {
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		g.b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		g.b.WriteRune(g.pick(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		g.b.WriteRune(g.pick([]rune{'a', 'z'}))
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			g.write(sub)
		}
	case syntax.OpAlternate, syntax.OpQuest:
		g.write(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus:
		g.repeat(re.Sub[0], unboundedTimes)
	case syntax.OpRepeat:
		g.repeat(re.Sub[0], re.Min)
	}
}

func (g *generatorOf) repeat(re *syntax.Regexp, times int) {
	for range times {
		g.write(re)
	}
}

// pick returns another character of a class each time.
func (g *generatorOf) pick(class []rune) rune {
	if len(class) < 2 {
		return 'a'
	}
	var size rune
	for i := 0; i+1 < len(class); i += 2 {
		size += min(class[i+1]-class[i]+1, 128)
	}
	const step = 7 // does not divide the sizes of usual classes
	g.n += step
	at := g.n % size
	for i := 0; i+1 < len(class); i += 2 {
		n := min(class[i+1]-class[i]+1, 128)
		if at < n {
			return class[i] + at
		}
		at -= n
	}
	return class[0]
}
