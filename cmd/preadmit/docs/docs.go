// Package docs holds the pages of the documentation, one subject each. README.md links to them, and
// `preadmit help TOPIC` prints them.
package docs

import (
	"embed"
	"strings"
)

//go:embed *.md
var files embed.FS

// A Page is one page of the documentation.
type Page struct {
	Topic string // the name of its file without .md
	Title string // its first line, without #
	Text  string // all of it, as Markdown
}

// Pages returns the pages in the order of their topics.
func Pages() []Page {
	entries, _ := files.ReadDir(".") // embedded, so it can't fail
	var pages []Page
	for _, e := range entries {
		data, _ := files.ReadFile(e.Name())
		title, _, _ := strings.Cut(string(data), "\n")
		pages = append(pages, Page{
			Topic: strings.TrimSuffix(e.Name(), ".md"),
			Title: strings.TrimPrefix(title, "# "),
			Text:  string(data),
		})
	}
	return pages
}
