package policytest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/sample"
	"github.com/preadmit/preadmit/render"
)

// WriteOptions configure [Write].
type WriteOptions struct {
	FS       fs.FS                          // the tree that the tests will be in
	Dir      string                         // directory of FS for the tests, each in a directory of its own
	Engines  func(*policy.Coverage) Engines // that count the branches they take
	Policies []*render.Object               // with their templates
	Objects  []*render.Object               // candidates for samples
	Others   []*render.Object               // other objects of the cluster: parameters, Namespaces, definitions of kinds
	Jobs     int                            // tests that are written at once

	// Watch is called before each test is written, see Options.
	Watch func(name string) (done func(), err error)
}

// A Draft is the test of one policy.
type Draft struct {
	Policy string
	Kind   string
	Origin render.Span // of the policy
	Format string      // the name of the suite's Format; "" if there is no test
	File   string      // the suite
	Files  []File      // all files of the test
	Cases  int
	Rules  []DraftRule
	Edits  []string // how objects of the repository were changed

	Branches, Covered int
	Untaken           []policy.Branch // that no object takes
	Refused           string          // why there is no test
}

// A File is one file of a test.
type File struct {
	Name string
	Data []byte
}

// A DraftRule is a rule with the statuses that the test expects of it, and those
// that no object has.
type DraftRule struct {
	Name    string
	Has     []string
	Missing []string
}

// A drafter writes the test of one policy in the format of a tool.
type drafter interface {
	// evaluate returns the rules' results for an object: none if the policy does not
	// match it, or can't be decided. undecided is the reason.
	evaluate(ctx context.Context, o *render.Object) (results []sample.Result, undecided string)
	// wants returns the statuses that a test should expect of each rule.
	wants() []sample.Goal
	// texts returns the kinds, names and other values that the policy matches.
	texts() []any
	// files returns the test of samples, the suite first. n names the objects.
	files(d *draft, samples []*sample.Sample) []File
}

// A draft is a test while it is written.
type draft struct {
	Draft
	o      *WriteOptions
	object *render.Object // the policy
	dir    string
	kinds  policy.Kinds

	coverage *policy.Coverage // of the engines with which samples are found
}

// Write writes a test for each policy: few objects that pass and fail each rule
// and take each branch. Where no object of the repository does so, Write changes
// one at the fields that the policy reads. A test keeps the cases that pass in
// [Run]. The error is for cancellation: drafts that are not finished are refused.
func Write(ctx context.Context, o WriteOptions) ([]Draft, error) {
	kinds, err := o.Engines(nil).Kinds(slices.Concat(o.Others, o.Objects))
	if err != nil && kinds == nil {
		return nil, err
	}
	var all []*draft
	taken := make(map[string]bool)
	for _, p := range o.Policies {
		if writes(p) {
			d := &draft{o: &o, object: p, kinds: kinds}
			d.Policy, d.Kind, d.Origin = name(p), p.GetKind(), p.Span("")
			d.dir = path.Join(o.Dir, unusedName(p.GetName(), taken))
			all = append(all, d)
		}
	}
	var samples []*render.Object
	for _, x := range o.Objects {
		if !isReview(x) { // which is not deployed
			samples = append(samples, sample.Prepare(x, kinds))
		}
	}
	var group errgroup.Group
	group.SetLimit(max(o.Jobs, 1))
	for _, d := range all {
		group.Go(func() error {
			d.watched(ctx, samples)
			return nil
		})
	}
	_ = group.Wait()
	drafts := make([]Draft, len(all))
	for i, d := range all {
		drafts[i] = d.Draft
	}
	return drafts, ctx.Err()
}

// writes reports whether a policy is of a kind that tests can be written for.
func writes(p *render.Object) bool {
	switch p.GroupVersionKind().Group {
	case "kyverno.io", "policies.kyverno.io", "admissionregistration.k8s.io":
		return isPolicyKind(p.GetKind())
	case "constraints.gatekeeper.sh":
		return true
	}
	return false
}

// unusedName returns a file name similar to called that is not in taken, and adds
// it to taken.
func unusedName(called string, taken map[string]bool) string {
	plain := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, called[:min(len(called), 100)]), ".-")
	plain = cmp.Or(plain, "policy")
	for n := 1; ; n++ {
		free := plain
		if n > 1 {
			free = fmt.Sprintf("%s-%d", plain, n)
		}
		if key := strings.ToLower(free); !taken[key] {
			taken[key] = true
			return free
		}
	}
}

