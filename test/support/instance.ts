// One run of a server: in this process, or as a process of its own.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { ConfigError } from '../../src/config/error.ts';
import { loadConfig } from '../../src/config/load.ts';
import { ListenError } from '../../src/http/listener.ts';
import { NodeLog } from '../../src/logging/logger.ts';
import type { LaunchedNode } from '../../src/server/launch.ts';
import type { Reloads } from '../../src/server/reload.ts';
import { REPO_ROOT } from './paths.ts';
import { startShardThread } from './shard-threads.ts';

/** Only the end of an output is kept. */
export const LOG_TAIL_CHARS = 256 * 1024;
export const EXIT_CODE_BAD_START = 2;
const EXIT_CODE_FAILURE = 1;

export interface Instance {
  /**
   * Exit code, or the name of the signal that ended it. An instance in this process has
   * the codes that a process would have.
   */
  readonly exited: Promise<number | string>;
  readonly isRunning: boolean;
  /** Before that there is nothing to ask; at once where only asking tells. */
  readonly opened: Promise<unknown>;
  output(): string;
  /** Calls `look` whenever there is more output. */
  onOutput(look: () => void): void;
  /** Begins a clean stop. */
  stop(): void;
  /** SIGHUP, or what it does. */
  hangUp(): void;
  /** The test is over: ends it in the quickest way. */
  end(): Promise<void>;
}

const running = new Set<ChildProcess>();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

/** One run of a program whose end and output are of interest. */
export interface Run extends Instance {
  readonly child: ChildProcess;
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
  return {
    child,
    exited,
    opened: Promise.resolve(),
    get isRunning() {
      return child.exitCode === null && child.signalCode === null;
    },
    output: () => output,
    onOutput: (look) => {
      child.stdout.on('data', look);
      child.stderr.on('data', look);
    },
    stop: () => void child.kill('SIGTERM'),
    hangUp: () => void child.kill('SIGHUP'),
    end: async () => {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
      await exited;
    },
  };
}

export interface EmbeddedOptions {
  readonly flags: readonly string[];
  /** One tick of Raft in ms; by default that of a server. */
  readonly tickMs?: number | undefined;
}

/** A node in the process of the test: no environment, no signals, and no death. */
export class EmbeddedRun implements Instance {
  readonly exited: Promise<number | string>;
  isRunning = true;
  readonly #starting: Promise<LaunchedNode | undefined>;
  readonly #looks: (() => void)[] = [];
  #output = '';
  #reloads: Reloads | undefined;
  #exit: (code: number | string) => void = () => undefined;

  constructor({ flags, tickMs }: EmbeddedOptions) {
    this.exited = new Promise((resolve) => {
      this.#exit = (code) => {
        this.isRunning = false;
        resolve(code);
      };
    });
    this.#starting = this.#start(flags, tickMs);
  }

  get opened(): Promise<unknown> {
    return this.#starting;
  }

  output(): string {
    return this.#output;
  }

  onOutput(look: () => void): void {
    this.#looks.push(look);
  }

  stop(): void {
    void this.#end();
  }

  hangUp(): void {
    this.#reloads?.run();
  }

  async end(): Promise<void> {
    await this.#end(0);
  }

  async #end(graceMs?: number): Promise<void> {
    const node = await this.#starting;
    if (node === undefined) return;
    this.#reloads?.end();
    const threads = await node.stop(graceMs);
    this.#exit(threads === 'ended' ? 0 : 'SIGKILL');
  }

  async #start(flags: readonly string[], tickMs: number | undefined): Promise<LaunchedNode | undefined> {
    const log = NodeLog.to({ write: (line) => this.#keep(line) });
    const fail = async (): Promise<void> => {
      await (await this.#starting)?.stop(0);
      this.#exit(EXIT_CODE_FAILURE);
    };
    try {
      // Hundreds of modules, which tests of processes do without.
      const { launch } = await import('../../src/server/launch.ts');
      const { Reloads } = await import('../../src/server/reload.ts');
      const config = loadConfig(flags, {});
      const node = await launch({
        config,
        log,
        ...(tickMs === undefined ? {} : { tickMs }),
        startThread: startShardThread,
        onFailure: ({ message }) => {
          this.#keep(`a shard failed: ${message}\n`);
          void fail();
        },
      });
      this.#reloads = new Reloads(flags, config, log);
      this.#reloads.begin(node.planes);
      return node;
    } catch (error) {
      const isRefused = error instanceof ConfigError || error instanceof ListenError;
      const { name, message, stack = message } = error instanceof Error ? error : new Error(String(error));
      // The log has told of a failed shard.
      if (name !== 'NodeFailure') this.#keep(`millrace: ${isRefused ? message : stack}\n`);
      this.#exit(isRefused ? EXIT_CODE_BAD_START : EXIT_CODE_FAILURE);
      return undefined;
    }
  }

  #keep(text: string): void {
    this.#output = (this.#output + text).slice(-LOG_TAIL_CHARS);
    for (const look of this.#looks) look();
  }
}
