// The extension as a person uses it, with the real server over a copy of the shop: PREADMIT names the
// program, and EXTENSION the directory of the extension, such as that of an unpacked package.
import { editor, Range, Uri } from './editor';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { after, before, test } from 'node:test';
import type { Finding, Group } from '../src/findings';

const here = path.resolve(__dirname, '../..');
const program = path.resolve(process.env.PREADMIT ?? path.join(here, '../../../../bin/preadmit'));
const extension = require(path.join(process.env.EXTENSION ?? here, 'out/src/extension.js')) as typeof import('../src/extension');
const manifest = JSON.parse(fs.readFileSync(path.join(process.env.EXTENSION ?? here, 'package.json'), 'utf8'));

const patch = 'apps/api/overlays/prod/kustomization.yaml';
const subscriptions: { dispose(): unknown }[] = [];
const copies: string[] = [];
let shop = '';

before(async () => {
  assert.ok(fs.existsSync(program), `${program} is not there: run make build first`);
  shop = copyOfShop();
  editor.settings['preadmit.path'] = program;
  editor.folders = [{ uri: Uri.file(shop), name: 'shop', index: 0 }];
  await extension.activate({ subscriptions } as never);
});

after(async () => {
  await extension.deactivate();
  assert.equal(findings().length, 0, 'findings stay after the end');
  copies.forEach((dir) => fs.rmSync(dir, { recursive: true }));
});

function copyOfShop(): string {
  const dir = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'preadmit-shop-')));
  fs.cpSync(path.join(here, '../../../../testdata/repos/shop'), dir, { recursive: true });
  execFileSync('git', ['init', '--quiet', dir]);
  copies.push(dir);
  return dir;
}

/** The ids of the processes with a name that this process has started. */
function children(name: string): number[] {
  return spawnSync('pgrep', ['-P', String(process.pid), name], { encoding: 'utf8' }).stdout.split('\n').filter((l) => l !== '').map(Number);
}

interface Tree {
  getChildren(of?: Group): (Group & Finding)[];
  getTreeItem(node: Group | Finding): { label: string; description: string; contextValue?: string; command?: { arguments: [Uri, { selection: Range }] } };
}

const tree = () => editor.providers.get('preadmit.findings') as Tree;
const findings = (): Finding[] => tree().getChildren().flatMap((g) => g.findings);
const has = (rule: string, file: string) => findings().some((f) => f.rule === rule && f.file === file);
const file = (name: string) => path.join(shop, name);

/** Waits until something holds, and fails if it does not within a minute. */
async function until(what: string, holds: () => boolean): Promise<void> {
  for (const end = Date.now() + 60_000; !holds(); await new Promise((done) => setTimeout(done, 20))) {
    assert.ok(Date.now() < end, `${what}: it does not come\n${JSON.stringify(findings())}\n${JSON.stringify(editor.shown)}\n${editor.log.join('\n')}`);
  }
}

const theFinding = async (rule: string, name: string): Promise<Finding> => {
  await until(`${rule} in ${name}`, () => has(rule, name));
  return findings().find((f) => f.rule === rule && f.file === name)!;
};

test('the manifest names what the extension registers, and no more', () => {
  const { commands, views, taskDefinitions } = manifest.contributes;
  const registered = [...editor.commands.keys()].filter((name) => name.startsWith('preadmit.'));
  assert.deepEqual(registered.sort(), commands.map((c: { command: string }) => c.command).sort());
  const [view] = views.explorer as { id: string; when: string }[];
  assert.deepEqual([...editor.providers.keys()].sort(), [taskDefinitions[0].type, view.id].sort());
  assert.equal(editor.contexts.get(view.when), true);
  const { configuration: { properties } } = manifest.contributes;
  for (const name of manifest.capabilities.untrustedWorkspaces.restrictedConfigurations) {
    assert.equal(properties[name].scope, 'machine', name);
  }
});

