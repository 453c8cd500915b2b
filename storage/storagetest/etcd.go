package storagetest

// EtcdVariable names the environment variable that holds the path of the etcd server to
// test with. The first tier has none: an etcd server takes minutes to build and to test.
const EtcdVariable = "PRESETS_ETCD"

// NoEtcd is the reason why a test that needs an etcd server is skipped.
const NoEtcd = "SKIPPED: " + EtcdVariable + " names no etcd server; CONTRIBUTING.md tells how to build one"
