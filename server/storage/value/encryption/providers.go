package encryption

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/apiserver"
	storagevalue "k8s.io/apiserver/pkg/storage/value"
	aestransformer "k8s.io/apiserver/pkg/storage/value/encrypt/aes"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/apiserver/pkg/storage/value/encrypt/secretbox"
)

// Upstream's prefixes.
const (
	familyAESCBC    = "k8s:enc:aescbc:v1:"
	familyAESGCM    = "k8s:enc:aesgcm:v1:"
	familySecretbox = "k8s:enc:secretbox:v1:"
	familyKMS       = "k8s:enc:kms:v2:"
	familyIdentity  = "identity"
)

// chainsOf returns the providers of each resource that a valid configuration names; several entries that name one
// resource add up, in their order. kms opens a plugin.
func chainsOf(config *apiserver.EncryptionConfiguration, kms func(*apiserver.KMSConfiguration) (provider, error)) (map[schema.GroupResource]chain, error) {
	chains := map[schema.GroupResource]chain{}
	for _, entry := range config.Resources {
		var providers chain
		for i := range entry.Providers {
			made, err := providersOf(&entry.Providers[i], kms)
			if err != nil {
				return nil, err
			}
			providers = append(providers, made...)
		}
		for _, name := range entry.Resources {
			gr := schema.ParseGroupResource(name)
			chains[gr] = append(chains[gr], providers...)
		}
	}
	return chains, nil
}

// providersOf returns one provider for each key.
func providersOf(p *apiserver.ProviderConfiguration, kms func(*apiserver.KMSConfiguration) (provider, error)) (chain, error) {
	switch {
	case p.Identity != nil:
		return chain{{name: "identity", family: familyIdentity, transformer: identity.NewEncryptCheckTransformer()}}, nil
	case p.AESGCM != nil:
		return keyed("aesgcm", familyAESGCM, 0, p.AESGCM.Keys, func(secret []byte) (storagevalue.Transformer, error) {
			return fromBlock(secret, aestransformer.NewGCMTransformer)
		})
	case p.AESCBC != nil:
		// The transformer panics on an initialisation vector with nothing behind it.
		return keyed("aescbc", familyAESCBC, 2*aes.BlockSize, p.AESCBC.Keys, func(secret []byte) (storagevalue.Transformer, error) {
			return fromBlock(secret, func(block cipher.Block) (storagevalue.Transformer, error) {
				return aestransformer.NewCBCTransformer(block), nil
			})
		})
	case p.Secretbox != nil:
		made, err := keyed("secretbox", familySecretbox, 0, p.Secretbox.Keys, func(secret []byte) (storagevalue.Transformer, error) {
			if len(secret) != 32 {
				return nil, fmt.Errorf("key has %d bytes, not 32", len(secret))
			}
			return secretbox.NewSecretboxTransformer([32]byte(secret)), nil
		})
		for i := range made {
			made[i].mismatch = errors.New("message authentication failed")
		}
		return made, err
	case p.KMS != nil:
		made, err := kms(p.KMS)
		return chain{made}, err
	}
	return nil, errors.New("provider is of no known kind")
}

func fromBlock(secret []byte, transformer func(cipher.Block) (storagevalue.Transformer, error)) (storagevalue.Transformer, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return transformer(block)
}

// keyed returns a provider for each key. No error holds a secret.
func keyed(kind, family string, shortest int, keys []apiserver.Key, transformer func(secret []byte) (storagevalue.Transformer, error)) (chain, error) {
	var made chain
	for _, key := range keys {
		name := fmt.Sprintf("%s key %q", kind, key.Name)
		secret, err := base64.StdEncoding.DecodeString(key.Secret)
		if err != nil {
			return nil, fmt.Errorf("%s: secret is not base64", name)
		}
		t, err := transformer(secret)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		made = append(made, provider{name: name, family: family, prefix: []byte(family + key.Name + ":"), shortest: shortest, transformer: t})
	}
	return made, nil
}
