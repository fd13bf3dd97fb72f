import assert from 'node:assert/strict';
import { test } from 'node:test';
import { argumentsFrom, checkArguments, findProgram, type Machine, serverArguments } from '../src/program';

function machine(files: string[], rest: Partial<Machine> = {}): Machine {
  return { platform: 'linux', path: '/usr/local/bin:/usr/bin', home: '/home/me', folders: ['/repo'], real: (f) => f, runs: (f) => files.includes(f), ...rest };
}

test('the first program in PATH is found, but none in the working directory', () => {
  assert.deepEqual(findProgram('', machine(['/usr/bin/preadmit', '/usr/local/bin/preadmit'])), { file: '/usr/local/bin/preadmit' });
  const relative = machine(['preadmit', './preadmit', 'bin/preadmit', '/usr/bin/preadmit'], { path: ':.:bin:/usr/bin' });
  assert.deepEqual(findProgram('', relative), { file: '/usr/bin/preadmit' });
  const windows = machine(['preadmit.exe', 'C:\\tools\\preadmit.exe', 'C:\\other\\preadmit.cmd'], { platform: 'win32', path: '.;C:\\other;C:\\tools' });
  assert.deepEqual(findProgram('', windows), { file: 'C:\\tools\\preadmit.exe' });
  const none = findProgram('', machine([]));
  assert.ok('problem' in none && /no preadmit in PATH\. Install it/.test(none.problem));
});

test('a program in a folder of the workspace does not count, unless the setting names it', () => {
  const files = ['/repo/bin/preadmit', '/linked/preadmit', '/usr/bin/preadmit', '/repository/preadmit'];
  const real = (f: string) => f.replace('/linked/', '/repo/tools/');
  assert.deepEqual(findProgram('', machine(files, { path: '/repo/bin:/linked:/usr/bin', real })), { file: '/usr/bin/preadmit' });
  assert.deepEqual(findProgram('', machine(files, { path: '/repository:/usr/bin' })), { file: '/repository/preadmit' });
  assert.ok('problem' in findProgram('', machine(files, { path: '/repo/bin' })));
  assert.deepEqual(findProgram('/repo/bin/preadmit', machine(files)), { file: '/repo/bin/preadmit' });
});

test('flags are a list of texts', () => {
  assert.deepEqual(argumentsFrom(['--pack', 'x'], 'preadmit.flags'), ['--pack', 'x']);
  for (const wrong of [null, 5, '--pack x', [1], undefined]) {
    assert.throws(() => argumentsFrom(wrong, 'preadmit.flags'), /preadmit\.flags must be a list/);
  }
});

test('the setting names a program by its absolute path', () => {
  assert.deepEqual(findProgram('~/bin/preadmit', machine(['/home/me/bin/preadmit'])), { file: '/home/me/bin/preadmit' });
  for (const setting of ['preadmit', './preadmit', '../preadmit', 'tools/preadmit', '~other/preadmit']) {
    const found = findProgram(setting, machine([setting, '/usr/bin/preadmit']));
    assert.ok('problem' in found && found.problem.includes('must be an absolute path'), setting);
  }
  const gone = findProgram('/gone/preadmit', machine(['/usr/bin/preadmit']));
  assert.ok('problem' in gone && gone.problem.includes('/gone/preadmit, which is not there'));
});

test('flags follow the command', () => {
  assert.deepEqual(serverArguments(['--pack', 'x']), ['lsp', '--pack', 'x']);
  assert.deepEqual(checkArguments(['--pack', 'x'], ['--base', 'main']), ['check', '--output', 'concise', '--pack', 'x', '--base', 'main']);
});
