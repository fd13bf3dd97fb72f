package kindcheck

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (c *check) job(o *batchv1.Job, p *Spot) {
	s := &o.Spec
	c.jobSpec(s, p)
	// Without manualSelector the server makes the selector and its labels.
	if s.ManualSelector != nil && *s.ManualSelector {
		at := p.In("selector")
		c.selector(s.Selector, at)
		if s.Selector == nil {
			c.required(at, "")
		} else if !matches(s.Selector, s.Template.Labels) {
			c.invalid(p.In("template", "metadata", "labels"), s.Template.Labels, mismatch).also(at)
		}
	}
	if indexed(s) && s.Completions != nil && *s.Completions > 0 {
		host := fmt.Sprintf("%s-%d", o.Name, *s.Completions-1)
		if o.Name != "" && len(validation.IsDNS1123Label(host)) > 0 {
			c.invalid(Top.In("metadata", "name"), o.Name, "will not able to create pod with invalid DNS label: "+host)
		}
	}
}

func indexed(s *batchv1.JobSpec) bool {
	return s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
}

func (c *check) jobSpec(s *batchv1.JobSpec, p *Spot) {
	notNegativeAt(c, p, "parallelism", s.Parallelism)
	notNegativeAt(c, p, "completions", s.Completions)
	notNegativeAt(c, p, "activeDeadlineSeconds", s.ActiveDeadlineSeconds)
	notNegativeAt(c, p, "backoffLimit", s.BackoffLimit)
	notNegativeAt(c, p, "ttlSecondsAfterFinished", s.TTLSecondsAfterFinished)
	notNegativeAt(c, p, "backoffLimitPerIndex", s.BackoffLimitPerIndex)
	notNegativeAt(c, p, "maxFailedIndexes", s.MaxFailedIndexes)
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		c.required(p.In("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
	}
	c.completionMode(s, p)
	if s.PodFailurePolicy != nil {
		c.podFailurePolicy(s, p.In("podFailurePolicy"))
	}
	if s.SuccessPolicy != nil && !indexed(s) {
		c.invalid(p.In("successPolicy"), s.SuccessPolicy, "requires indexed completion mode")
	} else if s.SuccessPolicy != nil && s.Completions != nil {
		c.successPolicy(s, p.In("successPolicy", "rules"))
	}
	if r := s.PodReplacementPolicy; r != nil {
		valid := []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}
		if s.PodFailurePolicy != nil {
			valid = valid[:1]
		}
		oneOf(c, p.In("podReplacementPolicy"), *r, valid...)
	}
	c.template(&s.Template, p.In("template"))
	c.jobRestartPolicy(s, p.In("template", "spec", "restartPolicy"))
}

