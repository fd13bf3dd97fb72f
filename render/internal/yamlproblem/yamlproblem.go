// Package yamlproblem explains YAML syntax errors in plain words.
package yamlproblem

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Problem is an explained syntax error. Line and Column count from 0.
type Problem struct {
	Line, Column int
	Text         string
}

// Explain explains a YAML library's error message for a line (from 0) of text. It points at the
// mistake rather than at the place where the library noticed it. ok is false if it has no better
// explanation. The explanation quotes only single characters of the file. first is the line of the
// file, from 0, at which text begins.
func Explain(text []byte, first, line int, problem string) (Problem, bool) {
	s := scanYAML(text)
	s.first = first
	if line >= len(s.lines) {
		line = len(s.lines) - 1
	}
	for _, explain := range []func(*yamlScan, int, string) (Problem, bool){
		conflictProblem, tabProblem, quoteProblem, bracketProblem, startProblem, colonProblem, indentProblem,
	} {
		if p, ok := explain(s, line, problem); ok {
			p.Column = utf8.RuneCount(s.lines[p.Line][:min(p.Column, len(s.lines[p.Line]))])
			return p, true
		}
	}
	return Problem{}, false
}

// conflictProblem finds git's conflict markers.
func conflictProblem(s *yamlScan, _ int, _ string) (Problem, bool) {
	for i, line := range s.lines {
		if bytes.HasPrefix(line, []byte("<<<<<<< ")) || bytes.HasPrefix(line, []byte(">>>>>>> ")) {
			return Problem{i, 0, "a conflict of git is not resolved here: choose one side and remove the marks"}, true
		}
	}
	return Problem{}, false
}

// tabProblem finds a tab in a line's indentation.
func tabProblem(s *yamlScan, line int, problem string) (Problem, bool) {
	if !strings.Contains(problem, "tab character") && !strings.Contains(problem, "cannot start any token") &&
		!strings.Contains(problem, "expected key") && !strings.Contains(problem, "expected ':'") {
		return Problem{}, false
	}
	for _, i := range []int{line, line - 1} {
		if i < 0 {
			continue
		}
		blanks := s.lines[i][:len(s.lines[i])-len(bytes.TrimLeft(s.lines[i], " \t"))]
		if tab := bytes.IndexByte(blanks, '\t'); tab >= 0 {
			return Problem{i, tab, "the line is indented with a tab; YAML takes spaces alone"}, true
		}
	}
	return Problem{}, false
}

// quoteProblem finds a quote that is not closed, or closed too early.
func quoteProblem(s *yamlScan, line int, problem string) (Problem, bool) {
	for _, q := range s.quotes {
		switch {
		case !q.closed && q.line <= line:
			return Problem{q.line, q.column, fmt.Sprintf("the quote %c that opens here is never closed", q.char)}, true
		case q.closed && q.endLine > q.line && q.line <= line && q.endLine >= line-1 && s.junkAfter(q):
			return Problem{q.line, q.column, fmt.Sprintf("the quote %c that opens here is closed only on line %d", q.char, s.number(q.endLine))}, true
		case q.closed && (q.endLine == line || q.endLine == line-1) && s.junkAfter(q) && strings.Contains(problem, "did not find expected key"):
			how := `write \" for a quote within`
			if q.char == '\'' {
				how = "write '' for a quote within"
			}
			return Problem{q.endLine, q.endColumn + 1, "text follows the closing quote: " + how + ", or put all of the value in quotes"}, true
		}
	}
	if !strings.Contains(problem, "unknown escape") {
		return Problem{}, false
	}
	for i, c := range s.lines[line] {
		if c == '\\' && i+1 < len(s.lines[line]) && !bytes.ContainsRune([]byte("0abt\tnvfre \"/\\N_LPxuU"), rune(s.lines[line][i+1])) {
			return Problem{line, i, `a backslash in double quotes begins an escape, and this is none: write \\, or use single quotes`}, true
		}
	}
	return Problem{}, false
}

// bracketProblem finds a bracket that is not closed, or that has no opening
// one.
func bracketProblem(s *yamlScan, line int, problem string) (Problem, bool) {
	if s.stray != nil && (s.stray.line == line || s.stray.line == line-1) {
		return Problem{s.stray.line, s.stray.column, fmt.Sprintf("no bracket is open that this %c could close", s.stray.char)}, true
	}
	if !strings.Contains(problem, "expected ',' or") && !strings.Contains(problem, "end of stream") && !strings.Contains(problem, "node content") {
		return Problem{}, false
	}
	for _, b := range slices.Backward(s.brackets) {
		if b.line > line {
			continue
		}
		switch {
		case !b.closed || b.endLine > line && b.endLine > b.line && s.hasKey(line):
			return Problem{b.line, b.column, fmt.Sprintf("the %c that opens here is never closed", b.char)}, true
		case b.endLine >= line:
			return Problem{b.line, b.column, fmt.Sprintf("a comma is missing between the entries within this %c", b.char)}, true
		}
	}
	return Problem{}, false
}

