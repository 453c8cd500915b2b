package records

import "fmt"

// maxProblems is how many problems a Report tells at most.
const maxProblems = 100

// Report is what a look at all that is in a store has found.
type Report struct {
	Tables  int `json:"tables"`  // files that were read
	Records int `json:"records"` // that are live
	// Problems tells what is damaged or missing, and nothing of what was stored in
	// it. There are at most 100; More is how many more were found.
	Problems []string `json:"problems"`
	More     int      `json:"more"`
}

// Err returns nil where nothing is wrong, and else an error with ErrDamaged in its
// chain and the first problem in its text.
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

// Problem notes what is damaged or missing, with nothing of what was stored in it.
func (r *Report) Problem(format string, args ...any) {
	if len(r.Problems) == maxProblems {
		r.More++
		return
	}
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}
