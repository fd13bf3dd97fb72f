package kindcheck

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A cronField is one of the five fields of a schedule.
type cronField struct {
	least, most int
	names       []string // of the numbers, beginning with least
}

var cronFields = []cronField{
	{0, 59, nil},
	{0, 23, nil},
	{1, 31, nil},
	{1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{0, 6, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var cronDescriptors = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// checkSchedule returns the error of a CronJob's schedule, in the words of the parser
// that API servers use (github.com/robfig/cron/v3).
func checkSchedule(schedule string) error {
	if strings.HasPrefix(schedule, "TZ=") || strings.HasPrefix(schedule, "CRON_TZ=") {
		_, rest, ok := strings.Cut(schedule, " ")
		if !ok {
			return errors.New("invalid schedule format")
		}
		schedule = strings.TrimSpace(rest)
	}
	if strings.HasPrefix(schedule, "@") {
		return checkDescriptor(schedule)
	}
	fields := strings.Fields(schedule)
	if len(fields) != len(cronFields) {
		return fmt.Errorf("expected exactly %d fields, found %d: %s", len(cronFields), len(fields), fields)
	}
	for i, f := range cronFields {
		for _, expr := range strings.FieldsFunc(fields[i], func(r rune) bool { return r == ',' }) {
			if err := f.check(expr); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkDescriptor(s string) error {
	if slices.Contains(cronDescriptors, s) {
		return nil
	}
	text, ok := strings.CutPrefix(s, "@every ")
	if !ok {
		return fmt.Errorf("unrecognized descriptor: %s", s)
	}
	if _, err := time.ParseDuration(text); err != nil {
		return fmt.Errorf("failed to parse duration %s: %w", s, err)
	}
	return nil
}

// check reads NUMBER, NUMBER-NUMBER or *, and /STEP after either.
func (c *cronField) check(expr string) error {
	parts := strings.Split(expr, "/")
	bounds := strings.Split(parts[0], "-")
	first, last := c.least, c.most
	if bounds[0] != "*" && bounds[0] != "?" {
		var err error
		if first, last, err = c.bounds(expr, bounds); err != nil {
			return err
		}
	}
	if len(parts) > 2 {
		return fmt.Errorf("too many slashes: %s", expr)
	}
	step := 1
	if len(parts) == 2 {
		var err error
		if step, err = cronNumber(parts[1]); err != nil {
			return err
		}
		if len(bounds) == 1 {
			last = c.most
		}
	}
	switch {
	case first < c.least:
		return fmt.Errorf("beginning of range (%d) below minimum (%d): %s", first, c.least, expr)
	case last > c.most:
		return fmt.Errorf("end of range (%d) above maximum (%d): %s", last, c.most, expr)
	case first > last:
		return fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", first, last, expr)
	case step == 0:
		return fmt.Errorf("step of range should be a positive number: %s", expr)
	}
	return nil
}

func (c *cronField) bounds(expr string, bounds []string) (first, last int, err error) {
	if first, err = c.number(bounds[0]); err != nil {
		return 0, 0, err
	}
	switch len(bounds) {
	case 1:
		return first, first, nil
	case 2:
		last, err = c.number(bounds[1])
		return first, last, err
	default:
		return 0, 0, fmt.Errorf("too many hyphens: %s", expr)
	}
}

func (c *cronField) number(text string) (int, error) {
	if i := slices.Index(c.names, strings.ToLower(text)); i >= 0 {
		return c.least + i, nil
	}
	return cronNumber(text)
}

func cronNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("failed to parse int from %s: %w", text, err)
	}
	if n < 0 {
		return 0, fmt.Errorf("negative number (%d) not allowed: %s", n, text)
	}
	return n, nil
}