test('the lock names no registry, and versions are exact', () => {
  assert.doesNotMatch(fs.readFileSync(path.join(here, 'package-lock.json'), 'utf8'), /"resolved"/);
  for (const [name, version] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
    assert.match(String(version), /^\d+\.\d+\.\d+$/, name);
  }
});

test('findings are shown by rule and by file, at their lines', async () => {
  const f = await theFinding('max-replicas/validations[0]', patch);
  assert.deepEqual([f.line, f.character, f.severity, f.message.split('\n')[0]], [13, 9, 0, 'at most 10 replicas are allowed']);
  await theFinding('team-label/validations[0]', 'infra/backup.yaml');
  assert.deepEqual(tree().getChildren().map((g) => g.name), [
    'baseline/capabilities_baseline', 'baseline/hostPathVolumes', 'baseline/hostPorts', 'images/validations[0]', 'images/validations[1]',
    'max-replicas/validations[0]', 'require-limits/validations[0]', 'restricted/restrictedVolumes', 'team-label/validations[0]',
  ]);
  assert.equal(tree().getTreeItem(tree().getChildren()[8]).description, '1 warning');
  const item = tree().getTreeItem(f);
  assert.deepEqual([item.label, item.description, item.contextValue], [`${patch}:14`, 'at most 10 replicas are allowed', 'finding']);
  assert.deepEqual([item.command!.arguments[0].path, item.command!.arguments[1].selection.start.line], [file(patch), 13]);
  await editor.run('preadmit.groupByFile');
  assert.ok(tree().getChildren().some((g) => g.name === patch));
  await editor.run('preadmit.groupByRule');
  assert.deepEqual([editor.status.visible, editor.status.text], [true, 'preadmit: 7 errors, 2 warnings']);
});

test('unsaved text counts, of the files of the folder alone', async () => {
  const text = fs.readFileSync(file(patch), 'utf8').split('\n');
  editor.open('/etc/other.yaml');
  editor.edit(file(patch), [{ range: new Range(13, 9, 13, 11), newText: '9' }]);
  await until('9 replicas are allowed', () => !has('max-replicas/validations[0]', patch));
  editor.edit(file(patch), [{ range: new Range(13, 9, 13, 10), newText: '12' }]);
  await theFinding('max-replicas/validations[0]', patch);
  assert.equal(fs.readFileSync(file(patch), 'utf8').split('\n')[13], text[13]);
  assert.ok(!editor.log.some((l) => l.includes('other.yaml')), editor.log.join('\n'));
});

test('explain opens a document, from the tree, the cursor and the code action', async () => {
  const f = await theFinding('max-replicas/validations[0]', patch);
  const position = { line: f.line, character: f.character };
  const document = editor.open(file(patch));
  for (const run of [
    () => editor.run('preadmit.explain', f),
    () => { editor.activeTextEditor = { document, selection: { active: position } }; return editor.run('preadmit.explain'); },
    () => editor.run('preadmit.explain', { textDocument: { uri: f.uri }, position }, f.rule),
  ]) {
    editor.shown.length = 0;
    await run();
    await until('an explanation', () => editor.shown.length > 0);
    assert.equal(editor.shown[0].kind, 'document', JSON.stringify(editor.shown));
    assert.match(editor.shown[0].text, /verdict of validations\[0\]: fail, action deny/);
  }
  editor.activeTextEditor = { document, selection: { active: { line: 0, character: 0 } } };
  editor.shown.length = 0;
  await editor.run('preadmit.explain');
  assert.deepEqual(editor.shown, [{ kind: 'warning', text: 'preadmit: there is no finding on this line' }]);
});

