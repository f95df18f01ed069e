// Package auth says who a client is and what it may do, with the authenticators and authorizer
// interfaces of k8s.io/apiserver.
//
//   - Authorities are the certificates that client certificates must be signed by; they are read again when
//     their files change.
//   - Authenticator tries client certificates, bearer tokens and, when nothing was presented, anonymity.
//   - Authorizer lets everybody see the health paths, members of system:masters do everything, and asks
//     RBAC (package rbac) about the rest.
//
// Package reviews answers the review kinds; package bootstrap holds the roles that a cluster is
// born with.
package auth
