package main

import (
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
)

// evaluateOptions choose what is evaluated, and by what.
type evaluateOptions struct {
	load.Sources

	packs          []string
	noTreePolicies bool
	as             string
	asGroups       []string
	namespaces     []string // packages of Rego
	combine        bool

	allowNew        bool // suppressions that the change adds count
	date            time.Time
	fromKubeVersion string   // rehearse the upgrade from there
	enforce         []string // rehearse that these deny
	enforceBy       string

	part     *shard           // nil is the whole run
	prints   *prints          // by policies; nil where nobody reads it
	passes   *policy.Passes   // where passes are kept apart; nil where each is looked at
	branches *policy.Coverage // that policies take; nil if coverage is not asked for
}

// day is the day that suppressions are held against.
func (o *evaluateOptions) day() time.Time {
	if o.date.IsZero() {
		return time.Now()
	}
	return o.date
}

// midnight is when that day begins: the time that policies see, so that
// all runs of a day say the same.
func (o *evaluateOptions) midnight() time.Time { return o.day().UTC().Truncate(24 * time.Hour) }
