// Package source gets the bytes of WebAssembly modules from where they are, and says whether they are the right ones.
//
// A [Source] is bytes that somebody has already ([Given]), a file ([File]), an address ([Client.URL]) or an artefact in
// an OCI registry ([Client.Image]). All are fetched the same way and give an [Artefact]; what is compressed or packed in
// a layer is unpacked. [Client.Verify] compares an artefact with the digest, and checks the signature, that are wanted
// of it: the two steps are apart so that whoever waits can be told which of them failed.
//
//	client, err := source.NewClient(source.Config{})
//	image, err := client.Image("registry.example/quota:v1", source.ImageOptions{})
//	artefact, err := image.Fetch(ctx)
//	err = client.Verify(ctx, image, artefact, &source.Expectation{Keys: keys})
//
// # What is promised
//
//   - Never more than one byte over [Config.MaxBytes] ([DefaultMaxBytes] without a client) is read of a source or
//     unpacked from it. What is larger is [ErrTooLarge].
//   - Everything goes over https. Plain http is for loopback, where it is asked for. A redirect is followed to https
//     alone, a few times.
//   - The environment names no proxy: it is [Config.Proxy] or none.
//   - A fetch ends, by [Config.Timeout] if by nothing else.
//   - Credentials go to the registry that they are for. They are in no error, and neither is the query of an address.
//
// Addresses in private networks are not refused: registries are there. Who may name a source can make the process
// that fetches it ask any https address that it reaches.
package source
