// Programs of the documents of the client: they import it by the name of its package, and print what their comments say.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { REPO_ROOT } from '../support/paths.ts';
import { type Run, run } from '../support/server.ts';

const LIBRARY = join(REPO_ROOT, 'dist/src/client');
const PRINTS = /console\.log\b.*\/\/ (.*)$/;
/** Files of the package, and the modules that they have. */
const MODULES = new Map([
  ['.', 'client'],
  ['./resumable-stream', 'resumable-stream'],
  ['./web-streams', 'web-streams'],
]);

/** Makes the package in this folder, of the library as it is built. */
export function installClient(folder: string): void {
  const home = join(folder, 'node_modules/millrace-client');
  mkdirSync(home, { recursive: true });
  const exports = Object.fromEntries([...MODULES].map(([name, file]) => [name, `./${file}.js`]));
  writeFileSync(join(home, 'package.json'), JSON.stringify({ name: 'millrace-client', type: 'module', exports }));
  for (const file of MODULES.values()) {
    writeFileSync(join(home, `${file}.js`), `export * from ${JSON.stringify(join(LIBRARY, `${file}.js`))};`);
  }
}

/** Flags with which this Node has a WebSocket. */
export function flagsOfNode(): readonly string[] {
  return process.versions.node.startsWith('20.') ? ['--experimental-websocket', '--no-warnings'] : [];
}

export function runProgram(file: string, code: string): Run {
  writeFileSync(file, code);
  return run([process.execPath, ...flagsOfNode(), file]);
}

export function promisedBy(lines: readonly string[]): string[] {
  return lines.flatMap((line) => PRINTS.exec(line)?.[1] ?? []);
}
