package badger

import (
	"cmp"
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

	// indexShare is the part of the cache that holds indexes of tables. The rest holds blocks.
	indexShare = 4

	// minCacheSize is the least size of the cache, in bytes.
	minCacheSize = 1 << 20

	// dataKeyLife is the time until Badger makes another data key. Badger stores its data
	// keys encrypted with the store's key. A table that is not in the MANIFEST does not say
	// which data key it needs. With the wrong one, Badger ends the process. So there is
	// only one. If the clock is less than dataKeyLife past 1970, Badger does not encrypt at
	// all: see checkEncrypts.
	dataKeyLife = 20 * 365 * 24 * time.Hour

	// theDataKey is the number of the data key.
	theDataKey = 1
)

// encrypted returns the settings of an encrypted store.
func encrypted(s badgerdb.Options, o Options) badgerdb.Options {
	blocks, indexes := cacheSizes(o.CacheSize)
	return s.
		WithEncryptionKey(o.EncryptionKey).
		WithEncryptionKeyRotationDuration(dataKeyLife).
		WithBlockCacheSize(blocks).
		WithIndexCacheSize(indexes)
}

// cacheSizes returns the sizes of Badger's two caches, for Options.CacheSize.
func cacheSizes(size int64) (blocks, indexes int64) {
	size = max(cmp.Or(size, DefaultCacheSize), minCacheSize)
	return size - size/indexShare, size / indexShare
}

// SetCacheSize changes Options.CacheSize while the store is open.
func (s *Store) SetCacheSize(size int64) {
	if len(s.db.Opts().EncryptionKey) == 0 {
		return
	}
	blocks, indexes := cacheSizes(size)
	_, _ = s.db.CacheMaxCost(badgerdb.BlockCache, blocks) // fails for other caches only
	_, _ = s.db.CacheMaxCost(badgerdb.IndexCache, indexes)
}

// checkKey fails if key is not the key of the store in folder, whose marker is m. A store
// without encryption has an empty key. checkKey changes nothing.
func (m marker) checkKey(folder string, key []byte) error {
	switch {
	case len(key) != 0 && len(key) != KeySize:
		return misuseError{fmt.Errorf("the encryption key has %d bytes, not %d", len(key), KeySize)}
	case m.Encrypted && len(key) == 0:
		return misuseError{fmt.Errorf("the store in %s is encrypted: name the file with its key as encryption_key_file", folder)}
	case !m.Encrypted && len(key) != 0:
		return misuseError{fmt.Errorf("the store in %s is not encrypted, and a store is encrypted from its beginning or not at all: "+
			"leave encryption_key_file out, or make a backup of the store and restore it with the key into another folder", folder)}
	case m.KeyCheck != keyCheck(key, m.ID):
		return misuseError{fmt.Errorf("the key is not the one that the store in %s was encrypted with", folder)}
	case !m.Encrypted || m.State != stateReady:
		return nil
	}
	_, err := dataKey(folder, key)
	return err
}

// keyCheck returns a MAC by which a store knows its key. Badger cannot tell a wrong key from
// a damaged registry. The MAC does not reveal the key.
func keyCheck(key []byte, store string) string {
	if len(key) == 0 {
		return ""
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte("caddy-presets: key of store " + store))
	return hex.EncodeToString(h.Sum(nil))
}

// dataKey returns the key that encrypts the tables and logs in folder, nil if key is empty.
// The error is one of readError.
func dataKey(folder string, key []byte) (with *pb.DataKey, err error) {
	if len(key) == 0 {
		return nil, nil
	}
	name := filepath.Join(folder, badgerdb.KeyRegistryFileName)
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is an encrypted store, but its %s is gone: nothing in it can be read; restore a backup",
			ErrDamaged, folder, badgerdb.KeyRegistryFileName)
	}
	err = guarded(func() error {
		registry, err := badgerdb.OpenKeyRegistry(badgerdb.KeyRegistryOptions{Dir: folder, ReadOnly: true, EncryptionKey: key})
		if err == nil {
			with, err = registry.DataKey(theDataKey)
		}
		return err
	})
	if _, ok := errors.AsType[*panicError](err); ok {
		err = errors.New("it is cut short")
	}
	if err != nil {
		return nil, readError(fmt.Errorf("%s: %w", name, err))
	}
	return with, nil
}

// checkEncrypts fails if Badger, which has just opened folder, would not encrypt.
func checkEncrypts(folder string, key []byte) error {
	if _, err := dataKey(folder, key); err != nil {
		return fmt.Errorf("%w: the store in %s would not be encrypted: is the clock right? (%s)", errUnavailable, folder, err) //nolint:errorlint // nothing is damaged
	}
	return nil
}
