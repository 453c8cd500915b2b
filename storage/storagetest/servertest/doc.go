// Package servertest builds servers and runs them as processes, for the tests of all modules. Its
// functions are for tests: they end a test that cannot go on.
package servertest
