package etcd

import "testing"

// TestPasswordRotation changes etcd's password and reloads with the new one. The admin
// endpoint then uses the new password. A rejected configuration changes nothing.
func TestPasswordRotation(t *testing.T) {
	c := newCluster(t)
	c.start()
	root := c.users(true)
	s := newServer(t, 1)
	storage := c.address + " {\nusername presets\npassword {env.PRESETS_TEST_PASSWORD}\n}"
	t.Setenv("PRESETS_TEST_PASSWORD", "former")
	if err := s.load(storage); err != nil {
		t.Fatal(err)
	}
	key := s.Issue(`{"kind":"management"}`).Secret
	s.Admin("GET", "/presets/keys", "").Want(t, 200)
	s.want(200, 0, key, "GET", "/v1/presets", "")

	if _, err := root.UserChangePassword(t.Context(), "presets", password); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PRESETS_TEST_PASSWORD", password)
	if err := s.load(storage); err != nil {
		t.Fatal(err)
	}
	s.want(200, 0, key, "GET", "/v1/presets", "")
	s.Admin("GET", "/presets/keys", "").Want(t, 200)
	s.want(200, 0, s.Issue(`{"kind":"management"}`).Secret, "GET", "/v1/presets", "")

	t.Setenv("PRESETS_TEST_PASSWORD", "wrong")
	if err := s.load(storage + "\nmanagement_key {env.PRESETS_TEST_NOT_SET}"); err == nil {
		t.Fatal("a configuration with a key that is not set is accepted")
	}
	s.Admin("GET", "/presets/keys", "").Want(t, 200)
}
