package argocd

import (
	"fmt"
	"strings"
)

// maxNesting is how deep brackets, operators and statements of a Jsonnet file
// may be nested. The library recurses for each, and Go can't recover from a
// stack overflow; recursive functions multiply the depth.
const maxNesting = 600

var errNesting = fmt.Errorf("has more than %d brackets, operators and statements within one another", maxNesting)

// A nesting measures the nesting of a Jsonnet file by its tokens: each operator
// or statement such as local adds a level up to the comma or bracket that ends
// the chain.
type nesting struct {
	text   string
	at     int
	chains []int // levels in each open bracket
	depth  int   // sum of chains
}

// checkNesting refuses a text that is nested too deep. It accepts a text that
// it can't tokenize, since Jsonnet refuses that before it parses.
func checkNesting(text string) error {
	n := nesting{text: text, chains: []int{0}}
	for n.at < len(text) {
		n.token()
		if n.depth > maxNesting {
			return errNesting
		}
	}
	return nil
}

func (n *nesting) rest() string { return n.text[n.at:] }

// token consumes one token or one other character.
func (n *nesting) token() {
	rest := n.rest()
	switch c := rest[0]; {
	case c == '#' || strings.HasPrefix(rest, "//"):
		n.skipTo("\n")
	case strings.HasPrefix(rest, "/*"):
		n.at += 2
		n.skipTo("*/")
	case strings.HasPrefix(rest, "|||"):
		n.block()
	case c == '"' || c == '\'':
		n.quoted(c)
	case c == '@' && len(rest) > 1 && (rest[1] == '"' || rest[1] == '\''):
		n.verbatim(rest[1])
	case strings.IndexByte("([{", c) >= 0:
		n.chains = append(n.chains, 0)
		n.count()
	case strings.IndexByte(")]}", c) >= 0:
		n.end()
		if len(n.chains) > 1 {
			n.chains = n.chains[:len(n.chains)-1]
		}
		n.count() // calls nest too: f(1)(2)
	case c == ',':
		n.end()
		n.at++
	case isWord(c):
		n.word()
	case strings.IndexByte("!~+-&|^<>*/%.", c) >= 0:
		n.count()
	default:
		n.at++
	}
}

// count adds a level and advances.
func (n *nesting) count() {
	n.chains[len(n.chains)-1]++
	n.depth++
	n.at++
}

// end closes the chain of the innermost bracket.
func (n *nesting) end() {
	n.depth -= n.chains[len(n.chains)-1]
	n.chains[len(n.chains)-1] = 0
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// word counts the keywords that nest.
func (n *nesting) word() {
	from := n.at
	for n.at < len(n.text) && isWord(n.text[n.at]) {
		n.at++
	}
	switch n.text[from:n.at] {
	case "local", "if", "else", "function", "assert", "error", "in", "for":
		n.at--
		n.count()
	}
}

func (n *nesting) skipTo(end string) {
	i := strings.Index(n.rest(), end)
	if i < 0 {
		n.at = len(n.text)
		return
	}
	n.at += i + len(end)
}

func (n *nesting) quoted(quote byte) {
	for n.at++; n.at < len(n.text) && n.text[n.at] != quote; n.at++ {
		if n.text[n.at] == '\\' {
			n.at++
		}
	}
	n.at++
}

// verbatim skips a text in which two quotes mean one.
func (n *nesting) verbatim(quote byte) {
	for n.at += 2; n.at < len(n.text); n.at++ {
		if n.text[n.at] != quote {
			continue
		}
		if n.at++; n.at == len(n.text) || n.text[n.at] != quote {
			return
		}
	}
}

// block skips a text between ||| and |||, which continues while lines have the
// indentation of the first.
func (n *nesting) block() {
	n.at += len("|||")
	n.skipTo("\n")
	n.blank()
	line := n.rest()
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	for indent != "" && strings.HasPrefix(n.rest(), indent) {
		n.skipTo("\n")
		n.blank()
	}
	n.at += len(n.rest()) - len(strings.TrimLeft(n.rest(), " \t"))
	if strings.HasPrefix(n.rest(), "|||") {
		n.at += len("|||")
		return
	}
	n.at = len(n.text) // Jsonnet refuses it
}

func (n *nesting) blank() {
	n.at += len(n.rest()) - len(strings.TrimLeft(n.rest(), "\n"))
}
