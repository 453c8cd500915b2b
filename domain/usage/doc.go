// Package usage sums what inference requests use, and answers questions about it.
//
// A Ledger sums Requests in memory. It turns them into Rows that an engine stores. There is
// one for each preset and hour, and one for each preset and day. A Query collects stored
// rows into a Report. Hours and days are those of UTC.
//
// Everything that is summed is an integer, also costs and scores. So the order of sums
// never shows. Durations are kept as sketches, whose quantiles have a relative error of at
// most RelativeError.
package usage
