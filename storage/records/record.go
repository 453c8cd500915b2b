package records

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
)

// A record is recordVersion, a checksum and the payload. The checksum is the CRC-32C of
// key, version and payload (big endian). Badger does not verify its own checksums on reads.
// This one finds a damaged block, and a record under the wrong key.
const (
	recordVersion = 1
	recordHeader  = 1 + crc32.Size

	// MaxRecord is the maximum size of a record in bytes. A kept answer may show two of the
	// largest versions. There is generous room beside them.
	MaxRecord = 3*domain.MaxStoredSize - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal completes a record. The caller has left its first recordHeader bytes free.
func seal(k Key, record []byte) []byte {
	record[0] = recordVersion
	binary.BigEndian.PutUint32(record[1:], sum(k, record))
	return record
}

// Unseal returns the payload of the record under k, without a copy. The error describes the
// damage and has ErrDamaged in its chain.
func Unseal(k Key, record []byte) ([]byte, error) {
	if len(record) < recordHeader || binary.BigEndian.Uint32(record[1:]) != sum(k, record) {
		return nil, damaged(k.Kind(), "its checksum is wrong")
	}
	if record[0] != recordVersion {
		return nil, damaged(k.Kind(), "its format is unknown")
	}
	return record[recordHeader:], nil
}

func sum(k Key, record []byte) uint32 {
	crc := crc32.Update(0, castagnoli, k)
	crc = crc32.Update(crc, castagnoli, record[:1])
	return crc32.Update(crc, castagnoli, record[recordHeader:])
}

// damaged returns an error that names the kind of record and quotes no content.
func damaged(of Kind, how string) error {
	return fmt.Errorf("%w: a %v record: %s", storage.ErrDamaged, of, how)
}

// encodeJSON returns the sealed record of an object.
func encodeJSON(k Key, object any) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, recordHeader))
	if err := jsonv2.MarshalWrite(&b, object); err != nil {
		return nil, fmt.Errorf("encoding a %v record: %w", k.Kind(), err)
	}
	return seal(k, b.Bytes()), nil
}

func decodeJSON[T any](payload []byte) (object T, err error) {
	err = jsonv2.Unmarshal(payload, &object)
	return object, err
}

// newRecord returns a record to which a payload of a size can be appended.
func newRecord(room int) []byte { return make([]byte, recordHeader, recordHeader+room) }

// storedWorkspace is a workspace as it is stored: its place (unsigned varint) and its JSON.
type storedWorkspace struct {
	place uint64
	json  []byte // a part of the record; reads return a copy
}

func encodeWorkspace(k Key, s storedWorkspace) []byte {
	record := binary.AppendUvarint(newRecord(binary.MaxVarintLen64+len(s.json)), s.place)
	return seal(k, append(record, s.json...))
}

func parseWorkspace(payload []byte) (s storedWorkspace, err error) {
	s.place, s.json, err = CutNumber(payload)
	return s, cmp.Or(err, checkObject(s.json))
}

// checkObject makes a quick check of JSON that is returned without decoding.
func checkObject(text []byte) error {
	if len(text) < 2 || text[0] != '{' || text[len(text)-1] != '}' {
		return errParts
	}
	return nil
}

func decodeWorkspace(payload []byte) (domain.Workspace, error) {
	s, err := parseWorkspace(payload)
	if err != nil {
		return domain.Workspace{}, err
	}
	return s.decode()
}

func (s storedWorkspace) decode() (domain.Workspace, error) {
	return decodeJSON[domain.Workspace](s.json)
}

// storedStatuses maps the stored byte of a status to the status.
var storedStatuses = [...]domain.PresetStatus{1: domain.PresetActive, domain.PresetDisabled, domain.PresetArchived}

// storedPreset is a preset as it is stored: its id, a byte for its status, and its JSON.
// Several unsigned varints stand between the last two. They are the designated and the
// latest version, the place, Kept.From, the length of Kept.Also, and Kept.Also.
type storedPreset struct {
	domain.PresetState
	spot
	json []byte // a part of the record
}

func encodePreset(k Key, s storedPreset) ([]byte, error) {
	id, ok := parseID(s.ID)
	if !ok {
		return nil, errors.New("encoding a preset record: its id is not a UUID")
	}
	record := append(newRecord(len(id)+1+(5+len(s.Kept.Also))*binary.MaxVarintLen64+len(s.json)), id[:]...)
	record = append(record, s.state)
	record = binary.AppendUvarint(record, uint64(s.DesignatedVersion))
	record = binary.AppendUvarint(record, uint64(s.LatestVersion))
	record = binary.AppendUvarint(record, s.place)
	record = binary.AppendUvarint(record, uint64(s.Kept.From))
	record = binary.AppendUvarint(record, uint64(len(s.Kept.Also)))
	for _, n := range s.Kept.Also {
		record = binary.AppendUvarint(record, uint64(n))
	}
	return seal(k, append(record, s.json...)), nil
}

func parsePreset(payload []byte) (s storedPreset, err error) {
	if len(payload) <= len(uuid.UUID{}) {
		return s, errParts
	}
	s.ID = uuid.UUID(payload[:len(uuid.UUID{})]).String()
	state, rest := payload[len(uuid.UUID{})], payload[len(uuid.UUID{})+1:]
	if state < 1 || int(state) >= len(storedStatuses) {
		return s, errParts
	}
	s.state, s.Status = state, storedStatuses[state]
	designated, rest, err1 := CutNumber(rest)
	latest, rest, err2 := CutNumber(rest)
	s.place, rest, err = CutNumber(rest)
	s.DesignatedVersion, s.LatestVersion = int(designated), int(latest)
	if err := cmp.Or(err1, err2, err); err != nil {
		return s, err
	}
	s.Kept, s.json, err = cutKept(rest)
	return s, cmp.Or(err, checkObject(s.json))
}

