package records

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
)

func sealVersion(k Key, v domain.PresetVersion) ([]byte, error) {
	text, err := v.JSON()
	return encodeVersion(k, text, len(v.Config)), err
}

// A version's summary is cut from its JSON, whatever its message is.
func TestSummaryRecord(t *testing.T) {
	k := VersionKey(uuid.NewString(), 1)
	for _, message := range []string{"", "a", `,"system_prompt":`, `","system_prompt":"`} {
		v := domain.PresetVersion{ID: "a", Message: &message, SystemPrompt: &message, Config: []byte(`{"a":1,"system_prompt":2}`)}
		record, err1 := sealVersion(k, v)
		want, err2 := v.Summary()
		stored, err3 := decodeRecord(k, record, parseVersion)
		got, err4 := stored.summary()
		if err := errors.Join(err1, err2, err3, err4); err != nil || string(got) != string(want) {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

func FuzzRecord(f *testing.F) {
	k := VersionKey(uuid.NewString(), 1)
	intact, err := sealVersion(k, domain.PresetVersion{ID: "a", Version: 1, Config: []byte("{}")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(intact)
	f.Add(intact[:recordHeader])
	f.Add([]byte{})
	f.Add([]byte("\x01\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01{}"))
	f.Fuzz(func(t *testing.T, record []byte) {
		if _, err := decodeRecord(k, record, decodeVersion); err != nil && !errors.Is(err, storage.ErrDamaged) {
			t.Errorf("got error %v, want ErrDamaged", err)
		}
		if len(record) < recordHeader {
			return
		}
		// With a right checksum, the decoders have to cope by themselves.
		sealed := seal(k, bytes.Clone(record))
		v, err := decodeRecord(k, sealed, decodeVersion)
		switch {
		case err == nil:
			again, err := sealVersion(k, v)
			if err != nil {
				t.Fatalf("encoding what was decoded: %v", err)
			}
			got, err := decodeRecord(k, again, decodeVersion)
			if err != nil || !bytes.Equal(got.Config, v.Config) || got.ID != v.ID {
				t.Errorf("got %v and error %v, want %v", got, err, v)
			}
		case !errors.Is(err, storage.ErrDamaged):
			t.Errorf("got error %v, want ErrDamaged", err)
		}
		for _, decode := range []func() error{
			func() error { _, err := decodeRecord(k, sealed, decodeWorkspace); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeJSON[domain.Key]); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeJSON[domain.AuditHead]); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeNumber); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeListHead); return err },
			func() error {
				_, err := decodeRecord(k, sealed, func(block []byte) ([]byte, error) { return removeName(block, 1, []byte("p")) })
				return err
			},
			func() error { _, err := decodeRecord(k, sealed, decodeReplay); return err },
			func() error { _, err := decodeRecord(k, sealed, decodePreset); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeJSON[domain.AuditRecord]); return err },
		} {
			if err := decode(); err != nil && !errors.Is(err, storage.ErrDamaged) {
				t.Errorf("got error %v, want ErrDamaged", err)
			}
		}
	})
}

// A preset is stored with the numbers of the versions that it has.
func TestPresetRecord(t *testing.T) {
	p := domain.Preset{ID: uuid.NewString(), WorkspaceID: uuid.NewString(), Slug: "p", Status: domain.PresetActive, LatestVersion: 1}
	k := PresetKey(p.WorkspaceID, p.Slug)
	text, err := p.JSON()
	if err != nil {
		t.Fatal(err)
	}
	many := domain.Kept{From: 1_000_000}
	for n := range domain.MaxLabels*domain.MaxShares + 1 {
		many.Also = append(many.Also, n*900+1)
	}
	for _, kept := range []domain.Kept{{}, {From: 2}, {From: 1000, Also: []int{999}}, {From: 5, Also: []int{1, 3}}, many} {
		for status, b := range map[domain.PresetStatus]byte{domain.PresetActive: 1, domain.PresetDisabled: 2, domain.PresetArchived: 3} {
			want := storedPreset{domain.PresetState{ID: p.ID, Status: status, DesignatedVersion: 2_000_000, LatestVersion: 3_000_000, Kept: kept}, spot{77, b}, text}
			record, err := encodePreset(k, want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decodeRecord(k, record, parsePreset)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v and error %v, want %+v", got, err, want)
			}
			id, _ := parseID(p.ID)
			whole := slices.Concat(id[:], []byte{b}, binary.AppendUvarint(nil, 2_000_000), binary.AppendUvarint(nil, 3_000_000), []byte{77, 0, 0}, text)
			if kept.From == 0 && !bytes.Equal(record[recordHeader:], whole) {
				t.Errorf("got %q, want %q", record[recordHeader:], whole)
			}
		}
	}
	// Impossible values of Kept are damage.
	for _, kept := range []domain.Kept{{From: 3, Also: []int{3}}, {From: 5, Also: []int{2, 2}}, {From: 5, Also: []int{2, 1}}, {From: 5, Also: []int{0}}} {
		record, err := encodePreset(k, storedPreset{domain.PresetState{ID: p.ID, Status: p.Status, Kept: kept}, spot{0, 1}, text})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeRecord(k, record, parsePreset); !errors.Is(err, storage.ErrDamaged) {
			t.Errorf("%+v: got %+v and error %v, want ErrDamaged", kept, got.Kept, err)
		}
	}
}

func TestParseID(t *testing.T) {
	const id = "0196f0b4-9d1c-7abc-8def-0123456789ab"
	want, ok := parseID(id)
	if !ok {
		t.Fatal("a UUID is refused")
	}
	for _, test := range []struct {
		text string
		ok   bool
	}{
		{"0196F0B4-9D1C-7ABC-8DEF-0123456789AB", true},
		{"0196f0b4-9D1C-7abc-8def-0123456789aB", true},
		{"", false},
		{"0196f0b49d1c7abc8def0123456789ab", false},
		{"{" + id + "}", false},
		{"urn:uuid:" + id, false},
		{"0196f0b4-9d1c-7abc-8def-0123456789a", false},
		{"0196f0b4-9d1c-7abc-8def-0123456789ag", false},
		{"0196f0b4_9d1c_7abc_8def_0123456789ab", false},
		{"0196f0b49-d1c-7abc-8def-0123456789ab", false},
		{"+196f0b4-9d1c-7abc-8def-0123456789ab", false},
	} {
		got, ok := parseID(test.text)
		if ok != test.ok || ok && got != want {
			t.Errorf("parseID(%q): got %v, %v, want %v", test.text, got, ok, test.ok)
		}
	}
}