func (d *draft) watched(ctx context.Context, samples []*render.Object) {
	if ctx.Err() != nil {
		d.Refused = outOfTime
		return
	}
	if d.o.Watch != nil {
		done, err := d.o.Watch(d.Policy)
		if err != nil {
			d.Refused = fmt.Sprintf("writing it %s", err)
			return
		}
		defer done()
	}
	err := d.write(ctx, samples)
	if ctx.Err() != nil {
		err = errors.New(outOfTime)
	}
	if err != nil {
		d.Files, d.Format = nil, ""
		d.Refused = sample.OneLine(bare(err).Error())
	}
}

const outOfTime = "not enough time"

// write finds samples and writes the test.
func (d *draft) write(ctx context.Context, objects []*render.Object) error {
	d.coverage = policy.NewCoverage()
	w, err := d.drafter(d.o.Engines(d.coverage))
	if err != nil {
		return err
	}
	found := sample.Find(ctx, sample.Search{
		Evaluate: func(o *render.Object) ([]sample.Result, string) { return w.evaluate(ctx, o) },
		Coverage: d.coverage, Texts: w.texts(), Statuses: w.wants(), Kinds: d.kinds,
	}, objects)
	if matches, undecided := found.Matches(); undecided != "" && !matches {
		return fmt.Errorf("the policy can't be decided for the objects here that it matches: %s", undecided)
	} else if !matches {
		return errors.New("the policy matches none of the objects here")
	}
	samples := found.Choose()
	if len(samples) == 0 {
		return errors.New("no object has a result that a test could expect")
	}
	if samples, err = d.keepTrue(ctx, w, samples); err != nil {
		return err
	}
	d.report(found, samples)
	return nil
}

// drafter returns the drafter for the policy's kind.
func (d *draft) drafter(e Engines) (drafter, error) {
	switch group := d.object.GroupVersionKind().Group; {
	case group == "constraints.gatekeeper.sh":
		return d.gatorDrafter(e)
	case d.object.GetKind() == validatingKind:
		return d.kaptestDrafter(e)
	default:
		return d.kyvernoDrafter(e)
	}
}

// keepTrue writes the files of samples and runs the test. Samples of cases that do
// not pass, or that no rule ran on, are left out. It returns the rest.
func (d *draft) keepTrue(ctx context.Context, w drafter, samples []*sample.Sample) ([]*sample.Sample, error) {
	for range 3 {
		d.rename(samples)
		d.Files = w.files(d, samples)
		r, err := d.runTest(ctx)
		if err != nil {
			return nil, err
		}
		bad := make(map[string]string)
		for _, c := range r.Cases {
			if !c.OK || c.Vacuous || c.Unmatched {
				bad[c.Kind+" "+c.Resource] = cmp.Or(c.Reason, "the policy does not see it")
			}
		}
		if r.Error != "" {
			return nil, fmt.Errorf("the test could not be run: %s", r.Error)
		}
		if len(bad) == 0 {
			d.Cases, d.Format, d.File = len(r.Cases), r.Kind, d.Files[0].Name
			return samples, nil
		}
		why := ""
		samples = slices.DeleteFunc(samples, func(x *sample.Sample) bool {
			reason, ok := bad[x.Object.GetKind()+" "+x.Name()]
			why = cmp.Or(why, reason)
			return ok
		})
		if len(samples) == 0 {
			return nil, fmt.Errorf("its test would fail: %s", why)
		}
	}
	return nil, errors.New("its test would fail")
}

// runTest runs the written test.
func (d *draft) runTest(ctx context.Context) (*Suite, error) {
	overlay := render.NewOverlay(d.o.FS, nil)
	for _, f := range d.Files {
		overlay.WriteText(f.Name, f.Data, nil)
	}
	r, err := Run(ctx, Options{FS: overlay, Engines: d.o.Engines(nil)}, d.Files[0].Name)
	if err != nil {
		return nil, err
	}
	return &r.Suites[0], nil
}

// rename gives each sample a name of its own, whatever its kind: Kyverno finds
// objects by name alone.
func (d *draft) rename(samples []*sample.Sample) {
	taken := make(map[string]bool)
	for _, x := range samples {
		o := sample.Replace(x.Object, x.Object.DeepCopy().Object)
		called := o.GetName()
		if len(x.Edits) > 0 && x.From.GetName() == called {
			called = strings.TrimRight(called[:min(len(called), 40)], "-.") + "-changed"
		}
		free := called
		for n := 2; taken[o.GetNamespace()+"/"+free]; n++ {
			free = fmt.Sprintf("%s-%d", called, n)
		}
		taken[o.GetNamespace()+"/"+free] = true
		o.SetName(free)
		x.Object = o
	}
}

