package engines

import (
	"errors"
	"fmt"
	"slices"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
)

// New returns the engines without the policies and definitions that ended an earlier child process
// when it compiled them. If a child ended while compiling all of them, the next one compiles each
// on its own to find the cause.
func New(in, trusted *load.Input, o Options) (*Set, error) {
	w := o.Watch
	if w == nil {
		return compile(in, trusted, o)
	}
	w.Phase("compiling policies")
	defer w.Phase("evaluating")
	defer w.Measure("compiling policies")()
	whole, done, err := w.Start(compileTask, false)
	if err == nil {
		defer done()
	}
	none := whole == nil // together they ended an earlier child
	var lost []error
	if none {
		lost = []error{setApartError(render.Span{}, "all policies", err)}
	} else {
		w.Extend(whole, 1+compiledOf(in, trusted)/fewPolicies)
	}
	if !none && w.Order.Careful {
		compileEach(w, in, trusted, o)
	}
	lessIn, dropped := withoutApart(w, in, none)
	lost = append(lost, dropped...)
	lessTrusted := lessIn
	if trusted != in {
		lessTrusted, dropped = withoutApart(w, trusted, none)
		lost = append(lost, dropped...)
	}
	b, err := compile(lessIn, lessTrusted, o)
	if err == nil {
		b.broken(errors.Join(lost...))
	}
	return b, err
}

const compileTask = "compile policies"

// fewPolicies is the number of policies for which the time limit of one task is granted.
const fewPolicies = 500

// compiledIn returns the policies and definitions of an input.
func compiledIn(in *load.Input) []*render.Object {
	return load.Only(slices.Concat(render.Objects(in.Head), render.Objects(in.Given), render.Objects(in.Context)), lint.IsCompiled)
}

// compiledOf counts policies, definitions and modules.
func compiledOf(in, trusted *load.Input) int {
	n := 0
	for _, from := range sides(in, trusted) {
		n += len(compiledIn(from)) + len(from.Modules)
	}
	return n
}

// compileEach compiles each policy and definition as a task of its own, so that the parent knows
// which one ended the process.
func compileEach(w *tasks.Watch, in, trusted *load.Input, o Options) {
	settings := *o.Settings
	settings.NoTreePolicies, settings.Packs = true, []string{DefaultPack}
	alone := Options{Settings: &settings, Prints: o.Prints}
	try := func(name string, only load.Input) {
		done, err := w.Begin(name, true)
		if err != nil {
			return
		}
		defer done()
		only.Tree, only.Stdin = in.Tree, in.Stdin
		compile(&only, &only, alone)
	}
	for _, from := range sides(in, trusted) {
		for _, object := range compiledIn(from) {
			unit := &render.Unit{Source: render.Source{Path: object.Unit.Path}, Objects: []*render.Object{object}}
			try(compileName(object), load.Input{Given: []*render.Unit{unit}})
		}
		for _, m := range from.Modules {
			try(moduleName(m), load.Input{Modules: []rego.Module{m}})
		}
	}
}

// sides returns the two inputs, or only one if they are the same.
func sides(in, trusted *load.Input) []*load.Input {
	if in == trusted {
		return []*load.Input{in}
	}
	return []*load.Input{in, trusted}
}

func compileName(o *render.Object) string {
	k := o.Key()
	return fmt.Sprintf("compile %s %s %s/%s %s", k.APIVersion, k.Kind, k.Namespace, k.Name, o.Span(""))
}

func moduleName(m rego.Module) string { return "compile " + m.File }

// withoutApart returns the input without the policies that are set apart, or with none without any
// policies, and an error for each removed policy.
func withoutApart(w *tasks.Watch, in *load.Input, none bool) (*load.Input, []error) {
	if len(w.Order.Apart) == 0 {
		return in, nil
	}
	var lost []error
	leftOut := func(name, what string, at render.Span) bool {
		err := w.Apart(name)
		if err != nil {
			lost = append(lost, setApartError(at, what, err))
		}
		return err != nil || none
	}
	less := *in
	for _, units := range []*[]*render.Unit{&less.Head, &less.Given, &less.Context} {
		*units = slices.Clone(*units)
		for i, u := range *units {
			copied := *u
			copied.Objects = slices.DeleteFunc(slices.Clone(u.Objects), func(o *render.Object) bool {
				return lint.IsCompiled(o) && leftOut(compileName(o), o.GetKind()+" "+o.GetName(), o.Span(""))
			})
			(*units)[i] = &copied
		}
	}
	less.Modules = slices.DeleteFunc(slices.Clone(in.Modules), func(m rego.Module) bool {
		return leftOut(moduleName(m), m.File, render.Span{File: m.File})
	})
	return &less, lost
}

func setApartError(at render.Span, what string, why error) error {
	return &render.Error{Span: at, Rule: "set-apart", Hint: tasks.LimitsHint, Err: fmt.Errorf("compiling %.253s %w: it is skipped", what, why)}
}
