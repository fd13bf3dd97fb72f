package report

import (
	"slices"

	"github.com/preadmit/preadmit/policy"
)

// rankOf returns the rank of a class's level. Errors and denials have the same level, and so the
// same rank.
func rankOf(c class) int { return slices.Index(levels, levelOf(c)) }

var levels = []string{"error", "warning", "note", "none"}

// levelOf returns the SARIF level of a class. An undecided finding is a warning.
func levelOf(c class) string {
	switch c {
	case denied, broken:
		return "error"
	case undecided, warned:
		return "warning"
	default:
		return "note"
	}
}

// actionLevel lowers a level to at most that of the action of a failure.
func actionLevel(a policy.Action, level string) string {
	most := map[policy.Action]string{policy.Warn: "warning", policy.Audit: "note"}[a]
	if most == "" {
		return level
	}
	return levels[max(slices.Index(levels, most), slices.Index(levels, level))]
}

// severityRank orders severities, the worst first and unknown ones last.
func severityRank(s policy.Severity) int {
	if i := slices.Index(policy.Severities, s); i >= 0 {
		return i
	}
	return len(policy.Severities)
}
