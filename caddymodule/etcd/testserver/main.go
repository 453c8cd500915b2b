// Command testserver is the etcd server, for tests. With the argument snapshot it handles
// snapshots as etcdutl does. It is a module of its own. So caddy-presets does not have its
// dependencies.
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
