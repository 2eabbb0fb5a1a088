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

// Many transfers are made at once: the device is told of them together, and the last one tells
// the peer that all are there.
func Example_batch() {
	for _, device := range []string{"soft:lo", "shm"} {
		if err := batch(device); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// soft:lo: 16 transfers have arrived
	// shm:0: 16 transfers have arrived
}

func batch(device string) error {
	const count, size = 16, 4096
	ctx := context.Background()
	loop := transport.NewLoop()
	defer func() { _ = loop.Close() }()
	sender, err := transport.New(transport.Options{Device: device, Loop: loop})
	if err != nil {
		return err
	}
	receiver, err := transport.New(transport.Options{Device: device, Loop: loop})
	if err != nil {
		return err
	}
	for _, ends := range [][2]*transport.Transport{{sender, receiver}, {receiver, sender}} {
		if _, err := ends[0].Bind(); err != nil {
			return err
		}
		url, err := ends[1].Bind() // a second time it returns the same
		if err != nil {
			return err
		}
		if err := ends[0].Connect(ctx, url); err != nil {
			return err
		}
	}
	// Register once, and use views.
	source, err := sender.RegisterSlice(bytes.Repeat([]byte{0xCD}, count*size))
	if err != nil {
		return err
	}
	target, err := receiver.Alloc(count * size)
	if err != nil {
		return err
	}
	var transfers []transport.Transfer
	for i := range uint64(count) {
		view, err := source.View(i*size, size)
		if err != nil {
			return err
		}
		transfers = append(transfers, transport.Transfer{Local: view, Remote: target.Remote().At(i * size), Notify: i == count-1})
	}
	if err := transport.WaitAll(ctx, sender.Batch(ctx, transfers...)...); err != nil {
		return err
	}
	if err := receiver.WaitForWrite(ctx).Wait(ctx); err != nil {
		return err
	}
	if !bytes.Equal(source.Bytes(), target.Bytes()) {
		return fmt.Errorf("%s: the bytes differ", device)
	}
	fmt.Printf("%s: %d transfers have arrived\n", target.Device(), len(transfers))
	return nil
}
