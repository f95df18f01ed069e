// Package recording keeps admission requests in a file, so that they can be judged again by another version of a policy.
//
// A [Recorder] stands around the policies of a server and writes, for each request that a policy could concern, a
// [Record]: one line of JSON, an AdmissionReview of admission.k8s.io/v1 with a member weir beside request and response.
// A write that is tried again after a conflict has one for each try.
// It never holds up a request: what its queue does not take is dropped and counted.
//
// Of an object that is a Secret, a TokenRequest, or one that [Config] names, a record has the kind, the name and the
// namespace, and no more; what policies said of it may quote it, and is left out too. So it is with params that are such
// objects, and with the namespace that a policy read. All else is in the file as clients sent it. A module that may look
// up secrets can put what it found into the message of another request: that is written, as the client gets it. The file
// is for its owner alone to read.
//
// A [Reader] reads records back, one at a time, and also what others write: plain AdmissionReviews, and the audit log of
// a Kubernetes API server.
package recording
