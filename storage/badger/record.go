package badger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A record is recordVersion, the CRC-32C of key, version and payload (big
// endian), and the payload. The checksum finds what Badger's own, which it
// does not check on reads, would have: a damaged block, and a record under the
// wrong key.
const (
	recordVersion = 1
	recordHeader  = 1 + crc32.Size

	// maxRecord is the most a record may hold: what a domain object may, and
	// generous room for what surrounds it. Badger keeps anything larger than
	// valueThreshold in its value log, where it does not report failed
	// flushes.
	maxRecord      = valueThreshold - 1
	valueThreshold = 2 * domain.MaxStoredSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal completes a record, whose first recordHeader bytes the caller has left
// free.
func seal(k key, record []byte) []byte {
	record[0] = recordVersion
	binary.BigEndian.PutUint32(record[1:], sum(k, record))
	return record
}

// unseal returns the payload of a record, which it does not copy.
func unseal(k key, record []byte) ([]byte, error) {
	if len(record) < recordHeader || binary.BigEndian.Uint32(record[1:]) != sum(k, record) {
		return nil, damaged(k.kind(), "its checksum is wrong")
	}
	if record[0] != recordVersion {
		return nil, damaged(k.kind(), "its format is unknown")
	}
	return record[recordHeader:], nil
}

func sum(k key, record []byte) uint32 {
	crc := crc32.Update(0, castagnoli, k)
	crc = crc32.Update(crc, castagnoli, record[:1])
	return crc32.Update(crc, castagnoli, record[recordHeader:])
}

// damaged tells which kind of record is damaged, and nothing of its content.
func damaged(of kind, how string) error {
	return fmt.Errorf("%w: a %v record: %s", ErrDamaged, of, how)
}

// encodeJSON returns the sealed record of an object.
func encodeJSON(k key, object any) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, recordHeader))
	if err := jsonv2.MarshalWrite(&b, object); err != nil {
		return nil, fmt.Errorf("encoding a %v record: %w", k.kind(), err)
	}
	return seal(k, b.Bytes()), nil
}

func decodeJSON[T any](payload []byte) (object T, err error) {
	err = jsonv2.Unmarshal(payload, &object)
	return object, err
}

// placed is what the record of an object in a list says of its place: 0 or
// nothing where it has none.
type placed struct {
	Place uint64 `json:"place,omitzero"`
}

// storedWorkspace and storedPreset are what is stored of such objects: their
// JSON, with the place as one more member.
type (
	storedWorkspace struct {
		domain.Workspace
		placed
	}
	storedPreset struct {
		domain.Preset
		placed
	}
)

// encodeParts returns the sealed record of an object and of bytes that belong to
// it and are to stay as they are. Its payload is the length of the object's JSON
// (unsigned varint), the JSON, and the bytes.
func encodeParts(k key, object any, raw []byte) ([]byte, error) {
	meta, err := jsonv2.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding a %v record: %w", k.kind(), err)
	}
	record := make([]byte, recordHeader, recordHeader+binary.MaxVarintLen32+len(meta)+len(raw))
	record = binary.AppendUvarint(record, uint64(len(meta)))
	record = append(record, meta...)
	return seal(k, append(record, raw...)), nil
}

func decodeParts[T any](payload []byte) (object T, raw []byte, err error) {
	length, n := binary.Uvarint(payload)
	if n <= 0 || length > uint64(len(payload)-n) {
		return object, nil, errors.New("its parts do not add up")
	}
	object, err = decodeJSON[T](payload[n : n+int(length)])
	return object, bytes.Clone(payload[n+int(length):]), err
}

func encodeVersion(k key, v domain.PresetVersion) ([]byte, error) { return encodeParts(k, v, v.Config) }

func decodeVersion(payload []byte) (v domain.PresetVersion, err error) {
	v, config, err := decodeParts[domain.PresetVersion](payload)
	v.Config = config
	return v, err
}

func encodeReplay(k key, r domain.Replay) ([]byte, error) { return encodeParts(k, r, r.Answer) }

// decodeReplay takes an answer without bytes for none.
func decodeReplay(payload []byte) (r domain.Replay, err error) {
	r, answer, err := decodeParts[domain.Replay](payload)
	if len(answer) > 0 {
		r.Answer = answer
	}
	return r, err
}

// encodeID returns the sealed record of an index, which points to an id.
func encodeID(k key, id string) []byte {
	return seal(k, append(make([]byte, recordHeader, recordHeader+len(id)), id...))
}

func decodeID(payload []byte) (string, error) { return string(payload), nil }

// encodeNumber returns the sealed record of a number, big endian.
func encodeNumber(k key, n uint64) []byte {
	return seal(k, binary.BigEndian.AppendUint64(make([]byte, recordHeader, recordHeader+8), n))
}

func decodeNumber(payload []byte) (uint64, error) {
	if len(payload) != 8 {
		return 0, errors.New("its length is wrong")
	}
	return binary.BigEndian.Uint64(payload), nil
}
