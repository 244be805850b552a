// A server on loopback with its own data directory: a node in the process of the test, or a process of its own
// where death, signals, memory or the system are the subject. No server survives the test and no folder stays
// behind; when a test fails, the end of the server's log is printed.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EXIT_CODE_BAD_START, EmbeddedRun, type Instance, LOG_TAIL_CHARS, type Run, run } from './instance.ts';
import { REPO_ROOT, SERVER_BUNDLE } from './paths.ts';
import { PatientClient } from './patient.ts';
import { freePort } from './ports.ts';
import { requestOnce } from './raw-client.ts';
import { PATIENCE_MS } from './until.ts';

export { type Run, run } from './instance.ts';

/** There is no event across processes for "ready", so it is asked for at this pace. */
const READY_POLL_MS = 25;
/** A fourth of what a server has by default: each costs a little at the start and at each tick. */
const GROUPS = 4;
/** Another process may take a port between the probe and the start. */
const PORT_ATTEMPTS = 5;
const PORT_TAKEN = /EADDRINUSE|port (is|was) in use/;

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
  /** A process of its own. Without it the node runs in this one, and nothing may block this process: no `spawnSync`. */
  readonly process?: boolean;
  /** One tick of Raft in ms; without it that of a server. */
  readonly tickMs?: number;
  /**
   * Prefix for node's command, e.g. nsenter; must exec so that the pid is the server's.
   * This and the rest need a process.
   */
  readonly wrapper?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly nodeArgs?: readonly string[];
  /** Program of another version of Node. */
  readonly node?: string;
}

const PRELOAD = join(REPO_ROOT, 'test/support/server.process.cjs');
const OF_PROCESSES = ['wrapper', 'env', 'nodeArgs', 'node'] as const;

const folders = new Set<string>();

process.on('exit', () => {
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
  /** Clients of the two planes: they ask again while the node says that it cannot answer now. */
  readonly client: PatientClient = new PatientClient(() => this.#port);
  readonly admin: PatientClient = new PatientClient(() => this.#adminPort);
  /** The program; another one is in force from the next start. */
  entry: string = SERVER_BUNDLE;
  readonly #scratch: string;
  #port = 0;
  #adminPort = 0;
  #present: Instance | undefined;
  /** The same, when it is a process. */
  #child: Run | undefined;
  #log = '';

  constructor(options: ServerOptions = {}) {
    this.options = options;
    const alien = OF_PROCESSES.find((name) => options[name] !== undefined && options.process !== true);
    assert(alien === undefined, `the option \`${alien}\` is about a process: start the server with \`process: true\``);
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
    return this.#processFor('pid')?.child.pid ?? -1;
  }

  /** Exit code or signal of the present run. */
  get exited(): Promise<number | string> {
    assert(this.#present !== undefined, 'the server was never started');
    return this.#present.exited;
  }

  get isRunning(): boolean {
    return this.#present?.isRunning === true;
  }

  /** Log of all runs so far, at most its end. */
  log(): string {
    return (this.#log + (this.#present?.output() ?? '')).slice(-LOG_TAIL_CHARS);
  }

  /** Resolves with the first line of the present run's output, from character `from` on, that matches. */
  async logged(pattern: RegExp, from = 0): Promise<string> {
    const present = this.#present;
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
      present.onOutput(look);
      look();
    });
    return await within(found, PATIENCE_MS, `a log line like ${String(pattern)}`);
  }

  /** Sends SIGHUP, and waits for the line that it causes: settings are read again, or why they are not. */
  async hangUp(): Promise<Record<string, unknown>> {
    const from = this.#present?.output().length;
    this.#present?.hangUp();
    return JSON.parse(await this.logged(/"reloaded|"the reload failed/, from)) as Record<string, unknown>;
  }

  /** The command line of the process. */
  command(): string[] {
    const { node, nodeArgs = [], wrapper = [] } = this.options;
    const flags = node === undefined ? ['--require', PRELOAD] : [];
    return [...wrapper, node ?? process.execPath, ...flags, ...nodeArgs, this.entry, ...this.#flags()];
  }

  #env(): Record<string, string> {
    const { env, tickMs } = this.options;
    return {
      // Certificates of the host, which each process would parse.
      NODE_EXTRA_CA_CERTS: '',
      ...(tickMs === undefined ? {} : { TEST_TICK_MS: String(tickMs) }),
      ...env,
    };
  }

  #flags(): string[] {
    const flags = ['--config', this.configFile, '--data', this.dataDir];
    flags.push('--listen', `127.0.0.1:${this.#port}`, '--admin-listen', `127.0.0.1:${this.#adminPort}`);
    flags.push('--cores', String(this.options.cores ?? 1), '--groups', String(this.options.groups ?? GROUPS));
    return flags;
  }

  #begin(): void {
    this.#log = this.log();
    if (this.options.process === true) {
      this.#present = this.#child = run(this.command(), this.#env());
      return;
    }
    assert(this.entry === SERVER_BUNDLE, 'another program is a process: start the server with `process: true`');
    this.#present = new EmbeddedRun({ flags: this.#flags(), tickMs: this.options.tickMs });
  }

  #processFor(what: string): Run | undefined {
    assert(this.options.process === true, `${what} is about a process: start the server with \`process: true\``);
    return this.#child;
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
      this.#begin();
      const failure = await this.waitUntil(route);
      if (failure === undefined) return performance.now() - startedAtMs;
      const isTaken = failure === EXIT_CODE_BAD_START && PORT_TAKEN.test(this.#present?.output() ?? '');
      if (!isTaken || fixedPorts || attempt === PORT_ATTEMPTS) {
        throw new Error(`the server ended with ${failure} before it was ready:\n${this.log()}`);
      }
    }
  }

  /** Starts it and kills it after this many ms, whatever the start has reached. */
  async startInterrupted(afterMs: number): Promise<void> {
    assert(!this.isRunning && this.#port !== 0, 'only a server that ran before can be interrupted');
    this.#begin();
    await Promise.race([delay(afterMs), this.exited]);
    await this.kill();
  }

  /** Undefined when `route` answers 200; otherwise how the process ended. */
  async waitUntil(route: 'ready' | 'health'): Promise<number | string | undefined> {
    const deadlineMs = performance.now() + PATIENCE_MS;
    await this.#present?.opened;
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

  async metrics(): Promise<Record<string, unknown>> {
    const { body } = await this.admin.expect(200, 'GET', '/__svc/metrics');
    return JSON.parse(body.toString()) as Record<string, unknown>;
  }

  /** SIGKILL: as if the power failed, except for the page cache. */
  async kill(): Promise<void> {
    await this.#processFor('kill()')?.end();
  }

  /** Ends it in the quickest way that there is: a process dies, a node in this process stops. */
  async end(): Promise<void> {
    await this.#present?.end();
  }

  /** Cleanly, by SIGTERM where it is a process; the result is the exit code. */
  async stop(): Promise<number | string> {
    this.#present?.stop();
    return within(this.exited, PATIENCE_MS, 'graceful stop');
  }

  async dispose(): Promise<void> {
    this.client.destroy();
    this.admin.destroy();
    await this.end();
    removeFolder(this.#scratch);
  }

  /** Resident bytes of the process: all, and without mapped files (LMDB's pages are the kernel's to drop). */
  memory(): { readonly residentBytes: number; readonly anonymousBytes: number; readonly peakBytes: number } {
    const { pid } = this;
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const field = (name: string): number => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]);
    return { residentBytes: field('VmRSS'), anonymousBytes: field('RssAnon'), peakBytes: field('VmHWM') };
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
