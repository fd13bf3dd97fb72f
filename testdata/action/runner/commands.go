package runner

import (
	"strings"
	"unicode"
)

// A Command is a workflow command.
type Command struct {
	Name       string
	Properties map[string]string
	Data       string
}

var unescapeData = strings.NewReplacer("%0D", "\r", "%0A", "\n", "%25", "%")

var unescapeProperty = strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")

// Commands are those that the lines of a log issue, as the runner reads them
// (ActionCommand.cs, ActionCommandManager.cs): "::name" after white space and
// "##[name]" anywhere, but while they are stopped. CR ends a line too.
func Commands(log string) []Command {
	var all []Command
	stopped := ""
	for _, line := range strings.FieldsFunc(log, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if stopped != "" {
			if strings.TrimSpace(line) == "::"+stopped+"::" {
				stopped = ""
			}
			continue
		}
		c, ok := parseCommand(line)
		switch {
		case !ok:
		case c.Name == "stop-commands":
			stopped = c.Data
		default:
			all = append(all, c)
		}
	}
	if stopped != "" {
		all = append(all, Command{Name: "stop-commands", Data: "never resumed"})
	}
	return all
}

func parseCommand(line string) (Command, bool) {
	line = strings.TrimLeftFunc(line, unicode.IsSpace)
	if rest, ok := strings.CutPrefix(line, "::"); ok {
		head, data, ok := strings.Cut(rest, "::")
		name, properties, _ := strings.Cut(head, " ")
		return Command{name, parseProperties(properties, ","), unescapeData.Replace(data)}, ok && name != ""
	}
	_, rest, ok := strings.Cut(line, "##[")
	if !ok {
		return Command{}, false
	}
	head, data, ok := strings.Cut(rest, "]")
	name, properties, _ := strings.Cut(head, " ")
	return Command{name, parseProperties(properties, ";"), data}, ok && name != ""
}

func parseProperties(s, separator string) map[string]string {
	properties := map[string]string{}
	for p := range strings.SplitSeq(s, separator) {
		if k, v, ok := strings.Cut(strings.TrimSpace(p), "="); ok {
			properties[k] = unescapeProperty.Replace(v)
		}
	}
	return properties
}
