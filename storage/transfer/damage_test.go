package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// small returns an export of a little of everything.
func small(t testing.TB) []byte {
	t.Helper()
	s := newStore(t)
	fill(t, s).Some()
	return exported(t, s)
}

// lines returns the lines of an export without its last.
func lines(content []byte) [][]byte {
	all := bytes.SplitAfter(content, []byte("\n"))
	return all[:len(all)-2]
}

// sealed returns lines with a last line that has their sum and the given counts.
func sealed(t testing.TB, some [][]byte, counts Counts) []byte {
	t.Helper()
	content := bytes.Join(some, nil)
	end, err := line{End: &trailer{counts, sha256.Sum256(content)}}.encode()
	if err != nil {
		t.Fatal(err)
	}
	return append(content, end...)
}

func counted(t testing.TB, content []byte) Counts {
	t.Helper()
	summary, err := Check(t.Context(), bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return summary.Counts
}

// refuses checks that a file is refused, by Check and by Import.
func refuses(t *testing.T, what string, content []byte, says string) {
	t.Helper()
	_, err := Check(t.Context(), bytes.NewReader(content))
	if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: got error %v, want ErrFile with %q", what, err, says)
	}
	if err != nil && len(err.Error()) > 200 {
		t.Errorf("%s: the error may quote the file: %v", what, err)
	}
}

// A truncated file is refused, wherever it was cut. The import can be continued with the
// whole file.
func TestCut(t *testing.T) {
	content := small(t)
	var ends []int
	for i, c := range content {
		if c == '\n' && i < len(content)-1 {
			ends = append(ends, i+1, i)
		}
	}
	for range 300 {
		ends = append(ends, rand.IntN(len(content)))
	}
	for _, end := range ends {
		refuses(t, fmt.Sprintf("cut at byte %d", end), content[:end], "line ")
	}
	for i := 0; i < len(ends); i += 25 {
		s := started(t)
		if _, err := Import(t.Context(), s, bytes.NewReader(content[:ends[i]])); !errors.Is(err, ErrFile) {
			t.Errorf("cut at byte %d: got error %v, want ErrFile", ends[i], err)
		}
		imports(t, s, content)
		equal(t, exported(t, s), content)
	}
	refuses(t, "something behind it", append(slices.Clone(content), '\n'), "follows")
	refuses(t, "twice", append(slices.Clone(content), content...), "follows")
	refuses(t, "empty", nil, "line 1")
}

// No byte can be another.
func TestChangedByte(t *testing.T) {
	tier.Slow(t)
	content := small(t)
	for range 2000 / tier.Sample(4) {
		changed, at := slices.Clone(content), rand.IntN(len(content))
		changed[at] ^= 1 << rand.IntN(8)
		refuses(t, fmt.Sprintf("byte %d changed", at), changed, "")
	}
	for range 15 {
		changed, at := slices.Clone(content), rand.IntN(len(content))
		changed[at] ^= 1 << rand.IntN(8)
		s := newStore(t)
		if _, err := Import(t.Context(), s, bytes.NewReader(changed)); !errors.Is(err, ErrFile) {
			t.Errorf("byte %d changed: got error %v, want ErrFile", at, err)
		}
		if _, err := Export(t.Context(), s, io.Discard); err == nil {
			// It failed before anything was stored.
			if got := lines(exported(t, s)); len(got) != 1 {
				t.Errorf("byte %d changed: %d lines are in the store as if all were well", at, len(got))
			}
		}
		sound(t, s)
	}
}

// Reordered lines are refused, even with a correct sum, unless the objects do not depend on
// each other.
func TestReordered(t *testing.T) {
	content := small(t)
	all, counts := lines(content), counted(t, content)
	kind := func(i int) string { return string(all[i][:bytes.IndexByte(all[i], ':')]) }
	free := map[string]bool{`{"workspace"`: true, `{"answer"`: true, `{"key"`: true}
	for i := range len(all) - 1 {
		swapped := slices.Clone(all)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		refuses(t, fmt.Sprintf("lines %d and %d", i+1, i+2), append(bytes.Join(swapped, nil), content[len(bytes.Join(all, nil)):]...), "line ")
		_, err := Check(t.Context(), bytes.NewReader(sealed(t, swapped, counts)))
		if kind(i) != kind(i+1) || !free[kind(i)] {
			if !errors.Is(err, ErrFile) {
				t.Errorf("lines %d %s and %d %s: got error %v, want ErrFile", i+1, kind(i), i+2, kind(i+1), err)
			}
		}
		// A line that is missing or there twice.
		for _, some := range [][][]byte{slices.Delete(slices.Clone(all), i, i+1), slices.Insert(slices.Clone(all), i, all[i])} {
			refuses(t, fmt.Sprintf("line %d", i+1), sealed(t, some, counts), "")
		}
	}
}

