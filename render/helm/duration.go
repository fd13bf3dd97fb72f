package helm

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// durationFunctions are the functions that Helm 4.3 adds. All but mustToDuration take what is no
// duration for 0.
var durationFunctions = template.FuncMap{
	"mustToDuration":       toDuration,
	"durationSeconds":      func(v any) float64 { return duration(v).Seconds() },
	"durationMilliseconds": func(v any) int64 { return duration(v).Milliseconds() },
	"durationMicroseconds": func(v any) int64 { return duration(v).Microseconds() },
	"durationNanoseconds":  func(v any) int64 { return duration(v).Nanoseconds() },
	"durationMinutes":      func(v any) float64 { return duration(v).Minutes() },
	"durationHours":        func(v any) float64 { return duration(v).Hours() },
	"durationDays":         func(v any) float64 { return duration(v).Hours() / 24 },
	"durationWeeks":        func(v any) float64 { return duration(v).Hours() / 24 / 7 },
	// Round and Truncate return the duration itself for a multiple of 0.
	"durationRoundTo":    func(v, multiple any) time.Duration { return duration(v).Round(duration(multiple)) },
	"durationTruncateTo": func(v, multiple any) time.Duration { return duration(v).Truncate(duration(multiple)) },
}

func duration(v any) time.Duration {
	d, _ := toDuration(v)
	return d
}

// toDuration returns a duration, which may be a text such as "1h30m" or a number of seconds.
func toDuration(v any) (time.Duration, error) {
	switch v := v.(type) {
	case time.Duration:
		return v, nil
	case string:
		text := strings.TrimSpace(v)
		if d, err := time.ParseDuration(text); err == nil {
			return d, nil
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return ofSeconds(f)
		}
		return 0, fmt.Errorf("%q is no duration", v)
	case nil:
		return 0, errors.New("null is no duration")
	}
	switch v := reflect.ValueOf(v); {
	case v.CanInt():
		if n := v.Int(); n <= math.MaxInt64/int64(time.Second) && n >= math.MinInt64/int64(time.Second) {
			return time.Duration(n) * time.Second, nil
		}
		return 0, fmt.Errorf("%d seconds are too many for a duration", v.Int())
	case v.CanUint():
		if n := v.Uint(); n <= math.MaxInt64/uint64(time.Second) {
			return time.Duration(n) * time.Second, nil
		}
		return 0, fmt.Errorf("%d seconds are too many for a duration", v.Uint())
	case v.CanFloat():
		return ofSeconds(v.Float())
	}
	return 0, fmt.Errorf("a %T is no duration", v)
}

func ofSeconds(n float64) (time.Duration, error) {
	const most = float64(math.MaxInt64) / float64(time.Second)
	if !(math.Abs(n) <= most) { // or NaN
		return 0, fmt.Errorf("%v seconds are too many for a duration", n)
	}
	return time.Duration(n * float64(time.Second)), nil
}
