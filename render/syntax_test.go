package render

import (
	"strings"
	"testing"
)

// TestSyntaxProblems reads texts with one mistake each: the place is that of
// the mistake, and the sentence can be understood without knowing the library.
func TestSyntaxProblems(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"a: 1\nb:\n\tc: 2\n", "3:1: the line is indented with a tab"},
		{"a: 1\n\tb: 2\n", "2:1: the line is indented with a tab"},
		{"a:\n  - x\n\t- y\n", "3:1: the line is indented with a tab"},
		{"a:\n  - x\n  \t- y\n  - z\n", "3:3: the line is indented with a tab"},
		{"a: {b: 1\nc: 2\nd: 3\n", "1:4: the { that opens here is never closed"},
		{"z: 1\na: [1, 2\nc: 2\nd: [3]\n", "2:4: the [ that opens here is never closed"},
		{"a:\n  b: [1, {x: 2\n  c: 2\nd: 3\n", "2:10: the { that opens here is never closed"},
		{"key: [a, b\n", "1:6: the [ that opens here is never closed"},
		{"- {a: b\n- c\n", "1:3: the { that opens here is never closed"},
		{"a: [\"x\" \"y\"]\n", "1:4: a comma is missing between the entries within this ["},
		{"a: [1, 2]]\nb: 1\n", "1:10: no bracket is open that this ] could close"},
		{"a: {b: 1}}\n", "1:10: no bracket is open that this } could close"},
		{"a: \"x\nb: 2\nc: 3\n", "1:4: the quote \" that opens here is never closed"},
		{"z: 1\na: \"x\nb: \"2\"\nc: 3\n", "2:4: the quote \" that opens here is closed only on line 3"},
		{"a: 'x\nb: 2\nc: it's\n", "1:4: the quote ' that opens here is closed only on line 3"},
		{"a: 'it's'\nb: 1\n", "1:8: text follows the closing quote: write '' for"},
		{"a: \"x\" y\nb: 1\n", "1:7: text follows the closing quote"},
		{"a: b: c\n", "1:5: a colon with a blank behind it in a value: put the value in quotes"},
		{"x: 1\nimage: nginx: latest\n", "2:13: a colon with a blank behind it"},
		{"a:\n  b: 1\n c: 2\n", "3:2: the line is indented by 1, which is the indentation of no line above"},
		{"a:\n  b: 1\n   c: 2\n", "3:4: the line is indented more than line 2, whose key has a value already"},
		{"a:\n- b: 1\n  c: 2\n   d: 3\n", "4:4: the line is indented more than line 3"},
		{"a: 1\nb\nc: 2\n", "2:1: the line is neither a key with a colon nor an entry of a list"},
		{"a:1\nb: 2\n", "1:2: a blank is missing behind the colon"},
		{"x: 1\na:1\nb: 2\n", "2:2: a blank is missing behind the colon"},
		{"a:\n- x\n  b: 1\n", "3:3: a key is below the entry on line 2, which has a value already"},
		{"a:\n<<<<<<< HEAD\n  b: 1\n=======\n  b: 2\n>>>>>>> x\n", "2:1: a conflict of git is not resolved here"},
		{"a: 1\n- b\n", "2:1: an entry of a list stands among the keys of a mapping"},
		{"- a\nb: 1\n", "2:1: a key stands among the entries of a list"},
		{"a: @x\n", "1:4: no value can begin with @: put it in quotes"},
		{"a: %x\n", "1:4: no value can begin with %: put it in quotes"},
		{"x: 1\na: `x`\n", "2:4: no value can begin with `: put it in quotes"},
		{"a: - b\n", "1:4: a list can't begin on the line of its key"},
		{"a: \"x\\d\"\n", "1:6: a backslash in double quotes begins an escape"},
		{"a: >x\n  b\n", "1:4: nothing but + or - or a digit can follow the >"},
		{"a: |\n  it's [ \"fine\nb: [1\n", "3:4: the [ that opens here is never closed"},
	} {
		_, err := Documents("f", []byte(test.text), YAML11)
		if err == nil || !strings.HasPrefix(err.Error(), "f:"+test.want) {
			t.Errorf("%q: %v, want %s", test.text, err, test.want)
		}
	}
}
