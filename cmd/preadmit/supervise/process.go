package supervise

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"sync"
)

// A process is the operating system's process of a child.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr head
	waited sync.Once
}

// environment lists the variables that a child gets: directories of caches,
// settings of output, and those of Go's runtime. Others, such as tokens, are
// withheld.
var environment = []string{
	"HOME", "XDG_CACHE_HOME", "LocalAppData", "USERPROFILE", "SystemRoot", "TMPDIR", "TMP", "TEMP",
	"NO_COLOR", "TERM", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GOTRACEBACK", "GOCOVERDIR", "UPDATE_GOLDEN",
}

// CollectLate is the environment variable that is set if the parent, not the user, turned off the
// child's garbage collector for the initialization.
const CollectLate = "PREADMIT_COLLECT_LATE"

func startProcess(args []string, dir string) (*process, error) {
	name, err := executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: &exec.Cmd{Path: name, Args: append([]string{Marker}, args...), Dir: dir, SysProcAttr: attributes()}}
	p.cmd.Env = []string{"TZ=UTC"} // templates can print times in the local zone
	for _, name := range environment {
		if v, ok := os.LookupEnv(name); ok {
			p.cmd.Env = append(p.cmd.Env, name+"="+v)
		}
	}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		p.cmd.Env = append(p.cmd.Env, "GOGC=off", CollectLate+"=1")
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	p.cmd.Stderr = &p.stderr
	return p, p.cmd.Start()
}

func (p *process) kill() { p.cmd.Process.Kill() }

func (p *process) wait() { p.waited.Do(func() { p.cmd.Wait() }) }

// head keeps the first bytes written to it.
type head struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	const enough = 16 << 10
	h.b.Write(p[:min(len(p), max(0, enough-h.b.Len()))])
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.String()
}
