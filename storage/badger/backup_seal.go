package badger

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
)

// sealer seals chunks, one after another, or unseals them.
type sealer struct {
	aead   cipher.AEAD // nil in a backup that is not encrypted
	lines  [sha256.Size]byte
	number uint64
}

// newSalt prepares info for an encrypted backup of a store with a key.
func (i *BackupInfo) newSalt(key []byte) (err error) {
	i.Salt = make([]byte, 32)
	rand.Read(i.Salt) // it never fails
	i.KeyCheck, err = backupKeyCheck(key, i.Salt)
	return err
}

// backupKeyCheck returns bytes that tell a wrong key from the right one.
func backupKeyCheck(key, salt []byte) ([]byte, error) {
	return hkdf.Key(sha256.New, key, salt, "caddy-presets backup 1 check", 16)
}

// newSealer returns the sealer of a backup with these first lines. An encrypted backup needs
// its store's key.
func newSealer(info BackupInfo, lines, key []byte) (*sealer, error) {
	s := &sealer{lines: sha256.Sum256(lines)}
	if !info.Encrypted() {
		return s, nil
	}
	if len(key) == 0 {
		return nil, notRestorable("it is encrypted, and needs the key of the store that it was made of")
	}
	check, err := backupKeyCheck(key, info.Salt)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(check, info.KeyCheck) != 1 {
		return nil, notRestorable("the key is not the one that it was encrypted with, or its first lines are damaged")
	}
	derived, err := hkdf.Key(sha256.New, key, info.Salt, "caddy-presets backup 1 chunks", KeySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	s.aead, err = cipher.NewGCM(block)
	return s, err
}

// bound returns the additional data of the next chunk.
func (s *sealer) bound(end bool, clear []byte) []byte {
	b := append(make([]byte, 0, len(s.lines)+9+len(clear)), s.lines[:]...)
	b = binary.BigEndian.AppendUint64(b, s.number)
	b = append(b, 0)
	if end {
		b[len(b)-1] = 1
	}
	return append(b, clear...)
}

func (s *sealer) nonce() []byte {
	return binary.BigEndian.AppendUint64(make([]byte, s.aead.NonceSize()-8, s.aead.NonceSize()), s.number)
}

// seal appends the sealed chunk to b. clear is the JSON of the end, which stays in plain
// text.
func (s *sealer) seal(b, chunk []byte, end bool, clear []byte) []byte {
	defer func() { s.number++ }()
	bound := s.bound(end, clear)
	if s.aead != nil {
		return s.aead.Seal(b, s.nonce(), chunk, bound)
	}
	b = append(b, chunk...)
	sum := sha256.Sum256(append(bound, chunk...))
	return append(b, sum[:]...)
}

// unseal returns the chunk. It overwrites the sealed one.
func (s *sealer) unseal(sealed []byte, end bool, clear []byte) (chunk []byte, err error) {
	defer func() { s.number++ }()
	bound := s.bound(end, clear)
	if s.aead != nil {
		chunk, err = s.aead.Open(sealed[:0], s.nonce(), sealed, bound)
	} else {
		var sum []byte
		chunk, sum = sealed[:len(sealed)-sha256.Size], sealed[len(sealed)-sha256.Size:]
		if sha256.Sum256(append(bound, chunk...)) != [sha256.Size]byte(sum) {
			err = errors.New("wrong checksum")
		}
	}
	if err != nil {
		return nil, broken("it was changed or damaged")
	}
	return chunk, nil
}
