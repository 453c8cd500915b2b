// Package inference turns an inference request and a stored preset into what goes
// upstream. A Resolver finds the preset that a request names and merges the two.
// Capture does the opposite: it takes from a request what a new version keeps.
//
// The packages below read references, place prompts, translate between APIs and apply policies.
package inference