// startProblem finds a character with which no value can begin.
func startProblem(s *yamlScan, line int, problem string) (Problem, bool) {
	switch {
	case strings.Contains(problem, "cannot start any token"):
		for _, at := range s.starts {
			if c := s.lines[at.line][at.column]; at.line == line && strings.ContainsRune("@`%", rune(c)) {
				return Problem{line, at.column, fmt.Sprintf("no value can begin with %c: put it in quotes", c)}, true
			}
		}
	case strings.Contains(problem, "block sequence entries are not allowed"):
		if i := bytes.Index(s.lines[line], []byte(": - ")); i >= 0 {
			return Problem{line, i + 2, "a list can't begin on the line of its key: put each entry on a line of its own, below it"}, true
		}
	case strings.Contains(problem, "comment or line break"):
		if i := bytes.LastIndexAny(s.lines[line], "|>"); i >= 0 {
			return Problem{line, i, fmt.Sprintf("nothing but + or - or a digit can follow the %c of a text block on its line", s.lines[line][i])}, true
		}
	}
	return Problem{}, false
}

// colonProblem finds what is wrong around a colon.
func colonProblem(s *yamlScan, line int, problem string) (Problem, bool) {
	before := s.contentBefore(line)
	switch {
	case strings.Contains(problem, "mapping values are not allowed"):
		if first := s.colon(line, 0); first >= 0 {
			if second := s.colon(line, first+1); second >= 0 {
				return Problem{line, second, "a colon with a blank behind it in a value: put the value in quotes"}, true
			}
		}
		switch {
		case before >= 0 && s.colon(before, 0) < 0 && bytes.IndexByte(s.lines[before], ':') > 0:
			return Problem{before, bytes.IndexByte(s.lines[before], ':'), "a blank is missing behind the colon"}, true
		case before >= 0 && s.colon(before, 0) < 0 && s.isEntry(before):
			return Problem{line, s.indent(line), fmt.Sprintf("a key is below the entry on line %d, which has a value already", s.number(before))}, true
		case before >= 0 && s.colon(before, 0) < 0:
			return noKey(s, before)
		case before >= 0 && s.indent(line) > s.indent(before):
			return Problem{line, s.indent(line), fmt.Sprintf("the line is indented more than line %d, whose key has a value already", s.number(before))}, true
		}
	case strings.Contains(problem, "could not find expected ':'"):
		for i := line; i >= 0 && i >= line-1; i-- {
			if s.isContent(i) && s.colon(i, 0) < 0 {
				if c := bytes.IndexByte(s.lines[i], ':'); c > 0 {
					return Problem{i, c, "a blank is missing behind the colon"}, true
				}
				return noKey(s, i)
			}
		}
	}
	return Problem{}, false
}

func noKey(s *yamlScan, line int) (Problem, bool) {
	return Problem{line, s.indent(line), "the line is neither a key with a colon nor an entry of a list"}, true
}

// indentProblem finds a line whose indentation fits none above it, and keys
// among entries.
func indentProblem(s *yamlScan, line int, problem string) (Problem, bool) {
	if !s.isContent(line) {
		return Problem{}, false
	}
	at := s.indent(line)
	entry := s.isEntry(line)
	switch {
	case strings.Contains(problem, "'-' indicator"):
		return Problem{line, at, "a key stands among the entries of a list: it is indented too little or too much, or lacks its dash"}, true
	case !strings.Contains(problem, "expected key"):
		return Problem{}, false
	}
	least := at
	for i := line - 1; i >= 0; i-- {
		if !s.isContent(i) {
			continue
		}
		if in := s.indent(i); in == at {
			if entry && !s.isEntry(i) {
				return Problem{line, at, "an entry of a list stands among the keys of a mapping: it is indented too little or too much"}, true
			}
			break
		} else if in < at {
			least = in
			break
		}
	}
	if least < at {
		return Problem{line, at, fmt.Sprintf("the line is indented by %d, which is the indentation of no line above that it could belong to", at)}, true
	}
	return Problem{}, false
}

// A yamlScan is the result of a rough scan of a YAML text, which is enough to find the mistake
// behind a parser's error.
type yamlScan struct {
	first    int // line of the file, from 0
	lines    [][]byte
	plain    []bool // by line: it does not begin within a quote, bracket or text block
	quotes   []yamlPair
	brackets []yamlPair
	starts   []yamlPair // where values begin
	stray    *yamlPair  // a closing bracket without an opening one
	open     []int      // indices of open brackets
}

// A yamlPair is the position of a quote or bracket and of its closing counterpart.
type yamlPair struct {
	char               byte
	line, column       int
	closed             bool
	endLine, endColumn int
}

func scanYAML(text []byte) *yamlScan {
	s := &yamlScan{lines: bytes.Split(bytes.ReplaceAll(text, []byte("\r"), []byte(" ")), []byte("\n"))}
	s.plain = make([]bool, len(s.lines))
	block := -1 // indentation of the line that began a text block
	for i := 0; i < len(s.lines); i++ {
		in, blank := s.indent(i), len(bytes.TrimSpace(s.lines[i])) == 0
		if block >= 0 && (blank || in > block) {
			continue
		}
		block = -1
		s.plain[i] = len(s.open) == 0
		if s.scanLine(&i) {
			block = in
		}
	}
	return s
}

