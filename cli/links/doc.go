// Package links is about the links of a ring and what they should allow: the commands
// links and model.
package links
