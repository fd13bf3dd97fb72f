package helm

import (
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/preadmit/preadmit/render"
)

// A doubt is the reason why a condition can't be decided offline.
type doubt uint8

const (
	sure          doubt = iota
	byKubeVersion       // the next five have assumed values unless the user sets them
	byReleaseName
	byNamespace
	byRelease  // a map with both of them
	byIdentity // the result of a comparison with them
	byLookup
	byRevision
	byVersions
	byTime
	byChance
	byName
	byHelm
	byOrder
	byCommit
	byAddress
)

var doubts = [...]string{
	byKubeVersion: "the version of Kubernetes", byReleaseName: "the release's name", byNamespace: "the release's namespace", byRelease: "the release's name or namespace", byIdentity: "the release's name or namespace",
	byLookup: "what lookup finds", byRevision: "the release's revision", byVersions: "the list of API versions that the cluster serves",
	byTime: "the time", byChance: "random values", byName: "what a host name resolves to",
	byHelm: "the version of Helm", byOrder: "the order of a map's keys", byCommit: "the commit that Argo CD deploys",
	byAddress: "the address of a value in memory",
}

// assumptions are the rules of the errors that name assumed values.
var assumptions = map[doubt]string{
	byKubeVersion: render.AssumedVersion, byReleaseName: render.AssumedRelease, byNamespace: render.AssumedRelease, byRelease: render.AssumedRelease, byIdentity: render.AssumedRelease,
}

// isName reports whether the doubt is about the name of the release, of its namespace or of the
// commit. Such a doubt matters only where the name is compared with a text.
func (d doubt) isName() bool { return byReleaseName <= d && d <= byRelease || d == byCommit }

// compared returns the doubt about the result of a comparison with a doubtful value.
func (d doubt) compared() doubt {
	if byReleaseName <= d && d <= byRelease {
		return byIdentity
	}
	return d
}

// doubtful are functions whose results differ between clusters or calls.
var doubtful = map[string]doubt{
	"lookup": byLookup, "getHostByName": byName,
	"now": byTime, "ago": byTime, "date": byTime, "dateInZone": byTime, "date_in_zone": byTime,
	"htmlDate": byTime, "htmlDateInZone": byTime, "durationRound": byTime, // given no time, these use the current time
	"randAlphaNum": byChance, "randAlpha": byChance, "randNumeric": byChance, "randAscii": byChance,
	"randBytes": byChance, "randInt": byChance, "shuffle": byChance, "uuidv4": byChance,
	"genPrivateKey": byChance, "genCA": byChance, "genSelfSignedCert": byChance, "genSignedCert": byChance,
	"bcrypt": byChance, "htpasswd": byChance, "encryptAES": byChance, "derivePassword": byChance,
}

// assumedBy maps each assumption of a function to the doubt that it leaves.
var assumedBy = map[string]doubt{assumedLookup: byLookup, assumedClock: byTime, assumedRandom: byChance, assumedKeys: byChance, assumedAddress: byAddress}

// doubtCounts counts how often templates asked for a value, by its doubt.
type doubtCounts [len(doubts)]int

// A doubtFinder finds the conditions of a source that are in doubt. It tracks variables, each until
// the end of its block, and the dot within with and range.
type doubtFinder struct {
	variables map[string]variable
	shadowed  []shadowed // in the order of the declarations that shadow them
	dot       doubt
	under     doubt            // about the conditions around
	fields    map[string]doubt // fields that templates of the chart set to doubtful values
}

// A variable holds what is known about the value of a template's variable.
type variable struct {
	doubt     doubt
	called    bool     // it holds the result of a template
	compared  bool     // it holds the result of a comparison of doubtful values
	templates []string // names of templates whose results it holds
}

// A shadowed is a variable that a declaration hides until its block ends.
type shadowed struct {
	name string
	variable
}

// endBlock restores the variables that the block's declarations hid. since is the length of shadowed at
// its beginning.
func (w *doubtFinder) endBlock(since int) {
	for _, h := range slices.Backward(w.shadowed[since:]) {
		w.variables[h.name] = h.variable
	}
	w.shadowed = w.shadowed[:since]
}

