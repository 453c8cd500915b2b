package etcdstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestNewerFormat opens a prefix with data of a newer version, and one with foreign data.
func TestNewerFormat(t *testing.T) {
	admin := client(t)
	for text, want := range map[string]string{
		`{"store":"x","format":3}`: "needs a newer version of this module",
		`{"format":0}`:             "is not the prefix of a store",
		`what`:                     "is not the prefix of a store",
	} {
		if _, err := admin.Put(t.Context(), prefix(t)+formatKey, text); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), Options{Endpoints: []string{sharedAddress(t)}, Prefix: prefix(t)})
		if err == nil || errors.Is(err, domain.ErrUnavailable) || !Answered(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", text, err, want)
		}
	}
}

// TestUsers uses a cluster with users.
func TestUsers(t *testing.T) {
	t.Parallel()
	const password = "the-secret-of-the-store"
	members := cluster(t, 1)
	ctx := wait.Context(t)
	withUsers(ctx, t, members, password)
	logs, logged := observer.New(zap.DebugLevel)
	o := Options{Endpoints: addresses(members), Prefix: "mine/", RequestTimeout: wait.Limit, Logger: zap.New(logs)}
	for name, test := range map[string]struct {
		change   func(*Options)
		want     string
		answered bool
	}{
		"wrong password": {func(o *Options) { o.Username, o.Password = "presets", password+"-wrong" }, "authentication failed", true},
		"unknown user":   {func(o *Options) { o.Username, o.Password = "nobody", password }, "authentication failed", true},
		"no user":        {func(*Options) {}, "user name is empty", true},
		"another prefix": {func(o *Options) { o.Username, o.Password, o.Prefix = "presets", password, "other/" }, "permission denied", true},
		"cluster is away": {func(o *Options) {
			o.Username, o.Password, o.Endpoints, o.RequestTimeout = "presets", password, []string{servertest.FreeAddress(t)}, 2*time.Second
		}, "refused", false},
	} {
		o := o
		test.change(&o)
		_, err := Open(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: got error %v, want %q", name, err, test.want)
		}
		if !errors.Is(err, domain.ErrUnavailable) || Answered(err) != test.answered {
			t.Errorf("%s: got error %v, answered %v, want that it is unavailable, and answered %v", name, err, Answered(err), test.answered)
		}
	}
	o.Username, o.Password = "presets", password
	s, other := open(t, o), open(t, o)
	w := newID()
	put(t, s, w, "p")
	for range 3 { // An expired token is renewed, also for the watch.
		if _, err := add(t.Context(), other, w, "p", "x"); err != nil {
			t.Error(err)
		}
		wait.Until(t, "the watch tells", func() bool { return s.model.Latest() == other.model.Latest() })
		if _, err := add(t.Context(), s, w, "p", "x"); err != nil {
			t.Error(err)
		}
		members[0].kill() // the server forgets its tokens
		if err := members[0].start(); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Store{s, other} {
			took := wait.Until(t, "the store is current", func() bool { return s.Sync(t.Context()) == nil })
			t.Logf("RESULT users: current %v after the server was started again", took)
		}
	}
	for _, line := range logged.All() {
		if text := line.Message + strings.Join(fields(line.ContextMap()), " "); strings.Contains(text, password) {
			t.Errorf("the log shows the password: %s", text)
		}
	}
}

// TestUserLosesRights revokes a user's permission to read and write. A refused change
// changes nothing, and older data in memory stays valid.
func TestUserLosesRights(t *testing.T) {
	t.Parallel()
	const maxStaleness = time.Minute // so that nothing else resets the stamps
	members := cluster(t, 1)
	ctx := wait.Context(t)
	end := clientv3.GetPrefixRangeEnd("mine/")
	withUsers(ctx, t, members, "secret")
	logs, logged := observer.New(zap.InfoLevel)
	s := open(t, Options{Endpoints: addresses(members), Prefix: "mine/", Username: "presets", Password: "secret", MaxStaleness: maxStaleness, Logger: zap.New(logs)})
	w := newID()
	put(t, s, w, "p")
	if _, err := add(t.Context(), s, w, "p", "x"); err != nil { // all records that a change needs are in memory
		t.Fatal(err)
	}
	readNext(t, s, w, "p")
	root, err := clientv3.New(clientv3.Config{Endpoints: addresses(members), Username: "root", Password: "root", DialTimeout: wait.Limit, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	before := s.Stamps().Preset(w, "p")
	if _, err := root.RoleRevokePermission(ctx, "presets", "mine/", end); err != nil {
		t.Fatal(err)
	}
	if _, err := add(t.Context(), s, w, "p", "refused"); !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), "permission denied") {
		t.Fatalf("got error %v, want that it is not permitted", err)
	}
	if after := s.Stamps().Preset(w, "p"); after == 0 || after != before {
		t.Errorf("got stamp %d after a change that was refused, before it was %d", after, before)
	}
	if lines := logged.FilterMessageSnippet("writes are refused").All(); len(lines) != 1 || strings.Contains(lines[0].Message, "reads go on") {
		t.Errorf("got the lines %v, want one that says nothing of reads, which are refused, too", lines)
	}
	if _, err := root.RoleGrantPermission(ctx, "presets", "mine/", end, clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
		t.Fatal(err)
	}
	if _, err := add(t.Context(), s, w, "p", "y"); err != nil {
		t.Error(err)
	}
	if after := s.Stamps().Preset(w, "p"); after == before {
		t.Error("the stamp is the same after a change that was made")
	}
}