// report sets which statuses and branches the test reaches, and which it does not.
func (d *draft) report(found *sample.Finder, samples []*sample.Sample) {
	has := make(map[sample.Goal]bool)
	for _, x := range samples {
		for _, g := range x.Reaches {
			has[g] = true
		}
		for _, e := range x.Edits {
			d.Edits = append(d.Edits, sample.OneLine(fmt.Sprintf("%s %s: %s", x.Object.GetKind(), x.Name(), e)))
		}
	}
	for _, g := range found.Goals() {
		if g.Rule == "" && g.Status == "" {
			d.Branches++
			if has[g] {
				d.Covered++
			} else {
				d.Untaken = append(d.Untaken, g.Branch)
			}
			continue
		}
		i := slices.IndexFunc(d.Rules, func(r DraftRule) bool { return r.Name == g.Rule })
		if i < 0 {
			i, d.Rules = len(d.Rules), append(d.Rules, DraftRule{Name: g.Rule})
		}
		if has[g] {
			d.Rules[i].Has = append(d.Rules[i].Has, g.Status)
		} else {
			d.Rules[i].Missing = append(d.Rules[i].Missing, g.Status)
		}
	}
}

// reference returns the path, relative to the test, of a file that contains o
// unchanged, or of a copy if there is none. fits reports whether the suite may name
// a file with these objects.
func (d *draft) reference(o *render.Object, fits func([]*render.Object) bool, files *[]File, copied string) string {
	file := o.Span("").File
	if objects, err := d.written(file); err == nil && len(objects) > 0 {
		same := func(x *render.Object) bool {
			return x.GroupVersionKind() == o.GroupVersionKind() && x.GetName() == o.GetName() && reflect.DeepEqual(x.Object["spec"], o.Object["spec"])
		}
		if slices.ContainsFunc(objects, same) && fits(objects) {
			return relative(d.dir, file)
		}
	}
	copied = path.Join(copies, copied)
	*files = append(*files, File{path.Join(d.dir, copied), d.document("A copy of the one in "+cmp.Or(file, "a rendered unit")+".", o.Object)})
	return copied
}

// copies is the directory of copied policies. Files in it are not deployed.
const copies = "testdata"

// written reads the documents of a file that a suite can name. A List stays one object.
func (d *draft) written(file string) ([]*render.Object, error) {
	if file == "" || strings.HasPrefix(file, ".outside/") {
		return nil, fs.ErrNotExist
	}
	data, err := render.ReadFile(d.o.FS, file)
	if err != nil {
		return nil, err
	}
	docs, err := render.Documents(file, data, render.YAML11)
	var all []*render.Object
	for i := range docs {
		if docs[i].Value == nil {
			continue
		}
		o, err := objectOf(docs[i].Value, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, err
}

// relative returns the path from a directory of the tree to a file.
func relative(dir, file string) string {
	from, to := strings.Split(dir, "/"), strings.Split(file, "/")
	n := 0
	for n < len(from) && n < len(to)-1 && from[n] == to[n] {
		n++
	}
	return strings.Repeat("../", len(from)-n) + strings.Join(to[n:], "/")
}

// document returns a YAML document below a comment.
func (d *draft) document(comment string, value any) []byte {
	data, err := yaml.Marshal(value)
	if err != nil { // a value of JSON always has YAML
		data = fmt.Appendf(nil, "# %s\n", sample.OneLine(err.Error()))
	}
	if comment == "" {
		return data
	}
	return append([]byte("# "+sample.OneLine(comment)+"\n"), data...)
}

// sampleDocument returns an object as a document that says where it comes from.
func (d *draft) sampleDocument(x *sample.Sample) []byte {
	var b bytes.Buffer
	from := "As it is"
	if len(x.Edits) > 0 {
		from = "Changed from the one"
	}
	if x.From.Unit != nil {
		from += " in " + x.From.Unit.Identity()
	}
	fmt.Fprintf(&b, "# %s", sample.OneLine(from))
	for i, e := range x.Edits {
		if i == 0 {
			b.WriteByte(':')
		}
		fmt.Fprintf(&b, "\n#   %s", sample.OneLine(e.String()))
	}
	if len(x.Edits) == 0 {
		b.WriteByte('.')
	}
	b.WriteByte('\n')
	b.Write(d.document("", x.Object.Object))
	return b.Bytes()
}

// samplesFile returns a file of objects.
func (d *draft) samplesFile(called string, samples []*sample.Sample) File {
	parts := make([][]byte, len(samples))
	for i, x := range samples {
		parts[i] = d.sampleDocument(x)
	}
	return File{path.Join(d.dir, called), bytes.Join(parts, []byte("---\n"))}
}

// suiteHead is the comment of each suite.
const suiteHead = "Written by preadmit test --write. It may be edited: preadmit replaces it only with --overwrite."
