// The npm package as it is installed, without a registry: what `npm pack` packs, in an empty folder, beside links to
// the packages that it names. What it imports without naming is not there.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { REPO_ROOT } from './paths.ts';
import { requestOnce } from './raw-client.ts';
import { type Run, run, within } from './server.ts';
import { PATIENCE_MS } from './until.ts';

const POLL_MS = 20;

export interface Manifest {
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly overrides?: unknown;
}

export interface Packed {
  readonly tarball: string;
  readonly files: readonly string[];
}

/** Packs what is built: `npm test` has seen to it that it belongs to the sources. */
export function pack(folder: string): Packed {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder];
  const { status, stdout, stderr } = spawnSync('npm', args, { cwd: REPO_ROOT, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  const [packed] = JSON.parse(stdout) as readonly [{ filename: string; files: readonly { path: string }[] }];
  return { tarball: join(folder, basename(packed.filename)), files: packed.files.map(({ path }) => path) };
}

/** Returns the package's own folder, `node_modules/millrace` below `folder`. */
export function unpack({ tarball }: Packed, folder: string): string {
  const modules = join(folder, 'node_modules');
  const home = join(modules, 'millrace');
  mkdirSync(home, { recursive: true });
  const { status, stderr } = spawnSync('tar', ['-xzf', tarball, '-C', home, '--strip-components=1'], {
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
  const { bin, dependencies } = manifestOf(home);
  const links = [
    ...Object.keys(dependencies).map((name) => [name, join(REPO_ROOT, 'node_modules', name)] as const),
    ...Object.entries(bin).map(([name, file]) => [`.bin/${name}`, join(home, file)] as const),
  ];
  for (const [name, target] of links) {
    const link = join(modules, name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(relative(dirname(link), target), link);
  }
  return home;
}

/** Where the package is not the subject: links to what is built, in place of an installation of it. */
export function linkBuilt(folder: string): void {
  const modules = join(folder, 'node_modules');
  mkdirSync(join(modules, '.bin'), { recursive: true });
  symlinkSync(REPO_ROOT, join(modules, 'millrace'));
  for (const [name, file] of Object.entries(manifestOf(REPO_ROOT).bin))
    symlinkSync(join(REPO_ROOT, file), join(modules, '.bin', name));
}

export function manifestOf(home: string): Manifest {
  return JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as Manifest;
}

/** Runs a server from its command line and environment, and waits until its admin plane says that it is ready. */
export async function startReady(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  adminPort: number,
  cwd?: string,
): Promise<Run> {
  const server = run(command, env, cwd);
  await waitReady(server, adminPort);
  return server;
}

export async function waitReady(server: Run, adminPort: number): Promise<void> {
  let ended: number | string | undefined;
  void server.exited.then((end) => (ended = end));
  const deadlineMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const status = await requestOnce(adminPort, 'GET', '/__svc/ready').then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 200) return;
    assert.equal(ended, undefined, server.output());
    assert(performance.now() < deadlineMs, `not ready: ${server.output()}`);
    await delay(POLL_MS);
  }
}

/** SIGTERM; a clean stop has exit code 0. */
export async function stopCleanly(server: Run): Promise<void> {
  server.child.kill('SIGTERM');
  assert.equal(await within(server.exited, PATIENCE_MS, 'a clean stop'), 0, server.output());
}
