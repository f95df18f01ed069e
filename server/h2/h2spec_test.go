package h2_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir.dev/weir/server/h2"
	"weir.dev/weir/server/servertest/tools"
)

// h2spec finds no fault, in its strict mode. Frames are no longer than 16 KiB, as it supposes.
func TestH2spec(t *testing.T) {
	if testing.Short() {
		t.Skip("builds h2spec")
	}
	binary, err := tools.BuildH2spec(t.Context())
	if unreachable := (*tools.UnreachableError)(nil); errors.As(err, &unreachable) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, ours, options{config: h2.Config{MaxReadFrameSize: 16 << 10}}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, strings.Repeat("hello ", 100))
	})
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.xml")
	out, err := exec.CommandContext(t.Context(), binary, "-port", port, "-report", report).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Suites []struct {
			Cases []struct {
				Package   string    `xml:"package,attr"`
				ClassName string    `xml:"classname,attr"`
				Failure   *xmlText  `xml:"failure"`
				Error     *xmlText  `xml:"error"`
				Skipped   *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(data, &suites); err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, suite := range suites.Suites {
		for _, tc := range suite.Cases {
			name := tc.Package + ": " + tc.ClassName
			failure := tc.Failure
			if failure == nil {
				failure = tc.Error
			}
			switch {
			case tc.Skipped != nil:
				t.Errorf("skipped: %s", name)
			case failure == nil:
				passed++
			default:
				t.Errorf("%s: %s", name, failure.Text)
			}
		}
	}
	t.Logf("%d cases pass", passed)
	if passed < 146 {
		t.Errorf("only %d cases pass\n%s", passed, out)
	}
}

type xmlText struct {
	Text string `xml:",chardata"`
}
