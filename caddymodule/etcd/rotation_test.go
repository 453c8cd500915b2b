package etcd

import (
	"errors"
	"io"
	"net/http"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/internal/wait"
)

// TestPasswordRotation changes etcd's password and reloads with the new one. The admin
// endpoint then uses the new password. A rejected configuration changes nothing.
func TestPasswordRotation(t *testing.T) {
	c := newCluster(t)
	c.start()
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{c.address}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	ctx := wait.Context(t)
	_, err1 := admin.UserAdd(ctx, "root", "root")
	_, err2 := admin.UserGrantRole(ctx, "root", "root")
	_, err3 := admin.UserAdd(ctx, "presets", "former")
	_, err4 := admin.RoleAdd(ctx, "presets")
	_, err5 := admin.RoleGrantPermission(ctx, "presets", "caddy-presets/", clientv3.GetPrefixRangeEnd("caddy-presets/"), clientv3.PermissionType(clientv3.PermReadWrite))
	_, err6 := admin.UserGrantRole(ctx, "presets", "presets")
	_, err7 := admin.AuthEnable(ctx)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{c.address}, Username: "root", Password: "root", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	s := newServer(t, 1)
	storage := c.address + " {\nusername presets\npassword {env.PRESETS_TEST_PASSWORD}\n}"
	t.Setenv("PRESETS_TEST_PASSWORD", "former")
	if err := s.load(storage); err != nil {
		t.Fatal(err)
	}
	listKeys := func(when string) {
		t.Helper()
		response, err := http.Get("http://" + s.admin + "/presets/keys")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if answer, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
			t.Errorf("%s: the admin endpoint answers %d %s", when, response.StatusCode, answer)
		}
	}
	key := s.newKey("management")
	listKeys("at first")
	s.want(200, 0, key, "GET", "/v1/presets", "")

	if _, err := root.UserChangePassword(ctx, "presets", password); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PRESETS_TEST_PASSWORD", password)
	if err := s.load(storage); err != nil {
		t.Fatal(err)
	}
	s.want(200, 0, key, "GET", "/v1/presets", "")
	listKeys("with the new password")
	s.want(200, 0, s.newKey("management"), "GET", "/v1/presets", "")

	t.Setenv("PRESETS_TEST_PASSWORD", "wrong")
	if err := s.load(storage + "\nmanagement_key {env.PRESETS_TEST_NOT_SET}"); err == nil {
		t.Fatal("a configuration with a key that is not set is accepted")
	}
	listKeys("after a configuration that was rejected")
}
