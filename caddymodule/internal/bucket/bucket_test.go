package bucket_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/bucket"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/bucket/buckettest"
)

// TestSettings reads the variables of AWS's tools. No error shows the secret.
func TestSettings(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	whole := file("whole", "[default]\naws_access_key_id = ID\naws_secret_access_key = "+buckettest.Secret+"\n")
	for _, tc := range []struct {
		address, says string // says is empty without an error
		env           map[string]string
	}{
		{"s3://bucket", "", nil},
		{"s3://bucket/a/b/", "", map[string]string{"AWS_ENDPOINT_URL": "https://example.com:9000/"}},
		{"s3://bucket", "", map[string]string{"AWS_ENDPOINT_URL": "http://[::1]:9000", "AWS_ENDPOINT_URL_S3": ""}},
		{"s3://bucket", "", map[string]string{"AWS_ENDPOINT_URL": "http://localhost:9000"}},
		{"s3://bucket", "", map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SHARED_CREDENTIALS_FILE": whole}},
		{"s3:///a", "want s3://bucket/prefix", nil},
		{"bucket", "want s3://bucket/prefix", nil},
		{"s3://bucket", "AWS_ENDPOINT_URL: want https, or http for a server on this machine", map[string]string{"AWS_ENDPOINT_URL": "http://example.com"}},
		{"s3://bucket", "AWS_ENDPOINT_URL: want https://host", map[string]string{"AWS_ENDPOINT_URL": "example.com"}},
		{"s3://bucket", "AWS_ENDPOINT_URL: want https://host", map[string]string{"AWS_ENDPOINT_URL_S3": "https://ID:" + buckettest.Secret + "@example.com"}},
		{"s3://bucket", "AWS_ENDPOINT_URL: want https://host", map[string]string{"AWS_ENDPOINT_URL": "https://" + buckettest.Secret + "\x7f"}},
		{"s3://bucket", "no credentials", map[string]string{"AWS_ACCESS_KEY_ID": ""}},
		{"s3://bucket", "no credentials", map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SHARED_CREDENTIALS_FILE": file("broken", "[default]\n"+buckettest.Secret)}},
		{"s3://bucket", "AWS_CA_BUNDLE: ", map[string]string{"AWS_CA_BUNDLE": filepath.Join(folder, "absent")}},
		{"s3://bucket", "has no certificates", map[string]string{"AWS_CA_BUNDLE": whole}},
	} {
		t.Run("", func(t *testing.T) {
			for name, value := range map[string]string{
				"AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "AWS_CA_BUNDLE": "", "AWS_ACCESS_KEY_ID": "ID", "AWS_SECRET_ACCESS_KEY": buckettest.Secret,
				"AWS_PROFILE": "", "AWS_CONFIG_FILE": filepath.Join(folder, "absent"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(folder, "absent"),
			} {
				t.Setenv(name, value)
			}
			for name, value := range tc.env {
				t.Setenv(name, value)
			}
			if _, ok := tc.env["AWS_ACCESS_KEY_ID"]; ok {
				t.Setenv("AWS_SECRET_ACCESS_KEY", "")
			}
			_, err := bucket.Open(tc.address, time.Minute)
			if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("%s with %q: got error %v, want %q", tc.address, tc.env, err, tc.says)
			}
			if err != nil && strings.Contains(err.Error(), buckettest.Secret) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

// TestObjects makes, reads and removes objects below a prefix.
func TestObjects(t *testing.T) {
	s := buckettest.Start(t)
	b, err := bucket.Open("s3://bucket/a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, name := range []string{"2", "1"} {
		if err := b.Put(ctx, name, strings.NewReader("content"), 7, "digest of "+name); err != nil {
			t.Fatal(err)
		}
	}
	names, err := b.Names(ctx)
	if err != nil || strings.Join(names, " ") != "1 2" || strings.Join(s.Names(), " ") != "a/1 a/2" {
		t.Errorf("got %q, %v, and the objects %q", names, err, s.Names())
	}
	if digest, err := b.Digest(ctx, "1"); err != nil || digest != "digest of 1" {
		t.Errorf("got digest %q, %v", digest, err)
	}
	content, size, err := b.Get(ctx, "1")
	if err != nil || size != 7 {
		t.Fatalf("got %d bytes, %v", size, err)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(content); err != nil || text.String() != "content" {
		t.Errorf("got %q, %v", text.String(), err)
	}
	content.Close()
	if err := b.Remove(ctx, "1"); err != nil || strings.Join(s.Names(), " ") != "a/2" {
		t.Errorf("got %v, and the objects %q", err, s.Names())
	}
	if _, _, err := b.Get(ctx, "1"); err == nil || !strings.HasPrefix(err.Error(), "s3://bucket/a/1: the server answers NoSuchKey") {
		t.Errorf("got error %v", err)
	}
	s.Refuse(http.MethodPut)
	if err := b.Put(ctx, "3", strings.NewReader("content"), 7, ""); err == nil || !strings.HasPrefix(err.Error(), "s3://bucket/a/3: the server answers AccessDenied: not for you") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got error %v", err)
	}
}

// TestSilentServer asks a server that takes connections and never answers.
func TestSilentServer(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gone }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(gone) })
	buckettest.Use(t, server)
	b, err := bucket.Open("s3://bucket/a", 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "1", strings.NewReader("content"), 7, ""); err == nil {
		t.Error("got no error")
	}
}
