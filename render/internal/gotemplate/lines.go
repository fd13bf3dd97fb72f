package gotemplate

import (
	"strings"
	"text/template/parse"
)

// Lines executes the template and returns, for each line of its output, the line of the template
// that wrote the beginning. Both count from 0.
func (t *Template) Lines(params any) ([]int, error) {
	t.steps, t.depth, t.tpls, t.data = 0, 0, 0, params
	w := &lineWriter{texts: make(map[*byte]int), lines: []int{0}}
	for _, defined := range t.tree.Templates() {
		if defined.Tree != nil {
			w.learn(t.text, defined.Root)
		}
	}
	err := t.tree.Execute(w, params)
	return w.lines, err
}

// A lineWriter records the template line of each output line. text/template writes the texts
// between actions from its syntax tree without copying them, so the address of their first byte
// identifies them.
type lineWriter struct {
	bounded
	texts map[*byte]int // first lines of the texts, by the address of their first byte
	at    int           // current line of the template
	lines []int
}

// learn records the lines on which the texts of a template begin.
func (l *lineWriter) learn(text string, n parse.Node) {
	branch := func(b *parse.BranchNode) {
		l.learn(text, b.List)
		l.learn(text, b.ElseList)
	}
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			l.learn(text, child)
		}
	case *parse.TextNode:
		if len(n.Text) > 0 && int(n.Pos) <= len(text) {
			l.texts[&n.Text[0]] = strings.Count(text[:n.Pos], "\n")
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	}
}

// Write implements io.Writer.
func (l *lineWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	line, isText := l.texts[&p[0]]
	if isText {
		l.at = line
		if l.Len() == 0 {
			l.lines[0] = line
		}
	}
	for _, c := range p {
		if c != '\n' {
			continue
		}
		if isText {
			l.at++
		}
		l.lines = append(l.lines, l.at)
	}
	return l.bounded.Write(p)
}