test('fix makes the only safe edit, lets choose another, and says if there is none', async () => {
  fs.mkdirSync(file('.preadmit'), { recursive: true });
  fs.writeFileSync(file('.preadmit/config.yaml'), 'pack: [pod-security-restricted]\n');
  fs.writeFileSync(file('infra/debug.yaml'), `apiVersion: v1
kind: Pod
metadata:
  name: debug
  labels: {team: shop}
spec:
  hostNetwork: true
  containers:
  - name: debug
    image: registry.shop.example/debug:1.0
`);
  const safe = await theFinding('restricted/allowPrivilegeEscalation', 'infra/debug.yaml');
  editor.picks.length = 0;
  await editor.run('preadmit.fix', safe);
  assert.match(editor.activeTextEditor!.document.getText(), /allowPrivilegeEscalation: false/);
  assert.equal(editor.activeTextEditor!.document.uri.path, file('infra/debug.yaml'));
  await until('the safe fix counts', () => !has(safe.rule, safe.file));

  const unsafe = await theFinding('restricted/hostNamespaces', 'infra/debug.yaml');
  const document = editor.activeTextEditor!.document;
  editor.pick = () => undefined;
  await editor.run('preadmit.fix', unsafe);
  assert.match(document.getText(), /hostNetwork/);
  editor.pick = (labels) => labels[0];
  await editor.run('preadmit.fix', unsafe);
  assert.deepEqual(editor.picks, [['Remove hostNetwork (may change what runs)'], ['Remove hostNetwork (may change what runs)']]);
  assert.doesNotMatch(document.getText(), /hostNetwork/);
  await until('the other fix counts', () => !has(unsafe.rule, unsafe.file));

  editor.shown.length = 0;
  const none = await theFinding('max-replicas/validations[0]', patch);
  await editor.run('preadmit.fix', none);
  assert.deepEqual(editor.shown, [{ kind: 'warning', text: `preadmit: no edit is proved to fix ${none.rule} here` }]);
});

