// Package timing measures how long iterations take: percentiles in bounded memory,
// and the bandwidths that follow from them.
package timing
