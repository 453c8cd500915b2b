// Package table reads tables of cases that tests keep as text in testdata. A case begins with the line
// "= name". Its other lines are "key: value", and lines that begin with # are comments.
package table

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Case has the values of a case by their keys, and its name by "=".
type Case map[string]string

// Read returns the cases of a file. A test whose file has another key than keys ends.
func Read(tb testing.TB, file string, keys ...string) (cases []Case) {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		key, value, _ := strings.Cut(line, ": ")
		name, isName := strings.CutPrefix(line, "= ")
		switch {
		case line == "" || line[0] == '#':
		case isName:
			cases = append(cases, Case{"=": name})
		case len(cases) == 0 || !slices.Contains(keys, key):
			tb.Fatalf("%s: %q is no line of a case", file, line)
		default:
			cases[len(cases)-1][key] = value
		}
	}
	return cases
}
