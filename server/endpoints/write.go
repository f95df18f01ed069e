package endpoints

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
)

const (
	// gzipThreshold is upstream's: a body that is not longer is sent as it is.
	gzipThreshold = 128 << 10
	// writeBufferSize is the size of the writes of a list.
	writeBufferSize = 64 << 10
	// connectionBuffer is the size of what net/http keeps of an answer before it sends it: no more than that needs
	// no buffer here.
	connectionBuffer = 4 << 10
)

// writeBytes answers with a JSON value, in the media type and form agreed. A value
// of another media type than JSON and YAML is written as it is.
func writeBytes(w http.ResponseWriter, req *http.Request, out output, code int, raw []byte) {
	writeChunks(w, req, out, code, [][]byte{raw})
}

// writeDocument answers with a document.
func writeDocument(w http.ResponseWriter, req *http.Request, out output, code int, doc *document.Document) {
	writeAnswer(w, req, out, code, doc.Pieces(nil))
}

// writeMeta answers with a value of package metav1 or alike.
func writeMeta(w http.ResponseWriter, req *http.Request, value any) {
	out, ok := negotiate(req, plainMediaTypes{})
	if !ok {
		writeError(w, req, newNotAcceptable(plainMediaTypes{}.mediaTypes()))
		return
	}
	raw, err := json.Marshal(value)
	if err != nil {
		writeError(w, req, err)
		return
	}
	writeAnswer(w, req, out, http.StatusOK, [][]byte{raw})
}

// writeChunks answers with the JSON value that the chunks make up together. It
// writes them in large pieces, compressed where the client takes that and the
// whole is long enough. An error of the connection has nobody to be told to.
func writeChunks(w http.ResponseWriter, req *http.Request, out output, code int, chunks [][]byte) {
	mediaType := out.mediaType
	newline := mediaType != mediaTypeYAML
	switch {
	case mediaType == mediaTypeYAML:
		if text, err := yaml.JSONToYAML(bytes.Join(chunks, nil)); err == nil {
			chunks = [][]byte{text}
		} else {
			mediaType, newline = mediaTypeJSON, true
		}
	case mediaType != mediaTypeJSON:
		newline = false
	case out.pretty:
		var b bytes.Buffer
		if err := json.Indent(&b, bytes.Join(chunks, nil), "", "  "); err == nil {
			chunks = [][]byte{b.Bytes()}
		}
	}
	size := 0
	for _, chunk := range chunks {
		size += len(chunk)
	}
	if newline {
		size++
	}

	header := w.Header()
	header.Set("Content-Type", mediaType)
	if out.contentType != "" {
		header.Set("Content-Type", out.contentType)
	}
	var body io.Writer = w
	compress := size > gzipThreshold && acceptsGzip(req)
	if compress {
		header.Set("Content-Encoding", "gzip")
		header.Add("Vary", "Accept-Encoding")
	} else {
		header.Set("Content-Length", strconv.Itoa(size))
	}
	w.WriteHeader(code)
	if req.Method == http.MethodHead {
		return
	}
	if compress {
		zip := acquireGzip(w)
		defer releaseGzip(zip)
		body = zip
	}
	if len(chunks) == 1 && !newline {
		_, _ = body.Write(chunks[0])
		return
	}
	if newline {
		chunks = append(chunks, newlineChunk)
	}
	if size <= connectionBuffer {
		for _, chunk := range chunks {
			_, _ = body.Write(chunk)
		}
		return
	}
	if !compress {
		if to := direct(w); to != nil {
			writeDirect(to, chunks)
			return
		}
	}
	buf := acquireBuffer(body)
	defer releaseBuffer(buf)
	for _, chunk := range chunks {
		_, _ = buf.Write(chunk)
	}
	_ = buf.Flush()
}

// writeDirect writes chunks in pieces of some size. The last goes when the handler returns, with the end of the answer.
func writeDirect(to chunkWriter, chunks [][]byte) {
	begin, size := 0, 0
	for i, chunk := range chunks {
		if size += len(chunk); size < writeBufferSize {
			continue
		}
		if to.WriteChunks(chunks[begin:i+1], true) != nil {
			return
		}
		begin, size = i+1, 0
	}
	_ = to.WriteChunks(chunks[begin:], false)
}

// newlineChunk ends a JSON text. It is never written to.
var newlineChunk = []byte("\n")

// acceptsGzip reports whether Accept-Encoding names gzip, as upstream reads it:
// qualities are ignored, but a zero one is honoured.
func acceptsGzip(req *http.Request) bool {
	for _, clause := range strings.Split(req.Header.Get("Accept-Encoding"), ",") {
		coding, params, _ := strings.Cut(clause, ";")
		if strings.TrimSpace(coding) != "gzip" {
			continue
		}
		quality := strings.ReplaceAll(params, " ", "")
		return !strings.HasPrefix(quality, "q=0") || strings.Trim(quality[len("q=0"):], ".0") != ""
	}
	return false
}

// The pools are constant after package initialisation; what they hold is reused.
var (
	gzipPool = sync.Pool{New: func() any {
		zip, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is valid
		return zip
	}}
	bufferPool = sync.Pool{New: func() any { return bufio.NewWriterSize(io.Discard, writeBufferSize) }}
)

func acquireGzip(w io.Writer) *gzip.Writer {
	zip := gzipPool.Get().(*gzip.Writer)
	zip.Reset(w)
	return zip
}

func releaseGzip(zip *gzip.Writer) {
	_ = zip.Close()
	zip.Reset(io.Discard)
	gzipPool.Put(zip)
}

func acquireBuffer(w io.Writer) *bufio.Writer {
	buf := bufferPool.Get().(*bufio.Writer)
	buf.Reset(w)
	return buf
}

func releaseBuffer(buf *bufio.Writer) {
	buf.Reset(io.Discard)
	bufferPool.Put(buf)
}
