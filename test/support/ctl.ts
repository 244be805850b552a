// The operator's tool, in this process or in one of its own, and a cluster file for it.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { StartVerifiers, Verifiers } from '../../src/backup/tool/verify.ts';
import { run } from '../../src/operator/run.ts';
import { REPO_ROOT } from './paths.ts';
import type { TestCluster } from './cluster.ts';

export const CTL_ENTRY: string = join(REPO_ROOT, 'dist', 'ctl.js');

export interface CtlRun {
  readonly stdout: string;
  readonly stderr: string;
  /** Emits `data` after each piece of stdout and stderr. */
  readonly output: EventEmitter;
  /** Exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | string>;
  /** As Ctrl-C does. */
  interrupt(): void;
}

export interface CtlProcess extends CtlRun {
  readonly child: ChildProcess;
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
  /** Implies a process. */
  readonly user?: User;
  /** For what only a process has: signals, a death, a user, an exit. */
  readonly process?: true;
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

const environment = (env: Readonly<Record<string, string>>): NodeJS.ProcessEnv => {
  return { ...process.env, NODE_EXTRA_CA_CERTS: '', XDG_CONFIG_HOME: NO_CONTEXTS, ...env };
};

/** The text that has come from the two streams so far. */
class Collected {
  stdout = '';
  stderr = '';
  readonly output = new EventEmitter();

  constructor(stdout: Readable, stderr: Readable) {
    stdout.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
      this.output.emit('data');
    });
    stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
      this.output.emit('data');
    });
  }
}

const verifiers = new Map<string, Promise<Verifiers>>();

/** Each of these threads costs a tenth of a second of processor to start, so they serve all tools of this process. */
const startVerifiers: StartVerifiers = async (threads, env) => {
  const key = JSON.stringify([threads, env]);
  const { startThreads } = await import('../../src/backup/tool/verify.ts');
  const started = verifiers.get(key) ?? startThreads(threads, env);
  verifiers.set(key, started);
  return { ...(await started), end: () => Promise.resolve() };
};

/** The tool in this process. */
export function startCtl(args: readonly string[], { input = '', env = {} }: CtlOptions = {}): CtlRun {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const collected = new Collected(stdout, stderr);
  const ending = new AbortController();
  const stdin = Readable.from(input.length === 0 ? [] : [Buffer.from(input)]);
  const ended = run(args, { stdin, stdout, stderr, env: environment(env), signal: ending.signal, startVerifiers }).then(
    async (code) => {
      stdout.end();
      stderr.end();
      await Promise.all([finished(stdout), finished(stderr)]);
      return code;
    },
  );
  return Object.assign(collected, { ended, interrupt: (): void => ending.abort() });
}

/** The tool as a process of its own. */
export function spawnCtl(args: readonly string[], { input = '', env = {}, user = {} }: CtlOptions = {}): CtlProcess {
  const options = { env: environment(env), stdio: 'pipe', ...user } as const;
  const child = spawn(process.execPath, [CTL_ENTRY, ...args], options);
  running.add(child);
  const collected = new Collected(child.stdout, child.stderr);
  const ended = new Promise<number | string>((resolve) => {
    child.once('close', (code, signal) => {
      running.delete(child);
      resolve(code ?? signal ?? -1);
    });
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  return Object.assign(collected, { child, ended, interrupt: (): void => void child.kill('SIGINT') });
}

export async function ctl(args: readonly string[], options: CtlOptions = {}): Promise<CtlResult> {
  const isProcess = options.process === true || options.user !== undefined;
  const run = isProcess ? spawnCtl(args, options) : startCtl(args, options);
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

/** A cluster file of one node. */
export function clusterFileOf({ adminPort }: { readonly adminPort: number }): string {
  return scratchFile('cluster.toml', `[[nodes]]\nid = 1\nhost = "127.0.0.1"\nadmin_port = ${adminPort}\n`);
}

/** The cluster file of a running cluster. Nodes must have been started once: their ports are chosen then. */
export function clusterToml(cluster: TestCluster, ids: readonly number[] = cluster.ids): string {
  return ids
    .map((id) =>
      ['[[nodes]]', `id = ${id}`, 'host = "127.0.0.1"', `admin_port = ${cluster.node(id).adminPort}`, ''].join('\n'),
    )
    .join('\n');
}
