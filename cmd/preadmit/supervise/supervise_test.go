package supervise

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestImports holds that the parent needs no library: what it imports is
// initialized before it can begin.
func TestImports(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, path := range strings.Fields(string(out)) {
		if !strings.HasPrefix(path, "golang.org/x/sys/") && !strings.HasSuffix(path, "/cmd/preadmit/supervise") {
			t.Errorf("the parent imports %s", path)
		}
	}
}

func TestWanted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want bool
	}{
		{"preadmit check", true},
		{"preadmit --color never check apps", true},
		{"/usr/bin/preadmit render", true},
		{"preadmit --help check", false},
		{"preadmit triage", false},
		{"preadmit convert check", false},
		{"preadmit version", false},
		{"preadmit", false},
		{"preadmit.test check", false},
		{"preadmit -test.v check", false},
		{Marker + " check", false},
	} {
		if got := wanted(strings.Fields(c.args)); got != c.want {
			t.Errorf("%s: %v", c.args, got)
		}
	}
}

// TestCauseOfEnd holds that parents find out why a child ended.
func TestCauseOfEnd(t *testing.T) {
	t.Parallel()
	work := func(text string) Work {
		parts := append(strings.Split(text, "|"), "", "")
		return Work{parts[0], parts[1], parts[2]}
	}
	flying := func(texts ...string) (tasks []Task) {
		for i, text := range texts {
			text, narrowest := strings.CutSuffix(text, "!")
			tasks = append(tasks, Task{i, work(text), narrowest})
		}
		return tasks
	}
	p := &parent{}
	expect := func(apart, closely string, careful bool, fatal string) {
		t.Helper()
		var names []string
		for _, a := range p.order.Apart {
			names = append(names, strings.TrimRight(a.Name+"|"+a.Engine+"|"+a.Policy, "|"))
		}
		if got := strings.Join(names, ","); got != apart {
			t.Errorf("apart: %q, want %q", got, apart)
		}
		if got := strings.Join(p.order.Closely, ","); got != closely {
			t.Errorf("closely: %q, want %q", got, closely)
		}
		if p.order.Careful != careful {
			t.Errorf("careful: %v", p.order.Careful)
		}
		if p.order.Fatal != fatal {
			t.Errorf("fatal: %q, want %q", p.order.Fatal, fatal)
		}
	}
	p.learn(ending{why: OutOfMemory, overran: []Work{work("q|e")}}, 1) // a policy of the engine does it
	expect("", "e", false, "")
	p.learn(ending{why: OutOfMemory, overran: []Work{work("q|e|a")}}, 2)
	expect("q|e|a", "e", false, "")
	p.learn(ending{why: "takes too long", overran: []Work{work("u")}, narrowest: true}, 3)
	expect("q|e|a,u", "e", false, "")
	p.learn(ending{why: "takes too long", overran: []Work{work("o")}}, 4) // an engine does it
	expect("q|e|a,u", "e", true, "")
	p.learn(ending{why: OutOfMemory, inFlight: flying("o", "o|f!")}, 5)
	expect("q|e|a,u", "e,f", true, "")
	p.learn(ending{why: OutOfMemory, inFlight: flying("o", "o|f")}, 6) // none of its policies does it
	expect("q|e|a,u,o|f", "e,f", true, "")
	p.learn(ending{why: OutOfMemory, inFlight: flying("r", "r|e", "r|e|a!")}, 7)
	p.learn(ending{why: OutOfMemory, inFlight: flying("s", "s|e", "s|e|a!")}, 8) // it does so with any object
	expect("q|e|a,u,o|f,r|e|a,s|e|a,|e|a", "e,f", true, "")
	p.learn(ending{why: OutOfMemory, inFlight: flying("p")}, 9) // none of the engines
	p.learn(ending{why: OutOfMemory, phase: "evaluating"}, 10)
	expect("q|e|a,u,o|f,r|e|a,s|e|a,|e|a,p", "e,f", true, "evaluating: "+OutOfMemory)

	p = &parent{}
	p.order.Closely = []string{"e"}
	for _, of := range []string{"o|e|a", "o|e|b", "o|e|c"} { // any policy of the engine does it with the object
		p.learn(ending{why: OutOfMemory, overran: []Work{work(of)}}, 1)
	}
	expect("o|e|a,o|e|b,o|e|c,o|e", "e", false, "")
	for i := range 8 {
		p.learn(ending{why: OutOfMemory, overran: []Work{{"o" + strconv.Itoa(i), "e", "p" + strconv.Itoa(i)}}}, 1)
	}
	if last := p.order.Apart[len(p.order.Apart)-1]; last.Work != work("|e") || len(p.order.Apart) != 13 {
		t.Errorf("an engine with many bad policies is not left out: %v", p.order.Apart)
	}

	p = &parent{}
	p.learn(ending{why: killed}, 1)
	expect("", "", true, "")
	p.learn(ending{why: killed, inFlight: flying("a!")}, 2)
	expect("", "", true, "") // it may be an accident
	p.learn(ending{why: killed, inFlight: flying("a!")}, 3)
	expect("a", "", true, "")

	p = &parent{}
	p.order.Careful = true
	p.learn(ending{why: killed, phase: "evaluating"}, 1)
	expect("", "", true, "")
	p.learn(ending{why: killed, phase: "evaluating"}, 2)
	expect("", "", true, "evaluating: "+killed)
}