// The error names the fault of a line, even if the sum is correct.
func TestWrongLines(t *testing.T) {
	content := small(t)
	all, counts := lines(content), counted(t, content)
	for _, tc := range []struct{ old, new, says string }{
		{`"version":1,"created_at"`, `"version":2,"created_at"`, "line 1: the export has version 2, and this server knows version 1 only"},
		{`"version":1,"created_at"`, `"version":2,"new":{},"created_at"`, "has version 2"},
		{`"version":1,"created_at"`, `"version":1,"new":1,"created_at"`, "line 1: /export/new: this version does not know such a member"},
		{`"caddy-presets"`, `"other"`, "line 1: it is not the beginning of an export of presets"},
		{`{"export"`, `{"exports"`, "not the beginning"},
		{`{"export":`, ``, "not the beginning"},
		{`{"audit"`, `{"audits"`, "line 2: /audits: this version does not know"},
		{`{"audit":{`, `{"audit": {`, "line 2: it is not a line of an export"},
		{`{"audit":{`, `{"audit":{"x":1,`, "line 2: /audit/x: this version does not know"},
		{`{"audit":{`, `{"audit":{"a secret\n":1,`, "line 2: /audit: this version does not know"},
		{`{"audit":{`, `{"audit":{"` + strings.Repeat("x", 65) + `":1,`, "line 2: /audit: this version does not know"},
		{`{"audit":{"number":1`, `{"audit":{"number":"1"`, "line 2: /audit/number: has a wrong type"},
		{`{"audit":{"number":1`, `{"audit":{"number":1.5`, "line 2: /audit/number: has a value that it cannot have"},
		{`{"audit":{"number":1`, `{"audit":{"number":1.0`, "line 2: /audit/number: has a value that it cannot have"},
		{`{"audit":{"number":1,`, `{"audit":{`, "line 2: /audit/number: is not as an export has it"},
		{`{"audit":{`, `{"audit":[{`, "line 2: /audit: has a wrong type"},
		{`"also":[2,5]`, `"also":[2,"5"]`, "/preset/kept/also/1: has a wrong type"},
		{`"labels":{"l":{"version":1}}`, `"labels":{"l":{"version":"1"}}`, "/preset/labels/l/version: has a wrong type"},
		{`"labels":{"l":{"version":1}}`, `"labels":{"a secret":{"version":"1"}}`, "/preset/labels: has a wrong type"},
		{`"designated_version_number":5`, `"designated_version_number":null`, "/preset/designated_version_number: is not as an export has it"},
		{`"operation":"workspace.create"`, `"operation":"workspace.update"`, "audit record 1 is not what it was written as"},
		{`"latest_version":9,"kept"`, `"latest_version":10,"kept"`, "version 10 of the preset above should be here"},
		{`"designated_version_number":5`, `"designated_version_number":3`, "numbers of the preset's versions"},
		{`"also":[2,5]`, `"also":[5,2]`, "numbers of the preset's versions"},
		{`"also":[2,5]`, `"also":[2,2,5]`, "numbers of the preset's versions"},
		{`"also":[2,5]`, `"also":[2,5,8]`, "numbers of the preset's versions"},
		{`"also":[2,5]`, `"also":[2,4,5]`, "version 5 is not the next"},
		{`"config":"{ }"`, `"config":"[ ]"`, "is not a JSON object"},
		{`"config":"{ }"`, `"config":"{ "`, "is not a JSON object"},
		{`"config":"{ }"`, `"config":{}`, "/version/config: has a wrong type"},
		{`"config":"{ }"`, `"config":7`, "/version/config: has a wrong type"},
		{`"labels":{"l":{"version":1}}`, `"labels":{"l":{"version":2}}`, "labels of the preset above"},
		{`"labels":{"l":{"version":1}}`, `"labels":{}`, "labels of the preset above"},
		{`{"label":"l","number":1`, `{"label":"l","number":2`, "change 2 of a label"},
	} {
		changed := bytes.Replace(bytes.Join(all, nil), []byte(tc.old), []byte(tc.new), 1)
		if bytes.Equal(changed, bytes.Join(all, nil)) {
			t.Errorf("there is no %s", tc.old)
		}
		refuses(t, tc.old, sealed(t, [][]byte{changed}, counts), tc.says)
	}
	refuses(t, "counts", sealed(t, all, Counts{}), "more or fewer lines")
	hash := hex.EncodeToString(make([]byte, 32))
	end, _ := line{End: &trailer{Counts: counts}}.encode()
	if !bytes.Contains(end, []byte(hash)) {
		t.Fatal(string(end))
	}
	refuses(t, "sum", append(bytes.Join(all, nil), end...), "the file was changed")
	refuses(t, "a long line", append(slices.Clone(all[0]), bytes.Repeat([]byte(" "), maxLine+100<<10)...), "line 2: it is longer")
}

