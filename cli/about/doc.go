// Package about tells people and programs about this program: the settings in force,
// its version, completion scripts and the schema of its JSON.
package about
