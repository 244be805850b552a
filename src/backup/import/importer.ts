/**
 * Turns an upload into commands: BEGIN, pieces of validated rows, END. Each is proposed when the previous one is
 * answered, and the upload waits meanwhile. A failure is undone before it is answered, so nothing half-done remains
 * unless this node dies; then the next attempt undoes it.
 */
import { type Contents, type DocumentHead, DocumentReader } from '../format/document.ts';
import type { Runtime } from '../../base/runtime.ts';
import { fromHex, toHex } from '../../base/hex.ts';
import { ERRORS, type ErrorCode } from '../../base/errors.ts';
import { IMPORT_PIECE_BYTES } from '../../base/limits.ts';
import type { ImportFeed, ImportSink } from '../ports.ts';
import type { ShardGateway } from '../../ports.ts';
import { Fault, check } from '../../stream/backup/fault.ts';
import type { ImportEnd } from '../../protocol/import-command.ts';
import { NO_ORIGIN } from '../../protocol/object-key.ts';
import { rowSize, writeRow } from '../../base/row-bytes.ts';
import type { ReadCold } from '../../cold/ports.ts';
import { type ColdReport, ColdSample } from '../export/cold-sample.ts';
import type { RetryClock } from '../../gateway/retry.ts';
import type { Callable } from '../../gateway/shard-client.ts';
import { Proposer } from './proposer.ts';
import { Spool, SpoolError, SpoolMemory } from './spool.ts';
import { COMMANDS } from '../../protocol/operations.ts';

const TOKEN_BYTES = 8;
const PREFIX = new Uint8Array(2);
/** Rounds of BEGIN and of undoing an earlier attempt. */
const ROUNDS_MAX = 3;

export interface UploadOptions {
  /** BLAKE3 given by the client. */
  readonly digest: string | undefined;
  /** From now on this cluster may delete the source's objects. */
  readonly adopts: boolean;
  /** Directory for buffered data. */
  readonly directory: string;
  /** Undefined: this node has no cold store. */
  readonly readCold: ReadCold | undefined;
}

/** The importer's environment; the simulator has its own. */
export interface ImportHost {
  readonly clock: RetryClock;
  readonly pieceBytes: number;
  readonly spoolMemory: SpoolMemory;
  newToken(): string;
  lookAt(sample: ColdSample, read: ReadCold | undefined, tell: (report: ColdReport | undefined) => void): void;
}

export function importHost(runtime: Runtime): ImportHost {
  return {
    clock: runtime,
    pieceBytes: IMPORT_PIECE_BYTES,
    spoolMemory: new SpoolMemory(),
    newToken: () => toHex(runtime.randomBytes(TOKEN_BYTES)),
    lookAt: (sample, read, tell) => void sample.look(read).then((report) => tell(report)),
  };
}

export class Import implements ImportFeed {
  readonly #group: number;
  readonly #groupCount: number;
  readonly #expected: string | undefined;
  readonly #adopts: boolean;
  readonly #sink: ImportSink;
  readonly #host: ImportHost;
  #token: string;
  readonly #proposer: Proposer;
  readonly #reader: DocumentReader;
  readonly #spool: Spool;
  readonly #sample = new ColdSample();
  readonly #readCold: ReadCold | undefined;
  #ended = false;
  #rows: Uint8Array[] = [];
  #rowsBytes = 0;
  /** Full pieces waiting. */
  #pieces: Uint8Array[] = [];
  #proposed = 0;
  #rowCount = 0;
  /** The group accepts rows. */
  #begun = false;
  #busy = false;
  #contents: Contents | undefined;
  #over = false;

