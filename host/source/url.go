package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// address is what a URL has.
type address struct {
	client *Client
	url    *url.URL
}

// URL returns a source that gets an address. See CheckURL for which.
func (c *Client) URL(text string) (Source, error) {
	u, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	return &address{c, u}, nil
}

// CheckURL reports what keeps a text from being the address of a source: it is https://, or http:// for loopback, and
// has no credentials, as these would be in every message.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err // without the text, which may have a password
		}
		return nil, fmt.Errorf("not a URL: %w", err)
	case u.Host == "" || u.Opaque != "":
		return nil, errors.New("must be https://HOST/PATH")
	case u.User != nil:
		return nil, errors.New("must not have credentials")
	case u.Fragment != "":
		return nil, errors.New("must not have a fragment")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return u, nil
	case u.Scheme == "http":
		return nil, errors.New("must be https: plain http is for loopback only")
	}
	return nil, fmt.Errorf("must be https, not %s", u.Scheme)
}

// String implements Source.
func (a *address) String() string { return shown(a.url) }

// Fetch implements Source.
func (a *address) Fetch(ctx context.Context) (*Artefact, error) {
	ctx, cancel := a.client.timeout(ctx)
	defer cancel()
	data, err := a.client.get(ctx, a.url, a.client.cfg.MaxBytes)
	if err != nil {
		return nil, err
	}
	return artefactOf(data, a.client.cfg.MaxBytes)
}

// get returns the body that an address has.
func (c *Client) get(ctx context.Context, u *url.URL, limit int64) (_ []byte, err error) {
	r, err := http.NewRequestWithContext(withLimit(ctx, limit), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", c.cfg.UserAgent)
	h := http.Client{Transport: guard{c, u.Scheme == "http"}, CheckRedirect: checkRedirect}
	response, err := h.Do(r)
	if err != nil {
		return nil, withoutQuery(err)
	}
	defer func() { _ = response.Body.Close() }() // read as far as it is wanted
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: the server says %s", shown(u), response.Status)
	}
	data, err := readAll(response.Body, limit)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", shown(u), err)
	}
	return data, nil
}

// shown spells an address without its query, which may be a secret.
func shown(u *url.URL) string {
	short := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return short.String()
}

// withoutQuery returns an error of a request without the query of its address: stores of blobs are asked with one that
// gives access.
func withoutQuery(err error) error {
	var failed *url.Error
	if !errors.As(err, &failed) {
		return err
	}
	u, parseErr := url.Parse(failed.URL)
	if parseErr != nil {
		return failed.Err
	}
	return &url.Error{Op: failed.Op, URL: shown(u), Err: failed.Err}
}
