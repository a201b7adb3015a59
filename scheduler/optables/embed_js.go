package optables

import "embed"

// A web page without a server cannot include the tables of all GPUs. The page does not include
// the tables of rack systems.
//
//go:embed systems/a*.optables systems/b*.optables systems/h*.optables systems/l*.optables systems/r*.optables systems/provenance.json
var files embed.FS
