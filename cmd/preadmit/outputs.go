package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
)

// outputs are the flags for writing reports.
type outputs struct {
	links    string
	formats  []string
	color    string
	category string
	limit    int
	summary  bool
}

func (o *outputs) addFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.formats, "output", "o", nil, "`FORMAT[=FILE]` of the report: "+strings.Join(report.Formats.Names(), ", ")+" (repeatable; default: text)")
	f.StringVar(&o.category, "category", "", "SARIF category `NAME`, which keeps several uploads for one commit apart (default: preadmit)")
	f.StringVar(&o.links, "link-prefix", "", "markdown, html: link places to files below `URL`, such as https://github.com/OWNER/NAME/blob/COMMIT")
	f.IntVar(&o.limit, "markdown-limit", report.MaxMarkdown, fmt.Sprintf("markdown: limit of the report in `BYTES`, from %d to %d", report.MinMarkdown, report.MaxMarkdown))
	f.BoolVar(&o.summary, "summary", false, "text: the number of findings of each rule, instead of the findings")
	f.StringVar(&o.color, "color", "auto", "colour, and links to files on a terminal: auto, always or never")
}

// colorModes lists the values of --color.
var colorModes = []string{"auto", "always", "never"}

// checkFormat returns an error unless the format of --output is one of the
// names.
func checkFormat(format string, names ...string) error {
	if !slices.Contains(names, format) {
		return fmt.Errorf("--output %q: no such format; %s", format, render.Instead(format, names))
	}
	return nil
}

// writing holds the settings with which one run's report is written.
type writing struct {
	verbose, quiet bool
	failOn         policy.Action
}

// An output is one value of --output.
type output struct{ format, file string }

func (o *outputs) parse() ([]output, error) { return o.parseAmong(report.Formats.Names()) }

// parseAmong is parse for a command with other formats.
func (o *outputs) parseAmong(formats []string) ([]output, error) {
	if err := flagOneOf("color", o.color, colorModes...); err != nil {
		return nil, err
	}
	if o.limit < report.MinMarkdown || o.limit > report.MaxMarkdown {
		return nil, fmt.Errorf("--markdown-limit %d is not from %d to %d", o.limit, report.MinMarkdown, report.MaxMarkdown)
	}
	if u, err := url.Parse(o.links); o.links != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
		return nil, fmt.Errorf("--link-prefix %q is not an address such as https://github.com/OWNER/NAME/blob/COMMIT", o.links)
	}
	if len(o.formats) == 0 {
		return []output{{format: "text"}}, nil
	}
	var outs []output
	stdouts := 0
	for _, f := range o.formats {
		format, file, _ := strings.Cut(f, "=")
		if err := checkFormat(format, formats...); err != nil {
			return nil, err
		}
		if strings.Contains(f, "=") && file == "" {
			return nil, fmt.Errorf("--output %s: the file's name is missing", f)
		}
		if file == "" {
			stdouts++
		}
		outs = append(outs, output{format, file})
	}
	if stdouts > 1 {
		return nil, errors.New("--output: only one format can go to standard output; give the others a file, FORMAT=FILE")
	}
	for _, out := range outs {
		if out.file != "" {
			if err := writable(out.file); err != nil {
				return nil, err
			}
		}
	}
	return outs, nil
}

// writable returns an error if an output file certainly can't be written: it is a
// directory, or its directory does not exist. It is called before the work begins.
func writable(name string) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("--output: %s is a directory, not a file", name)
	}
	switch info, err := os.Stat(filepath.Dir(name)); {
	case err == nil && !info.IsDir():
		return fmt.Errorf("--output: %s: its parent is a file, not a directory", name)
	case err != nil:
		return fmt.Errorf("--output: %s: its directory does not exist or can't be read", name)
	}
	return nil
}

// write writes the report in every requested format. Files come first, so that
// they are complete even if the reader of standard output ends early.
func (o *outputs) write(stdout io.Writer, r *report.Report, outs []output, w writing) error {
	return o.writeEach(stdout, r.Tree, outs, w, func(out io.Writer, format string, opts report.Options) error {
		return report.Write(out, format, r, opts)
	})
}

// A writeFormat writes a report in a format.
type writeFormat func(w io.Writer, format string, opts report.Options) error

func (o *outputs) writeEach(stdout io.Writer, tree fs.FS, outs []output, w writing, write writeFormat) error {
	slices.SortStableFunc(outs, func(a, b output) int { return len(b.file) - len(a.file) })
	var errs []error
	for _, out := range outs {
		errs = append(errs, o.writeOne(stdout, tree, out, w, write))
	}
	return errors.Join(errs...)
}

