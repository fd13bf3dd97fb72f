// Package tui is the room of the interactive triage, which is not built yet.
//
// In will go a report, out will come a person's decisions: it will show and
// ask, render nothing and write nothing by itself.
package tui
