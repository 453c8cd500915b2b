// Package keyfile reads the encryption key of a Badger store from a file.
package keyfile

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

// Read returns the encryption key in a file. If other users can read the file, it only
// warns: the mode of a mounted secret cannot always be chosen.
func Read(name string, logger *zap.Logger) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fileowner.Explain(err, name)
	}
	defer file.Close()
	key, err := Parse(file, name)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		logger.Warn("others can read the file of the encryption key", zap.String("file", name), zap.Stringer("mode", info.Mode().Perm()))
	}
	return key, nil
}

// maxText bounds the text of a key.
const maxText = 4 << 10

// Parse returns an encryption key from its text: 64 hexadecimal digits, with white space
// around them. Errors say name and do not show the text.
func Parse(from io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxText))
	if err != nil {
		return nil, err
	}
	key := make([]byte, badger.KeySize)
	digits := bytes.TrimSpace(text)
	if len(digits) != hex.EncodedLen(len(key)) {
		return nil, fmt.Errorf("%s does not hold %d hexadecimal digits, as `openssl rand -hex %d` prints them", name, hex.EncodedLen(len(key)), len(key))
	}
	if _, err := hex.Decode(key, digits); err != nil {
		return nil, errors.New(name + " holds something other than hexadecimal digits")
	}
	return key, nil
}
