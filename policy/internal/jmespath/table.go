package jmespath

// Parameters of several functions.
var (
	text         = param{aString}
	amount       = param{aNumber}
	list         = param{aList}
	object       = param{anObject}
	value        = param{anything}
	ref          = param{aReference}
	textOrAmount = param{aString, aNumber}
	listOrText   = param{aList, aString}
	sortable     = param{someNumbers, someStrings}
)

// functions lists those of jmespath.org, where Kyverno replaces sum, and Kyverno's
// own.
var functions = map[string]*function{
	"abs":         {params: []param{amount}, run: abs},
	"avg":         {params: []param{{someNumbers}}, run: average},
	"ceil":        {params: []param{amount}, run: ceil},
	"contains":    {params: []param{listOrText, value}, run: contains},
	"ends_with":   {params: []param{text, text}, run: endsWith},
	"floor":       {params: []param{amount}, run: floor},
	"join":        {params: []param{text, {someStrings}}, run: join},
	"keys":        {params: []param{object}, run: keys},
	"length":      {params: []param{{aString, aList, anObject}}, run: length},
	"map":         {params: []param{ref, list}, run: mapped},
	"max":         {params: []param{sortable}, run: largest},
	"max_by":      {params: []param{list, ref}, run: largestBy},
	"merge":       {params: []param{object}, variadic: true, run: merge},
	"min":         {params: []param{sortable}, run: smallest},
	"min_by":      {params: []param{list, ref}, run: smallestBy},
	"not_null":    {params: []param{value}, variadic: true, run: notNull},
	"reverse":     {params: []param{listOrText}, run: reverse},
	"sort":        {params: []param{{someStrings, someNumbers}}, run: sorted},
	"sort_by":     {params: []param{list, ref}, run: sortedBy},
	"starts_with": {params: []param{text, text}, run: startsWith},
	"sum":         {params: []param{list}, run: sum},
	"to_array":    {params: []param{value}, run: toList},
	"to_number":   {params: []param{value}, run: toNumber},
	"to_string":   {params: []param{value}, run: toString},
	"type":        {params: []param{value}, run: typeOf},
	"values":      {params: []param{object}, run: fieldValues},

	"compare":                   {params: []param{text, text}, run: compare},
	"equal_fold":                {params: []param{text, text}, run: equalFold},
	"replace":                   {params: []param{text, text, text, amount}, run: replace},
	"replace_all":               {params: []param{text, text, text}, run: replaceAll},
	"to_upper":                  {params: []param{text}, run: toUpper},
	"to_lower":                  {params: []param{text}, run: toLower},
	"trim":                      {params: []param{text, text}, run: trim},
	"trim_prefix":               {params: []param{text, text}, run: trimPrefix},
	"split":                     {params: []param{text, text}, run: split},
	"truncate":                  {params: []param{text, amount}, run: truncate},
	"path_canonicalize":         {params: []param{text}, run: canonicalPath},
	"regex_match":               {params: []param{text, textOrAmount}, run: regexMatch},
	"regex_replace_all":         {params: []param{text, textOrAmount, textOrAmount}, run: regexReplace},
	"regex_replace_all_literal": {params: []param{text, textOrAmount, textOrAmount}, run: regexReplaceLiteral},
	"pattern_match":             {params: []param{text, textOrAmount}, run: patternMatch},
	"label_match":               {params: []param{object, object}, run: labelMatch},
	"to_boolean":                {params: []param{text}, run: toBoolean},
	"semver_compare":            {params: []param{text, text}, run: semverCompare},
	"random":                    {params: []param{text}, run: random},

	"add":      {params: []param{value, value}, run: binary("add", operand.plus)},
	"subtract": {params: []param{value, value}, run: binary("subtract", operand.minus)},
	"multiply": {params: []param{value, value}, run: binary("multiply", operand.times)},
	"divide":   {params: []param{value, value}, run: binary("divide", operand.over)},
	"modulo":   {params: []param{value, value}, run: binary("modulo", operand.modulo)},
	"round":    {params: []param{amount, amount}, run: round},

	"base64_decode": {params: []param{text}, run: base64Decode},
	"base64_encode": {params: []param{text}, run: base64Encode},
	"md5":           {params: []param{text}, run: md5Sum},
	"sha1":          {params: []param{text}, run: sha1Sum},
	"sha256":        {params: []param{text}, run: sha256Sum},
	"parse_json":    {params: []param{text}, run: parseJSON},
	"parse_yaml":    {params: []param{text}, run: parseYAML},
	"x509_decode":   {params: []param{text}, run: x509Decode},

	"lookup":            {params: []param{{anObject, aList}, textOrAmount}, run: lookup},
	"items":             {params: []param{{anObject, aList}, text, text}, run: items},
	"object_from_lists": {params: []param{list, list}, run: objectFromLists},

	"time_since":    {params: []param{text, text, text}, run: timeSince},
	"time_now":      {run: timeNow},
	"time_now_utc":  {run: timeNowUTC},
	"time_add":      {params: []param{text, text}, run: timeAdd},
	"time_parse":    {params: []param{text, text}, run: timeParse},
	"time_to_cron":  {params: []param{text}, run: timeToCron},
	"time_utc":      {params: []param{text}, run: timeUTC},
	"time_diff":     {params: []param{text, text}, run: timeDiff},
	"time_before":   {params: []param{text, text}, run: timeBefore},
	"time_after":    {params: []param{text, text}, run: timeAfter},
	"time_between":  {params: []param{text, text, text}, run: timeBetween},
	"time_truncate": {params: []param{text, text}, run: timeTruncate},

	"image_normalize": {params: []param{text}, run: imageNormalize},
	"is_external_url": {params: []param{text}, run: isExternalURL},
}
