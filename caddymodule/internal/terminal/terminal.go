// Package terminal is what commands do on a terminal: safe texts, tables, lines that change, and
// the signals that stop a command.
package terminal

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"golang.org/x/term"
)

// Is reports whether a reader or a writer is a terminal.
func Is(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Interruptible returns a context that ends with the first signal to stop. The second one ends the
// program.
func Interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Table writes rows of texts in columns, and escapes the texts. It holds the rows until Flush.
type Table struct{ to *tabwriter.Writer }

// NewTable returns a Table without rows.
func NewTable(w io.Writer) Table { return Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// Row adds a row.
func (t Table) Row(cells ...string) {
	for i, cell := range cells {
		cells[i] = Escape(cell)
	}
	_, _ = io.WriteString(t.to, strings.Join(cells, "\t")+"\n") // Flush returns the error
}

// Flush writes the rows since the last Flush. Their columns have a width of their own.
func (t Table) Flush() error { return t.to.Flush() }
