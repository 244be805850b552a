/**
 * One upload of a document through a node, by the product's own code on its main thread (backup/import/importer.ts): in
 * parts, now and then altered or broken off. It ends with an answer, or in silence when its node dies.
 */
import type { ErrorCode } from '../../../src/base/errors.ts';
import type { ImportFeed, ImportSink } from '../../../src/backup/ports.ts';
import { Import } from '../../../src/backup/import/importer.ts';
import { SpoolMemory } from '../../../src/backup/import/spool.ts';
import type { Random } from '../../support/random.ts';
import type { SimProcess } from '../process.ts';
import type { World } from '../world.ts';
import type { Taken } from './exporting.ts';
import { gatewayOf, guarded } from './gateway.ts';
import type { ImportChaos } from './import-chaos.ts';
import type { RestoreOptions } from './options.ts';

export type Answer =
  | { readonly kind: 'json'; readonly status: number; readonly value: Readonly<Record<string, unknown>> }
  | { readonly kind: 'sentence'; readonly status: number; readonly text: string }
  | { readonly kind: 'refused'; readonly code: ErrorCode }
  /** The client left. */
  | { readonly kind: 'left' };

/** The whole upload takes no longer than this by itself. */
const UPLOAD_MS = 5000;

export interface AttemptParts {
  readonly world: World;
  readonly random: Random;
  readonly options: RestoreOptions;
  readonly process: SimProcess;
  readonly taken: Taken;
  readonly chaos: ImportChaos;
  readonly newToken: () => string;
  readonly onAnswer: (answer: Answer) => void;
}

export class Attempt implements ImportSink {
  readonly process: SimProcess;
  /** The upload is not what was exported. */
  readonly isAltered: boolean;
  over = false;
  readonly #parts: AttemptParts;
  readonly #feed: ImportFeed;
  readonly #bytes: Uint8Array;
  readonly #paceMs: number;
  /** Where the client leaves; Infinity: it stays. */
  readonly #leavesAt: number;
  /** Pieces that a socket brings although it was paused. */
  readonly #pushy: boolean;
  #at = 0;
  #paused = false;
  #waiting = false;
  #left = false;

  constructor(parts: AttemptParts) {
    const { world, process, options, taken, random, chaos, newToken } = parts;
    this.#parts = parts;
    this.process = process;
    this.isAltered = world.faulty && random.chance(options.altered);
    this.#bytes = this.isAltered ? altered(taken.bytes, random) : taken.bytes;
    const uploads = Math.ceil(this.#bytes.length / options.uploadBytes);
    this.#paceMs = Math.min(options.paceMs, UPLOAD_MS / Math.max(1, uploads));
    this.#leavesAt = world.faulty && random.chance(options.broken) ? random.int(0, this.#bytes.length) : Infinity;
    this.#pushy = random.chance(0.3);
    const gateway = gatewayOf({
      world,
      process,
      groupCount: taken.contents.head.groupCount,
      group: options.target,
      onSend: (request) => chaos.onSend(request, process),
    });
    const digest = random.chance(0.5) ? taken.contents.digest : undefined;
    const request = { digest, adopts: false, directory: '', readCold: undefined };
    const feed = new Import(gateway, taken.group, request, this, {
      clock: process.runtime,
      // Another attempt may cut them elsewhere.
      pieceBytes: options.pieceBytes * random.pick([1, 3]),
      spoolMemory: new SpoolMemory(),
      newToken,
      // Its answers come from promises, for which simulated time does not wait.
      lookAt: (_sample, _read, done) => done(undefined),
    });
    this.#feed = feed;
    guarded(world, () => feed.start());
    this.#later();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#later();
  }

  json(status: number, value: unknown): void {
    this.#end({ kind: 'json', status, value: value as Record<string, unknown> });
  }

  text(status: number, sentence: string): void {
    this.#end({ kind: 'sentence', status, text: sentence });
  }

  fail(code: ErrorCode): void {
    this.#end({ kind: 'refused', code });
  }

  #end(answer: Answer): void {
    // A client that has left does not get the results of the undo.
    if (this.#left) return;
    if (this.over) throw new Error('an upload is answered twice');
    this.over = true;
    this.#parts.onAnswer(answer);
  }

  #later(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    this.process.later(this.#paceMs, () => {
      this.#waiting = false;
      guarded(this.#parts.world, () => this.#push());
    });
  }

  #push(): void {
    if (this.over || this.#at > this.#bytes.length || (this.#paused && !this.#pushy)) return;
    if (this.#at >= this.#leavesAt) {
      this.over = true;
      this.#left = true;
      this.#feed.abort();
      this.#parts.onAnswer({ kind: 'left' });
      return;
    }
    if (this.#at === this.#bytes.length) {
      this.#at++;
      this.#feed.end();
      return;
    }
    const part = this.#bytes.slice(this.#at, this.#at + this.#parts.options.uploadBytes);
    this.#at += part.length;
    this.#feed.push(part);
    part.fill(0xa5);
    this.#later();
  }
}

function altered(bytes: Uint8Array, random: Random): Uint8Array {
  if (random.chance(0.4)) return bytes.slice(0, random.int(0, bytes.length - 1));
  const other = bytes.slice();
  const at = random.int(0, bytes.length - 1);
  other[at] = (other[at] as number) ^ random.int(1, 255);
  return other;
}
