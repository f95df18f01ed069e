// Package encryption encrypts rows as an EncryptionConfiguration file says
// (apiserver.config.k8s.io/v1, the file of kube-apiserver), and reads the file again
// when it changes.
//
//	e, err := encryption.Open(ctx, encryption.Config{File: "encryption.yaml"})
//	secrets := e.For(schema.GroupResource{Resource: "secrets"}) // a value.Transformer
//	go e.Run(ctx)                                               // follows the file and the KMS plugins
//	defer e.Close()
//
// The bytes are kube-apiserver's, so that either reads what the other has stored: a prefix such as
// k8s:enc:secretbox:v1:key1:, then what the transformers of k8s.io/apiserver make. Rows of aesgcm and of
// kms are bound to their key; secretbox knows that bytes were changed, not that they were moved; aescbc
// knows neither.
//
// Which providers are a resource's: those of the entries that name it; where none does, of its group
// ("*.apps"; "*." is the core group); then of all ("*.*"). The first writes, each reads its own. A row
// that another than the first wrote is stale: its next update writes it again.
//
// # Reload
//
// A call works with the configuration that it finds when it begins, to its end; connections of a replaced one
// are closed when its last call is done. A file that cannot be read, is not valid or whose KMS plugins do not
// answer changes nothing: what was loaded before stays in force, which [Encryption.CheckConfig], the log and a
// metric say. No error and no line of the log holds a key.
//
// # KMS
//
// Plugins speak KMS v2 on a unix socket. Rows are encrypted with keys derived from a seed that the plugin has
// encrypted once, so a write asks no plugin, nor does a read whose seed is known. The plugin's Status is asked for
// each minute; another key id makes another seed. While the plugin does not answer, reads of known seeds go on,
// writes for three minutes; then they fail with a [value.UnavailableError] until it answers. So do reads that it refuses
// without saying that the row is why, unless it refuses three times, and after each has a Status that is well and decrypts
// what it encrypts then. That proves nothing of a key that is not its present one and may be disabled only for now, so the
// error says when the row is of another.
package encryption