// of returns the doubt about a pipeline. calls reports whether the pipeline uses the result of
// include or tpl, whose doubts are known only when it is executed.
func (w *doubtFinder) of(n parse.Node) (d doubt, calls bool) {
	switch n := n.(type) {
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			for _, arg := range c.Args {
				x, called := w.of(arg)
				if f, ok := c.Args[0].(*parse.IdentifierNode); ok && x == byRelease && collecting[f.Ident] {
					x = sure
				}
				d, calls = max(d, x), calls || called
			}
			if name, ok := included(c); ok {
				d = max(d, w.fields[resultOf+name])
			}
			if printsAddress(c) {
				d = max(d, byAddress)
			}
		}
		if inMapOrder(n) {
			d = max(d, byOrder)
		}
	case *parse.ChainNode:
		d, calls = w.of(n.Node)
		return max(d.of(n.Field), w.fieldDoubt(n.Field)), calls
	case *parse.DotNode:
		return w.dot, false
	case *parse.FieldNode:
		return max(w.dot.of(n.Ident), w.fieldDoubt(n.Ident)), false
	case *parse.VariableNode:
		v := w.variables[n.Ident[0]]
		return max(v.doubt.of(n.Ident[1:]), w.fieldDoubt(n.Ident[1:])), v.called
	case *parse.StringNode:
		return w.fields[n.Text], false
	case *parse.IdentifierNode:
		return doubtful[n.Ident], n.Ident == "include" || n.Ident == "tpl"
	}
	return d, calls
}

// addressVerb is a verb of printf that prints addresses.
var addressVerb = regexp.MustCompile(`%[^%a-zA-Z]*p`)

// printsAddress reports whether a command may print the address of a value, which differs in each run.
// Only its execution shows whether it did.
func printsAddress(c *parse.CommandNode) bool {
	if f, ok := c.Args[0].(*parse.IdentifierNode); !ok || f.Ident != "printf" {
		return false
	}
	if len(c.Args) == 1 {
		return true
	}
	format, ok := c.Args[1].(*parse.StringNode)
	return !ok || addressVerb.MatchString(format.Text)
}

// of returns the doubt about a field of a value with doubt d. Of .Release, only Name and Namespace
// are in doubt.
func (d doubt) of(field []string) doubt {
	if d == byRelease && len(field) > 0 && field[0] != "Name" && field[0] != "Namespace" {
		return sure
	}
	return d
}

// collecting are functions that make or fill a map or list. The result of one that is given
// .Release is not in doubt: fieldDoubt recognizes .Release.Name and .Release.Namespace where they
// are read.
var collecting = map[string]bool{"dict": true, "list": true, "tuple": true, "set": true, "merge": true, "mergeOverwrite": true, "mustMerge": true, "mustMergeOverwrite": true}

func (w *doubtFinder) fieldDoubt(idents []string) doubt {
	for _, name := range idents {
		if d := w.fields[name]; d != sure {
			return d
		}
	}
	switch {
	case slices.Contains(idents, "HelmVersion"):
		return byHelm
	case slices.Contains(idents, "Revision"):
		return byRevision
	case len(idents) > 0 && idents[len(idents)-1] == "APIVersions":
		return byVersions
	case slices.Contains(idents, "KubeVersion"), len(idents) > 0 && idents[len(idents)-1] == "Capabilities":
		return byKubeVersion
	case len(idents) > 0 && pointed[idents[len(idents)-1]]:
		return byAddress
	case isOfRelease(idents, "Name"):
		return byReleaseName
	case isOfRelease(idents, "Namespace"):
		return byNamespace
	case len(idents) > 0 && idents[len(idents)-1] == "Release":
		return byRelease
	}
	return sure
}

// pointed are fields that hold pointers. A template that prints such a field prints addresses.
var pointed = map[string]bool{"Chart": true, "Maintainers": true, "Dependencies": true}

func isOfRelease(idents []string, field string) bool {
	n := len(idents)
	return n >= 2 && idents[n-1] == field && idents[n-2] == "Release"
}