// TestMayWrite holds that a child has no other files replaced than a command
// line may name.
func TestMayWrite(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	p := &parent{args: []string{"check", "-o", "json=/elsewhere/out.json", "--output=/elsewhere/x"}}
	for name, want := range map[string]bool{
		"/elsewhere/out.json": true,
		"/elsewhere/x":        true,
		"report.json":         true,
		dir + "/report.json":  true,
		"../report.json":      false,
		"/etc/passwd":         false,
		".git/config":         false,
		"none/report.json":    true, // that there is no such directory is for the file system to say
	} {
		if got := p.mayWrite(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestFrames holds that what was sent comes back, and that no frame is larger
// than it may be.
func TestFrames(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	large := strings.Repeat("x", 3<<20)
	rendertest.OK(t, NewPipe(&b).Send(Stdout, []byte(large)))
	var got strings.Builder
	r := NewReader(strings.NewReader(b.String()))
	for {
		k, payload, err := r.Next()
		if err != nil {
			break
		}
		if k != Stdout {
			t.Fatalf("kind %c", k)
		}
		got.Write(payload)
	}
	if got.String() != large {
		t.Errorf("%d bytes came back of %d", got.Len(), len(large))
	}
	if _, _, err := NewReader(strings.NewReader("o\xff\xff\xff\xff")).Next(); err == nil {
		t.Error("a frame of 4 GiB is taken")
	}
}

// A child that writes the report when the time is over gets time for that, as long
// as it writes, and so does one that only says why there is none.
func TestTimeToReport(t *testing.T) {
	t.Parallel()
	p := &parent{until: time.Now().Add(-time.Hour)}
	if got := p.toReport(&child{phase: "evaluating"}); got != grace {
		t.Errorf("evaluating: %s", got)
	}
	if got := p.toReport(&child{phase: "writing the report"}); got < 2*grace {
		t.Errorf("writing: %s", got)
	}
	c := &child{}
	for _, f := range []received{{kind: Phase, payload: []byte(Writing)}, {kind: Data}, {kind: Stdout}} {
		c.wrote = time.Time{}
		p.frame(c, f)
		if left := time.Until(p.until) + p.toReport(c); left < 2*grace {
			t.Errorf("writing, after a frame %q: %s are left", f.kind, left)
		}
	}
	c.wrote = time.Now().Add(-time.Hour)
	if left := time.Until(p.until) + p.toReport(c); left > 0 {
		t.Errorf("nothing written for an hour: %s are left", left)
	}
	p.order.Fatal = "it does not end"
	if got := time.Until(p.until) + p.toReport(&child{began: time.Now()}); got < grace/2 {
		t.Errorf("with a failure to report: %s are left", got)
	}
}

func TestInternalError(t *testing.T) {
	const first = "runtime error: index out of range [3] with length 2\n\ngoroutine 1 [running]:\nio.ReadAll({0x3827760, 0xdc1bd8ecd08})\n\tio/io.go:722 +0x10d\n"
	for trace, want := range map[string]string{
		first + "github.com/preadmit/preadmit/render/disk.(*Tree).mountStdin(0xdc1, {0x0, 0x0})\n":  "fails by an internal error, in render/disk.(*Tree).mountStdin: please report it",
		first + "github.com/preadmit/preadmit/policy.Requests[...](...)\n":                          "fails by an internal error, in policy.Requests: please report it",
		first + "github.com/preadmit/preadmit/render.Graph.Render.func1({0x1, 0x2})\nmain.main()\n": "fails by an internal error, in render.Graph.Render.func1: please report it",
		first + "main.main()\n":                                 "fails by an internal error: please report it",
		"github.com/preadmit/preadmit/\x1b[2Jx.F(0x1) and more": "fails by an internal error: please report it",
	} {
		if got := internalError(trace); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", trace, got, want)
		}
	}
}
