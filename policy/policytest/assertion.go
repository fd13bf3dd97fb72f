package policytest

func (t *kyvernoTest) check(n node) []Case { return nil }