// inMapOrder reports whether a pipeline picks some of a map's keys or values by their order, which
// differs between runs of Helm.
func inMapOrder(p *parse.PipeNode) bool {
	if !calls(p, "keys") && !calls(p, "values") || calls(p, "sortAlpha") {
		return false
	}
	return slices.ContainsFunc([]string{"first", "last", "rest", "initial", "slice", "index", "join"}, func(f string) bool { return calls(p, f) })
}

// mutators are the functions that change the map that is their argument.
var mutators = map[string]bool{"set": true, "merge": true, "mergeOverwrite": true, "mustMerge": true, "mustMergeOverwrite": true}

// assign records the fields that a pipeline sets to doubtful values, since every template of the
// chart may read them.
func (i *instrument) assign(n parse.Node) {
	switch n := n.(type) {
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			if name, ok := c.Args[0].(*parse.IdentifierNode); ok && mutators[name.Ident] {
				d, _ := i.of(n)
				if i.identifies(n) {
					d = d.compared()
				}
				i.assigned(n, max(d, i.under.compared()))
				i.use(n, resultKept)
			}
			for _, arg := range c.Args {
				i.assign(arg)
			}
		}
	case *parse.ChainNode:
		i.assign(n.Node)
	}
}

// assigned records the strings in a pipeline as fields with a doubt.
func (i *instrument) assigned(n parse.Node, d doubt) {
	switch n := n.(type) {
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			for _, arg := range c.Args {
				i.assigned(arg, d)
			}
		}
	case *parse.StringNode:
		if d != sure {
			i.src.sets[n.Text] = max(d, i.src.sets[n.Text])
		}
	}
}

// identifies reports whether a pipeline compares a name with another text. `contains` counts only
// with a literal text: many charts call it with the chart's name, merely to make up full names.
func (w *doubtFinder) identifies(n parse.Node) bool {
	switch n := n.(type) {
	case *parse.PipeNode:
		return slices.ContainsFunc(n.Cmds, func(c *parse.CommandNode) bool {
			name, ok := c.Args[0].(*parse.IdentifierNode)
			if ok && (comparing[name.Ident] || cutting[name.Ident]) && (name.Ident != "contains" || slices.ContainsFunc(c.Args, isText)) && name.Ident != "len" {
				return true
			}
			return ok && keyed[name.Ident] && slices.ContainsFunc(c.Args[1:], func(arg parse.Node) bool {
				d, _ := w.of(arg)
				return d.isName()
			}) || slices.ContainsFunc(c.Args, w.identifies)
		})
	case *parse.ChainNode:
		return w.identifies(n.Node)
	case *parse.VariableNode:
		return w.variables[n.Ident[0]].compared
	}
	return false
}

func isText(n parse.Node) bool { return n.Type() == parse.NodeString }

// calls reports whether a pipeline calls a function, at any depth.
func calls(n parse.Node, function string) bool {
	switch n := n.(type) {
	case *parse.PipeNode:
		return slices.ContainsFunc(n.Cmds, func(c *parse.CommandNode) bool {
			return slices.ContainsFunc(c.Args, func(arg parse.Node) bool { return calls(arg, function) })
		})
	case *parse.ChainNode:
		return calls(n.Node, function)
	case *parse.IdentifierNode:
		return n.Ident == function
	}
	return false
}

// declare records the doubt about the variables that a pipeline sets.
func (w *doubtFinder) declare(p *parse.PipeNode) {
	d, calls := w.of(p)
	v := variable{doubt: d, called: calls, compared: d != sure && w.compares(p), templates: w.holds(p)}
	for _, decl := range p.Decl {
		name := decl.Ident[0]
		was := w.variables[name]
		if p.IsAssign {
			w.variables[name] = variable{max(d, w.under, was.doubt), calls || was.called, v.compared || was.compared, joined(was.templates, v.templates)}
			continue
		}
		w.shadowed = append(w.shadowed, shadowed{name, was})
		w.variables[name] = v
	}
}

// comparing are functions that compare values. Their result may be the same for each assumed value
// that is tried, and yet differ on a cluster.
var comparing = map[string]bool{
	"ternary": true, "eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true, "has": true, "contains": true,
	"hasPrefix": true, "hasSuffix": true, "regexMatch": true, "mustRegexMatch": true, "semverCompare": true, "deepEqual": true,
	"regexFind": true, "mod": true, "len": true,
}

