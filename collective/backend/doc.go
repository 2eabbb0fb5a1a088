// Package backend has what can run a collective: our own ring, and the libraries of GPU
// vendors, libnccl.so.2 and librccl.so.1, which are loaded when somebody asks for them and
// never needed to start. Both export the same nccl* functions.
//
// A [Factory] knows one of them: its name, its priority, and whether it is there. What it
// finds it finds once, when it is asked first, because a library is loaded for good.
//
// The vendors' libraries are configured by the environment, which [Configuration] writes
// before a library is loaded: with the C library's setenv, as a program that is built
// without cgo has an environment of its own that no library sees. What an operator has set
// stays as it is.
package backend