// successPolicy validates the policy by which a Job ends early.
func (c *check) successPolicy(s *batchv1.JobSpec, p *Spot) {
	rules := s.SuccessPolicy.Rules
	if len(rules) == 0 {
		c.required(p, "at least one rules must be specified when the successPolicy is specified")
	}
	if n := len(rules); n > 20 {
		c.tooMany(p, n, 20)
	}
	for i, r := range rules {
		at, total := p.In(i), 0
		if r.SucceededCount == nil && r.SucceededIndexes == nil {
			c.required(at, "at least one of succeededCount or succeededIndexes must be specified")
		}
		if r.SucceededIndexes != nil {
			var err error
			if total, err = countIndexes(*r.SucceededIndexes, int(*s.Completions)); err != nil {
				c.invalid(at.In("succeededIndexes"), *r.SucceededIndexes, "error parsing succeededIndexes: "+err.Error())
			}
		}
		if r.SucceededCount == nil {
			continue
		}
		count, n := at.In("succeededCount"), *r.SucceededCount
		c.notNegative(at, "succeededCount", int64(n))
		if n > *s.Completions {
			c.invalid(count, n, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", *s.Completions)).also(Top.In("spec", "completions"))
		}
		if r.SucceededIndexes != nil && int(n) > total {
			c.invalid(count, n, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", total)).also(at.In("succeededIndexes"))
		}
	}
}

// countIndexes counts the indexes of 0,2-4, which have to rise and to be below completions.
func countIndexes(text string, completions int) (int, error) {
	total, last := 0, -1
	if text == "" {
		return 0, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		var first int
		bounds := strings.Split(part, "-")
		if len(bounds) > 2 {
			return 0, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", part)
		}
		for i, b := range bounds {
			n, err := strconv.Atoi(b)
			switch {
			case err != nil:
				return 0, fmt.Errorf("cannot convert string to integer for index: %q", b)
			case n >= completions:
				return 0, fmt.Errorf("too large index: %q", b)
			case i == 0 && n <= last || i == 1 && n <= first:
				return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", max(last, first), n)
			}
			if i == 0 {
				first, total = n, total+1
			} else {
				total += n - first
			}
			last = n
		}
	}
	return total, nil
}

func (c *check) completionMode(s *batchv1.JobSpec, p *Spot) {
	if s.CompletionMode != nil {
		oneOf(c, p.In("completionMode"), *s.CompletionMode, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	}
	if indexed(s) {
		const most = 100000
		if s.Completions == nil {
			c.required(p.In("completions"), "when completion mode is Indexed")
		}
		if s.Parallelism != nil && *s.Parallelism > most {
			c.invalid(p.In("parallelism"), *s.Parallelism, fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", most))
		}
		if s.Completions != nil && s.MaxFailedIndexes != nil && *s.MaxFailedIndexes > *s.Completions {
			c.invalid(p.In("maxFailedIndexes"), *s.MaxFailedIndexes, "must be less than or equal to completions").also(p.In("completions"))
		}
		return
	}
	if s.CompletionMode != nil && *s.CompletionMode != batchv1.NonIndexedCompletion {
		return
	}
	if s.BackoffLimitPerIndex != nil {
		c.invalid(p.In("backoffLimitPerIndex"), *s.BackoffLimitPerIndex, "requires indexed completion mode")
	}
	if s.MaxFailedIndexes != nil {
		c.invalid(p.In("maxFailedIndexes"), *s.MaxFailedIndexes, "requires indexed completion mode")
	}
}

func (c *check) jobRestartPolicy(s *batchv1.JobSpec, p *Spot) {
	switch policy := s.Template.Spec.RestartPolicy; {
	case policy == corev1.RestartPolicyAlways || policy == "":
		c.required(p, `valid values: "OnFailure", "Never"`)
	case policy != corev1.RestartPolicyOnFailure && policy != corev1.RestartPolicyNever:
		oneOf(c, p, policy, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	case s.PodFailurePolicy != nil && policy != corev1.RestartPolicyNever:
		c.invalid(p, policy, `only "Never" is supported when podFailurePolicy is specified`)
	}
}

func (c *check) podFailurePolicy(s *batchv1.JobSpec, p *Spot) {
	if n := len(s.PodFailurePolicy.Rules); n > 20 {
		c.tooMany(p.In("rules"), n, 20)
	}
	for i := range s.PodFailurePolicy.Rules {
		r, at := &s.PodFailurePolicy.Rules[i], p.In("rules", i)
		switch {
		case r.Action == "":
			c.required(at.In("action"), `valid values: ["Count" "FailIndex" "FailJob" "Ignore"]`)
		case r.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil:
			c.invalid(at.In("action"), r.Action, "requires the backoffLimitPerIndex to be set")
		default:
			oneOf(c, at.In("action"), r.Action, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
				batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)
		}
		both := r.OnExitCodes != nil && len(r.OnPodConditions) > 0
		if both || r.OnExitCodes == nil && len(r.OnPodConditions) == 0 {
			text := "specifying one of OnExitCodes and OnPodConditions is required"
			if both {
				text = "specifying both OnExitCodes and OnPodConditions is not supported"
			}
			c.omitted(at, text)
		}
		c.podConditions(r.OnPodConditions, at.In("onPodConditions"))
		if r.OnExitCodes != nil {
			c.exitCodes(r.OnExitCodes, &s.Template.Spec, at.In("onExitCodes"))
		}
	}
}

func (c *check) podConditions(list []batchv1.PodFailurePolicyOnPodConditionsPattern, p *Spot) {
	if n := len(list); n > 20 {
		c.tooMany(p, n, 20)
	}
	for i, pattern := range list {
		at := p.In(i)
		c.invalids(at.In("type"), string(pattern.Type), qualifiedName(string(pattern.Type)))
		if pattern.Status == "" {
			c.required(at.In("status"), `valid values: ["False" "True" "Unknown"]`)
		} else {
			oneOf(c, at.In("status"), pattern.Status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)
		}
	}
}

func (c *check) exitCodes(r *batchv1.PodFailurePolicyOnExitCodesRequirement, spec *corev1.PodSpec, p *Spot) {
	if r.Operator == "" {
		c.required(p.In("operator"), `valid values: ["In" "NotIn"]`)
	} else {
		oneOf(c, p.In("operator"), r.Operator, batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	}
	if name := r.ContainerName; name != nil && !hasContainer(spec, *name) {
		c.invalid(p.In("containerName"), *name, "must be one of the container or initContainer names in the pod template")
	}
	values := p.In("values")
	if len(r.Values) == 0 {
		c.invalid(values, r.Values, "at least one value is required")
	}
	seen := map[int32]bool{}
	for i, v := range r.Values {
		if v == 0 && r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			c.invalid(values.In(i), v, "must not be 0 for the In operator")
		}
		if seen[v] {
			c.duplicate(values.In(i), v)
		}
		seen[v] = true
	}
	if !slices.IsSorted(r.Values) {
		c.invalid(values, r.Values, "must be ordered")
	}
}

// maxCronJobName leaves room for the time at the end of the Jobs' names.
const maxCronJobName = 52

func (c *check) cronJob(o *batchv1.CronJob, create bool) {
	s, p := &o.Spec, Top.In("spec")
	if s.Schedule == "" {
		c.required(p.In("schedule"), "")
	} else {
		c.schedule(s.Schedule, p.In("schedule"), create)
	}
	notNegativeAt(c, p, "startingDeadlineSeconds", s.StartingDeadlineSeconds)
	if s.TimeZone != nil {
		c.timeZone(*s.TimeZone, p.In("timeZone"))
	}
	oneOf(c, p.In("concurrencyPolicy"), s.ConcurrencyPolicy, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	spec := p.In("jobTemplate", "spec")
	c.jobSpec(&s.JobTemplate.Spec, spec)
	if s.JobTemplate.Spec.Selector != nil {
		c.invalid(spec.In("selector"), s.JobTemplate.Spec.Selector, "`selector` will be auto-generated")
	}
	if m := s.JobTemplate.Spec.ManualSelector; m != nil && *m {
		c.unsupported(spec.In("manualSelector"), "true", "nil", "false")
	}
	notNegativeAt(c, p, "successfulJobsHistoryLimit", s.SuccessfulJobsHistoryLimit)
	notNegativeAt(c, p, "failedJobsHistoryLimit", s.FailedJobsHistoryLimit)
	if create && len(o.Name) > maxCronJobName {
		c.invalid(Top.In("metadata", "name"), o.Name, "must be no more than 52 characters")
	}
}

func (c *check) schedule(schedule string, p *Spot, create bool) {
	if err := checkSchedule(schedule); err != nil {
		c.invalid(p, schedule, err.Error())
	}
	if create && strings.Contains(schedule, "TZ") {
		c.invalid(p, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	}
}

var timeZonePart = regexp.MustCompile(`^[A-Za-z\.\-_0-9+]{1,14}$`)

// timeZone validates the form of a time zone's name; the cluster knows the names.
func (c *check) timeZone(zone string, p *Spot) {
	if zone == "" {
		c.invalid(p, zone, "timeZone must be nil or non-empty string")
		return
	}
	for part := range strings.SplitSeq(zone, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !timeZonePart.MatchString(part) {
			c.invalid(p, zone, "unknown time zone "+zone)
			return
		}
	}
	if strings.EqualFold(zone, "Local") {
		c.invalid(p, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	}
}
