// Package recording keeps admission requests in a file, so that they can be judged again by another version of a policy.
//
// A [Recorder] stands around the policies of a server and writes, for each request that a policy could concern, a
// [Record]: one line of JSON, an AdmissionReview of admission.k8s.io/v1 with a member weir beside request and response.
// A write that is tried again after a conflict has one for each try.
// It never holds up a request: what its queue does not take is dropped and counted.
//
// Nothing of a Secret is ever written, nor of a TokenRequest, nor of what [Config] names: of such an object the record
// has the kind, the name and the namespace; what policies said of it may quote it, and is left out too. Params that are
// such objects are treated in the same way. All else is in the file as clients sent it, which is for its owner alone to
// read.
//
// A [Reader] reads records back, one at a time, and also what others write: plain AdmissionReviews, and the audit log of
// a Kubernetes API server.
package recording