  constructor(
    gateway: ShardGateway,
    group: number,
    { digest, adopts, directory, readCold }: UploadOptions,
    sink: ImportSink,
    host: ImportHost,
  ) {
    this.#host = host;
    this.#token = host.newToken();
    this.#group = group;
    this.#groupCount = gateway.groupCount;
    this.#expected = digest;
    this.#adopts = adopts;
    this.#readCold = readCold;
    this.#sink = sink;
    this.#spool = new Spool(directory, host.spoolMemory);
    this.#proposer = new Proposer(gateway, group, host.clock);
    this.#reader = new DocumentReader(
      (head) => this.#checkHead(head),
      (key, value) => this.#row(key, value),
    );
  }

  start(): void {
    // No data is accepted before the group is known to be empty.
    this.#sink.pause();
    this.#begin(0);
  }

  push(piece: Uint8Array): void {
    if (this.#over) return;
    this.#try(() => this.#spool.push(piece));
    this.#pump();
  }

  end(): void {
    this.#ended = true;
    this.#pump();
  }

  abort(): void {
    if (this.#over) return;
    this.#stop();
    if (this.#begun || this.#busy) this.#undo(() => undefined);
  }

  #begin(round: number): void {
    this.#busy = true;
    this.#proposer.propose(COMMANDS.importBegin, { token: this.#token }, (outcome) => {
      this.#busy = false;
      if (this.#over) return undefined;
      if (outcome.code === 'GROUP_NOT_EMPTY') return this.#refuseUsed(outcome.detail);
      if (outcome.code !== 'OK') return this.#fail(outcome.code);
      if (outcome.result.rowsLeft) {
        if (round === ROUNDS_MAX) return this.#fail('IMPORT_LOST');
        return this.#undo(() => this.#beginAnew(round + 1));
      }
      this.#begun = true;
      return this.#pump();
    });
  }

  /** With another token, because commands of the previous round may arrive late. */
  #beginAnew(round: number): void {
    if (this.#over) return;
    this.#token = this.#host.newToken();
    this.#begin(round);
  }

  /** Names the backup that the group came from, so that a restore can tell what it has already done. */
  #refuseUsed(digest: string): void {
    if (this.#over) return;
    this.#stop();
    this.#sink.json(409, {
      raft_group_id: this.#group,
      reason: ERRORS.GROUP_NOT_EMPTY.text,
      imported_blake3: digest === '' ? null : digest,
    });
  }

  #checkHead({ group, groupCount, origin }: DocumentHead): void {
    check(
      groupCount === this.#groupCount,
      `the snapshot is of a cluster with ${groupCount} groups; this one has ${this.#groupCount}`,
    );
    check(group === this.#group, `the snapshot is of group ${group}, not of group ${this.#group}`);
    check(
      !this.#adopts || origin !== undefined,
      "the snapshot does not say which objects were its cluster's own, so they cannot be adopted",
    );
  }

  #row(key: Uint8Array, value: Uint8Array): void {
    this.#sample.row(key, value);
    const whole = new Uint8Array(PREFIX.length + key.length);
    whole.set(key, PREFIX.length);
    const row = new Uint8Array(rowSize(whole, value));
    writeRow(row, 0, whole, value);
    if (this.#rowsBytes + row.length > this.#host.pieceBytes) this.#cut();
    this.#rows.push(row);
    this.#rowsBytes += row.length;
    this.#rowCount++;
  }

  /** Cuts the collected rows into a piece. */
  #cut(): void {
    if (this.#rows.length === 0) return;
    this.#pieces.push(Buffer.concat(this.#rows));
    this.#rows = [];
    this.#rowsBytes = 0;
  }

  /** Validates waiting data until there is a piece to propose; resumes the upload when nothing waits. */
  #pump(): void {
    for (;;) {
      if (this.#over) return;
      if (!this.#begun || this.#busy) return this.#sink.pause();
      const rows = this.#pieces.shift();
      if (rows !== undefined) return this.#send(rows);
      if (this.#contents !== undefined) return this.#finish(this.#contents);
      if (!this.#spool.isEmpty) this.#try(() => this.#look());
      else if (this.#ended) this.#try(() => this.#readEnd());
      else return this.#sink.resume();
    }
  }

  #look(): void {
    const bytes = this.#spool.shift();
    if (bytes !== undefined) this.#reader.push(bytes);
  }

  #readEnd(): void {
    const contents = this.#reader.end();
    const same = this.#expected === undefined || this.#expected === contents.digest;
    check(same, `the upload has the BLAKE3 ${contents.digest}, not the one that its header names`);
    this.#cut();
    this.#contents = contents;
  }

  #send(rows: Uint8Array): void {
    this.#sink.pause();
    const piece = { token: this.#token, seq: this.#proposed++, rows };
    this.#propose(COMMANDS.importRows, piece, () => this.#pump());
  }

  #finish(contents: Contents): void {
    const { nextIncarnation, hotBytes, coldBytes, objects, objectBytes, buckets, streams } = contents;
    const end: ImportEnd = {
      token: this.#token,
      pieces: this.#proposed,
      rows: this.#rowCount,
      nextIncarnation,
      hotBytes,
      coldBytes,
      objects,
      objectBytes,
      digest: fromHex(contents.digest, 32) as Uint8Array,
      origin: (this.#adopts ? contents.head.origin : undefined) ?? NO_ORIGIN,
    };
    this.#propose(COMMANDS.importEnd, end, () => {
      this.#stop();
      const counts = { buckets, streams, group_commit_index: 1 };
      this.#host.lookAt(this.#sample, this.#readCold, (cold) => this.#sink.json(200, { ...counts, ...cold }));
    });
  }

  #propose<P>(operation: Callable<P, undefined>, asked: P, done: () => void): void {
    this.#busy = true;
    this.#proposer.propose(operation, asked, ({ code }) => {
      this.#busy = false;
      if (this.#over) return undefined;
      return code === 'OK' ? done() : this.#fail(code);
    });
  }

  #try(step: () => void): void {
    if (this.#over) return;
    try {
      step();
    } catch (error) {
      if (error instanceof SpoolError) return this.#fail(error.code, error.message);
      if (!(error instanceof Fault)) throw error;
      this.#stop();
      const { message } = error;
      this.#undo(() => this.#sink.text(400, message));
    }
  }

  #fail(code: ErrorCode, detail?: string): void {
    if (this.#over) return;
    this.#stop();
    // The attempt that took over undoes it; a group that accepts no commands cannot. A BEGIN in flight may still be
    // applied.
    if (code === 'IMPORT_LOST' || !(this.#begun || this.#busy)) this.#sink.fail(code, detail);
    else this.#undo(() => this.#sink.fail(code, detail));
  }

  /** Accepts no more data. */
  #stop(): void {
    this.#over = true;
    this.#spool.close();
    this.#pieces = [];
  }

  /** Removes the imported rows, then continues whether or not that worked. */
  #undo(then: () => void): void {
    this.#proposer.propose(COMMANDS.importAbort, { token: this.#token }, (outcome) => {
      if (outcome.code === 'OK' && outcome.result.rowsLeft) this.#undo(then);
      else then();
    });
  }
}
