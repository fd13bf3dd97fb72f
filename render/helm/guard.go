package helm

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
)

// decodeYAML decodes Chart.yaml and values files as Helm does: YAML 1.1 by way
// of JSON. It first bounds the expansion of aliases, since the library counts
// nodes and not the bytes behind them.
func decodeYAML(data []byte, into any) (line int, err error) {
	if line, err := guardYAML(data); err != nil {
		return line, err
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		return yamlError(data, err)
	}
	return 0, nil
}

// guardYAML refuses YAML that is short as text but large or deep as a value.
func guardYAML(data []byte) (line int, err error) {
	if bytes.IndexByte(data, '&') < 0 || bytes.IndexByte(data, '*') < 0 {
		return 0, nil // without aliases a value is no larger than its text
	}
	var doc yamlv3.Node
	if err := yamlv3.Unmarshal(data, &doc); err != nil {
		return yamlError(data, err)
	}
	g := guard{seen: map[*yamlv3.Node]weight{}}
	w, err := g.weigh(&doc, 0)
	switch {
	case err != nil:
		return g.line, err
	case w.nodes > maxYAMLNodes || w.bytes > maxYAMLBytes:
		return 0, errExpands
	}
	return 0, nil
}

var errExpands = errors.New("aliases expand beyond the limit of a file")

var (
	errNested = fmt.Errorf("%w: they are nested more than %d deep", errExpands, maxYAMLDepth)
	errLoop   = fmt.Errorf("%w: one refers to a value that contains it", errExpands)
)

type weight struct{ nodes, bytes int }

type guard struct {
	seen map[*yamlv3.Node]weight // the expanded size of an anchored node
	line int
}

// weigh counts nodes and bytes with aliases expanded.
func (g *guard) weigh(n *yamlv3.Node, depth int) (weight, error) {
	if depth > maxYAMLDepth {
		g.line = n.Line
		return weight{}, errNested
	}
	if n.Kind == yamlv3.AliasNode {
		return g.alias(n, depth)
	}
	w := weight{1, len(n.Value)}
	for _, c := range n.Content {
		cw, err := g.weigh(c, depth+1)
		if err != nil {
			return w, err
		}
		w.nodes = min(w.nodes+cw.nodes, 1<<40)
		w.bytes = min(w.bytes+cw.bytes, 1<<40)
	}
	return w, nil
}

func (g *guard) alias(n *yamlv3.Node, depth int) (weight, error) {
	if w, ok := g.seen[n.Alias]; ok {
		if w.nodes == 0 {
			g.line = n.Line
			return w, errLoop
		}
		return w, nil
	}
	g.seen[n.Alias] = weight{}
	w, err := g.weigh(n.Alias, depth+1)
	g.seen[n.Alias] = w
	return w, err
}

var yamlLine = regexp.MustCompile(`line (\d+)(: |,|$)`)

// yamlError removes the line from the library's message and returns it.
func yamlError(data []byte, err error) (line int, cleaned error) {
	if e := (*render.Error)(nil); errors.As(render.SyntaxError("", data, err), &e) && e.Span.Line > 0 {
		return e.Span.Line, e.Err
	}
	text := err.Error()
	if m := yamlLine.FindStringSubmatchIndex(text); m != nil {
		line, _ = strconv.Atoi(text[m[2]:m[3]])
		text = text[m[1]:]
	}
	if !yamlSentence.MatchString(text) {
		return line, errors.New("is not valid YAML of the expected shape")
	}
	return line, errors.New("YAML: " + text)
}

// yamlSentence matches the library's messages that quote nothing of the file.
var yamlSentence = regexp.MustCompile(`^(did not find|could not find|found |mapping |block |cannot start|exceeded|invalid |unexpected|control char|while |tab )[a-zA-Z0-9 ,:'"\-\[\]{}.()?]*$`)
