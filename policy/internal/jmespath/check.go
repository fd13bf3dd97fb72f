package jmespath

// Check returns the *FunctionError that every search fails with if it evaluates the
// call: an unknown function, too many or too few arguments, or a literal that is not
// a regular expression.
func (e *Expression) Check() error {
	var err error
	visit(e.root, true, func(n node, _ bool) {
		if c, ok := n.(*call); ok && err == nil {
			err = c.staticError()
		}
	})
	return err
}

func (c *call) staticError() error {
	if c.function == nil {
		return c.unknown()
	}
	if err := c.arity(len(c.args)); err != nil {
		return err
	}
	return c.staticRegexError()
}

// regexFunctions are the functions whose first argument is a regular expression. The
// value is whether their errors quote it.
var regexFunctions = map[string]bool{"regex_match": false, "regex_replace_all": true, "regex_replace_all_literal": true}

func (c *call) staticRegexError() error {
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
