// Package encryptiontest has a KMS v2 plugin for tests of encryption at rest, and configurations.
package encryptiontest