func (o *outputs) writeOne(stdout io.Writer, tree fs.FS, out output, w writing, write writeFormat) error {
	opts := report.Options{Verbose: w.verbose, Quiet: w.quiet, FailOn: w.failOn, Statistics: o.summary, Category: o.automationID(), Limit: o.limit, Links: o.links}
	if out.file == "" {
		opts.Color, opts.Width = o.colored(stdout), width(stdout)
		if opts.Color && isTerminal(stdout) && os.Getenv("TERM") != "dumb" {
			opts.Hyperlinks = rootURL(tree)
		}
		if err := brokenPipe(write(stdout, out.format, opts)); err != nil {
			return supervise.NotWritten("standard output", err)
		}
		return nil
	}
	return writeFile(stdout, out.file, func(w io.Writer) error { return write(w, out.format, opts) })
}

// automationID returns the category in SARIF's form, which ends with a slash:
// text after it would name a single run.
func (o *outputs) automationID() string {
	if o.category == "" {
		return ""
	}
	return strings.TrimRight(o.category, "/") + "/"
}

// brokenPipe ignores the error of a reader that ended early. The exit code does
// not change.
func brokenPipe(err error) error {
	if errors.Is(err, supervise.BrokenPipe) {
		return nil
	}
	return err
}

// writeFile replaces a file as a whole or not at all. In a child, the parent
// does it.
func writeFile(stdout io.Writer, name string, content func(io.Writer) error) error {
	write := supervise.WriteFile
	if w, ok := stdout.(fileWriter); ok {
		write = w.WriteFile
	}
	if err := write(name, content); err != nil {
		return supervise.NotWritten(name, err)
	}
	return nil
}

func (o *outputs) colored(w io.Writer) bool {
	switch o.color {
	case "always":
		return true
	case "never":
		return false
	}
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

func isTerminal(w io.Writer) bool {
	if t, ok := w.(interface{ Columns() int }); ok {
		return t.Columns() > 0
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// rootURL returns the URL of the directory to which a report's places are
// relative, or "".
func rootURL(tree fs.FS) string {
	t, ok := tree.(disk.Shown)
	if !ok || !filepath.IsAbs(t.Dir) {
		return ""
	}
	u := url.URL{Scheme: "file", Path: path.Join("/", filepath.ToSlash(t.Dir))}
	return u.String()
}

// width returns the width of the terminal, or 0 if w is not a terminal, so that
// other output does not depend on one.
func width(w io.Writer) int {
	columns := 0
	if t, ok := w.(interface{ Columns() int }); ok {
		columns = t.Columns()
	} else if f, ok := w.(*os.File); ok {
		columns, _, _ = term.GetSize(int(f.Fd())) // 0 on error
	}
	const narrowest = 20
	if columns < narrowest {
		return 0 // or the terminal does not report its width
	}
	return columns
}

// checkExtra checks the values of a flag for an additional report.
func checkExtra(flag string, values, formats []string, text bool) error {
	stdouts := 0
	for _, v := range values {
		format, file, named := strings.Cut(v, "=")
		if !slices.Contains(formats, format) {
			return fmt.Errorf("%s %w", flag, oneOf(format, formats...))
		}
		if named && file == "" {
			return fmt.Errorf("%s %s: the file's name is missing", flag, v)
		}
		if file != "" {
			if err := writable(file); err != nil {
				return err
			}
			continue
		}
		if stdouts++; stdouts > 1 || !text || format != "text" {
			return errors.New(flag + " " + format + " would be mixed with other output: give it a file, " + flag + "=" + format + "=FILE")
		}
	}
	return nil
}

// writeExtra writes a report in each format that a flag names.
func writeExtra[T any](formats report.FormatList[T], values []string, x T, stdout io.Writer, opts report.Options) error {
	for _, v := range values {
		format, file, _ := strings.Cut(v, "=")
		opts := opts
		if file != "" {
			opts.Color = false
		}
		write := func(w io.Writer) error { return formats.Write(w, format, x, opts) }
		var err error
		if file != "" {
			err = writeFile(stdout, file, write)
		} else {
			err = brokenPipe(write(stdout))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// oneOutput parses the value of --output for a command that writes one output, in one of these
// formats.
func oneOutput(s string, formats []string) (format, file string, err error) {
	format, file, named := strings.Cut(s, "=")
	if named && file == "" {
		return "", "", fmt.Errorf("--output %s: the file's name is missing", s)
	}
	return format, file, checkFormat(format, formats...)
}
