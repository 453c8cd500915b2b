package secrets

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestKnownForms finds and masks a key of each form, in JSON, too. A word that ends as one begins is none.
func TestKnownForms(t *testing.T) {
	for _, f := range forms {
		if f.name == "" {
			continue
		}
		key := f.mark + strings.Repeat("A0", (max(f.least, 35)+1)/2)[:max(f.least, 35)]
		switch f.mark {
		case "-----BEGIN ":
			key = "-----BEGIN EC PRIVATE KEY-----\\nMIIE\\n"
		case "caddypresets_":
			key = string(Inference) + "0123456789abcdefghij"
		case "AKIA", "ASIA":
			key = f.mark + "0123456789ABCDEF"
		}
		text := `{"a":"\n` + key + `"}`
		found := FindKnown([]byte(text), 9)
		masked, any := Mask([]byte(text))
		if len(found) != 1 || found[0].Name != f.name || !any || string(masked) != `{"a":"\n[key]"}` {
			t.Errorf("%s: found %v in %s, and masked it as %s", f.name, found, text, masked)
		}
		if found := FindKnown([]byte("x"+key), 9); f.rest != "" && found != nil {
			t.Errorf("%s: found x%s", f.name, key)
		}
		if f.rest == "" {
			continue
		}
		for _, before := range []string{"x", "x_", "?k%3D", "\x1b[31m", "ж"} {
			if masked := MaskText(before + key + "!"); masked != before+"[key]!" {
				t.Errorf("%s%s is masked as %s", before, key, masked)
			}
		}
		for _, text := range []string{f.mark, "x" + f.mark + "a", f.mark + "short0 "} {
			if masked := MaskText(text); masked != text {
				t.Errorf("%s is masked as %s", text, masked)
			}
		}
		if masked := MaskText("It is " + f.mark + "A"); masked != "It is [key]" {
			t.Errorf("the beginning of %s at the end is masked as %s", key, masked)
		}
	}
}

// TestMask masks what stands in the place of <…>.
func TestMask(t *testing.T) {
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
	for _, text := range []string{
		// Members and variables, also within a string of JSON, and twice.
		`{"api_key":"<x>","b":1}`, `{"extra_headers": {"Authorization" : "<any thing>"}}`, `{"mcp_servers":[{"authorization_token":"<x\"y\\>"}]}`,
		`{"tools":[{"type":"mcp","authorization":"<abc>"}]}`, `{"headers":{"X-Team":"<a>","Content-Type":"<b>","n":1},"x":"y"}`,
		`{"arguments":"{\"Api-Key\":\"<x\\\"y>\",\"n\":\"z\"}"}`, `{"a":"{\"b\":\"{\\\"password\\\":\\\"<x>\\\"}\"}"}`, `{'token': '<it>'}`,
		`aws_secret_access_key=<wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY> x`, `api-key: <0123456789abcdef>`, `{"a":"the token: \"<x>"},{"b":"c"}`,
		`{"max_tokens":100,"token_count":"a","secrets":["x"],"api_key":"","password":{"type":"string"},"required":["password"]}`,
		`{"headers":{"type":"object","description":"x"},"headers":null}`, `the password: secret, or a token = value`,
		// Forms.
		`Bearer <` + jwt + `>, see`, `a <` + jwt + `> b`, `Authorization: Bearer <abcdef0123456789>`, `basic <dXNlcjpwYXNzd29yZA==>`, `Basic internationalization`,
		`postgres://user:<hunter2>@db/x?a=b@c`, `http://localhost:8080/a@b`, `http://localhost:8080`, `https://redis:<hunt>`,
		`"<-----BEGIN PRIVATE KEY-----\nMIIE >\"and\" more"`, `<-----BEGIN PGP PRIVATE KEY BLOCK-----` + "\nlQ>", `-----BEGIN PUBLIC KEY-----`,
		`<CaddyPresets_MGMT_>!`, `caddypresets_hidden_x`, `a desk-, risk-adjusted-returns-of-portfolios and task-force-management-plans`, `<sk-words-that-may-be-a-key> x`,
		// Ends.
		`{"api_key":"<ab>`, `{\"api_key\":\"<ab>`, `a <eyJhbGci>`, `Bearer <a1>`, `token=<a1>`, `a <sk-a>`,
	} {
		var want, hidden string
		for rest := text; rest != ""; {
			before, key, _ := strings.Cut(rest, "<")
			if key, rest, _ = strings.Cut(key, ">"); key != "" {
				hidden = Masked
			} else {
				hidden = ""
			}
			want += before + hidden
		}
		text = strings.NewReplacer("<", "", ">", "").Replace(text)
		if got, any := Mask([]byte(text)); string(got) != want || any != (text != want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		`{"t":"\\u0073k-ant-api03-0123456789abcdef\\n"}`: `{"t":"[key]\\n"}`, `{"t":"cadd\\\\u0079presets_inf_x \\u0041"}`: `{"t":"[key] A"}`,
		`{"t":"\\u0041 \\u000a"}`: `{"t":"\\u0041 \\u000a"}`,
	} {
		if got := MaskText(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestMaskIsLinear masks texts of marks alone, whose beginnings are searched once: sixteen times the text takes less than
// 64 times as long, and not 256 times. A busy machine gets more tries.
func TestMaskIsLinear(t *testing.T) {
	for _, f := range forms {
		for _, more := range []string{"", "=", ":\"", " ", `\`, "x"} {
			takes := func(size int) time.Duration {
				text := []byte("x" + strings.Repeat(f.mark+more, size/len(f.mark+more)) + "!")
				begin := time.Now()
				Mask(text)
				FindKnown(text, 20)
				return time.Since(begin)
			}
			short, long := takes(4<<10), takes(64<<10)
			for tries := 0; long > 64*short; tries++ {
				if tries == 100 {
					t.Fatalf("%s%s takes %v, and 16 times of it %v", f.mark, more, short, long)
				}
				short, long = takes(4<<10), min(long, takes(64<<10))
			}
		}
	}
}

// FuzzMask masks any text. The rest stays, and a text of JSON remains one within strings.
func FuzzMask(f *testing.F) {
	for _, form := range forms {
		f.Add([]byte("x " + form.mark + `"\": "0123456789`))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		masked, any := Mask(text)
		if !bytes.Equal(before, text) || !any && !bytes.Equal(masked, text) {
			t.Errorf("%q is changed to %q and %q", before, text, masked)
		}
		FindKnown(text, 3)
	})
}

// BenchmarkMask masks a request of 256 KiB with some keys.
func BenchmarkMask(b *testing.B) {
	text := []byte(strings.Repeat(strings.Repeat("The quick brown fox jumps over the lazy dog, at https://example.com. ", 400)+"sk-ant-api03-0123456789abcdef ", 10)[:256<<10])
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Mask(text)
	}
}