// cutKept returns the kept versions of a preset, and the rest of payload.
func cutKept(payload []byte) (kept domain.Kept, rest []byte, err error) {
	from, rest, err1 := CutNumber(payload)
	count, rest, err2 := CutNumber(rest)
	if err := cmp.Or(err1, err2); err != nil || count > uint64(len(rest)) {
		return kept, nil, errParts
	}
	kept.From = int(from)
	for last := uint64(0); count > 0; count-- {
		n, after, err := CutNumber(rest)
		if err != nil || n <= last || n >= from {
			return kept, nil, errParts
		}
		kept.Also = append(kept.Also, int(n))
		last, rest = n, after
	}
	return kept, rest, nil
}

func (s storedPreset) decode() (domain.Preset, error) {
	p, err := decodeJSON[domain.Preset](s.json)
	p.DesignatedVersion, p.LatestVersion, p.Kept = s.DesignatedVersion, s.LatestVersion, s.Kept
	if len(p.Labels) == 0 {
		p.Labels = nil
	}
	return p, err
}

func decodePreset(payload []byte) (domain.Preset, error) {
	s, err := parsePreset(payload)
	if err != nil {
		return domain.Preset{}, err
	}
	return s.decode()
}

// storedVersion is a version as it is stored: the length of its config as an unsigned
// varint, and its JSON. The config is the last member of the JSON.
type storedVersion struct {
	config int    // the length of the config in json
	json   []byte // a part of the record
}

// encodeVersion returns the sealed record of a version's JSON. The length of its config is
// given.
func encodeVersion(k Key, text []byte, config int) []byte {
	record := binary.AppendUvarint(newRecord(binary.MaxVarintLen64+len(text)), uint64(config))
	return seal(k, append(record, text...))
}

// summary returns the JSON of a version without its content, which comes last.
func (s storedVersion) summary() ([]byte, error) {
	end := bytes.Index(s.json, []byte(`,"system_prompt":`)) // strings before it have no plain quotes
	if end < 0 {
		return nil, errParts
	}
	return append(bytes.Clone(s.json[:end]), '}'), nil
}

func parseVersion(payload []byte) (s storedVersion, err error) {
	config, rest, err := CutNumber(payload)
	if err != nil || config >= uint64(len(rest)) {
		return s, errParts
	}
	s.config, s.json = int(config), rest
	return s, checkObject(rest)
}

func decodeVersion(payload []byte) (v domain.PresetVersion, err error) {
	s, err := parseVersion(payload)
	if err != nil {
		return v, err
	}
	end := len(s.json) - 1 - s.config // the end of everything before the config
	head, ok := bytes.CutSuffix(s.json[:end], []byte(`,"config":`))
	if !ok {
		return v, errParts
	}
	v, err = decodeJSON[domain.PresetVersion](append(slices.Clip(head), '}'))
	v.Config = bytes.Clone(s.json[end : len(s.json)-1])
	return v, err
}

var (
	errParts  = errors.New("its parts do not add up")
	errLength = errors.New("its length is wrong")
)

// CutNumber returns an unsigned varint, and the rest of payload.
func CutNumber(payload []byte) (n uint64, rest []byte, err error) {
	n, length := binary.Uvarint(payload)
	if length <= 0 {
		return 0, nil, errParts
	}
	return n, payload[length:], nil
}

// encodeReplay returns the sealed record of a replay. Its payload is the length of its
// JSON (unsigned varint), the JSON, and the answer's bytes as they are.
func encodeReplay(k Key, r domain.Replay) ([]byte, error) {
	meta, err := jsonv2.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding a %v record: %w", k.Kind(), err)
	}
	record := binary.AppendUvarint(newRecord(binary.MaxVarintLen32+len(meta)+len(r.Answer)), uint64(len(meta)))
	record = append(record, meta...)
	return seal(k, append(record, r.Answer...)), nil
}

// decodeReplay returns a nil answer for one of no bytes.
func decodeReplay(payload []byte) (r domain.Replay, err error) {
	length, rest, err := CutNumber(payload)
	if err != nil || length > uint64(len(rest)) {
		return r, errParts
	}
	r, err = decodeJSON[domain.Replay](rest[:length])
	if answer := rest[length:]; len(answer) > 0 {
		r.Answer = bytes.Clone(answer)
	}
	return r, err
}

// Seal returns the record of a payload under k.
func Seal(k Key, payload []byte) []byte {
	return seal(k, append(newRecord(len(payload)), payload...))
}

func decodeBytes(payload []byte) ([]byte, error) { return bytes.Clone(payload), nil }

func decodeID(payload []byte) (string, error) {
	if _, ok := parseID(string(payload)); !ok {
		return "", errParts
	}
	return string(payload), nil
}

// encodeNumber returns the sealed record of a number, big endian.
func encodeNumber(k Key, n uint64) []byte {
	return seal(k, binary.BigEndian.AppendUint64(newRecord(8), n))
}

func decodeNumber(payload []byte) (uint64, error) {
	if len(payload) != 8 {
		return 0, errLength
	}
	return binary.BigEndian.Uint64(payload), nil
}