// scanLine reads a line, and the following ones where a quote spans them. It
// returns true where a text block begins.
func (y *yamlScan) scanLine(i *int) bool {
	start := true // a value may begin here
	for j := 0; j < len(y.lines[*i]); j++ {
		line := y.lines[*i]
		switch c := line[j]; {
		case c == ' ' || c == '\t':
		case c == '#' && (j == 0 || line[j-1] == ' ' || line[j-1] == '\t'):
			return false
		case start && (c == '"' || c == '\''):
			y.starts = append(y.starts, yamlPair{line: *i, column: j})
			if j = y.scanQuote(i, j); j < 0 {
				return false
			}
			start = false
		case start && (c == '[' || c == '{') || len(y.open) > 0 && (c == '[' || c == '{'):
			y.open = append(y.open, len(y.brackets))
			y.brackets = append(y.brackets, yamlPair{char: c, line: *i, column: j})
			start = true
		case (c == ']' || c == '}') && (len(y.open) > 0 || !start && y.endsBracket(*i, j)):
			y.closeBracket(c, *i, j)
			start = false
		case c == ',' && len(y.open) > 0, c == '-' && start && y.blankAt(*i, j+1) && len(y.open) == 0, c == ':' && y.blankAt(*i, j+1), c == '?' && start && y.blankAt(*i, j+1):
			start = true
		case start && (c == '|' || c == '>') && len(y.open) == 0:
			return true
		case start && (c == '&' || c == '!'):
			for j+1 < len(line) && line[j+1] != ' ' {
				j++
			}
		case start:
			y.starts = append(y.starts, yamlPair{line: *i, column: j})
			start = false
		}
	}
	return false
}

// scanQuote finds the end of a quoted value, which may be on a later line, and returns its column.
// It returns -1 if the quote is never closed.
func (y *yamlScan) scanQuote(i *int, j int) int {
	q := yamlPair{char: y.lines[*i][j], line: *i, column: j}
	for j++; ; *i, j = *i+1, 0 {
		if *i >= len(y.lines) {
			y.quotes = append(y.quotes, q)
			return -1
		}
		for line := y.lines[*i]; j < len(line); j++ {
			switch {
			case q.char == '"' && line[j] == '\\', q.char == '\'' && line[j] == '\'' && j+1 < len(line) && line[j+1] == '\'':
				j++
			case line[j] == q.char:
				q.closed, q.endLine, q.endColumn = true, *i, j
				y.quotes = append(y.quotes, q)
				return j
			}
		}
	}
}

func (y *yamlScan) closeBracket(c byte, i, j int) {
	if len(y.open) == 0 {
		if y.stray == nil {
			y.stray = &yamlPair{char: c, line: i, column: j}
		}
		return
	}
	b := &y.brackets[y.open[len(y.open)-1]]
	y.open = y.open[:len(y.open)-1]
	b.closed, b.endLine, b.endColumn = true, i, j
}

// endsBracket reports whether a bracket was closed on this line just before.
func (y *yamlScan) endsBracket(i, j int) bool {
	return slices.ContainsFunc(y.brackets, func(b yamlPair) bool { return b.closed && b.endLine == i && b.endColumn < j })
}

func (y *yamlScan) blankAt(i, j int) bool {
	return j >= len(y.lines[i]) || y.lines[i][j] == ' ' || y.lines[i][j] == '\t'
}

// junkAfter reports whether a closed quote is followed by text that YAML does not allow there.
func (y *yamlScan) junkAfter(q yamlPair) bool {
	rest := bytes.TrimLeft(y.lines[q.endLine][q.endColumn+1:], " \t")
	return len(rest) > 0 && !strings.ContainsRune(":,]}#", rune(rest[0]))
}

func (y *yamlScan) number(line int) int { return y.first + line + 1 }

func (y *yamlScan) indent(i int) int { return len(y.lines[i]) - len(bytes.TrimLeft(y.lines[i], " ")) }

func (y *yamlScan) isContent(i int) bool {
	t := bytes.TrimSpace(y.lines[i])
	return y.plain[i] && len(t) > 0 && t[0] != '#'
}

func (y *yamlScan) isEntry(i int) bool {
	at := y.indent(i)
	return y.lines[i][at] == '-' && y.blankAt(i, at+1)
}

func (y *yamlScan) contentBefore(line int) int {
	for i := line - 1; i >= 0; i-- {
		if y.isContent(i) {
			return i
		}
	}
	return -1
}

func (y *yamlScan) hasKey(line int) bool { return y.colon(line, 0) >= 0 }

// colon returns the column of the first colon at or after from that ends a key, or -1.
func (y *yamlScan) colon(line, from int) int {
	for j := from; j < len(y.lines[line]); j++ {
		if y.lines[line][j] == ':' && y.blankAt(line, j+1) {
			return j
		}
	}
	return -1
}
