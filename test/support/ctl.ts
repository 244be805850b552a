// The operator's tool as a process, and a cluster file for it.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { REPO_ROOT } from './paths.ts';
import type { TestCluster } from './cluster.ts';

export const CTL_ENTRY: string = join(REPO_ROOT, 'dist', 'ctl.js');

export interface CtlRun {
  readonly child: ChildProcess;
  stdout: string;
  stderr: string;
  /** Exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | string>;
}

export interface CtlResult {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

const running = new Set<ChildProcess>();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

export interface CtlOptions {
  readonly input?: string | Buffer;
  readonly env?: Readonly<Record<string, string>>;
  readonly user?: User;
}

/** User and group of the process; by default those of the test. */
export interface User {
  readonly uid?: number;
  readonly gid?: number;
}

/** `nobody` of most systems. */
const NOBODY = 65_534;

/** Permissions bind this one. A string: why there is none here. */
export function ordinaryUser(): User | string {
  if (process.getuid?.() !== 0) return {};
  const user = { uid: NOBODY, gid: NOBODY };
  const { status } = spawnSync(process.execPath, [CTL_ENTRY, '--version'], user);
  return status === 0 ? user : `the user ${NOBODY} cannot run ${process.execPath} ${CTL_ENTRY}`;
}

export function giveTo({ uid, gid }: User, path: string): void {
  if (uid !== undefined && gid !== undefined) chownSync(path, uid, gid);
}

/** A developer's own contexts are not those of the test. */
const NO_CONTEXTS = join(tmpdir(), 'millrace-no-contexts');

export function startCtl(args: readonly string[], { input = '', env = {}, user = {} }: CtlOptions = {}): CtlRun {
  const options = { env: { ...process.env, XDG_CONFIG_HOME: NO_CONTEXTS, ...env }, stdio: 'pipe', ...user } as const;
  const child = spawn(process.execPath, [CTL_ENTRY, ...args], options);
  running.add(child);
  const run: CtlRun = {
    child,
    stdout: '',
    stderr: '',
    ended: new Promise((resolve) => {
      child.once('close', (code, signal) => {
        running.delete(child);
        resolve(code ?? signal ?? -1);
      });
    }),
  };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (run.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (run.stderr += text));
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  return run;
}

export async function ctl(args: readonly string[], options: CtlOptions = {}): Promise<CtlResult> {
  const run = startCtl(args, options);
  const code = await run.ended;
  return { code, stdout: run.stdout, stderr: run.stderr };
}

const folders: string[] = [];
process.on('exit', () => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

/** A file that is removed when this process ends. */
export function scratchFile(name: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-ctl-'));
  folders.push(folder);
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

/** The cluster file of a running cluster. Nodes must have been started once: their ports are chosen then. */
export function clusterToml(cluster: TestCluster, ids: readonly number[] = cluster.ids): string {
  return ids
    .map((id) =>
      ['[[nodes]]', `id = ${id}`, 'host = "127.0.0.1"', `admin_port = ${cluster.node(id).adminPort}`, ''].join('\n'),
    )
    .join('\n');
}
