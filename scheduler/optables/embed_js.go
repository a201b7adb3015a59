package optables

import "embed"

// A page without a server has no room for the tables of all GPUs: it does not offer those of racks.
//
//go:embed systems/a*.optables systems/b*.optables systems/h*.optables systems/l*.optables systems/r*.optables systems/provenance.json
var files embed.FS
