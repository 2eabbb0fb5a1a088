package transport_test

import (
	"bytes"
	"context"
	"fmt"

	"ringcli/verbs/transport"
)

// examples are what a process does with a peer that is another process: from takes part as the
// one that writes, to as the one that is written to.
var examples = map[string]struct {
	from, to func(context.Context, transport.Options, pipe) error
}{
	"ping-pong": {pingPongServer, pingPongClient},
	"batch":     {batchSender, batchReceiver},
}

// A server writes 8 KiB into a client's memory, and the client learns of it. They are two
// processes.
func Example_pingPong() {
	for _, device := range []string{"soft:lo", "shm"} {
		if err := apart("ping-pong", transport.Options{Device: device}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// soft:lo: 8192 bytes of 0xab have arrived
	// shm:0: 8192 bytes of 0xab have arrived
}

const pingPongSize = 8192

func pingPongServer(ctx context.Context, o transport.Options, peer pipe) error {
	// Set up this end.
	server, err := transport.New(o)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }() // with all that is on it

	// Establish the connection.
	url, err := server.Bind()
	if err != nil {
		return err
	}
	client, err := peer.exchange(contact{URL: url}) // by any way that the processes have
	if err != nil {
		return err
	}
	if err := server.Connect(ctx, client.URL); err != nil {
		return err
	}

	// Allocate and register memory.
	source, err := server.Alloc(pingPongSize)
	if err != nil {
		return err
	}
	for i := range source.Bytes() {
		source.Bytes()[i] = 0xAB
	}

	// Transfer: server to client.
	return server.Write(ctx, source.All(), client.Memory, true).Wait(ctx)
}

func pingPongClient(ctx context.Context, o transport.Options, peer pipe) error {
	client, err := transport.New(o)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	url, err := client.Bind()
	if err != nil {
		return err
	}
	target, err := client.Alloc(pingPongSize)
	if err != nil {
		return err
	}
	server, err := peer.exchange(contact{URL: url, Memory: target.Remote()})
	if err != nil {
		return err
	}
	if err := client.Connect(ctx, server.URL); err != nil {
		return err
	}
	if err := client.WaitForWrite(ctx).Wait(ctx); err != nil {
		return err
	}
	if !bytes.Equal(target.Bytes(), bytes.Repeat([]byte{0xAB}, pingPongSize)) {
		return fmt.Errorf("%s: the bytes differ", target.Device())
	}
	fmt.Printf("%s: %d bytes of %#x have arrived\n", target.Device(), target.All().Len(), target.Bytes()[pingPongSize-1])
	return nil
}

// Many transfers are made at once: the device is told of them together, and the last one tells
// the peer, which is another process, that all are there.
func Example_batch() {
	for _, device := range []string{"soft:lo", "shm"} {
		if err := apart("batch", transport.Options{Device: device}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// soft:lo: 16 transfers have arrived
	// shm:0: 16 transfers have arrived
}

const batchCount, batchSize = 16, 4096

func batchSender(ctx context.Context, o transport.Options, peer pipe) error {
	sender, err := transport.New(o)
	if err != nil {
		return err
	}
	defer func() { _ = sender.Close() }()
	url, err := sender.Bind()
	if err != nil {
		return err
	}
	receiver, err := peer.exchange(contact{URL: url})
	if err != nil {
		return err
	}
	if err := sender.Connect(ctx, receiver.URL); err != nil {
		return err
	}
	// Register once, and use views.
	data := make([]byte, batchCount*batchSize)
	fill(data, batchCount)
	source, err := sender.RegisterSlice(data)
	if err != nil {
		return err
	}
	var transfers []transport.Transfer
	for i := range uint64(batchCount) {
		view, err := source.View(i*batchSize, batchSize)
		if err != nil {
			return err
		}
		transfers = append(transfers, transport.Transfer{Local: view, Remote: receiver.Memory.At(i * batchSize), Notify: i == batchCount-1})
	}
	return transport.WaitAll(ctx, sender.Batch(ctx, transfers...)...)
}

func batchReceiver(ctx context.Context, o transport.Options, peer pipe) error {
	receiver, err := transport.New(o)
	if err != nil {
		return err
	}
	defer func() { _ = receiver.Close() }()
	url, err := receiver.Bind()
	if err != nil {
		return err
	}
	target, err := receiver.Alloc(batchCount * batchSize)
	if err != nil {
		return err
	}
	sender, err := peer.exchange(contact{URL: url, Memory: target.Remote()})
	if err != nil {
		return err
	}
	if err := receiver.Connect(ctx, sender.URL); err != nil {
		return err
	}
	if err := receiver.WaitForWrite(ctx).Wait(ctx); err != nil {
		return err
	}
	sent := make([]byte, batchCount*batchSize)
	fill(sent, batchCount)
	if !bytes.Equal(target.Bytes(), sent) {
		return fmt.Errorf("%s: the bytes differ", target.Device())
	}
	fmt.Printf("%s: %d transfers have arrived\n", target.Device(), batchCount)
	return nil
}
