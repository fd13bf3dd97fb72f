// What github/codeql-action checks of a file before it uploads it: its schema,
// by the package that it uses, results that are lists, runs that no category
// has twice, and the size.
//
//   node upload.js SCHEMA FILE...
//
// Without SCHEMA ("") the rest is checked. With "multitool" in its place, FILEs
// are what Sarif.Multitool validate wrote, which ends with 0 whatever it finds.
'use strict';
const fs = require('fs');
const zlib = require('zlib');

const [mode, ...files] = process.argv.slice(2);
let bad = 0;
for (const file of files) {
  const data = fs.readFileSync(file);
  const problems = mode === 'multitool' ? found(JSON.parse(data)) : refused(data);
  for (const p of problems) console.error(`${file}: ${p}`);
  bad += problems.length;
}
process.exit(bad > 0 ? 1 : 0);

// found are the results of a validation; one without a level is a warning.
function found(log) {
  return (log.runs || []).flatMap((run) => run.results || [])
    .filter((r) => r.level !== 'note' && r.level !== 'none' && r.kind !== 'pass')
    .map((r) => `${r.ruleId}: ${r.message.text || JSON.stringify(r.message)}`);
}

function refused(data) {
  const problems = [];
  const size = zlib.gzipSync(data).length;
  if (size > 10 * 1024 * 1024) problems.push(`${size} bytes when compressed, more than 10 MiB`);
  const log = JSON.parse(data);
  const seen = new Set();
  for (const [i, run] of (log.runs || []).entries()) {
    if (!Array.isArray(run.results)) problems.push(`runs[${i}].results is no list`);
    const d = run.tool.driver;
    const key = JSON.stringify([d.name, d.fullName, d.version, d.semanticVersion, d.guid, (run.automationDetails || {}).id]);
    if (seen.has(key)) problems.push(`runs[${i}] is of the same tool and category as another`);
    seen.add(key);
    for (const [j, r] of (run.results || []).entries()) {
      if (!(r.locations || []).length) problems.push(`runs[${i}].results[${j}] has no location`);
      if (!r.message || !r.message.text) problems.push(`runs[${i}].results[${j}] has no message.text`);
    }
  }
  if (mode !== '') problems.push(...mismatches(log));
  return problems;
}

// mismatches are errors of the schema, but for URIs, which the uploader only
// warns of.
function mismatches(log) {
  const schema = JSON.parse(fs.readFileSync(mode));
  return new (require('jsonschema').Validator)().validate(log, schema).errors
    .filter((e) => !(e.name === 'format' && ['uri', 'uri-reference'].includes(e.argument)))
    .map((e) => e.stack);
}
