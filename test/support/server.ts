// A real server process on loopback with its own data directory. No server survives the test and no folder stays
// behind; when a test fails, the end of the server's log is printed.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { REPO_ROOT, SERVER_ENTRY } from './paths.ts';
import { PatientClient } from './patient.ts';
import { requestOnce } from './raw-client.ts';
import { freePort } from './ports.ts';
import { PATIENCE_MS } from './until.ts';

/** There is no event across processes for "ready", so it is asked for at this pace. */
const READY_POLL_MS = 10;
/** Of a server's log only the end is kept. */
const LOG_TAIL_CHARS = 256 * 1024;
/** Another process may take a port between the probe and the start. */
const PORT_ATTEMPTS = 5;
const EXIT_CODE_BAD_START = 2;

export interface ServerOptions {
  readonly cores?: number;
  readonly groups?: number;
  /** TOML lines before the test's own `[http]` table. */
  readonly toml?: string;
  /** Lines of that table. */
  readonly http?: string;
  readonly longPollTimeout?: string;
  /** Kept when given; otherwise a temporary folder that is removed at the end. */
  readonly dataDir?: string;
  /** Prefix for node's command, e.g. nsenter; must exec so that the pid is the server's. */
  readonly wrapper?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly nodeArgs?: readonly string[];
  /** Program of another version of Node. */
  readonly node?: string;
}

const running = new Set<ChildProcess>();
const folders = new Set<string>();

process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

export function temporaryFolder(prefix: string): string {
  const folder = mkdtempSync(join(tmpdir(), `millrace-${prefix}-`));
  folders.add(folder);
  return folder;
}

export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  folders.delete(folder);
}

/** One run of a program whose end and output are of interest. */
export interface Run {
  readonly child: ChildProcess;
  /** Exit code, or the name of the signal that ended it. */
  readonly exited: Promise<number | string>;
  output(): string;
}

