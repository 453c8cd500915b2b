package badger

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// usageRows is the number of rows of usage in a store of fillUsage.
const usageRows = 400

// usageRow returns a row of the workspace team.
func usageRow(t *testing.T, s *Store, n int, content string) (row domain.UsageRow) {
	t.Helper()
	if err := s.View(t.Context(), func(r domain.Reader) (err error) {
		row.WorkspaceID, err = r.WorkspaceID("team")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	row.Start = time.Date(2026, 1, 2, n, 0, 0, 0, time.UTC)
	row.Node, row.Content = s.Node(), []byte(content)
	return row
}

// fillUsage makes a store with versions, a secret of feedback and several blocks of usage. It
// has no issued key that a salvage would revoke.
func fillUsage(t *testing.T, folder string, o Options) {
	t.Helper()
	s, err := Open(folder, o)
	if err != nil {
		t.Fatal(err)
	}
	f := storagetest.Fill(t, s)
	f.Must(nil, f.EnsureDefaultWorkspace(t.Context()))
	f.Must(f.CreateWorkspace(t.Context(), f.By, domain.NewWorkspace{Name: "n", Slug: "team"}))
	for n := range 20 {
		f.Version("team", "p", fmt.Sprintf(`{"model":"m%d","x":%q}`, n, strings.Repeat("x", 4<<10)))
	}
	f.Must(domain.EnsureFeedbackSecret(t.Context(), s))
	var rows []domain.UsageRow
	for n := range usageRows {
		rows = append(rows, usageRow(t, s, n, fmt.Sprintf("row %03d %s", n, strings.Repeat("u", 200))))
	}
	f.Update(func(tx domain.Tx) error {
		for _, row := range rows {
			if err := tx.PutUsage(row); err != nil {
				return err
			}
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// hasRecordsLoss reports whether a report says that records in a file may be lost.
func hasRecordsLoss(report storage.Salvage, file string) bool {
	return slices.ContainsFunc(report.Lost, func(l storage.Loss) bool { return l.Kind == "records" && strings.Contains(l.What, file) })
}

// TestSalvageUnreferenced loses records that nothing else tells of. The report must say so. It
// says nothing of the kind if all such records are whole.
func TestSalvageUnreferenced(t *testing.T) {
	tier.NoRace(t)
	t.Parallel()
	in := func(of records.Kind) func(first, next records.Key) bool {
		return func(first, next records.Key) bool {
			return first.Kind() == of && next.Valid() && next.Kind() == of
		}
	}
	around := func(first, next records.Key) bool {
		return first.Kind() <= records.KindFeedback && next.Valid() && next.Kind() > records.KindFeedback
	}
	cleared := func(block []byte) { clear(block[:min(len(block), 4<<10)]) }
	for name, c := range map[string]struct {
		in     func(first, next records.Key) bool
		damage func(block []byte)
		want   bool
	}{
		"a page of usage":             {in(records.KindUsage), cleared, true},
		"a page in a block of usage":  {in(records.KindUsage), func(block []byte) { clear(block[6<<10 : 10<<10]) }, true},
		"the end of a block of usage": {in(records.KindUsage), func(block []byte) { clear(block[len(block)-40:]) }, true},
		"the secret of feedback":      {around, func(block []byte) { clear(block) }, true},
		"a page of versions":          {in(records.KindVersion), cleared, false},
	} {
		for kind, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				folder, o := t.TempDir(), Options{EncryptionKey: key}
				fillUsage(t, folder, o)
				table := newestOf(t, folder, "*.sst")
				content := readFile(t, table)
				damageBlock(t, folder, o, content, c.in, c.damage)
				if err := os.WriteFile(table, content, 0o600); err != nil {
					t.Fatal(err)
				}
				report, err := Salvage(t.Context(), folder, filepath.Join(t.TempDir(), "new"), o, false)
				if err != nil {
					t.Fatal(err)
				}
				if hasRecordsLoss(report, filepath.Base(table)) != c.want || len(report.Lost) == 0 {
					t.Errorf("got %+v, want records that may be lost: %t", report, c.want)
				}
			})
		}
	}
}

// damageBlock damages a block of a table. isIn gets the first key of a block and of the next.
func damageBlock(t *testing.T, folder string, o Options, content []byte, isIn func(first, next records.Key) bool, damage func(block []byte)) {
	t.Helper()
	w, _, err := openWreck(t.Context(), folder, o)
	if err != nil {
		t.Fatal(err)
	}
	blocks, _, err := w.tableOf("", content, nil).index()
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range blocks[:len(blocks)-1] {
		if isIn(b.first, blocks[i+1].first) {
			damage(content[b.offset : b.offset+b.length])
			return
		}
	}
	t.Fatal("no such block")
}

// TestSalvageUnreferencedLog loses a row of usage in a log. No other record tells of it.
func TestSalvageUnreferencedLog(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	for kind, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		folder, o := t.TempDir(), Options{EncryptionKey: key}
		fillUsage(t, folder, o)
		s := openAgain(t, folder, o)
		change(t, s)
		log, before := usedLog(t, folder)
		row := usageRow(t, s, usageRows, strings.Repeat("the last row ", 300))
		storagetest.Fill(t, s).Update(func(tx domain.Tx) error { return tx.PutUsage(row) })
		_, after := usedLog(t, folder)
		change(t, s)
		damaged := killedCopy(t, folder)
		flipBits(t, filepath.Join(damaged, log), 8*(before+after)/2) // the row is most of its commit
		report, err := Salvage(t.Context(), damaged, filepath.Join(t.TempDir(), "new"), o, false)
		if err != nil {
			t.Fatal(err)
		}
		if !hasRecordsLoss(report, log) || report.Copied.Usage != usageRows {
			t.Errorf("%s: got %+v, want that the row is lost", kind, report)
		}
	}
}

// TestSalvageUnsealed flips bits in a block that the checksum of a record does not cover. The
// record has an older or a newer copy, or none. An entry in a block ends with its version (8
// bytes), two bytes of bits, its expiry (1 byte) and the record.
func TestSalvageUnsealed(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	const (
		recordHeader = 5
		ownKeyPart   = 1 + 16 // of row 300: the end of its hour, and the node
	)
	killed := t.TempDir()
	fillUsage(t, killed, Options{})
	s := openAgain(t, killed, Options{})
	row := usageRow(t, s, 3, "the newest content")
	storagetest.Fill(t, s).Update(func(tx domain.Tx) error { return tx.PutUsage(row) })
	for name, c := range map[string]struct {
		row  string
		back int // from the record
		bit  int
		want bool
	}{
		"the version of the only copy":      {"row 300", 3 + 8, 6, false},
		"the version of an old copy":        {"row 003", 3 + 8, 6, true},
		"the removal bit":                   {"row 300", 3, 0, true},
		"the expiry":                        {"row 300", 1, 0, false},
		"the checksum of a record":          {"row 300", -1, 0, true},
		"the length of the shared key part": {"row 300", 3 + 8 + ownKeyPart + 4, 0, true},
	} {
		damaged := killedCopy(t, killed)
		table := newestOf(t, damaged, "*.sst")
		content := readFile(t, table)
		at := bytes.Index(content, []byte(c.row))
		if at < 0 {
			t.Fatalf("%s: %s is not in the table", name, c.row)
		}
		flipBits(t, table, 8*(at-recordHeader-c.back)+c.bit)
		report, err := Salvage(t.Context(), damaged, filepath.Join(t.TempDir(), "new"), Options{}, false)
		if err != nil {
			t.Fatal(err)
		}
		if hasRecordsLoss(report, filepath.Base(table)) != c.want || len(report.Damaged) != 1 {
			t.Errorf("%s: got %+v, want records that may be lost: %t", name, report, c.want)
		}
		if !c.want && (len(report.Lost) > 0 || report.Copied.Usage != usageRows) {
			t.Errorf("%s: got %+v, want nothing lost", name, report)
		}
	}
}

// TestSalvageDerived damages the checksums of blocks whose records are all whole. Some of them
// have newer copies, which only repeat what other records say. Nothing is lost.
func TestSalvageDerived(t *testing.T) {
	tier.NoRace(t)
	t.Parallel()
	folder := t.TempDir()
	fillUsage(t, folder, testOptions)
	change(t, openAgain(t, folder, testOptions)) // a new preset, so a new state of the list
	damaged := killedCopy(t, folder)
	flipChecksums(t, newestOf(t, damaged, "*.sst"))
	report, err := Salvage(t.Context(), damaged, filepath.Join(t.TempDir(), "new"), testOptions, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Damaged) == 0 || len(report.Lost) > 0 {
		t.Errorf("got %+v, want damage and nothing lost", report)
	}
}
