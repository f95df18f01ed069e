package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"
)

// The report of JUnit, as far as CI systems read it.
type (
	junitReport struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure,omitempty"`
		Error   *junitMessage `xml:"error,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes a report. A directory that cannot be used is a case with an error.
func writeJUnit(file string, results []dirResult) error {
	var report junitReport
	var total float64
	for i := range results {
		r := &results[i]
		suite := junitSuite{Name: r.dir.name(), Tests: len(r.cases), Failures: r.failed(), Time: seconds(r.took.Seconds())}
		for _, c := range r.cases {
			jc := junitCase{Class: suite.Name, Name: c.name, Time: seconds(c.took.Seconds())}
			if len(c.problems) > 0 {
				first, _, _ := strings.Cut(c.problems[0], "\n")
				jc.Failure = &junitMessage{Message: first, Text: c.at + ":\n" + strings.Join(c.problems, "\n")}
			}
			suite.Cases = append(suite.Cases, jc)
		}
		if r.err != nil {
			first, _, _ := strings.Cut(r.err.Error(), "\n")
			suite.Tests, suite.Errors = suite.Tests+1, 1
			suite.Cases = append(suite.Cases, junitCase{Class: suite.Name, Name: "policies", Time: suite.Time, Error: &junitMessage{Message: first, Text: r.err.Error()}})
		}
		report.Tests, report.Failures, report.Errors = report.Tests+suite.Tests, report.Failures+suite.Failures, report.Errors+suite.Errors
		total += r.took.Seconds()
		report.Suites = append(report.Suites, suite)
	}
	report.Time = seconds(total)
	text, err := xml.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(append([]byte(xml.Header), text...), '\n'), 0o644) //nolint:gosec // a report is for others to read
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
