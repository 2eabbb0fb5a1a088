// Package ledger keeps what a run has found, record by record, and writes it at the end for
// machines: as JUnit's test cases, and as metrics of Prometheus. Both are made of the records
// that --output json prints; kinds.go says of which, and what of them.
package ledger
