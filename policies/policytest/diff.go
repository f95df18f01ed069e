package policytest

import (
	"strings"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
)

// contextLines are shown around a difference.
const contextLines = 2

// diffDocuments compares two objects, line by line of their YAML. nil is none.
func diffDocuments(want, got *document.Document) string {
	return Diff(YAML(want), YAML(got))
}

// YAML is an object as its author would write it, "" for nil.
func YAML(d *document.Document) string {
	if d == nil {
		return ""
	}
	text, err := yaml.JSONToYAML(d.Bytes())
	if err != nil {
		return string(d.Bytes())
	}
	return string(text)
}

// diffLists compares two lists of texts.
func diffLists(want, got []string) string {
	return Diff(strings.Join(want, "\n"), strings.Join(got, "\n"))
}

// Diff shows how two texts differ: lines that begin with "-" are of the first alone, those with "+" of the second, and
// some lines around them are of both.
func Diff(want, got string) string {
	a, b := lines(want), lines(got)
	// Whatever is long and the same at both ends needs no table.
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var edits []string
	for _, l := range a[:head] {
		edits = append(edits, "  "+l)
	}
	edits = append(edits, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		edits = append(edits, "  "+l)
	}
	return strings.Join(nearChanges(edits), "\n")
}

func lines(text string) []string {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// maxTable bounds the table of a comparison; what needs a larger one is shown as replaced as a whole.
const maxTable = 1 << 22

// middle is the shortest way from a to b, by the longest common subsequence.
func middle(a, b []string) []string {
	var edits []string
	if (len(a)+1)*(len(b)+1) > maxTable {
		for _, l := range a {
			edits = append(edits, "- "+l)
		}
		for _, l := range b {
			edits = append(edits, "+ "+l)
		}
		return edits
	}
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			edits = append(edits, "  "+a[i])
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			edits = append(edits, "- "+a[i])
			i++
		default:
			edits = append(edits, "+ "+b[j])
			j++
		}
	}
	return edits
}

// nearChanges leaves out the lines that are far from any change.
func nearChanges(edits []string) []string {
	keep := make([]bool, len(edits))
	for i, e := range edits {
		if e[0] == ' ' {
			continue
		}
		for j := max(0, i-contextLines); j <= min(len(edits)-1, i+contextLines); j++ {
			keep[j] = true
		}
	}
	var out []string
	for i, e := range edits {
		switch {
		case keep[i]:
			out = append(out, e)
		case len(out) > 0 && out[len(out)-1] != "  …":
			out = append(out, "  …")
		}
	}
	if len(out) > 0 && out[len(out)-1] == "  …" {
		out = out[:len(out)-1]
	}
	return out
}
