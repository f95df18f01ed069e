// Package admission tries the admission policies of a whole server, in all engines: while
// they are replaced under load, and with what is wrong with them, their params or the
// objects that they judge. It has tests only.
package admission