func fields(of map[string]any) (texts []string) {
	for name, value := range of {
		text, _ := value.(string)
		texts = append(texts, name+"="+text)
	}
	return texts
}

// authority signs certificates.
type authority struct {
	t      *testing.T
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, folder: t.TempDir()}
	a.cert, a.key = a.issue("ca", nil, nil)
	return a
}

// issue makes the files NAME.pem and NAME.key.
func (a *authority) issue(name string, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: parent == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(a.folder, file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return cert, key
}

func (a *authority) file(name string) string { return filepath.Join(a.folder, name) }

// TestTLS uses a cluster that requires client certificates.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue("server", a.cert, a.key)
	a.issue("client", a.cert, a.key)
	members := cluster(t, 1, "--cert-file", a.file("server.pem"), "--key-file", a.file("server.key"), "--trusted-ca-file", a.file("ca.pem"), "--client-cert-auth")
	pair, err := tls.LoadX509KeyPair(a.file("client.pem"), a.file("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(a.cert)
	right := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted, Certificates: []tls.Certificate{pair}}
	endpoints := []string{"https://" + members[0].address}
	s := open(t, Options{Endpoints: endpoints, TLS: right})
	w := newID()
	put(t, s, w, "p")
	if got := versions(t, s, w, "p"); !slices.Equal(got, nil) {
		t.Errorf("got versions %q", got)
	}
	var all sync.WaitGroup
	for name, test := range map[string]struct {
		endpoint string
		config   *tls.Config
		want     string
	}{
		"unknown authority": {endpoints[0], &tls.Config{MinVersion: tls.VersionTLS12, Certificates: right.Certificates}, "unknown authority"},
		"no certificate":    {endpoints[0], &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}, "balancer error"},
		"another name":      {endpoints[0], &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted, Certificates: right.Certificates, ServerName: "other"}, "other"},
		"without TLS":       {"http://" + members[0].address, nil, "server preface"},
	} {
		all.Go(func() { // the request waits until its timeout
			_, err := Open(t.Context(), Options{Endpoints: []string{test.endpoint}, Prefix: prefix(t), TLS: test.config})
			if !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got error %v, want %q", name, err, test.want)
			} else {
				t.Logf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
}

// TestLeases checks that kept answers are removed when their leases end. Other records
// stay.
func TestLeases(t *testing.T) {
	admin, s := client(t), open(t, Options{})
	w := newID()
	replay := func(n byte) domain.Replay {
		return domain.Replay{ID: domain.ReplayID{n}, ExpiresAt: time.Now().Add(time.Hour), Answer: []byte{n}}
	}
	keep := func(n byte) {
		t.Helper()
		p := newPreset(w, "p"+string('0'+rune(n)))
		err := s.Update(t.Context(), func(tx domain.Tx) error { return errors.Join(tx.PutReplay(replay(n)), tx.PutPreset(p)) })
		if err != nil {
			t.Fatal(err)
		}
	}
	leases := func() (ids []clientv3.LeaseID) {
		for _, l := range s.leases.byEnd {
			ids = append(ids, l.id)
		}
		return ids
	}
	keep(1)
	keep(2)
	if got := leases(); len(got) > 2 {
		t.Errorf("got %d leases, want that answers share one", len(got))
	}
	for _, id := range leases() {
		left, err := admin.TimeToLive(t.Context(), id, clientv3.WithAttachedKeys())
		if err != nil || left.TTL < 2*3600-60 || left.TTL > 2*3600+leaseStep+60 {
			t.Errorf("a lease has %v, %v, want two hours and a little", left, err)
		}
		for _, key := range left.Keys {
			if !strings.HasPrefix(string(key), prefix(t)+"\x01r") {
				t.Errorf("a lease has the key %q", key)
			}
		}
		if _, err := admin.Revoke(t.Context(), id); err != nil { // the effect of its end
			t.Fatal(err)
		}
	}
	gone := func(n byte) bool {
		err := s.View(t.Context(), func(r domain.Reader) error { _, err := r.Replay(replay(n).ID); return err })
		return errors.Is(err, domain.ErrNotFound)
	}
	wait.Until(t, "the answers go", func() bool { return gone(1) && gone(2) })
	keep(3) // with a lease that has ended
	if gone(3) {
		t.Error("an answer was not kept, as its lease had ended")
	}
	err := s.View(t.Context(), func(r domain.Reader) error {
		for _, slug := range []string{"p1", "p2", "p3"} {
			if _, err := r.Preset(w, slug); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// withUsers enables authentication. The user presets has a password and all rights below
// /mine/, and there is root.
func withUsers(ctx context.Context, t *testing.T, members []*member, password string) {
	t.Helper()
	admin := client(t, addresses(members)...)
	_, err1 := admin.RoleAdd(ctx, "presets")
	_, err2 := admin.RoleGrantPermission(ctx, "presets", "mine/", clientv3.GetPrefixRangeEnd("mine/"), clientv3.PermissionType(clientv3.PermReadWrite))
	_, err3 := admin.UserAdd(ctx, "presets", password)
	_, err4 := admin.UserGrantRole(ctx, "presets", "presets")
	_, err5 := admin.UserAdd(ctx, "root", "root")
	_, err6 := admin.UserGrantRole(ctx, "root", "root")
	_, err7 := admin.AuthEnable(ctx)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
}
