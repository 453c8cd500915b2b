package badger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
)

const (
	// KeySize is the length of an encryption key, in bytes: the key of AES-256.
	KeySize = 32

	// blockCacheSize is what an encrypted store keeps of decrypted blocks, in bytes.
	blockCacheSize = 32 << 20

	// dataKeyLife is how long Badger encrypts with a data key, which it keeps
	// encrypted with ours, before it makes another. A table that its MANIFEST has
	// lost does not tell which one it needs, and Badger ends the process when it is
	// given the wrong one: so there is one. With a clock that is less than this past
	// 1970 Badger would not encrypt at all: see checkEncrypts.
	dataKeyLife = 20 * 365 * 24 * time.Hour

	// theDataKey is its number.
	theDataKey = 1
)

// encrypted returns settings with which Badger encrypts all that it stores.
func encrypted(s badgerdb.Options, key []byte) badgerdb.Options {
	return s.
		WithEncryptionKey(key).
		WithEncryptionKeyRotationDuration(dataKeyLife).
		WithBlockCacheSize(blockCacheSize)
}

// checkKey fails unless the store in folder, whose marker is m, can be opened with
// a key, or without one if it has none. It changes nothing.
func (m marker) checkKey(folder string, key []byte) error {
	switch {
	case len(key) != 0 && len(key) != KeySize:
		return misused{fmt.Errorf("the encryption key has %d bytes, not %d", len(key), KeySize)}
	case m.Encrypted && len(key) == 0:
		return misused{fmt.Errorf("the store in %s is encrypted: name the file with its key as encryption_key_file", folder)}
	case !m.Encrypted && len(key) != 0:
		return misused{fmt.Errorf("the store in %s is not encrypted, and a store is encrypted from its beginning or not at all: "+
			"leave encryption_key_file out, or make a backup of the store and restore it with the key into another folder", folder)}
	case m.KeyCheck != keyCheck(key, m.ID):
		return misused{fmt.Errorf("the key is not the one that the store in %s was encrypted with", folder)}
	case !m.Encrypted || m.State != stateReady:
		return nil
	}
	_, err := dataKey(folder, key)
	return err
}

// keyCheck returns by what a key is known to be that of a store: Badger cannot tell a
// wrong one from a damaged registry. Nobody can find the key by it.
func keyCheck(key []byte, store string) string {
	if len(key) == 0 {
		return ""
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte("caddy-presets: key of store " + store))
	return hex.EncodeToString(h.Sum(nil))
}

// dataKey returns what the tables and logs in folder are encrypted with: nil where
// key is empty. The error is that of unreadable.
func dataKey(folder string, key []byte) (with *pb.DataKey, err error) {
	if len(key) == 0 {
		return nil, nil
	}
	name := filepath.Join(folder, badgerdb.KeyRegistryFileName)
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s holds an encrypted store whose %s is gone, without which nothing of it can be read; restore a backup",
			ErrDamaged, folder, badgerdb.KeyRegistryFileName)
	}
	err = guarded(func() error {
		registry, err := badgerdb.OpenKeyRegistry(badgerdb.KeyRegistryOptions{Dir: folder, ReadOnly: true, EncryptionKey: key})
		if err == nil {
			with, err = registry.DataKey(theDataKey)
		}
		return err
	})
	if _, ok := errors.AsType[*panicked](err); ok {
		err = errors.New("it is cut short")
	}
	if err != nil {
		return nil, unreadable(fmt.Errorf("%s: %w", name, err))
	}
	return with, nil
}

// checkEncrypts fails when Badger, which has just opened folder, does not encrypt
// though it is to.
func checkEncrypts(folder string, key []byte) error {
	if _, err := dataKey(folder, key); err != nil {
		return fmt.Errorf("%w: the store in %s would not be encrypted: is the clock right? (%s)", errUnavailable, folder, err) //nolint:errorlint // nothing is damaged
	}
	return nil
}
