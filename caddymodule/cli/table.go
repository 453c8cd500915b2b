package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
)

// maxAligned is how many rows of a table have columns of the same width. A table holds them
// in memory.
const maxAligned = 1000

// table prints rows with aligned columns.
type table struct {
	w    *tabwriter.Writer
	rows int
}

// newTable returns a table with the names of its columns.
func newTable(w io.Writer, columns ...string) *table {
	t := &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	_, _ = fmt.Fprintln(t.w, strings.Join(columns, "\t")) // it is kept in memory, so it does not fail
	return t
}

// row adds a row. Empty cells are shown as -.
func (t *table) row(cells ...string) error {
	for i, cell := range cells {
		cells[i] = cmp.Or(escape(cell), "-")
	}
	if _, err := fmt.Fprintln(t.w, strings.Join(cells, "\t")); err != nil {
		return err
	}
	if t.rows++; t.rows%maxAligned == 0 {
		return t.w.Flush()
	}
	return nil
}

// end prints the rest of the rows, or that there is none.
func (t *table) end() error {
	if t.rows == 0 {
		_, _ = fmt.Fprintln(t.w, "(none)")
	}
	return t.w.Flush()
}

// jsonArray prints an array of JSON, element by element. An array that is cut off by an
// error is no JSON.
type jsonArray struct {
	w     io.Writer
	count int
}

func (a *jsonArray) add(element json.RawMessage) error {
	separator := ",\n"
	if a.count == 0 {
		separator = "["
	}
	a.count++
	_, err := fmt.Fprintf(a.w, "%s%s", separator, safeJSON(a.w, element))
	return err
}

func (a *jsonArray) end() error {
	text := "]\n"
	if a.count == 0 {
		text = "[]\n"
	}
	_, err := io.WriteString(a.w, text)
	return err
}

// safeJSON returns JSON for an output: escaped on a terminal, else as it is.
func safeJSON(w io.Writer, text json.RawMessage) json.RawMessage {
	if isTerminal(w) {
		return escapeJSON(text)
	}
	return text
}

// printJSON prints the data of an answer, or all of an answer without data.
func printJSON(cmd *cobra.Command, response *client.Response) error {
	text := response.Data
	if text == nil {
		text = response.Body
	}
	w := cmd.OutOrStdout()
	_, err := fmt.Fprintf(w, "%s\n", safeJSON(w, text))
	return err
}

// timeText returns a time as tables have it.
func timeText(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// numberText returns the number of a version, empty for none.
func numberText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// printElements prints the elements of a list as an array.
func printElements(cmd *cobra.Command, elements iter.Seq2[json.RawMessage, error]) error {
	array := jsonArray{w: cmd.OutOrStdout()}
	for element, err := range elements {
		if err == nil {
			err = array.add(element)
		}
		if err != nil {
			return err
		}
	}
	return array.end()
}

// keepRows prints the rows so far, and returns the error that ended a table. It prints nothing
// if there are none.
func keepRows(rows *table, err error) error {
	if rows.rows == 0 {
		return err
	}
	return errors.Join(err, rows.end())
}
