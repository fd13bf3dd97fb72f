package kyverno

func check(p *Policy, f *faults) {}

func checkMatch(m *Match, pointer string, f *faults) {}

func checkNoUser(m *Match, f *faults) {}
