package transport_test

import (
	"bytes"
	"context"
	"fmt"

	"ringcli/verbs/transport"
)

// A server writes 8 KiB into a client's memory, and the client learns of it. Both are here in
// one process, and connect one after the other.
func Example_pingPong() {
	for _, device := range []string{"soft:lo", "shm"} {
		if err := pingPong(device); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// soft:lo: 8192 bytes of 0xab have arrived
	// shm:0: 8192 bytes of 0xab have arrived
}

func pingPong(device string) error {
	const bufferSize = 8192
	ctx := context.Background()
	loop := transport.NewLoop()
	defer func() { _ = loop.Close() }() // with all that is on it

	// Set up both ends.
	server, err := transport.New(transport.Options{Device: device, Loop: loop})
	if err != nil {
		return err
	}
	client, err := transport.New(transport.Options{Device: device, Loop: loop})
	if err != nil {
		return err
	}

	// Establish the connection.
	serverURL, err := server.Bind()
	if err != nil {
		return err
	}
	clientURL, err := client.Bind()
	if err != nil {
		return err
	}
	if err := server.Connect(ctx, clientURL); err != nil {
		return err
	}
	if err := client.Connect(ctx, serverURL); err != nil {
		return err
	}

	// Allocate and register memory.
	source, err := server.Alloc(bufferSize)
	if err != nil {
		return err
	}
	target, err := client.Alloc(bufferSize)
	if err != nil {
		return err
	}
	for i := range source.Bytes() {
		source.Bytes()[i] = 0xAB
	}

	// Transfer: server to client.
	written := server.Write(ctx, source.All(), target.Remote(), true)
	arrived := client.WaitForWrite(ctx)
	if err := transport.WaitAll(ctx, written, arrived); err != nil {
		return err
	}
	if !bytes.Equal(source.Bytes(), target.Bytes()) {
		return fmt.Errorf("%s: the bytes differ", device)
	}
	fmt.Printf("%s: %d bytes of %#x have arrived\n", target.Device(), target.All().Len(), target.Bytes()[bufferSize-1])
	return nil
}
