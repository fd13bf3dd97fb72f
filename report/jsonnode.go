package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A node is a value in somebody's JSON, with its JSON pointer. Its type is not
// checked: missing values and values of another type are zero.
type node struct {
	value any
	at    string
}

func parseNode(data []byte) (node, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return node{}, readJSONError(data, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return node{}, errors.New("there is more after the JSON document")
	}
	return node{value: v}, nil
}

func readJSONError(data []byte, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON ends early")
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line := 1 + bytes.Count(data[:max(0, min(int(syntax.Offset), len(data))-1)], []byte("\n"))
		return fmt.Errorf("line %d is not JSON: %w", line, err)
	}
	return err
}

// get walks down by keys.
func (n node) get(keys ...string) node {
	for _, k := range keys {
		m, _ := n.value.(map[string]any)
		n = node{m[k], n.at + pointer(k)}
	}
	return n
}

// pointer returns the part of a JSON pointer for a key.
func pointer(key string) string {
	if strings.ContainsAny(key, "~/") {
		return render.Pointer(key)
	}
	return "/" + key
}

func (n node) exists() bool { return n.value != nil }

func (n node) list() []node {
	values, _ := n.value.([]any)
	nodes := make([]node, len(values))
	for i, v := range values {
		nodes[i] = node{v, n.at + "/" + strconv.Itoa(i)}
	}
	return nodes
}

func (n node) isList() bool {
	_, ok := n.value.([]any)
	return ok
}

func (n node) text() string {
	s, _ := n.value.(string)
	return s
}

// number returns an integer; ok is false for anything else.
func (n node) number() (int, bool) {
	num, _ := n.value.(json.Number)
	i, err := strconv.Atoi(num.String())
	return i, err == nil
}
