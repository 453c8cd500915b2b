package dump

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"hash/crc32"
)

// sealer makes and checks the frames of a dump.
type sealer struct {
	line [sha256.Size]byte // the SHA-256 of the first line
	aead cipher.AEAD       // nil in a dump that is not encrypted, and without its key
}

func newSealer(line []byte) *sealer { return &sealer{line: sha256.Sum256(line)} }

// newSalt prepares the Info of a dump that is encrypted with a key.
func (i *Info) newSalt(key []byte) (err error) {
	i.Salt = make([]byte, 32)
	_, _ = rand.Read(i.Salt) // never fails
	i.KeyCheck, err = keyCheck(key, i.Salt)
	return err
}

// keyCheck returns bytes that tell a wrong key from the right one.
func keyCheck(key, salt []byte) ([]byte, error) {
	return hkdf.Key(sha256.New, key, salt, "caddy-presets backup 1 check", 16)
}

// unlock takes the key of an encrypted dump. A key for another dump is an error, because someone
// may have replaced the encrypted one.
func (s *sealer) unlock(info Info, key []byte) error {
	switch {
	case len(key) == 0 && info.Encrypted():
		return unusable("it is encrypted, and needs the key of the store that it was made of")
	case len(key) == 0:
		return nil
	case !info.Encrypted():
		return unusable("it is not encrypted, but a key was named for it")
	}
	check, err := keyCheck(key, info.Salt)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(check, info.KeyCheck) != 1 {
		return unusable("the key is not the one that it was encrypted with, or its first line is damaged")
	}
	derived, err := hkdf.Key(sha256.New, key, info.Salt, "caddy-presets backup 1 chunks", 32)
	if err != nil {
		return err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return err
	}
	s.aead, err = cipher.NewGCM(block)
	return err
}

// place is where a frame belongs: its number in the dump, from 0, and that of its records.
type place struct {
	number  int
	records int
}

// bound returns what ties a frame to its place in its dump.
func (s *sealer) bound(at place) []byte {
	b := append(make([]byte, 0, 64), s.line[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(at.number))
	return binary.BigEndian.AppendUint32(b, uint32(at.records))
}

func (s *sealer) nonce(at place) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, s.aead.NonceSize()-8, s.aead.NonceSize()), uint64(at.number))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the checksum of a frame.
func (s *sealer) checksum(at place, content []byte) uint32 {
	return crc32.Update(crc32.Checksum(s.bound(at), castagnoli), castagnoli, content)
}

// frame returns a frame in b, whose content is replaced. compressed has its records.
func (s *sealer) frame(b []byte, at place, compressed []byte) []byte {
	b = append(b[:0], make([]byte, headSize)...)
	if s.aead == nil {
		b = append(b, compressed...)
	} else {
		b = s.aead.Seal(b, s.nonce(at), compressed, s.bound(at))
	}
	return s.setHead(b, at)
}

// lastFrame returns the last frame. text is the JSON of the End.
func (s *sealer) lastFrame(at place, text []byte) []byte {
	b := append(make([]byte, headSize), text...)
	if s.aead != nil {
		b = s.aead.Seal(b, s.nonce(at), nil, append(s.bound(at), text...))
	}
	return s.setHead(b, at)
}

// setHead writes the head of a frame.
func (s *sealer) setHead(frame []byte, at place) []byte {
	content := frame[headSize:]
	binary.BigEndian.PutUint32(frame, uint32(len(content)))
	binary.BigEndian.PutUint32(frame[4:], uint32(at.records))
	binary.BigEndian.PutUint32(frame[8:], s.checksum(at, content))
	return frame
}

// open returns the compressed records of a frame's content, which it may overwrite.
func (s *sealer) open(at place, content []byte) ([]byte, error) {
	if s.aead == nil {
		return content, nil
	}
	compressed, err := s.aead.Open(content[:0], s.nonce(at), content, s.bound(at))
	if err != nil {
		return nil, errChanged
	}
	return compressed, nil
}

// openLast returns the End in the content of the last frame. Without the key it does not check
// the seal of an encrypted dump.
func (s *sealer) openLast(at place, content []byte, encrypted bool) (End, error) {
	text, seal := content, []byte(nil)
	if encrypted {
		if len(content) < sealSize {
			return End{}, errChanged
		}
		text, seal = content[:len(content)-sealSize], content[len(content)-sealSize:]
	}
	if s.aead != nil {
		if _, err := s.aead.Open(nil, s.nonce(at), seal, append(s.bound(at), text...)); err != nil {
			return End{}, errChanged
		}
	}
	return parseEnd(text)
}

// sealSize is the size of a seal of AES-GCM.
const sealSize = 16
