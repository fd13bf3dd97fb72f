// Package runner runs the steps of a composite action as GitHub's runner does,
// offline: shell steps by bash, steps that use other actions by functions. What
// an action does is then a value to compare, not a log to read.
package runner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// An Action is an action.yml.
type Action struct {
	Inputs  map[string]struct{ Description, Default string }
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []Step
	}

	dir string
}

// A Step is one of its steps.
type Step struct {
	ID, Name, If, Shell, Run, Uses string
	ContinueOnError                bool `yaml:"continue-on-error"`
	Env, With                      map[string]string
}

// Load reads the action of a directory. A key that this package does not know
// is an error: it could not be run.
func Load(dir string) (*Action, error) {
	data, err := os.ReadFile(filepath.Join(dir, "action.yml"))
	if err != nil {
		return nil, err
	}
	var file struct {
		Action                    `yaml:",inline"`
		Name, Description, Author string
		Branding                  map[string]string
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		return nil, err
	}
	file.Action.dir = dir
	return &file.Action, nil
}

// A Job is where an action is used.
type Job struct {
	Workspace string            // the checkout
	Temp      string            // RUNNER_TEMP
	Path      string            // PATH
	OS, Arch  string            // RUNNER_OS, RUNNER_ARCH; "" is Linux, X64
	GitHub    map[string]string // event_name, sha, repository, actor, server_url
	Event     map[string]any    // github.event
	Token     string            // github.token
	Inputs    map[string]string // with:
	Uses      map[string]Use    // what other actions do, by name without version
}

// A Use is what a step that uses another action does.
type Use func(with map[string]string) (outputs map[string]string, err error)

// A Result is what a job is left with.
type Result struct {
	Failed   bool
	Outputs  map[string]string            // of the action
	Steps    map[string]map[string]string // outputs of steps by id or name
	Outcomes map[string]string            // success, failure, skipped, by id or name
	Used     []string                     // the actions that were used
	Env      map[string]map[string]string // of shell steps, by id or name
	Log      string
	Commands []Command // that the log's lines issued
	Summary  string    // as GitHub shows it: nothing of a step that wrote more than 1 MiB
}

// maxSummary is GitHub's limit of a step's summary.
const maxSummary = 1 << 20

// Run runs the action's steps.
func (a *Action) Run(ctx context.Context, j *Job) (*Result, error) {
	if a.Runs.Using != "composite" {
		return nil, fmt.Errorf("runs.using is %q", a.Runs.Using)
	}
	r := &Result{Steps: map[string]map[string]string{}, Outcomes: map[string]string{}, Env: map[string]map[string]string{}}
	e := a.expressions(j, r)
	for i := range a.Runs.Steps {
		if err := a.step(ctx, j, r, e, &a.Runs.Steps[i]); err != nil {
			return nil, fmt.Errorf("step %s: %w", a.Runs.Steps[i].name(), err)
		}
	}
	r.Commands = Commands(r.Log)
	r.Outputs = map[string]string{}
	for name, out := range a.Outputs {
		value, err := e.expand(out.Value)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", name, err)
		}
		r.Outputs[name] = value
	}
	return r, nil
}

func (s *Step) name() string { return cmp.Or(s.ID, s.Name, s.Uses) }

// expressions is what expressions of the action can see.
func (a *Action) expressions(j *Job, r *Result) *expressions {
	inputs := map[string]any{}
	for name, in := range a.Inputs {
		inputs[name] = in.Default
	}
	for name, value := range j.Inputs {
		inputs[name] = value
	}
	github := map[string]any{"event": j.Event, "token": j.Token}
	for name, value := range j.GitHub {
		github[name] = value
	}
	return &expressions{
		failed:   func() bool { return r.Failed },
		contexts: map[string]any{"inputs": inputs, "github": github, "steps": map[string]any{}},
	}
}

func (a *Action) step(ctx context.Context, j *Job, r *Result, e *expressions, s *Step) error {
	wanted, err := e.condition(s.If)
	if err != nil {
		return err
	}
	outcome, outputs := "skipped", map[string]string{}
	if wanted {
		ok, err := false, error(nil)
		if s.Uses != "" {
			outputs, ok, err = use(j, r, e, s)
		} else {
			outputs, ok, err = a.shell(ctx, j, r, e, s)
		}
		if err != nil {
			return err
		}
		outcome = "success"
		if !ok {
			outcome = "failure"
			r.Failed = r.Failed || !s.ContinueOnError
		}
	}
	r.Outcomes[s.name()], r.Steps[s.name()] = outcome, outputs
	if s.ID != "" {
		values := map[string]any{}
		for k, v := range outputs {
			values[k] = v
		}
		e.contexts["steps"].(map[string]any)[s.ID] = map[string]any{"outcome": outcome, "outputs": values}
	}
	return nil
}

