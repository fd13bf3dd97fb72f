// Where the program is, and the arguments that it gets. Nothing here needs VS Code.
import * as path from 'node:path';

/** What finding the program depends on. */
export interface Machine {
  platform: NodeJS.Platform;
  path: string; // the variable PATH
  home: string;
  folders: string[]; // of the workspace, without links
  real(file: string): string; // the file without links
  runs(file: string): boolean; // whether there is such a file, and it may be executed
}

/** A program by its absolute path, or a sentence that says why there is none and what to do. */
export type Found = { file: string } | { problem: string };

/**
 * Finds the program: the one that the setting names, else the first in PATH. In PATH, neither names
 * that are relative to a folder count nor files in a folder of the workspace, so that a repository
 * can't bring its own program.
 */
export function findProgram(setting: string, m: Machine): Found {
  const paths = m.platform === 'win32' ? path.win32 : path.posix;
  if (setting !== '') {
    const file = /^~[/\\]/.test(setting) ? paths.join(m.home, setting.slice(2)) : setting;
    if (!paths.isAbsolute(file)) {
      return { problem: `The setting preadmit.path must be an absolute path, and is "${setting}".` };
    }
    return m.runs(file) ? { file } : { problem: `The setting preadmit.path names ${file}, which is not there or is no program.` };
  }
  const name = m.platform === 'win32' ? 'preadmit.exe' : 'preadmit';
  for (const directory of m.path.split(paths.delimiter)) {
    const file = paths.join(directory, name);
    if (paths.isAbsolute(directory) && m.runs(file) && !m.folders.some((f) => isIn(f, m.real(file), paths))) {
      return { file };
    }
  }
  return { problem: 'There is no preadmit in PATH. Install it, or set preadmit.path to the program, and run "preadmit: Restart".' };
}

function isIn(folder: string, file: string, paths: path.PlatformPath): boolean {
  const rest = paths.relative(folder, file);
  return rest.split(paths.sep)[0] !== '..' && !paths.isAbsolute(rest);
}

/** Arguments from a setting, or an error that says which setting is wrong. */
export function argumentsFrom(setting: unknown, name: string): string[] {
  if (!Array.isArray(setting) || !setting.every((x) => typeof x === 'string')) {
    throw new Error(`${name} must be a list of texts, such as ["--pack", "best-practices"].`);
  }
  return setting;
}

/** The arguments of the language server. */
export function serverArguments(flags: string[]): string[] {
  return ['lsp', ...flags];
}

/** The arguments of the task, whose output the problem matchers read. */
export function checkArguments(flags: string[], more: string[]): string[] {
  return ['check', '--output', 'concise', ...flags, ...more];
}
