// Calls of the file system that fail when a test wants it: in this process, in what the code itself calls. LMDB's own
// calls are out of reach.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

/** An error of the system, half of what was asked for, or the call is made late, when others were made. */
export type Failure = 'EIO' | 'ENOSPC' | 'EINTR' | 'short' | 'slow';

/** Most calls of a trial take some hundred microseconds. */
const SLOW_MS = 10;

const SYNCHRONOUS = [
  'openSync',
  'readSync',
  'writeSync',
  'fsyncSync',
  'fdatasyncSync',
  'closeSync',
  'statSync',
  'mkdirSync',
  'readdirSync',
  'renameSync',
  'unlinkSync',
] as const;
/** Calls of `node:fs/promises`, and of the handles that its open() returns. */
const ASYNCHRONOUS = ['open', 'rename', 'stat', 'mkdir', 'readdir', 'unlink', 'writeFile'] as const;
const OF_HANDLES = ['writeFile', 'write', 'read', 'sync', 'datasync', 'stat', 'truncate'] as const;
/** Calls of read streams, with a callback. */
const OF_STREAMS = ['open', 'read'] as const;
/** Others hand a whole write, or none, to the system. */
const CAN_BE_SHORT: ReadonlySet<string> = new Set([
  'readSync',
  'writeSync',
  'handle.write',
  'handle.read',
  'stream.read',
]);

export const ASYNCHRONOUS_CALLS: readonly string[] = [
  ...ASYNCHRONOUS,
  ...OF_HANDLES.map((name) => `handle.${name}`),
  ...OF_STREAMS.map((name) => `stream.${name}`),
];
export const CALLS: readonly string[] = [...SYNCHRONOUS, ...ASYNCHRONOUS_CALLS];

type Call = (args: unknown[]) => unknown;

export class FailingCalls {
  /** Whether the planned failure has happened. */
  hasFailed = false;
  /** Files that were synced again after a sync of them had failed. */
  readonly syncedAgain: string[] = [];
  #plan: { readonly call: string; readonly failure: Failure; left: number } | undefined;
  readonly #paths = new Map<unknown, string>();
  #unsynced = new Set<string>();

  private constructor() {}

  static async in(t: TestContext): Promise<FailingCalls> {
    const calls = new FailingCalls();
    const handle = await promises.open(import.meta.filename, 'r');
    const prototype: unknown = Reflect.getPrototypeOf(handle);
    await handle.close();
    assert(typeof prototype === 'object' && prototype !== null);
    for (const name of SYNCHRONOUS) calls.#replace(t, fs, name, name);
    for (const name of ASYNCHRONOUS) calls.#replace(t, promises, name, name);
    for (const name of OF_HANDLES) calls.#replace(t, prototype, name, `handle.${name}`);
    for (const name of OF_STREAMS) calls.#replace(t, fs, name, `stream.${name}`);
    syncBuiltinESMExports();
    return calls;
  }

  /** The call after `skipped` more of its kind fails, once. */
  plan(call: string, skipped: number, failure: Failure): void {
    this.#plan = { call, failure, left: skipped };
    this.hasFailed = false;
    this.#unsynced = new Set();
    this.syncedAgain.length = 0;
  }

  end(): void {
    this.#plan = undefined;
  }

  /**
   * Runs `trial` with each of these calls failing in each way, as often as there is one; `plan` counts them from then on.
   */
  async sweep(
    failures: Readonly<Partial<Record<Failure, readonly string[]>>>,
    trial: (name: string, plan: () => void, failure: Failure) => Promise<void>,
  ): Promise<number> {
    let trials = 0;
    for (const [failure, names] of Object.entries(failures) as [Failure, readonly string[]][]) {
      for (const call of names) {
        if (failure === 'short' && !CAN_BE_SHORT.has(call)) continue;
        for (let skipped = 0; ; skipped++) {
          const plan = (): void => this.plan(call, skipped, failure);
          const where = `${failure} of ${call} ${skipped}`;
          plan();
          try {
            await trial(`trial-${trials}`, plan, failure);
          } catch (error) {
            throw new Error(where, { cause: error });
          } finally {
            this.end();
          }
          if (!this.hasFailed) break;
          assert.deepEqual(this.syncedAgain, [], `${where}: it is not synced again`);
          trials++;
        }
      }
    }
    return trials;
  }

  #replace(t: TestContext, owner: object, name: string, call: string): void {
    const original: unknown = Reflect.get(owner, name);
    assert(typeof original === 'function');
    // oxlint-disable-next-line typescript/no-this-alias
    const calls = this;
    const replacement = function (this: unknown, ...args: unknown[]): unknown {
      const about = call.startsWith('handle.') ? this : args[0];
      return calls.#run(call, about, args, (changed) => Reflect.apply(original, this, changed) as unknown);
    };
    Reflect.set(owner, name, replacement);
    t.after(() => {
      Reflect.set(owner, name, original);
      syncBuiltinESMExports();
    });
  }

  #run(call: string, file: unknown, args: unknown[], original: Call): unknown {
    const path = this.#paths.get(file) ?? '';
    const isSync = /sync/i.test(call.replace(/Sync$/, ''));
    const plan = this.#plan;
    const isNow = plan?.call === call && plan.left-- === 0;
    if (isSync && !isNow && plan !== undefined && this.#unsynced.has(path)) this.syncedAgain.push(path);
    if (!isNow) return this.#done(call, args, original(args));
    this.hasFailed = true;
    // The length: of readSync(file, buffer, at, length), or handle.read(buffer, at, length).
    const lengthAt = file === args[0] ? 3 : 2;
    if (plan.failure === 'short') return original(args.map((arg, i) => (i === lengthAt ? half(arg) : arg)));
    if (plan.failure === 'slow') return this.#late(call, args, original);
    if (isSync) this.#unsynced.add(path);
    // A close that fails has closed it all the same.
    if (/close/.test(call)) void original(args);
    // As the system says it: with the path, where the call has one.
    const about = typeof args[0] === 'string' ? ` '${args[0]}'` : '';
    const error = Object.assign(new Error(`${plan.failure}: planted, ${call}${about}`), {
      code: plan.failure,
      syscall: call,
    });
    const callback = args.at(-1);
    if (typeof callback === 'function') {
      process.nextTick(callback, error);
      return undefined;
    }
    if (call.endsWith('Sync')) throw error;
    return Promise.reject(error);
  }

  #late(call: string, args: unknown[], original: Call): unknown {
    const run = (): unknown => this.#done(call, args, original(args));
    if (typeof args.at(-1) === 'function') return void setTimeout(run, SLOW_MS);
    if (!call.endsWith('Sync')) return delay(SLOW_MS).then(run);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, SLOW_MS);
    return run();
  }

  #done(call: string, [first]: unknown[], result: unknown): unknown {
    if (call === 'openSync' && typeof first === 'string') this.#paths.set(result, first);
    if (call === 'open' && typeof first === 'string' && result instanceof Promise)
      return result.then((handle: unknown) => {
        this.#paths.set(handle, first);
        return handle;
      });
    return result;
  }
}

function half(bytes: unknown): unknown {
  return typeof bytes === 'number' ? Math.max(1, bytes >> 1) : bytes;
}
