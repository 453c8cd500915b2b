//go:build !linux

package e2e

import "testing"

// network stands for a network with a loopback device alone. Here the environment of the programs in
// it names a proxy that refuses.
type network struct{ env []string }

func newNetwork(*testing.T) *network { return &network{env: noProxy} }

// do runs a function whose listeners and processes are in the network.
func (n *network) do(f func()) { f() }

// endProcesses ends nothing here.
func endProcesses(string) {}
