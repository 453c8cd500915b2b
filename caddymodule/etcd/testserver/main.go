// Command testserver is the etcd server, for tests, and with the argument snapshot what
// etcdutl does with snapshots: a module of its own, so that what it depends on is no
// dependency of caddy-presets.
package main

import (
	"os"

	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "snapshot" {
		command := etcdutl.NewSnapshotCommand()
		command.SetArgs(os.Args[2:])
		if command.Execute() != nil {
			os.Exit(1)
		}
		return
	}
	etcdmain.Main(os.Args)
}
