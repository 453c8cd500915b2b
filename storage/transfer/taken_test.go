package transfer

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestVerify finds the objects that an import refuses because their names are taken.
func TestVerify(t *testing.T) {
	content := small(t)
	summary, err := Verify(t.Context(), bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(content, []byte("\n")) - 2; summary.Total() != lines || summary.Keys < 2 || summary.Workspaces < 2 {
		t.Errorf("got a total of %d for %d lines", summary.Total(), lines)
	}
	for _, kind := range []string{"workspace", "preset", "key"} {
		// The last object comes twice, a preset with its versions.
		all := lines(content)
		begin := `{"` + kind + `":`
		last := 0
		for i, l := range all {
			if bytes.HasPrefix(l, []byte(begin)) {
				last = i
			}
		}
		end := last + 1
		for kind == "preset" && (bytes.HasPrefix(all[end], []byte(`{"version":`)) || bytes.HasPrefix(all[end], []byte(`{"label_change":`)) || bytes.HasPrefix(all[end], []byte(`{"served":`))) {
			end++
		}
		counts := summary.Counts
		for _, l := range all[last:end] {
			switch name, _, _ := strings.Cut(string(l), ":"); name {
			case `{"workspace"`:
				counts.Workspaces++
			case `{"preset"`:
				counts.Presets++
			case `{"version"`:
				counts.Versions++
			case `{"label_change"`:
				counts.LabelChanges++
			case `{"served"`:
				counts.Served++
			case `{"key"`:
				counts.Keys++
			}
		}
		twice := sealed(t, slices.Concat(all[:end], all[last:end], all[end:]), counts)
		if _, err := Check(t.Context(), bytes.NewReader(twice)); err != nil {
			t.Fatalf("%s: the test makes a wrong file: %v", kind, err)
		}
		_, err := Verify(t.Context(), bytes.NewReader(twice))
		_, imported := Import(t.Context(), newStore(t), bytes.NewReader(twice))
		for _, err := range []error{err, imported} {
			if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), "its id, slug or hash is that of an object before") {
				t.Errorf("%s twice: got error %v", kind, err)
			}
		}
	}
}
