// Package e2e has only tests: real clients against a real server. The transcripts in
// testdata/kubectl are what a user types and sees; run the tests with -rewrite to write down
// what kubectl says now, and read the difference before you keep it.
package e2e
