package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

func newMCPCommand() *cobra.Command {
	var write bool
	cmd := &cobra.Command{
		Use:   "mcp [DIR]",
		Short: "Answer an assistant: a server of the Model Context Protocol on standard input and output",
		Long: `Offer check, explain, fix, render and graph as tools to a client of the Model Context
Protocol, over standard input and output. The tools work on DIR (default: the current
directory) and can't name files outside it. They are offline, and each is a run of the
command with the same name, with the repository's configuration.

Nothing is written without --write. With it, the tool fix can write the files that it
would change.`,
		Args: wants(0, 1, "at most one directory", "preadmit mcp"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			program, err := os.Executable()
			if err != nil {
				return err
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				return err
			}
			defer root.Close()
			s := &assistant{program: program, root: root, write: write}
			err = s.server().Run(cmd.Context(), &mcp.IOTransport{Reader: io.NopCloser(cmd.InOrStdin()), Writer: nopCloser{cmd.OutOrStdout()}})
			if errors.Is(err, io.EOF) || cmd.Context().Err() != nil {
				return nil // the client has ended
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "let the tool fix write files")
	return cmd
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// An assistant serves tools. Each call is a run of the program in the directory.
type assistant struct {
	program string
	root    *os.Root // the directory
	write   bool
	one     chan struct{} // holds one value while a run goes on: each may use all processors
}

// A toolCall holds the arguments that a client gives to a tool.
type toolCall interface {
	// line returns the flags and arguments of the command, with paths below the root.
	line(root *os.Root) (flags, args []string, err error)
}

// A toolScope holds the arguments that all tools have: what to render, and by which policies to judge it.
type toolScope struct {
	Paths    []string `json:"paths,omitempty" jsonschema:"directories, charts, kustomizations or manifests to look at, relative to the server's directory; all of it by default"`
	Policies []string `json:"policies,omitempty" jsonschema:"files or directories with policies, beside those that the tree deploys"`
	Packs    []string `json:"packs,omitempty" jsonschema:"embedded policy packs, such as pod-security-restricted"`
	Base     string   `json:"base,omitempty" jsonschema:"git revision, such as origin/main: judge what the change since then does instead of the whole tree"`
}

// line refuses paths that lead out of the server's directory, by a link too. The text of a repository, which the
// assistant reads, may ask for them.
func (s *toolScope) line(root *os.Root) (flags, args []string, err error) {
	for _, p := range slices.Concat(s.Paths, s.Policies) {
		if _, err := root.Stat(p); err != nil && !errors.Is(err, fs.ErrNotExist) || !filepath.IsLocal(p) {
			return nil, nil, fmt.Errorf("%q is not a path within the server's directory", p)
		}
	}
	for _, p := range s.Paths {
		args = append(args, "./"+filepath.ToSlash(p)) // "-" is no path to standard input here
	}
	flags = append(repeated("policy", s.Policies), repeated("pack", s.Packs)...)
	if s.Base != "" {
		flags = append(flags, "--base="+s.Base)
	}
	return flags, args, nil
}

func repeated(flag string, values []string) (flags []string) {
	for _, v := range values {
		flags = append(flags, "--"+flag+"="+v)
	}
	return flags
}

type explainTool struct {
	Policy string `json:"policy" jsonschema:"the policy, or policy/rule, as check names it"`
	Object string `json:"object" jsonschema:"the object as check names it, such as prod/deployment/web"`
	toolScope
}

func (c *explainTool) line(root *os.Root) (flags, args []string, err error) {
	flags, args, err = c.toolScope.line(root)
	return flags, append([]string{c.Policy, c.Object}, args...), err
}

type fixTool struct {
	Rules  []string `json:"rules,omitempty" jsonschema:"fix only findings of these policies or rules; all by default"`
	Unsafe bool     `json:"unsafe,omitempty" jsonschema:"also make fixes that may stop a container from working"`
	Write  bool     `json:"write,omitempty" jsonschema:"write the files; the server must have been started with --write"`
	toolScope
}

func (c *fixTool) line(root *os.Root) (flags, args []string, err error) {
	flags, args, err = c.toolScope.line(root)
	flags = append(flags, repeated("rule", c.Rules)...)
	return append(flags, fmt.Sprintf("--unsafe=%t", c.Unsafe), fmt.Sprintf("--write=%t", c.Write)), args, err
}

type renderTool struct {
	Origins bool `json:"origins,omitempty" jsonschema:"put the file and line to edit before each line"`
	toolScope
}

func (c *renderTool) line(root *os.Root) (flags, args []string, err error) {
	flags, args, err = c.toolScope.line(root)
	return append(flags, fmt.Sprintf("--origins=%t", c.Origins)), args, err
}

// An outcome is the structured part of a tool's answer; its text is what the command printed.
type outcome struct {
	ExitCode int `json:"exitCode" jsonschema:"0 nothing is denied, 1 something is denied or there is something to fix, 2 wrong arguments or configuration, 3 something could not be rendered, compiled or decided"`
}

func (s *assistant) server() *mcp.Server {
	s.one = make(chan struct{}, 1)
	server := mcp.NewServer(&mcp.Implementation{Name: "preadmit", Version: version}, &mcp.ServerOptions{
		Instructions: "What would the Kubernetes API server say to the objects that this GitOps repository deploys? Run check after an edit; it names the line to change.",
	})
	tool[toolScope](s, server, "check", "Render the repository, evaluate every admission policy, and report each violation at the line to edit.")
	tool[explainTool](s, server, "explain", "Show step by step how a policy decides on an object, and which fields are at fault.")
	tool[fixTool](s, server, "fix", "Show, as a diff, the edits that remove findings whose value is determined. Each edit is proved by another evaluation.")
	tool[renderTool](s, server, "render", "Print the objects that are deployed, each with its source; with base, as a diff.")
	tool[toolScope](s, server, "graph", "Show which objects of Argo CD and Flux deploy which units, on which cluster.")
	return server
}

// tool adds a tool, which runs the command of that name.
func tool[In any, C interface {
	*In
	toolCall
}](s *assistant, server *mcp.Server, name, description string) {
	writes := name == "fix" && s.write
	mcp.AddTool(server, &mcp.Tool{Name: name, Description: description, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: !writes, OpenWorldHint: new(false)}},
		func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, outcome, error) {
			if f, ok := any(&in).(*fixTool); ok && f.Write && !s.write {
				return nil, outcome{}, errors.New("the server writes no files: it was not started with --write")
			}
			flags, args, err := C(&in).line(s.root)
			if err != nil {
				return nil, outcome{}, err
			}
			return s.run(ctx, append(append(append([]string{name}, flags...), "--"), args...))
		})
}

// maxAnswer is the length of the longest text of an answer, in bytes: a client keeps it in its context.
const maxAnswer = 64 << 10

// run runs the program with a command line. The answer is its standard output, then its standard error.
func (s *assistant) run(ctx context.Context, line []string) (*mcp.CallToolResult, outcome, error) {
	select {
	case s.one <- struct{}{}:
		defer func() { <-s.one }()
	case <-ctx.Done():
		return nil, outcome{}, ctx.Err()
	}
	cmd := exec.CommandContext(ctx, s.program, line...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.root.Name(), &stdout, &stderr
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 5*time.Second // it may be writing files
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return nil, outcome{}, errors.Join(err, ctx.Err())
	}
	code := cmd.ProcessState.ExitCode()
	text := &mcp.TextContent{Text: shortened(stdout.String() + stderr.String())}
	return &mcp.CallToolResult{Content: []mcp.Content{text}, IsError: code == exitUsage || code < 0}, outcome{code}, nil
}

// shortened leaves out the middle of a long text: the summary is at its end.
func shortened(text string) string {
	more := len(text) - maxAnswer
	if more <= 0 {
		return text
	}
	head := strings.LastIndexByte(text[:maxAnswer*3/4], '\n') + 1
	tail := len(text) - maxAnswer/4
	return strings.ToValidUTF8(fmt.Sprintf("%s... %d bytes are left out here: name fewer paths to see them ...\n%s", text[:head], tail-head, text[tail:]), "")
}
