package policy

// A NamedError is an error about a policy. Errors sets the name in the result.
type NamedError struct {
	Policy string
	Err    error
}

func (e *NamedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *NamedError) Unwrap() error { return e.Err }
