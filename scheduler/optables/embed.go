//go:build !js

package optables

import "embed"

//go:embed systems/*.optables systems/provenance.json
var files embed.FS
