package caddymodule

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
)

// readKeyFile returns the encryption key in a file. Others being able to read the file
// is only warned of: who mounts secrets cannot always choose.
func readKeyFile(name string, logger *zap.Logger) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	key, err := readKey(file, name)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		logger.Warn("others can read the file of the encryption key", zap.String("file", name), zap.Stringer("mode", info.Mode().Perm()))
	}
	return key, nil
}

// readKey returns an encryption key: 64 hexadecimal digits, with white space before
// and behind them. No error shows what else is there.
func readKey(from io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, 4<<10))
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
