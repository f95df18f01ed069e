package filters

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/warning"
)

func TestWarnings(t *testing.T) {
	many := func(n int, text string) (texts []string) {
		for i := range n {
			texts = append(texts, fmt.Sprintf("%s %d", text, i))
		}
		return texts
	}
	tests := []struct {
		name  string
		texts []string
		want  int
		// longest and total are in characters of the header.
		longest, total int
	}{
		{"one text once", []string{"once", "once"}, 1, 20, 20},
		{"a long one is whole", []string{strings.Repeat("x", 4000)}, 1, 4100, 4100},
		{"too long together", []string{strings.Repeat("x", 4000), strings.Repeat("y", 4000)}, 2, 300, 600},
		{"cut between characters", []string{"é" + strings.Repeat("ü", 5000)}, 1, 300, 300},
		{"many", many(5000, "unknown field"), 5000, 40, 4096 * 2},
		{"what no header holds", []string{"a\nb", ""}, 0, 0, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			chain := testChain(t, func(_ http.ResponseWriter, r *http.Request) {
				for _, text := range tc.texts {
					warning.AddWarning(r.Context(), "", text)
				}
			}, nil)
			got := do(t, chain, "alice", "GET", "/api").Header.Values("Warning")
			if len(got) > tc.want || len(got) == 0 && tc.want > 0 || tc.want < 5 && len(got) != tc.want {
				t.Errorf("%d warnings, want %d: %.80q", len(got), tc.want, got)
			}
			total := 0
			for _, header := range got {
				if n := utf8.RuneCountInString(header); n > tc.longest {
					t.Errorf("header of %d characters, want at most %d", n, tc.longest)
				} else {
					total += n
				}
			}
			if total > tc.total {
				t.Errorf("%d characters together, want at most %d", total, tc.total)
			}
		})
	}
}
