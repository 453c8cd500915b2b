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

// encodeVersion returns the sealed record of a preset version, whose payload
// is the length of its JSON (unsigned varint), the JSON, and Config as it is.
func encodeVersion(k key, v domain.PresetVersion) ([]byte, error) {
	meta, err := jsonv2.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a %v record: %w", k.kind(), err)
	}
	record := make([]byte, recordHeader, recordHeader+binary.MaxVarintLen32+len(meta)+len(v.Config))
	record = binary.AppendUvarint(record, uint64(len(meta)))
	record = append(record, meta...)
	return seal(k, append(record, v.Config...)), nil
}

func decodeVersion(payload []byte) (v domain.PresetVersion, err error) {
	length, n := binary.Uvarint(payload)
	if n <= 0 || length > uint64(len(payload)-n) {
		return v, errors.New("its parts do not add up")
	}
	meta, config := payload[n:n+int(length)], payload[n+int(length):]
	if err := jsonv2.Unmarshal(meta, &v); err != nil {
		return v, err
	}
	v.Config = bytes.Clone(config)
	return v, nil
}

// encodeID returns the sealed record of an index, which points to an id.
func encodeID(k key, id string) []byte {
	return seal(k, append(make([]byte, recordHeader, recordHeader+len(id)), id...))
}

func decodeID(payload []byte) (string, error) { return string(payload), nil }

func decodeSequence(payload []byte) (uint64, error) {
	if len(payload) != 8 {
		return 0, errors.New("its length is wrong")
	}
	return binary.BigEndian.Uint64(payload), nil
}
