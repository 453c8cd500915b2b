package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/etcd/etcdstore"
)

// clusterSizes are the numbers of members of the measured clusters, in this order.
var clusterSizes = []int{1, 3}

// clusterWork names work in a cluster with a number of members.
func clusterWork(work string, members int) string {
	if members == 1 {
		return work + ", 1 member"
	}
	return fmt.Sprintf("%s, %d members", work, members)
}

// measureEtcd compares our server with etcd's own puts in the same cluster. It also
// compares it with our server over Badger.
func (b *bench) measureEtcd() error {
	server, caddy, err := b.buildEtcd()
	if err != nil {
		return err
	}
	const size = 1000
	small, err := b.fillGrowth(size)
	if err != nil {
		return err
	}
	badger, err := b.startOurs(small)
	if err != nil {
		return err
	}
	defer badger.stop()
	for _, members := range clusterSizes {
		if err := b.measureCluster(members, size, server, caddy, badger); err != nil {
			return fmt.Errorf("%d members: %w", members, err)
		}
	}
	return nil
}

func (b *bench) measureCluster(members, size int, server, caddy string, badger *ours) error {
	c, err := b.startCluster(members, server, caddy)
	if err != nil {
		return err
	}
	defer c.stop()
	filled, err := c.fill(b, size)
	if err != nil {
		return err
	}
	ours, err := b.startOurs(filled)
	if err != nil {
		return err
	}
	defer ours.stop()
	if err := ours.check(); err != nil {
		return err
	}
	putter, err := b.startPutter(c)
	if err != nil {
		return err
	}
	defer putter.stop()
	workspace, err := ours.workspace()
	if err != nil {
		return err
	}
	_, version, err := ours.get("/presets/" + slugOf(0) + "/versions/1").ask()
	if err != nil {
		return err
	}
	newVersion, err := ours.newVersions(newVersionWork, b.clients, writeClientSlug)
	if err != nil {
		return err
	}
	post := ours.newWorkspaces()
	put, httpPut := c.puts(b, putWork, workspace), putter.puts(b, httpPutWork, workspace)
	get := trial{work: getWork, open: ours.getWorkspace().connect}
	infer := trial{work: resolveWork, open: ours.inferWith(min(hotPresets, size)).connect}
	over := func(engine string, trials ...trial) []trial {
		for i := range trials {
			trials[i].work += ", " + engine
		}
		return trials
	}
	withBadger := over("Badger",
		trial{work: getWork, open: badger.getWorkspace().connect},
		trial{work: resolveWork, open: badger.inferWith(min(hotPresets, size)).connect},
	)
	steps := []step{
		{b.clients, slices.Concat([]trial{
			put, httpPut, post,
			c.puts(b, putVersionWork, version), putter.puts(b, httpPutVersionWork, version), newVersion, ours.newPresets(),
			get, infer,
		}, withBadger)},
		{1, slices.Concat([]trial{put, httpPut, post, newVersion, get, infer}, withBadger)},
	}
	for _, s := range steps {
		for i := range s.trials {
			s.trials[i].work = clusterWork(s.trials[i].work, members)
		}
	}
	return b.takeTurns(etcdEngine, b.rounds, b.lasting, steps...)
}

// buildEtcd builds Caddy with the engine etcd. It also builds an etcd server, unless
// PRESETS_ETCD names one.
func (b *bench) buildEtcd() (server, caddy string, err error) {
	if server = os.Getenv("PRESETS_ETCD"); server == "" {
		if server, err = b.build(filepath.Join(etcdModule, "testserver"), ".", "etcd"); err != nil {
			return "", "", err
		}
	}
	said, err := b.command(server, "--version").Output()
	if err != nil {
		return "", "", err
	}
	version, _, _ := strings.Cut(string(said), "\n")
	b.etcd = strings.Replace(version, " Version:", "", 1)
	caddy, err = b.build(etcdModule, "./cmd/caddy", "presets-etcd")
	return server, caddy, err
}

// cluster is an etcd cluster with etcd's default settings.
type cluster struct {
	members   []*server
	endpoints []string
	caddy     string // a binary with the engine etcd
	serial    *atomic.Uint64
}

