package h2

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// What a full socket does not take is sent in order, with what TLS says meanwhile; nobody waits for it.
func TestCork(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Listener(inner)
	defer l.Close()
	client, accepted := connect(t, l)
	c, ok := accepted.(*corkedConn)
	if !ok {
		t.Skipf("%T: writes wait for the socket here", accepted)
	}
	if _, err := io.WriteString(c, "before"); err != nil {
		t.Fatal(err)
	}
	drained := make(chan error, 10)
	c.cork(&buffers{}, func(err error) { drained <- err })

	want := bytes.NewBufferString("before")
	write := func(p []byte) {
		t.Helper()
		if n, err := c.Write(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
		want.Write(p)
	}
	write([]byte("alone"))
	for round := byte(0); ; round++ {
		c.hold()
		for i := range 10 {
			write(bytes.Repeat([]byte{round, byte(i)}, 10<<10))
		}
		sent, err := c.release()
		if err != nil {
			t.Fatal(err)
		}
		if !sent {
			break
		}
	}
	if !c.busy() {
		t.Error("the socket is full and nobody waits for it")
	}
	write([]byte("meanwhile"))
	c.hold()
	write([]byte("and held"))
	if sent, err := c.release(); sent || err != nil {
		t.Error(sent, err)
	}

	got := make([]byte, want.Len())
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%v; the same: %v", err, bytes.Equal(got, want.Bytes()))
	}
	select {
	case err := <-drained:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("not drained")
	}

	// A client that never reads ends the connection, not the memory.
	c.hold()
	for err = nil; err == nil; {
		_, err = c.Write(make([]byte, 64<<10))
	}
	if err != errNotTaken {
		t.Error(err)
	}
}

// connect returns both ends of a connection to l, until the test ends.
func connect(t *testing.T, l net.Listener) (client, accepted net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accepted.Close() })
	return client, accepted
}