test('accept adds a suppression, and the cursor is where the reason is wanted', async () => {
  const f = await theFinding('team-label/validations[0]', 'infra/backup.yaml');
  editor.picks.length = 0;
  await editor.run('preadmit.accept', f);
  assert.ok(editor.picks.length === 1 && editor.picks[0].length === 2 && editor.picks[0].every((t) => t.startsWith(`Accept ${f.rule} for `)), JSON.stringify(editor.picks));
  const { document, selection } = editor.activeTextEditor!;
  assert.equal(document.uri.path, file('.preadmit/suppressions.yaml'));
  const at = selection.active;
  assert.match(document.getText().split('\n')[at.line], /reason: # why is this accepted\?$/);
  editor.edit(document.uri.path, [{ range: new Range(at.line, at.character, at.line, document.getText().split('\n')[at.line].length), newText: 'run by the platform' }]);
  await until('the suppression counts', () => !has(f.rule, f.file));
});

test('another folder has a server of its own, and loses it', async () => {
  const other = copyOfShop();
  const [first] = editor.folders;
  editor.folders = [first, { uri: Uri.file(other), name: 'other', index: 1 }, { uri: Uri.file(path.join(other, 'apps')), name: 'inner', index: 2 }];
  editor.changed.folders.fire();
  await until('findings of both', () => has('max-replicas/validations[0]', 'shop/' + patch) && has('max-replicas/validations[0]', 'other/' + patch));
  assert.equal(findings().filter((f) => f.rule === 'max-replicas/validations[0]').length, 2);
  editor.shown.length = 0;
  await editor.run('preadmit.explain', findings().find((f) => f.file === 'other/' + patch && f.rule.startsWith('max-replicas')));
  await until('an explanation', () => editor.shown.length > 0);
  assert.equal(editor.shown[0].kind, 'document');
  editor.folders = [first];
  editor.changed.folders.fire();
  await until('findings of the first', () => findings().every((f) => f.uri.startsWith(first.uri.toString())) && findings().length > 0);
});

test('a message says that a program is not there or has ended, or that its flags are wrong', async () => {
  const change = { affectsConfiguration: (s: string) => s === 'preadmit' };
  editor.shown.length = 0;
  editor.settings['preadmit.path'] = '/nowhere/preadmit';
  editor.changed.settings.fire(change);
  await until('a message', () => editor.shown.length > 0);
  assert.match(editor.shown[0].text, /^The setting preadmit\.path names \/nowhere\/preadmit, which is not there/);
  assert.deepEqual([editor.status.text, editor.status.tooltip, findings().length], ['$(warning) preadmit', editor.shown[0].text, 0]);

  editor.settings = { 'preadmit.path': program, 'preadmit.flags': '--pack x' };
  editor.shown.length = 0;
  editor.changed.settings.fire(change);
  await until('a message', () => editor.shown.length > 0);
  assert.match(editor.shown[0].text, /^The setting preadmit\.flags must be a list of texts/);

  editor.settings = { 'preadmit.path': program, 'preadmit.flags': ['--nonsense'] };
  editor.shown.length = 0;
  editor.changed.settings.fire(change);
  await until('a message', () => editor.shown.length > 0 && editor.status.text === '$(warning) preadmit');
  assert.deepEqual(editor.shown, [{ kind: 'warning', text: 'preadmit has ended in shop: unknown flag --nonsense; see preadmit lsp --help' }]);
  assert.ok(editor.log.some((l) => l.includes('unknown flag --nonsense')), editor.log.join('\n'));

  const silent = file('silent');
  fs.writeFileSync(silent, '#!/bin/sh\nexec sleep 600\n', { mode: 0o755 });
  editor.settings = { 'preadmit.path': silent };
  editor.shown.length = 0;
  await editor.run('preadmit.restart');
  await until('a start', () => editor.status.text === '$(loading~spin) preadmit' && children('sleep').length === 1);
  editor.settings = { 'preadmit.path': program };
  await editor.run('preadmit.restart');
  await until('the end of the silent program', () => children('sleep').length === 0);
  assert.deepEqual(editor.shown, []);
  await theFinding('max-replicas/validations[0]', patch);
});

test('a server that crashes is started again', async () => {
  await until('a running server', () => editor.status.text.startsWith('preadmit: '));
  editor.shown.length = 0;
  const servers = children('preadmit');
  assert.equal(servers.length, 1);
  process.kill(servers[0], 'SIGKILL');
  await until('the end', () => findings().length === 0);
  await theFinding('max-replicas/validations[0]', patch);
  assert.deepEqual(editor.shown, []);
});

test('the task runs check, and the problem matchers read all its findings with a place', async () => {
  const provider = editor.providers.get('preadmit') as { provideTasks(): Task[]; resolveTask(t: object): Task };
  const [task] = provider.provideTasks();
  assert.deepEqual(task.problemMatchers, manifest.contributes.problemMatchers.map((m: { name: string }) => '$' + m.name));
  const resolved = provider.resolveTask({ definition: { type: 'preadmit', flags: ['--pack', 'best-practices'] }, scope: editor.folders[0] });
  const { process: file, args, options } = resolved.execution;
  const { stdout, status } = spawnSync(file, args, { cwd: options.cwd, encoding: 'utf8' });
  const lines = stdout.trim().split('\n');
  assert.ok(status === 1 && lines.length > 5, stdout);
  const matchers = manifest.contributes.problemMatchers as { severity: string; pattern: { regexp: string } }[];
  const severities = lines.map((line) => {
    const found = matchers.flatMap((m) => {
      const match = new RegExp(m.pattern.regexp).exec(line);
      return match === null ? [] : [{ severity: m.severity, file: match[1], line: match[2], message: match[4], rule: match[5] }];
    });
    assert.equal(found.length, 1, line);
    assert.ok(fs.existsSync(path.join(options.cwd, found[0].file)), line);
    if (found[0].rule === 'max-replicas/validations[0]') {
      assert.deepEqual(found[0], { severity: 'error', file: patch, line: '14', message: 'Deployment shop/api: at most 10 replicas are allowed', rule: found[0].rule });
    }
    return found[0].severity;
  });
  assert.ok(severities.includes('error') && severities.includes('warning'), stdout);
});

interface Task { problemMatchers: string[]; execution: { process: string; args: string[]; options: { cwd: string } } }
