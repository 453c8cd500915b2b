package storage

import "testing"

// The error of a report counts the other problems, if there are any.
func TestReportErr(t *testing.T) {
	var r Report
	if err := r.Err(); err != nil {
		t.Errorf("got %v of a sound store", err)
	}
	for n, want := range map[int]string{0: "one is missing", 1: "one is missing (and 1 more)", maxProblems + 4: "one is missing (and 104 more)"} {
		r := Report{}
		r.AddProblem("%s is missing", "one")
		for range n {
			r.AddProblem("another")
		}
		if got := r.Err().Error(); got != ErrDamaged.Error()+": "+want {
			t.Errorf("%d others: got %q, want %q at its end", n, got, want)
		}
	}
}
