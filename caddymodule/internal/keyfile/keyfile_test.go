package keyfile

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

func TestReadKeyFile(t *testing.T) {
	for _, test := range []struct {
		name, text, says string
	}{
		{"digits", caddytest.KeyDigits, ""},
		{"a line", caddytest.KeyDigits + "\n", ""},
		{"white space", " \r\n\t" + caddytest.KeyDigits + "\r\n \n", ""},
		{"nothing", "", "does not hold 64 hexadecimal digits"},
		{"too few", caddytest.KeyDigits[2:], "does not hold 64 hexadecimal digits"},
		{"too many", caddytest.KeyDigits + "00", "does not hold 64 hexadecimal digits"},
		{"two lines", caddytest.KeyDigits[:32] + "\n" + caddytest.KeyDigits[32:], "does not hold 64 hexadecimal digits"},
		{"no digits", caddytest.KeyDigits[:63] + "g", "something other than hexadecimal digits"},
		{"endless", caddytest.KeyDigits + strings.Repeat(" ", 1<<20) + "x", ""},
	} {
		core, logs := observer.New(zapcore.DebugLevel)
		name := caddytest.KeyFile(t, test.text)
		key, err := Read(name, zap.New(core))
		switch {
		case test.says == "" && (err != nil || len(key) != 32 || key[31] != 0x1f):
			t.Errorf("%s: got %x, %v", test.name, key, err)
		case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "0304")):
			t.Errorf("%s: got error %v, want one with %q and no digits of the key", test.name, err, test.says)
		}
		if logs.Len() > 0 {
			t.Errorf("%s: got %v, want nothing logged", test.name, logs.All())
		}
	}
	core, logs := observer.New(zapcore.DebugLevel)
	name := caddytest.KeyFile(t, caddytest.KeyDigits)
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
