// Package readerstest reads what ringcli writes for other programs with those programs' own
// code: metrics with Prometheus' parser and linter, JUnit XML with a reader of it.
package readerstest
