package badger

import (
	"bytes"
	"errors"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

func FuzzRecord(f *testing.F) {
	k, _ := versionKey(newID(), 1)
	intact, err := encodeVersion(k, domain.PresetVersion{ID: "a", Version: 1, Config: []byte("{}")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(intact)
	f.Add(intact[:recordHeader])
	f.Add([]byte{})
	f.Add([]byte("\x01\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01{}"))
	f.Fuzz(func(t *testing.T, record []byte) {
		if _, err := decodeRecord(k, record, decodeVersion); err != nil && !errors.Is(err, ErrDamaged) {
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
			again, err := encodeVersion(k, v)
			if err != nil {
				t.Fatalf("encoding what was decoded: %v", err)
			}
			got, err := decodeRecord(k, again, decodeVersion)
			if err != nil || !bytes.Equal(got.Config, v.Config) || got.ID != v.ID {
				t.Errorf("got %v and error %v, want %v", got, err, v)
			}
		case !errors.Is(err, ErrDamaged):
			t.Errorf("got error %v, want ErrDamaged", err)
		}
		for _, decode := range []func() error{
			func() error { _, err := decodeRecord(k, sealed, decodeWorkspace); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeJSON[domain.Key]); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeLeaf); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeNode); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeHead); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeNumber); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeListEnd); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeReplay); return err },
			func() error { _, err := decodeRecord(k, sealed, decodePreset); return err },
			func() error { _, err := decodeRecord(k, sealed, decodeJSON[domain.AuditRecord]); return err },
		} {
			if err := decode(); err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("got error %v, want ErrDamaged", err)
			}
		}
	})
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
