package evaluate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/report"
)

// MaxShards limits the parts of a run.
const MaxShards = 256

// A shard is one of several parts of a run, in which different processes evaluate
// different units. All of them render everything, since policies look at other
// objects. A nil shard is the whole run.
type shard struct {
	number, of int
	units      map[string]bool // identities of the units that this shard evaluates
}

// ParseShard parses a value of --shard such as "3/8". It returns nil for "".
func ParseShard(text string) (*shard, error) {
	if text == "" {
		return nil, nil
	}
	number, of, _ := strings.Cut(text, "/")
	s := &shard{}
	var err, err2 error
	s.number, err = strconv.Atoi(number)
	s.of, err2 = strconv.Atoi(of)
	if err != nil || err2 != nil || s.number < 1 || s.number > s.of || s.of > MaxShards {
		return nil, fmt.Errorf("--shard %q: want the number of the shard and how many there are, such as 3/8; at most %d", text, MaxShards)
	}
	return s, nil
}

// divide chooses the units of the shard. Starting with the largest, each unit goes to the shard
// with the fewest objects so far. This depends only on the rendered objects, so each shard computes
// the same division.
func (s *shard) divide(inputs ...*load.Input) {
	if s == nil {
		return
	}
	weights := make(map[string]int)
	for _, in := range inputs {
		if in == nil {
			continue
		}
		for _, u := range in.Head {
			weights[u.Identity()] += 1 + len(u.Objects) + len(u.Variants)
		}
	}
	names := make([]string, 0, len(weights))
	for name := range weights {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(a, b)) })
	loads := make([]int, s.of)
	s.units = make(map[string]bool)
	for _, name := range names {
		least := slices.Index(loads, slices.Min(loads))
		loads[least] += weights[name]
		s.units[name] = s.units[name] || least == s.number-1
	}
}

// has reports whether this shard evaluates the unit.
func (s *shard) has(u *render.Unit) bool { return s == nil || u != nil && s.units[u.Identity()] }

// requests returns the requests that this shard evaluates. Requests about
// objects without a unit belong to the first shard.
func (s *shard) requests(reqs []policy.Request) []policy.Request {
	if s == nil {
		return reqs
	}
	var own []policy.Request
	for _, r := range reqs {
		if u := r.Subject().Unit; u == nil && s.number == 1 || s.has(u) {
			own = append(own, r)
		}
	}
	return own
}

// once returns results that every shard finds if this is the first shard, and none otherwise, so
// that the joined report contains them once.
func (s *shard) once(results ...[]policy.Result) []policy.Result {
	if s != nil && s.number != 1 {
		return nil
	}
	return slices.Concat(results...)
}

// Mark records in the report the shard's number and the digest of the run's inputs,
// which is the same in all parts of a run; see runDigest.
func (s *shard) Mark(r *report.Report, o *Options, in *load.Input, j *Evaluation) error {
	if s == nil {
		return nil
	}
	digest, err := runDigest(r, o, in, j)
	r.Shard = &report.Shard{Number: s.number, Of: s.of, Run: digest}
	return err
}

// runDigest returns a hash of everything that results depend on: all objects of
// both sides, policies and settings, and the report's notes.
func runDigest(r *report.Report, o *Options, in *load.Input, j *Evaluation) (string, error) {
	s, _, err := o.EngineOptions(in)
	if err != nil {
		return "", err
	}
	held, err := ReadSuppressions(o, in)
	if err != nil {
		return "", err
	}
	var e cache.Encoder
	e.Plain(*s.Settings)
	e.Plain(held.Listed)
	e.Plain(held.InComments())
	e.Plain(r.Tool)
	e.Plain(r.Units)
	for _, side := range []*load.Input{in, j.Was} {
		if side == nil {
			continue
		}
		e.Plain(side.Modules)
		e.Plain(side.Data)
		for _, o := range slices.Concat(render.Objects(side.Head), render.Objects(side.Given), render.Objects(side.Context)) {
			e.Value(o.Object)
		}
	}
	data, err := e.Data()
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), err
}