func use(j *Job, r *Result, e *expressions, s *Step) (map[string]string, bool, error) {
	name, _, _ := strings.Cut(s.Uses, "@")
	with, err := e.expandAll(s.With)
	if err != nil {
		return nil, false, err
	}
	r.Used = append(r.Used, name)
	do := j.Uses[name]
	if do == nil {
		return nil, false, fmt.Errorf("%s is not expected to be used here", name)
	}
	outputs, err := do(with)
	if err != nil {
		r.Log += "::error::" + err.Error() + "\n"
	}
	return outputs, err == nil, nil
}

// shell runs a step's script as "shell: bash" does.
func (a *Action) shell(ctx context.Context, j *Job, r *Result, e *expressions, s *Step) (map[string]string, bool, error) {
	if s.Shell != "bash" {
		return nil, false, fmt.Errorf("the shell is %q", s.Shell)
	}
	if strings.Contains(s.Run, "${{") {
		return nil, false, errors.New("an expression in a script")
	}
	own, err := e.expandAll(s.Env)
	if err != nil {
		return nil, false, err
	}
	r.Env[s.name()] = own
	dir, err := os.MkdirTemp(j.Temp, "_step")
	if err != nil {
		return nil, false, err
	}
	files := map[string]string{}
	for _, name := range []string{"GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE"} {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], nil, 0o666); err != nil {
			return nil, false, err
		}
	}
	script := filepath.Join(dir, "script.sh")
	if err := os.WriteFile(script, []byte(s.Run), 0o666); err != nil {
		return nil, false, err
	}
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script)
	cmd.Dir = j.Workspace
	cmd.Env = a.environment(j, files, own)
	log, err := cmd.CombinedOutput()
	r.Log += string(log)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, false, err
	}
	return r.collect(files, err == nil)
}

func (a *Action) environment(j *Job, files, own map[string]string) []string {
	env := map[string]string{
		"PATH": j.Path, "HOME": j.Temp, "CI": "true", "GITHUB_ACTIONS": "true", "LANG": "C.UTF-8",
		"GITHUB_ACTION_PATH": a.dir, "GITHUB_WORKSPACE": j.Workspace,
		"RUNNER_TEMP": j.Temp, "RUNNER_OS": cmp.Or(j.OS, "Linux"), "RUNNER_ARCH": cmp.Or(j.Arch, "X64"),
	}
	for k, v := range j.GitHub {
		env["GITHUB_"+strings.ToUpper(k)] = v
	}
	maps.Copy(env, files)
	maps.Copy(env, own)
	var list []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}

// collect reads what a step left in the runner's files.
func (r *Result) collect(files map[string]string, ok bool) (map[string]string, bool, error) {
	for _, name := range []string{"GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE"} {
		if data, err := os.ReadFile(files[name]); err != nil || len(data) > 0 {
			return nil, false, fmt.Errorf("wrote to %s: %q %w", name, data, err)
		}
	}
	summary, err := os.ReadFile(files["GITHUB_STEP_SUMMARY"])
	if err != nil {
		return nil, false, err
	}
	if len(summary) <= maxSummary {
		r.Summary += string(summary)
	}
	data, err := os.ReadFile(files["GITHUB_OUTPUT"])
	if err != nil {
		return nil, false, err
	}
	outputs, err := fileCommands(string(data))
	return outputs, ok, err
}

// fileCommands reads name=value and name<<END lines.
func fileCommands(data string) (map[string]string, error) {
	values := map[string]string{}
	lines := strings.Split(data, "\n")
	for i := 0; i < len(lines); i++ {
		equals, here := strings.Index(lines[i], "="), strings.Index(lines[i], "<<")
		switch {
		case lines[i] == "":
		case equals >= 0 && (here < 0 || equals < here):
			values[lines[i][:equals]] = lines[i][equals+1:]
		case here >= 0:
			name, end := lines[i][:here], lines[i][here+2:]
			n := slices.Index(lines[i+1:], end)
			if n < 0 {
				return nil, fmt.Errorf("no end %q of the output %s", end, name)
			}
			values[name] = strings.Join(lines[i+1:i+1+n], "\n")
			i += n + 1
		default:
			return nil, fmt.Errorf("no output: %q", lines[i])
		}
	}
	return values, nil
}
