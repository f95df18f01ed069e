package h2_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weir.dev/weir/server/h2"
)

// benchServer is the variable that makes the test binary the server of a benchmark: its CPU is counted alone.
const benchServer = "H2_BENCH_SERVER"

// benchProfile is the variable that names a file for the profile of that server.
const benchProfile = "H2_BENCH_PROFILE"

func TestMain(m *testing.M) {
	if name := os.Getenv(benchServer); name != "" {
		serveBenchmark(name)
		return
	}
	os.Exit(m.Run())
}

// serveBenchmark serves bytes that are ready, until standard input ends.
func serveBenchmark(name string) {
	small, list := bytes.Repeat([]byte("x"), 2<<10), bytes.Repeat([]byte("x"), 17<<20)
	f := newFeed()
	mux := http.NewServeMux()
	whole := func(body []byte, piece int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			for rest := body; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
				_, _ = w.Write(rest[:min(piece, len(rest))])
			}
		}
	}
	mux.HandleFunc("/get", whole(small, len(small)))
	mux.HandleFunc("/list", whole(list, 64<<10))
	mux.HandleFunc("/event", func(http.ResponseWriter, *http.Request) { f.publish() })
	mux.HandleFunc("/watch", func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.Flush()
		for at := f.now(); ; {
			next := f.after(r, at)
			if next == at {
				return
			}
			for ; at < next; at++ {
				_, _ = w.Write(small[1:])
				_, _ = w.Write([]byte("\n"))
			}
			_ = control.Flush()
		}
	})
	mux.HandleFunc("/cpu", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, processCPU().Microseconds())
	})

	certificate, _ := testCertificate()
	s := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, DynamicRecordSizingDisabled: true}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil && name == ours {
		err = h2.Configure(s, h2.Config{})
		listener = h2.Listener(listener)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	_ = pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	_ = os.Stdout.Close()
	if file, err := os.Create(os.Getenv(benchProfile)); err == nil {
		_ = pprof.StartCPUProfile(file)
		defer pprof.StopCPUProfile()
	}
	go func() { _ = s.ServeTLS(listener, "", "") }()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// feed is what watches wait for.
type feed struct {
	mu    sync.Mutex
	at    int
	moved chan struct{}
}

func newFeed() *feed { return &feed{moved: make(chan struct{})} }

func (f *feed) publish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at++
	close(f.moved)
	f.moved = make(chan struct{})
}

func (f *feed) now() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

// after waits for something after at; it returns at when the request ends.
func (f *feed) after(r *http.Request, at int) int {
	for {
		f.mu.Lock()
		now, moved := f.at, f.moved
		f.mu.Unlock()
		if now > at {
			return now
		}
		select {
		case <-moved:
		case <-r.Context().Done():
			return at
		}
	}
}

// benchmarked is a server in a process of its own.
type benchmarked struct {
	address string
	trust   *x509.CertPool
}

func startBenchmark(b *testing.B, name string) *benchmarked {
	b.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), benchServer+"="+name)
	command.Stderr = os.Stderr
	stop, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stop.Close(); _ = command.Wait() })
	text, err := io.ReadAll(out)
	if err != nil {
		b.Fatal(err)
	}
	address, ca, _ := strings.Cut(string(text), "\n")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(ca))
	return &benchmarked{address, pool}
}

func (s *benchmarked) client(b *testing.B) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.trust}, ForceAttemptHTTP2: true, DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (s *benchmarked) get(b *testing.B, client *http.Client, path string, buf []byte) string {
	response, err := client.Get("https://" + s.address + path)
	if err != nil {
		b.Error(err)
		return ""
	}
	defer response.Body.Close()
	kept := ""
	for {
		n, err := response.Body.Read(buf)
		kept = string(buf[:min(n+len(kept), 20)])
		if err == io.EOF {
			return kept
		}
		if err != nil {
			b.Error(err)
			return ""
		}
	}
}

// cpu is what the server has used, in microseconds.
func (s *benchmarked) cpu(b *testing.B, client *http.Client) float64 {
	response, err := client.Get("https://" + s.address + "/cpu")
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkServer measures CPU of a server's process whose handlers write bytes that are ready: an answer of 2 KiB, a
// list of 17 MiB, an event of 2 KiB to each of 500 watches on 10 connections. It is of use only with nothing else
// running.
func BenchmarkServer(b *testing.B) {
	for _, name := range []string{standard, ours} {
		b.Run("get/"+name, func(b *testing.B) {
			s := startBenchmark(b, name)
			clients := []*http.Client{s.client(b), s.client(b)}
			counter := s.client(b)
			before := s.cpu(b, counter)
			b.ResetTimer()
			var group sync.WaitGroup
			for worker := range 16 {
				group.Go(func() {
					buf := make([]byte, 32<<10)
					for i := worker; i < b.N; i += 16 {
						s.get(b, clients[worker%2], "/get", buf)
					}
				})
			}
			group.Wait()
			b.StopTimer()
			b.ReportMetric((s.cpu(b, counter)-before)/float64(b.N), "cpu-us/op")
		})
		b.Run("list/"+name, func(b *testing.B) {
			s := startBenchmark(b, name)
			client, counter := s.client(b), s.client(b)
			buf := make([]byte, 32<<10)
			s.get(b, client, "/list", buf)
			before := s.cpu(b, counter)
			b.ResetTimer()
			for range b.N {
				s.get(b, client, "/list", buf)
			}
			b.StopTimer()
			b.ReportMetric((s.cpu(b, counter)-before)/float64(b.N), "cpu-us/op")
		})
		b.Run("watch/"+name, func(b *testing.B) {
			const conns, watches = 10, 50
			s := startBenchmark(b, name)
			var got sync.WaitGroup
			var bodies []io.Closer
			for range conns {
				client := s.client(b)
				for range watches {
					response, err := client.Get("https://" + s.address + "/watch")
					if err != nil {
						b.Fatal(err)
					}
					bodies = append(bodies, response.Body)
					go func() {
						for lines := bufio.NewReaderSize(response.Body, 8<<10); ; {
							if _, err := lines.ReadSlice('\n'); err != nil {
								return
							}
							got.Done()
						}
					}()
				}
			}
			counter := s.client(b)
			buf := make([]byte, 1024)
			event := func() {
				got.Add(conns * watches)
				s.get(b, counter, "/event", buf)
				got.Wait()
			}
			event()
			before := s.cpu(b, counter)
			b.ResetTimer()
			for range b.N {
				event()
			}
			b.StopTimer()
			b.ReportMetric((s.cpu(b, counter)-before)/float64(b.N)/conns/watches, "cpu-us/event")
			for _, body := range bodies {
				_ = body.Close()
			}
		})
	}
}
