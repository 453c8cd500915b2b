// Package storage has what all storage engines share: their errors, and what a check of
// a store reports. Each engine has a package of its own.
package storage

import (
	"errors"
	"fmt"
)

// ErrDamaged is in the chain of every error about stored data that is wrong. Data that is
// missing although other data refers to it counts, too.
var ErrDamaged = errors.New("stored data is damaged")

// maxProblems is how many problems a Report lists.
const maxProblems = 100

// Report is the result of a check of a whole store.
type Report struct {
	Tables  int `json:"tables"`  // files that were read
	Records int `json:"records"` // that are live
	// Problems describe the damaged and missing records, without stored content. It has at most
	// 100 entries; More counts the rest.
	Problems []string `json:"problems"`
	More     int      `json:"more"`
}

// Err returns nil if there are no problems. Otherwise the error has ErrDamaged in its
// chain, and the first problem in its text.
func (r Report) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	first := r.Problems[0]
	if others := len(r.Problems) - 1 + r.More; others > 0 {
		first = fmt.Sprintf("%s (and %d more)", first, others)
	}
	return fmt.Errorf("%w: %s", ErrDamaged, first)
}

// AddProblem adds a problem. Its text must not show stored content.
func (r *Report) AddProblem(format string, args ...any) {
	if len(r.Problems) == maxProblems {
		r.More++
		return
	}
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}
