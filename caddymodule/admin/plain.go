package admin

import (
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// plain returns a text that a terminal shows as it is. A damaged store or a backup may
// hold anything.
func plain(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsGraphic(r) }) {
		return strconv.QuoteToGraphic(text)
	}
	return text
}

// table writes rows of plain texts in columns.
type table struct{ to *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = plain(cell)
	}
	_, _ = io.WriteString(t.to, strings.Join(cells, "\t")+"\n") // flush returns the error
}

func (t table) flush() error { return t.to.Flush() }
