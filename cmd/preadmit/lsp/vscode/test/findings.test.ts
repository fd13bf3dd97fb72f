import assert from 'node:assert/strict';
import { test } from 'node:test';
import { counted, type Finding, grouped, labelled, reasonWanted, worst } from '../src/findings';

const finding = (file: string, line: number, severity: number, rule: string): Finding =>
  ({ uri: `file:///r/${file}`, file, line, character: 2, severity, rule, message: `about ${rule}\nmore` });
const all = [finding('b.yaml', 4, 1, 'labels'), finding('a.yaml', 9, 1, 'labels'), finding('a.yaml', 1, 2, 'notes'), finding('b.yaml', 7, 0, 'limits'), finding('a.yaml', 3, 1, 'labels')];

test('groups are ordered by their worst finding, then their size', () => {
  const byRule = grouped(all, 'rule');
  assert.deepEqual(byRule.map((g) => [g.name, worst(g), g.findings.map((f) => `${f.file}:${f.line}`)]),
    [['limits', 0, ['b.yaml:7']], ['labels', 1, ['a.yaml:3', 'a.yaml:9', 'b.yaml:4']], ['notes', 2, ['a.yaml:1']]]);
  assert.deepEqual(grouped(all, 'file').map((g) => [g.name, g.findings.map((f) => f.severity)]), [['b.yaml', [0, 1]], ['a.yaml', [1, 1, 2]]]);
  assert.deepEqual(grouped([], 'rule'), []);
});

test('findings are counted and labelled', () => {
  assert.equal(counted(all), '1 error, 3 warnings, 1 note');
  assert.equal(counted([]), '');
  assert.deepEqual(labelled(all[0], 'rule'), { label: 'b.yaml:5', description: 'about labels' });
  assert.deepEqual(labelled(all[0], 'file'), { label: 'about labels', description: 'labels, line 5' });
});

test('the place of a missing reason', () => {
  assert.deepEqual(reasonWanted('suppressions:\n- rule: a\n  reason: # why?\n  expires: 2027-03-31\n'), { line: 2, character: 10 });
  assert.equal(reasonWanted('replicas: 9\n'), undefined);
});