// An error of the reader is not reported as a fault of the file.
func TestReadError(t *testing.T) {
	content := small(t)
	broken := errors.New("broken")
	for _, n := range []int{0, 100, len(content) / 2, len(content) - 1} {
		r := io.MultiReader(bytes.NewReader(content[:n]), iotest.ErrReader(broken))
		if _, err := Check(t.Context(), r); !errors.Is(err, broken) || errors.Is(err, ErrFile) {
			t.Errorf("after %d bytes: got error %v, want the reader's own", n, err)
		}
	}
	if _, err := Check(t.Context(), iotest.OneByteReader(bytes.NewReader(content))); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for what, fails := range map[string]func() (Summary, error){
		"Check":  func() (Summary, error) { return Check(ended, bytes.NewReader(content)) },
		"Import": func() (Summary, error) { return Import(ended, newStore(t), bytes.NewReader(content)) },
		"Export": func() (Summary, error) { return Export(ended, newStore(t), io.Discard) },
	} {
		if _, err := fails(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v, want that of the context", what, err)
		}
	}
}

// An export that cannot be written, or of a trail that is broken, fails.
func TestExportFails(t *testing.T) {
	s := newStore(t)
	f := fill(t, s)
	f.Some()
	if _, err := Export(t.Context(), s, failing{}); !errors.Is(err, errDeliberate) {
		t.Errorf("got error %v, want the writer's own", err)
	}
	f.Update(func(tx domain.Tx) error {
		head, err := tx.AuditHead()
		r := domain.AuditRecord{Number: head.Count + 1, Previous: head.Hash}
		return errors.Join(err, tx.PutAudit(r, []byte(`{"number":1,"hash":"x"}`)))
	})
	if _, err := Export(t.Context(), s, io.Discard); err == nil {
		t.Error("a store was exported whose trail is broken")
	}
}

var errDeliberate = errors.New("deliberate")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errDeliberate }

// FuzzImport checks that every accepted file is exported again with the same lines.
func FuzzImport(f *testing.F) {
	s := newStore(f)
	few := fill(f, s) // a small file is tried quickly
	few.Must(nil, few.EnsureDefaultWorkspace(f.Context()))
	few.Version("", "p", "{}")
	few.Version("", "p", "{ }")
	few.Label("", "p", "l", domain.Target{Version: 1})
	few.Must(few.Service.PruneVersions(f.Context(), few.By, domain.Pruning{Keep: 1}))
	k, _, err := few.IssueKey(f.Context(), few.By, domain.NewKey{Kind: domain.InferenceKey})
	few.Must(k, err)
	few.Update(func(tx domain.Tx) error {
		return tx.PutReplay(domain.Replay{ID: domain.ReplayID{1}, Request: []byte{}, Answer: []byte("☃"), ExpiresAt: time.Now().Add(time.Hour)})
	})
	content := exported(f, s)
	all, counts := lines(content), counted(f, content)
	f.Add(bytes.Join(all, nil), true)
	f.Add(content, false)
	for i := range all {
		f.Add(bytes.Join(slices.Delete(slices.Clone(all), i, i+1), nil), true)
	}
	f.Fuzz(func(t *testing.T, content []byte, seal bool) {
		if seal { // so that more than the sum is wrong
			counts := counts
			for _, c := range []struct {
				n    *int
				kind string
			}{
				{&counts.Audit, "audit"},
				{&counts.Workspaces, "workspace"},
				{&counts.Presets, "preset"},
				{&counts.Versions, "version"},
				{&counts.LabelChanges, "label_change"},
				{&counts.Answers, "answer"},
				{&counts.Keys, "key"},
			} {
				*c.n = bytes.Count(append([]byte("\n"), content...), []byte("\n{\""+c.kind+"\":"))
			}
			content = sealed(t, [][]byte{content}, counts)
		}
		summary, err := Check(t.Context(), bytes.NewReader(content))
		if err != nil {
			return
		}
		s := newStore(t)
		defer s.Close()
		if _, err := Import(t.Context(), s, bytes.NewReader(content)); err != nil {
			if !errors.Is(err, ErrFile) { // an object occurs twice
				t.Error(err)
			}
			return
		}
		var again bytes.Buffer
		if _, err := export(t.Context(), s, &again, summary.CreatedAt); err != nil {
			t.Fatal(err)
		}
		got, want := lines(again.Bytes()), lines(content)
		sortFree(got)
		sortFree(want)
		equal(t, bytes.Join(got, nil), bytes.Join(want, nil))
	})
}

// sortFree sorts lines whose order is the store's own.
func sortFree(all [][]byte) { slices.SortFunc(all, bytes.Compare) }
