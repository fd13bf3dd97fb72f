package jmespath

// Check tells what every search that gets there would come to: a function that
// is not known or gets too many or too few arguments, a regular expression in
// the text itself that is none. The error is the *FunctionError of the search.
func (e *Expression) Check() error {
	var err error
	visit(e.root, true, func(n node, _ bool) {
		if c, ok := n.(*call); ok && err == nil {
			err = c.sound()
		}
	})
	return err
}

func (c *call) sound() error {
	if c.function == nil {
		return c.unknown()
	}
	if err := c.arity(len(c.args)); err != nil {
		return err
	}
	return c.soundRegex()
}

// regexFunctions take a regular expression first; those that are true say so
// in their errors.
var regexFunctions = map[string]bool{"regex_match": false, "regex_replace_all": true, "regex_replace_all_literal": true}

func (c *call) soundRegex() error {
	named, ok := regexFunctions[c.name]
	if !ok {
		return nil
	}
	text, _ := c.args[0].(*constant)
	if text == nil {
		return nil
	}
	source, _ := text.v.(string)
	if _, err := parseRegex(source); err != nil {
		return regexError(c.name, err, named)
	}
	return nil
}
