package keyfile

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

func TestReadKeyFile(t *testing.T) {
	for _, test := range []struct {
		name, text, says string
	}{
		{"digits", storagetest.KeyDigits, ""},
		{"a line", storagetest.KeyDigits + "\n", ""},
		{"white space", " \r\n\t" + storagetest.KeyDigits + "\r\n \n", ""},
		{"nothing", "", "does not hold 64 hexadecimal digits"},
		{"too few", storagetest.KeyDigits[2:], "does not hold 64 hexadecimal digits"},
		{"too many", storagetest.KeyDigits + "00", "does not hold 64 hexadecimal digits"},
		{"two lines", storagetest.KeyDigits[:32] + "\n" + storagetest.KeyDigits[32:], "does not hold 64 hexadecimal digits"},
		{"no digits", storagetest.KeyDigits[:63] + "g", "something other than hexadecimal digits"},
		{"endless", storagetest.KeyDigits + strings.Repeat(" ", 1<<20) + "x", ""},
	} {
		core, logs := observer.New(zapcore.DebugLevel)
		name := storagetest.KeyFile(t, test.text)
		key, err := Read(name, zap.New(core))
		switch {
		case test.says == "" && (err != nil || len(key) != 32 || key[31] != 0x1f):
			t.Errorf("%s: got %x, %v", test.name, key, err)
		case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(strings.ReplaceAll(err.Error(), name, "the file"), "0304")):
			t.Errorf("%s: got error %v, want one with %q and no digits of the key", test.name, err, test.says)
		}
		if logs.Len() > 0 {
			t.Errorf("%s: got %v, want nothing logged", test.name, logs.All())
		}
	}
	core, logs := observer.New(zapcore.DebugLevel)
	name := storagetest.KeyFile(t, storagetest.KeyDigits)
	if err := os.Chmod(name, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(name, zap.New(core)); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(name); err == nil && info.Mode().Perm() == 0o640 && (logs.Len() != 1 || logs.All()[0].Level != zapcore.WarnLevel) {
		t.Errorf("a file that others read: got %v, want one warning", logs.All())
	}
}