// cutting are functions that remove a given text from another one. A condition on the remainder
// compares the two.
var cutting = map[string]bool{
	"without": true, "replace": true, "trimPrefix": true, "trimSuffix": true, "trimAll": true,
	"regexReplaceAll": true, "regexReplaceAllLiteral": true, "mustRegexReplaceAll": true, "mustRegexReplaceAllLiteral": true,
}

// compares reports whether a pipeline compares values, or uses the result of a
// comparison.
func (w *doubtFinder) compares(n parse.Node) bool {
	switch n := n.(type) {
	case *parse.PipeNode:
		return slices.ContainsFunc(n.Cmds, func(c *parse.CommandNode) bool { return slices.ContainsFunc(c.Args, w.compares) })
	case *parse.ChainNode:
		return w.compares(n.Node)
	case *parse.VariableNode:
		return w.variables[n.Ident[0]].compared
	case *parse.IdentifierNode:
		return comparing[n.Ident]
	}
	return false
}

// doubtPrinted hooks an action that prints the result of a doubtful comparison. The action counts
// as a branch with one side, which is never taken.
func (i *instrument) doubtPrinted(p *parse.PipeNode) []parse.Node {
	if d, _ := i.of(p); d != sure && i.compares(p) && !isSilent(p) && (!d.isName() || i.identifies(p)) {
		spot := i.spot(p.Position())
		s := &i.src.spots[len(i.src.spots)-1]
		s.doubt, s.sides[0] = d, true
		return []parse.Node{i.side(p, spot, sideOver)}
	}
	return nil
}

// hookCondition adds hooks to a branch whose condition is in doubt: to each side that writes
// something, and to the nodes past the branch. It returns nodes with the hook that comes before the
// branch, if it needs one, and the nodes that follow it.
func (i *instrument) hookCondition(nodes []parse.Node, n *parse.BranchNode) (d doubt, before, past []parse.Node) {
	d, called := i.of(n.Pipe)
	if called && i.identifies(n.Pipe) {
		i.use(n.Pipe, resultCompared)
	}
	if d.isName() && !i.identifies(n.Pipe) {
		d = sure
	}
	if d == sure && !called {
		return d, nodes, nil
	}
	spot := i.spot(n.Pipe.Position())
	s := &i.src.spots[len(i.src.spots)-1]
	s.doubt, s.asks, s.versions = d, includes(n.Pipe), calls(n.Pipe, "semverCompare")
	s.compares, s.identifies = i.compares(n.Pipe), i.identifies(n.Pipe)
	if s.asks {
		nodes = append(nodes, i.side(n.Pipe, spot, sideBefore))
	}
	if s.sides[0] = writes(n.List); s.sides[0] {
		n.List.Nodes = append([]parse.Node{i.side(n.Pipe, spot, 0)}, n.List.Nodes...)
	}
	if s.sides[1] = n.ElseList != nil && writes(n.ElseList); s.sides[1] {
		n.ElseList.Nodes = append([]parse.Node{i.side(n.Pipe, spot, 1)}, n.ElseList.Nodes...)
	}
	return d, nodes, []parse.Node{i.side(n.Pipe, spot, sideOver)}
}

func (i *instrument) side(p *parse.PipeNode, spot *parse.NumberNode, side int) parse.Node {
	h := hook("__side", p.Position())
	h.Pipe.Cmds[0].Args = append(h.Pipe.Cmds[0].Args, spot, number(side, p.Position()))
	return h
}

// writes reports whether a list of nodes may write something but blanks, or assign a variable, which
// may decide what is written elsewhere.
func writes(l *parse.ListNode) bool {
	if l == nil {
		return false
	}
	return slices.ContainsFunc(l.Nodes, func(n parse.Node) bool {
		switch n := n.(type) {
		case *parse.TextNode:
			return strings.TrimSpace(string(n.Text)) != ""
		case *parse.ActionNode:
			return n.Pipe.IsAssign || len(n.Pipe.Decl) == 0 && !isSilent(n.Pipe)
		case *parse.TemplateNode:
			return !strings.HasPrefix(n.Name, "__")
		case *parse.IfNode:
			return writes(n.List) || writes(n.ElseList)
		case *parse.WithNode:
			return writes(n.List) || writes(n.ElseList)
		case *parse.RangeNode:
			return writes(n.List) || writes(n.ElseList)
		}
		return false
	})
}

