package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
)

// maxAligned is how many rows of a table, which it holds in memory, have columns of one width.
const maxAligned = 1000

type elements = iter.Seq2[json.RawMessage, error]

// printList prints a list as JSON, or as a table with a row for each element. Empty cells are shown
// as -. An error ends the table, and rows before it are printed.
func printList[T any](cmd *cobra.Command, asJSON bool, list elements, columns []string, row func(T) []string) error {
	if asJSON {
		return printArray(cmd.OutOrStdout(), list)
	}
	table := terminal.NewTable(cmd.OutOrStdout())
	table.Row(columns...)
	rows := 0
	for value, err := range client.Decoded[T](list) {
		switch {
		case err != nil && rows == 0:
			return err
		case err != nil:
			return errors.Join(err, table.Flush())
		}
		cells := row(value)
		for i, cell := range cells {
			cells[i] = cmp.Or(cell, "-")
		}
		table.Row(cells...)
		if rows++; rows%maxAligned == 0 {
			if err := table.Flush(); err != nil {
				return err
			}
		}
	}
	if rows == 0 {
		table.Row("(none)")
	}
	return table.Flush()
}

// printArray prints an array of JSON, element by element. One that an error cuts off is no JSON.
func printArray(w io.Writer, list elements) error {
	separator, end := "[", "[]\n"
	for element, err := range list {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s%s", separator, safeJSON(w, element)); err != nil {
			return err
		}
		separator, end = ",\n", "]\n"
	}
	_, err := io.WriteString(w, end)
	return err
}

// safeJSON returns JSON for an output: escaped on a terminal, else as it is.
func safeJSON(w io.Writer, text json.RawMessage) json.RawMessage {
	if terminal.Is(w) {
		return terminal.EscapeJSON(text)
	}
	return text
}

// printJSON prints the data of a response, or all of a response without data.
func printJSON(cmd *cobra.Command, response *client.Response) error {
	text := response.Data
	if text == nil {
		text = response.Body
	}
	w := cmd.OutOrStdout()
	_, err := fmt.Fprintf(w, "%s\n", safeJSON(w, text))
	return err
}

// printData prints a response as JSON, or else the text of its data, which is safe to print.
func printData[T any](cmd *cobra.Command, asJSON bool, response *client.Response, text func(T) string) error {
	if asJSON {
		return printJSON(cmd, response)
	}
	var data T
	if err := client.Decode(response.Data, &data); err != nil {
		return err
	}
	_, err := io.WriteString(cmd.OutOrStdout(), text(data))
	return err
}

func (t *target) report(cmd *cobra.Command, response *client.Response, sentence string) error {
	if t.asJSON {
		return printJSON(cmd, response)
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), terminal.Escape(sentence))
	return err
}

func timeText(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// numberText returns the number of a version, empty for none.
func numberText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