export function run(
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd: string = REPO_ROOT,
): Run {
  const [file, ...args] = command;
  assert(file !== undefined);
  const child = spawn(file, args, { cwd, env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
  running.add(child);
  let output = '';
  const keep = (chunk: Buffer): void => {
    output = (output + chunk.toString('utf8')).slice(-LOG_TAIL_CHARS);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  // A child that ends at once makes writes to its stdin fail; its exit says enough.
  child.stdin.on('error', () => undefined);
  const exited = new Promise<number | string>((resolve) => {
    child.once('error', (error) => {
      output += String(error);
      running.delete(child);
      resolve(-1);
    });
    child.once('close', (code, signal) => {
      running.delete(child);
      resolve(code ?? signal ?? -1);
    });
  });
  return { child, exited, output: () => output };
}

/** Ends within `timeoutMs` or throws `what`. */
export async function within<T>(promise: Promise<T>, timeoutMs: number, what: string): Promise<T> {
  const abort = new AbortController();
  const timeout = delay(timeoutMs, undefined, { signal: abort.signal }).then(() => {
    throw new Error(`${what}: not within ${timeoutMs} ms`);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    abort.abort();
    timeout.catch(() => undefined);
  }
}

export class TestServer {
  readonly options: ServerOptions;
  readonly dataDir: string;
  readonly configFile: string;
  /** Of the client plane, and of the operators': they ask again while the node says that it cannot answer now. */
  readonly client: PatientClient = new PatientClient(() => this.#port);
  readonly admin: PatientClient = new PatientClient(() => this.#adminPort);
  /** The program; another one is in force from the next start. */
  entry: string = SERVER_ENTRY;
  readonly #scratch: string;
  #port = 0;
  #adminPort = 0;
  #run: Run | undefined;
  #log = '';

  constructor(options: ServerOptions = {}) {
    this.options = options;
    this.#scratch = temporaryFolder('test');
    this.dataDir = options.dataDir ?? join(this.#scratch, 'data');
    this.configFile = join(this.#scratch, 'millrace.toml');
    const wait = options.longPollTimeout ?? '500ms';
    writeFileSync(
      this.configFile,
      `${options.toml ?? ''}\n[http]\nlong_poll_timeout = "${wait}"\n${options.http ?? ''}\n`,
    );
  }

  get port(): number {
    return this.#port;
  }

  get adminPort(): number {
    return this.#adminPort;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get adminUrl(): string {
    return `http://127.0.0.1:${this.#adminPort}`;
  }

  get pid(): number {
    return this.#run?.child.pid ?? -1;
  }

  /** Exit code or signal of the present process. */
  get exited(): Promise<number | string> {
    assert(this.#run !== undefined, 'the server was never started');
    return this.#run.exited;
  }

  get isRunning(): boolean {
    const child = this.#run?.child;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  /** Log of all runs so far, at most its end. */
  log(): string {
    return (this.#log + (this.#run?.output() ?? '')).slice(-LOG_TAIL_CHARS);
  }

  /** Resolves with the first line of the present process's output, from character `from` on, that matches. */
  async logged(pattern: RegExp, from = 0): Promise<string> {
    const present = this.#run;
    assert(present !== undefined, 'the server was never started');
    const find = (): string | undefined =>
      present
        .output()
        .slice(from)
        .split('\n')
        // The last one is not complete yet.
        .slice(0, -1)
        .find((line) => pattern.test(line));
    const found = new Promise<string>((resolve) => {
      const look = (): void => {
        const line = find();
        if (line !== undefined) resolve(line);
      };
      present.child.stdout?.on('data', look);
      present.child.stderr?.on('data', look);
      look();
    });
    return await within(found, PATIENCE_MS, `a log line like ${String(pattern)}`);
  }

  command(): string[] {
    const flags = ['--config', this.configFile, '--data', this.dataDir];
    flags.push('--listen', `127.0.0.1:${this.#port}`, '--admin-listen', `127.0.0.1:${this.#adminPort}`);
    flags.push('--cores', String(this.options.cores ?? 1));
    if (this.options.groups !== undefined) flags.push('--groups', String(this.options.groups));
    const node = [this.options.node ?? process.execPath, ...(this.options.nodeArgs ?? []), this.entry];
    return [...(this.options.wrapper ?? []), ...node, ...flags];
  }

  /**
   * Starts and waits until the admin plane answers `route` with 200; the result is how long that took, in ms. Ports
   * stay the same over restarts.
   */
  async start(route: 'ready' | 'health' = 'ready'): Promise<number> {
    assert(!this.isRunning, 'the server is running already');
    const fixedPorts = this.#port !== 0;
    for (let attempt = 1; ; attempt++) {
      if (!fixedPorts) [this.#port, this.#adminPort] = [await freePort(), await freePort()];
      const startedAtMs = performance.now();
      this.#log = this.log();
      this.#run = run(this.command(), this.options.env);
      const failure = await this.waitUntil(route);
      if (failure === undefined) return performance.now() - startedAtMs;
      if (failure !== EXIT_CODE_BAD_START || fixedPorts || attempt === PORT_ATTEMPTS) {
        throw new Error(`the server ended with ${failure} before it was ready:\n${this.log()}`);
      }
    }
  }

  /** Starts it and kills it after this many ms, whatever the start has reached. */
  async startInterrupted(afterMs: number): Promise<void> {
    assert(!this.isRunning && this.#port !== 0, 'only a server that ran before can be interrupted');
    this.#log = this.log();
    this.#run = run(this.command(), this.options.env);
    await Promise.race([delay(afterMs), this.exited]);
    await this.kill();
  }

  /** Undefined when `route` answers 200; otherwise how the process ended. */
  async waitUntil(route: 'ready' | 'health'): Promise<number | string | undefined> {
    const deadlineMs = performance.now() + PATIENCE_MS;
    for (;;) {
      const status = await requestOnce(this.#adminPort, 'GET', `/__svc/${route}`).then(
        (response) => response.status,
        () => 0,
      );
      if (status === 200) return undefined;
      if (!this.isRunning) return await this.exited;
      assert(performance.now() < deadlineMs, `no ${route} after ${PATIENCE_MS} ms:\n${this.log()}`);
      await delay(READY_POLL_MS);
    }
  }

  /** SIGKILL: as if the power failed, except for the page cache. */
  async kill(): Promise<void> {
    if (this.isRunning) this.#run?.child.kill('SIGKILL');
    await this.#run?.exited;
  }

  /** SIGTERM; the result is the exit code. */
  async stop(): Promise<number | string> {
    this.#run?.child.kill('SIGTERM');
    return within(this.exited, PATIENCE_MS, 'graceful stop');
  }

  async dispose(): Promise<void> {
    this.client.destroy();
    this.admin.destroy();
    await this.kill();
    removeFolder(this.#scratch);
  }

  /** Resident bytes of the process: all, and without mapped files (LMDB's pages are the kernel's to drop). */
  memory(): { readonly residentBytes: number; readonly anonymousBytes: number } {
    const status = readFileSync(`/proc/${this.pid}/status`, 'utf8');
    const field = (name: string): number => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]);
    return { residentBytes: field('VmRSS'), anonymousBytes: field('RssAnon') };
  }
}

/** Runs `body` against a started server; prints the server's log when it fails. */
export async function withServer(options: ServerOptions, body: (server: TestServer) => Promise<void>): Promise<void> {
  const server = new TestServer(options);
  try {
    await server.start();
    await body(server);
    assert(server.isRunning || (await server.exited) === 0, 'the server died during the test');
  } catch (error) {
    process.stderr.write(`--- log of the server (end) ---\n${server.log().slice(-16_000)}\n--- end of log ---\n`);
    throw error;
  } finally {
    await server.dispose();
  }
}