// isSilent reports whether a pipeline that prints writes nothing: it is a hook,
// or a function that is called for its side effect.
func isSilent(p *parse.PipeNode) bool {
	return slices.ContainsFunc(p.Cmds, func(c *parse.CommandNode) bool {
		name, ok := c.Args[0].(*parse.IdentifierNode)
		return ok && (name.Ident == "fail" || name.Ident == "required" || len(p.Cmds) == 1 && strings.HasPrefix(name.Ident, "__"))
	})
}

// Positions of hooks around a branch, other than its sides 0 and 1.
const (
	sideOver   = 2
	sideBefore = 3
)

// A branch is an executed branch, with the sides that were taken.
type branch struct {
	src     *source
	spot    int
	file    string
	open    bool        // its condition is being evaluated; calls within its sides do not count
	before  doubtCounts // when the evaluation of the condition began
	doubted doubt
	taken   [2]bool
}

// hookSide records that a side of a branch is taken, that the evaluation of its condition begins,
// or that the branch has ended. What NOTES.txt writes is not deployed.
func (r *run) hookSide(n, side int) string {
	if isNotes(r.file) {
		return ""
	}
	src := r.spot(r.frame, n)
	s := src.spots[n-src.base]
	b := r.branches[n]
	if b == nil {
		b = &branch{src: src, spot: n}
		r.branches[n] = b
	}
	b.file = r.file
	if side == sideBefore {
		b.open, b.before = true, r.counts
		return ""
	}
	b.doubted = max(b.doubted, r.doubtOf(b, &s))
	if side < sideOver {
		b.taken[side] = true
	}
	b.open = false
	return ""
}

// doubtOf returns the doubt about the condition of a branch: the one found in the source, or else
// one that was raised by the templates that the condition calls. If a variable holds the condition,
// all doubts that the file has raised count.
func (r *run) doubtOf(b *branch, s *spot) doubt {
	if s.doubt != sure {
		return s.doubt
	}
	since := r.inFile
	if s.asks {
		if !b.open {
			return sure
		}
		since = b.before
	}
	for _, d := range []doubt{byLookup, byKubeVersion, byHelm, byTime, byChance, byAddress, byRevision, byReleaseName, byNamespace} {
		if r.counts[d] > since[d] && s.matters(d) {
			return d
		}
	}
	return sure
}

// matters reports whether a condition on the results of templates may depend on a doubt that they
// raised.
func (s *spot) matters(d doubt) bool {
	switch d {
	case byLookup:
		return true
	case byKubeVersion:
		return s.asks || s.versions
	case byReleaseName, byNamespace, byRelease:
		return s.asks && s.identifies
	}
	return s.compares
}

// given reports whether the user has set the value that a doubt is about.
func (r *release) given(d doubt) bool {
	switch d {
	case sure:
		return true
	case byKubeVersion:
		return params(r.src).KubeVersion != ""
	case byReleaseName:
		return params(r.src).ReleaseName != ""
	case byNamespace:
		return r.src.Namespace != ""
	case byRelease, byIdentity:
		return r.given(byReleaseName) && r.given(byNamespace)
	}
	return false
}

// called are the doubts that only functions raise, which are counted while they are executed.
var called = map[doubt]bool{byLookup: true, byTime: true, byChance: true, byAddress: true}

// reportBranches reports which sides of doubtful branches were taken. It leaves out doubts that
// nothing raised in this run.
func (r *release) reportBranches(x *execution) {
	for _, b := range x.branches {
		s := b.src.spots[b.spot-b.src.base]
		if r.given(b.doubted) || called[b.doubted] && x.counts[b.doubted] == 0 {
			continue
		}
		at := x.spanOf(asked{src: b.src, spot: b.spot, file: b.file})
		for side, taken := range b.taken {
			if s.sides[side] {
				r.src.Inputs.Branch(render.Branch{Span: at, Else: side == 1, Taken: taken, Why: doubts[b.doubted], Assumed: assumptions[b.doubted]})
			}
		}
	}
}
