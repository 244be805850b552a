/**
 * Exports a group's applied state as a document, at the pace of its reader: the shard writes a checkpoint, and the
 * pieces come from another thread. A small document is held until it is complete, so that its digest fits in a header;
 * a large one has its digest only at its end.
 */
import { errorCode } from '../../base/errors.ts';
import { type RetryClock, type RetryPolicy, sendUntilDone } from '../../gateway/retry.ts';
import type { ExportEnd, ExportSink } from '../ports.ts';
import type { ShardGateway } from '../../ports.ts';
import type { Reply } from '../../protocol/reply.ts';
import { requestFor } from '../../protocol/request.ts';
import type { ExportReaders, ExportRun } from './export-thread.ts';
import { QUERIES } from '../../protocol/operations.ts';

/** A shard whose mailbox is full is asked again, without end; whatever it answers counts. */
const POLICY: RetryPolicy = { patienceMs: Infinity, againMs: 20, isPassing: () => false };
/** Interval of the keep-alives to the shard, whose answers allow the export to continue. */
const HOLD_MS = 500;
/** Time without progress after which the reader counts as gone. Longer than a store may take for a part of a backup. */
const REST_MS = 5 * 60_000;

export interface ExportParts {
  readonly gateway: ShardGateway;
  readonly readers: ExportReaders;
  readonly runtime: RetryClock;
  /** This many bytes were sent; returns in how many ms as many may follow. */
  delayMs(bytes: number): number;
  begun(group: number): void;
  /** Once for each that began. */
  over(group: number, isWhole: boolean): void;
  endedEarly(group: number, why: ExportEnd): void;
}

export function exportGroup(parts: ExportParts, group: number, sink: ExportSink): void {
  new Export(parts, group, sink).start();
}

class Export {
  readonly #parts: ExportParts;
  readonly #group: number;
  readonly #sink: ExportSink;
  #id = 0;
  #run: ExportRun | undefined;
  /** Produced and not yet written. */
  readonly #pieces: Uint8Array[] = [];
  #writing = false;
  /** No more data will come. */
  #complete = false;
  /** All of it was handed over. */
  #isWhole = false;
  #released = false;
  /** Time of the last progress. */
  #restedMs = 0;

  constructor(parts: ExportParts, group: number, sink: ExportSink) {
    this.#parts = parts;
    this.#group = group;
    this.#sink = sink;
  }

  start(): void {
    const { gateway } = this.#parts;
    const sent = gateway.send(requestFor(QUERIES.exportGroup, this.#group, { step: 'open' }), {
      onReply: (reply) => this.#opened(reply),
    });
    if (!sent) this.#sink.fail('SHARD_BUSY');
  }

  #opened(reply: Reply): void {
    const code = errorCode(reply.code);
    if (code !== 'OK') return this.#sink.fail(code);
    this.#parts.begun(this.#group);
    const { id, appliedCommands, origin } = QUERIES.exportGroup.result.read(reply);
    this.#id = id;
    if (this.#sink.isOver) return this.#over();
    this.#sink.onOver = () => this.#over();
    const { gateway, readers } = this.#parts;
    const { groupCount, shardCount } = gateway;
    const order = { group: this.#group, groupCount, commitIndex: appliedCommands, origin };
    this.#run = readers.open(this.#group % shardCount, order, {
      begun: (commitIndex, digest) => this.#sink.begin(commitIndex, digest),
      piece: (piece) => {
        this.#pieces.push(piece);
        this.#drain();
      },
      end: () => {
        this.#complete = true;
        this.#drain();
      },
      failed: (reason) => this.#fail('read-failed', reason),
    });
    return this.#later();
  }

  #later(): void {
    this.#parts.runtime.setTimer(HOLD_MS, () => this.#hold());
  }

  /** The shard ends exports that are not kept alive, and those that hold pages it needs. */
  #hold(): void {
    if (this.#released) return undefined;
    this.#restedMs += HOLD_MS;
    if (this.#restedMs > REST_MS)
      return this.#fail('reader-rested', `its reader took nothing for ${REST_MS / 60_000} minutes`);
    return this.#ask('hold', (reply) => {
      const code = errorCode(reply.code);
      if (code === 'OK' || this.#released) return this.#later();
      if (code === 'DISK_FULL') return this.#fail('volume-short', 'the volume is short of room, which writes need');
      return this.#fail('shard-refused', `the shard holds it no longer (${code})`);
    });
  }

  #drain(): void {
    if (this.#writing || this.#sink.isOver) return;
    const piece = this.#pieces.shift();
    if (piece === undefined) {
      if (!this.#complete) return;
      this.#isWhole = true;
      this.#sink.end();
      return;
    }
    this.#writing = true;
    this.#sink.write(piece, () => {
      this.#writing = false;
      this.#restedMs = 0;
      this.#left(piece.length);
      this.#drain();
    });
  }

  #left(bytes: number): void {
    const delayMs = this.#parts.delayMs(bytes);
    if (delayMs === 0) this.#run?.left(bytes);
    else this.#parts.runtime.setTimer(delayMs, () => this.#run?.left(bytes));
  }

  #fail(code: ExportEnd['code'], reason: string): void {
    this.#parts.endedEarly(this.#group, { code, reason });
    this.#sink.fail('INTERNAL');
  }

  #over(): void {
    this.#run?.close();
    if (!this.#released) this.#parts.over(this.#group, this.#isWhole);
    this.#release();
  }

  #release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#ask('close', () => undefined);
  }

  #ask(step: 'hold' | 'close', onReply: (reply: Reply) => void): void {
    const { gateway, runtime } = this.#parts;
    const request = requestFor(QUERIES.exportGroup, this.#group, { step, id: this.#id });
    sendUntilDone({ gateway, clock: runtime, policy: POLICY }, request, (reply) => {
      if (reply !== undefined) onReply(reply);
    });
  }
}
