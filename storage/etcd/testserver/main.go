// Command testserver is the etcd server, for tests: a module of its own, so that what it
// depends on is no dependency of caddy-presets.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
