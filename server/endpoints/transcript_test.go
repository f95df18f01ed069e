package endpoints

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the answers in testdata")

// shownHeaders are the headers of an answer that a transcript holds.
func shownHeaders() []string {
	return []string{"Content-Type", "Retry-After", "Warning", "Vary", "Cache-Control"}
}

// TestTranscripts sends the requests of testdata/*.http to one server a file and
// compares the answers. A request is lines of `> `: the method and path, headers, an
// empty line, the body. An answer is lines of `< `.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d transcripts: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, newWorld(t, Config{Now: at("2026-01-02T04:04:05Z"), ServerAddress: "localhost:6443", Version: "v1.2.3"}), string(raw))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(raw) {
				t.Errorf("transcript differs; now it is\n%s", got)
			}
		})
	}
}

func replay(t *testing.T, w *world, text string) string {
	t.Helper()
	var out, request []string
	flush := func() {
		if len(request) == 0 {
			return
		}
		out = append(out, send(t, w, request))
		request = nil
	}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch {
		case line == ">" || strings.HasPrefix(line, "> "):
			out = append(out, line)
			request = append(request, strings.TrimPrefix(strings.TrimPrefix(line, ">"), " "))
		case strings.HasPrefix(line, "<"):
		default:
			flush()
			out = append(out, line)
		}
	}
	flush()
	return strings.Join(out, "\n") + "\n"
}

// send does one request and gives the lines of its answer.
func send(t *testing.T, w *world, request []string) string {
	t.Helper()
	method, path, _ := strings.Cut(request[0], " ")
	var headers, body []string
	for i, line := range request[1:] {
		if line == "" {
			body = request[i+2:]
			break
		}
		headers = append(headers, line)
	}
	got := w.do(t, method, path, strings.Join(body, "\n"), headers...)
	lines := []string{fmt.Sprint(got.code)}
	for _, name := range shownHeaders() {
		values := got.header.Values(name)
		sort.Strings(values)
		for _, value := range values {
			lines = append(lines, name+": "+value)
		}
	}
	lines = append(lines, "")
	hash := regexp.MustCompile(`hash=[0-9A-F]{8}[0-9A-F]+`)
	body = strings.Split(strings.TrimSuffix(hash.ReplaceAllString(got.body, "hash=…"), "\n"), "\n")
	lines = append(lines, body...)
	for i := range lines {
		lines[i] = strings.TrimSuffix("< "+lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