func (b *bench) startCluster(size int, binary, caddy string) (*cluster, error) {
	addresses := reserveAddresses(2 * size)
	c := &cluster{endpoints: addresses[:size], caddy: caddy, serial: &b.serial}
	var all []string
	for i, peer := range addresses[size:] {
		all = append(all, fmt.Sprintf("m%d=http://%s", i, peer))
	}
	for i, peer := range addresses[size:] {
		client, peer := "http://"+c.endpoints[i], "http://"+peer
		member, err := b.launch(b.command(binary,
			"--name", fmt.Sprintf("m%d", i), "--data-dir", filepath.Join(b.folder, fmt.Sprintf("etcd-%d-%d", size, i)), "--logger", "zap", "--log-level", "error",
			"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(all, ","),
		), nil)
		if err != nil {
			return nil, err
		}
		c.members = append(c.members, member)
	}
	for i, member := range c.members {
		if err := member.await(newRequest(c.endpoints[i], http.MethodGet, "/health", "nobody", "", http.StatusOK, nil)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) stop() {
	for _, member := range c.members {
		member.stop()
	}
}

// fill stores size workspaces and size presets.
func (c *cluster) fill(b *bench, size int) (store, error) {
	db, err := etcdstore.Open(b.ctx, etcdstore.Options{Endpoints: c.endpoints})
	if err != nil {
		return store{}, err
	}
	filled, err := fillStore(b.ctx, db, size, size, storedCapture())
	filled.cluster = c
	return filled, errors.Join(err, db.Close())
}

// storage returns the shipped configuration with the store in the cluster.
func (c *cluster) storage(text string) (string, error) {
	const shipped = "storage badger {$PRESETS_DATA:./presets-data}"
	if !strings.Contains(text, shipped) {
		return "", fmt.Errorf("the shipped Caddyfile has no %q any more", shipped)
	}
	return strings.Replace(text, shipped, "storage etcd "+strings.Join(c.endpoints, " "), 1), nil
}

func (c *cluster) connect() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: c.endpoints, DialTimeout: grace, Logger: zap.NewNop()})
}

// putPrefix is the prefix of the keys that rawEtcd puts.
const putPrefix = "put/"

// rawEtcd puts one record at a time. All sessions share one etcd client, as they do in a
// server. This is the least cost of a durable write to etcd.
type rawEtcd struct {
	*bench
	cluster *cluster
	client  *clientv3.Client
	record  string
}

func (c *cluster) puts(b *bench, work string, record []byte) trial {
	r := &rawEtcd{bench: b, cluster: c, record: string(record)}
	return trial{work: work, inProcess: true, begin: r.begin, stored: c.stored(b), open: func(int) (session, error) { return r, nil }}
}

func (r *rawEtcd) begin() (end func() error, err error) {
	r.client, err = r.cluster.connect()
	if err != nil {
		return nil, err
	}
	return r.client.Close, nil
}

func (r *rawEtcd) once() error {
	key := make([]byte, len(variable))
	writeSlug(key, 'e', r.serial.Add(1))
	_, err := r.client.Put(r.ctx, putPrefix+string(key), r.record)
	return err
}

// close does nothing: a session holds no resources.
func (*rawEtcd) close() {}

// stored counts the keys that were put.
func (c *cluster) stored(b *bench) func() (int, error) {
	return func() (int, error) {
		client, err := c.connect()
		if err != nil {
			return 0, err
		}
		defer client.Close()
		response, err := client.Get(b.ctx, putPrefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return 0, err
		}
		return int(response.Count), nil
	}
}

func (b *bench) judgeEtcd(row func(name, unit string, g goal, values []float64), rateRatio func(group, ours, other string) []float64) {
	for _, members := range clusterSizes {
		to := func(ours, other string) []float64 {
			return rateRatio(etcdEngine, clusterWork(ours, members), clusterWork(other, members))
		}
		in := " in etcd, " + clusterWork("", members)[2:]
		row("durable POST /v1/workspaces"+in+", to etcd's own puts of the same bytes", "×", atLeast(0.8), to(postWorkspaceWork, putWork))
		row("… to an HTTP server that puts once for each request", "×", atLeast(0.8), to(postWorkspaceWork, httpPutWork))
		row("durable POST /v1/presets/{slug}/responses, new version"+in+", to etcd's own puts of the same bytes", "×", atLeast(0.8), to(newVersionWork, putVersionWork))
		row("… to an HTTP server that puts once for each request", "×", atLeast(0.8), to(newVersionWork, httpPutVersionWork))
		row("inference request with a reference"+in+", to the same over Badger", "×", atLeast(0.95), to(resolveWork, resolveWork+", Badger"))
	}
}
