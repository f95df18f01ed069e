package torture_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// lister is one client that lists, whole and in pages.
type lister struct {
	client *client
	run    *run
	random *rand.Rand
	pause  time.Duration
	// paged: it never lists whole.
	paged bool
}

// work lists until ctx is done.
func (l *lister) work(ctx context.Context) {
	defer l.client.close()
	for ctx.Err() == nil {
		s := selector{}
		if l.random.IntN(3) == 0 {
			s.side = "left"
		}
		var err error
		if l.paged || l.random.IntN(2) == 0 {
			err = l.pages(ctx, s, 2+l.random.IntN(15), 0)
		} else {
			var p *part
			if p, err = l.run.list(ctx, l.client, s); err == nil {
				l.run.lists.add(p)
			}
		}
		if err != nil {
			l.client.move()
		}
		pause(ctx, l.pause)
	}
}

// list lists whole and consistently. The part is not yet among those that are checked.
func (r *run) list(ctx context.Context, c *client, s selector) (*part, error) {
	p := &part{selector: s, floor: r.operations.floor.Load(), remaining: -1, on: c.server()}
	answer, err := r.page(ctx, c, s, url.Values{})
	if err != nil {
		return nil, err
	}
	p.take(answer)
	if answer.Metadata.Continue != "" {
		r.lists.addOdd("a list without a limit goes on")
	}
	return p, nil
}

// gone is a page that is too old; token goes on where it is, at another revision.
type gone struct{ token, said string }

func (g *gone) Error() string { return g.said }

// page asks for one page.
func (r *run) page(ctx context.Context, c *client, s selector, query url.Values) (*wire, error) {
	s.query(query)
	server := c.server()
	code, answer, err := c.ask(ctx, http.MethodGet, r.resource.path()+"?"+query.Encode(), "")
	if ctx.Err() == nil {
		r.answers.add(server, "list", code, &answer, err)
	}
	switch {
	case err != nil:
		return nil, err
	case code == http.StatusGone:
		return nil, &gone{token: answer.Metadata.Continue, said: answer.Message}
	case code != http.StatusOK:
		if code < 429 {
			r.lists.addOdd("%d %s: %s", code, answer.Reason, answer.Message)
		}
		return nil, fmt.Errorf("%d: %s", code, answer.Message)
	}
	return &answer, nil
}

// pages lists in pages, at a revision or, with 0, at the current one. Each page may be asked for on another server.
func (l *lister) pages(ctx context.Context, s selector, limit int, at int64) error {
	var (
		age   age
		floor = l.run.operations.floor.Load()
		p     *part
		token string
		after string
		fails int
		fresh = true // the next page begins a part
	)
	if at > 0 {
		age, floor = exactly, 0
	}
	for {
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		if token != "" {
			query.Set("continue", token)
		} else if at > 0 {
			query.Set("resourceVersion", strconv.FormatInt(at, 10))
			// What a revision with a limit means without it too, but where one object is named.
			if s.name != "" || l.random.IntN(2) == 0 {
				query.Set("resourceVersionMatch", "Exact")
			}
		}
		answer, err := l.run.page(ctx, l.client, s, query)
		if g, ok := err.(*gone); ok && token == "" && at > 0 {
			l.run.expired(exactly, at, g)
			return nil
		} else if ok {
			l.run.lists.addExpired()
			if token == "" || g.token == "" {
				l.run.lists.addOdd("410 without a token to go on with, at token %q: %s", token, g.said)
				return err
			}
			token, fresh, floor, age = g.token, true, 0, current
			continue
		}
		if err != nil {
			if fails++; fails > 5 || ctx.Err() != nil {
				return err
			}
			l.client.move()
			pause(ctx, 20*time.Millisecond)
			continue
		}
		rv := answer.revision()
		if fresh {
			p, fresh = &part{selector: s, rv: rv, floor: floor, age: age, asked: at, after: after, on: l.client.server()}, false
		}
		if rv != p.rv {
			l.run.lists.addOdd("a page at %d follows one at %d", rv, p.rv)
			return nil
		}
		if len(answer.Items) == 0 && answer.Metadata.Continue != "" {
			l.run.lists.addOdd("an empty page with a token at %d", rv)
			return nil
		}
		// Each page is a part of its own, so that its remaining count is checked.
		q := &part{selector: s, floor: p.floor, age: p.age, asked: at, after: after, remaining: -1, on: l.client.server()}
		q.take(answer)
		if n := len(q.items); n > limit {
			l.run.lists.addOdd("%d items for a limit of %d", n, limit)
		}
		if token = answer.Metadata.Continue; token != "" {
			q.upTo = q.items[len(q.items)-1].key
			after = q.upTo
			if left := answer.Metadata.RemainingItemCount; left != nil {
				q.remaining = *left
			}
		}
		l.run.lists.add(q)
		if age == exactly {
			l.run.lists.count(pagesExactly)
		}
		if token == "" {
			return nil
		}
		if l.run.roams {
			l.client.move()
		}
		pause(ctx, time.Duration(l.random.IntN(20))*time.Millisecond)
	}
}
