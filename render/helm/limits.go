package helm

import "time"

// Limits of a release. A chart that exceeds one is an error, never a hang. The
// figures are Helm's where Helm has one.
const (
	maxTreeBytes = 100 << 20 // a chart with all subcharts, archives unpacked
	maxEntries   = 10_000    // files of such a tree
	maxNesting   = 4         // archives within archives
	maxPathDepth = 64        // directories within directories
	maxLinks     = 8         // symbolic links on the way to a file
	maxLocal     = 8         // file:// dependencies of file:// dependencies
	maxFile      = 5 << 20   // one file, as Helm has it
	maxSyntax    = 256       // blocks and parentheses within one another
	maxInclude   = 1000      // include, tpl and template within one another
	maxTpl       = 100       // tpl within tpl
	maxSteps     = 4_000_000
	maxOutput    = 64 << 20  // bytes that all templates of a release write, partials included
	maxString    = 16 << 20  // one string that a function makes
	maxMade      = 256 << 20 // all such strings together
	maxList      = 1 << 20   // one list that a function makes
	maxNodes     = 5_000_000 // one value that a function walks
	maxValue     = 1000      // depth of maps and lists in it
	maxYAMLDepth = 500
	maxYAMLNodes = 1_000_000 // of a values file, aliases expanded
	maxYAMLBytes = 64 << 20
	maxSchema    = 100     // depth of objects and lists in a schema
	maxTOML      = 500     // depth of tables and arrays, parts of a key
	maxChecks    = 500_000 // subschemas that values are checked against
	maxMatching  = 1 << 31 // bytes of patterns times bytes of text they are matched against
	maxMessage   = 4 << 10
	maxWall      = 60 * time.Second // a backstop; the step limits should be reached first
)
