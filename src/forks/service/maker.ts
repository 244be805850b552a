/**
 * Creates one fork, step by step in two groups: reserve its name, pin its source, copy what it inherits, and make it
 * visible. A failure is undone before it is answered. When this node dies in between, the fork's group abandons it
 * after a while, and the source is notified (stream/forks/, stream/operations/remove.ts).
 */
import { type ErrorCode, errorCode } from '../../base/errors.ts';
import type { ForkRequest } from '../../ports.ts';
import { Cutter, decodeParts } from '../../stream/forks/cutter.ts';
import { type CommandFields } from '../../protocol/command.ts';
import { FORK_AT_TAIL, type ForkName } from '../../protocol/fork-command.ts';
import { isJson } from '../../protocol/media-type.ts';
import { REPLY_CREATED, Reply } from '../../protocol/reply.ts';
import { type Request, requestFor } from '../../protocol/request.ts';
import type { Reserved } from '../../gateway/quota-gate.ts';
import type { ForkPacer } from './pacer.ts';
import { type ForkPort, step } from './steps.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';
import { READ_FLAG_NO_TOUCH, READ_FLAG_PARTS, readIncarnation } from '../../protocol/queries/read.ts';
import { READ_OFFSET } from '../../protocol/read-fields.ts';

/** A record began there when the source was pinned, so the start offset has risen, or it is another stream. */
const MOVED: ReadonlySet<ErrorCode> = new Set(['STREAM_GONE', 'OFFSET_INSIDE_RECORD', 'OFFSET_OUT_OF_RANGE']);

/** The source's answer to the pin. */
interface Source {
  readonly contentType: string;
  readonly incarnation: number;
  readonly anchor: number;
  readonly ttlSeconds: number;
  readonly expiresAtMs: number;
}

/** A failed fork leaves nothing, the answer to its ABORT (the source may have to be notified), or unknown. */
export type Rest = Reply | 'unknown' | undefined;
export type Made = (reply: Reply, rest: Rest) => void;

export interface ForkSurroundings {
  readonly port: ForkPort;
  readonly pacer: ForkPacer;
}

export class ForkMaker {
  readonly #port: ForkPort;
  readonly #asked: CommandFields;
  readonly #fork: ForkRequest;
  readonly #token: number;
  readonly #done: Made;
  readonly group: number;
  readonly #sourceGroup: number;
  readonly #pacer: ForkPacer;
  #source: Source | undefined;
  /** Inherited bytes that were admitted. */
  #bytes = 0;
  #room: Reserved | undefined;

  /** `asked`: the fields of a CREATE, owned by this maker. */
  constructor({ port, pacer }: ForkSurroundings, asked: CommandFields, fork: ForkRequest, done: Made) {
    this.#port = port;
    this.#pacer = pacer;
    this.#asked = asked;
    this.#fork = fork;
    this.#done = done;
    this.#token = port.newToken();
    this.group = port.gateway.groupOf(asked.bucket, asked.stream);
    this.#sourceGroup = port.gateway.groupOf(fork.bucket, fork.stream);
  }

  start(): void {
    const { offset, subOffset } = this.#fork;
    const asked = { ...this.#asked, forkToken: this.#token, source: this.#sourceKey, offset, subOffset };
    const request = requestFor(COMMANDS.forkBegin, this.group, asked);
    step(this.#port, request, (reply, isUnknown) => {
      // The name may be taken anyway, or be taken when a majority is back: this does not wait for that.
      if (reply.code !== 0) return this.#over(reply, isUnknown ? 'unknown' : undefined);
      if (!reply.has(REPLY_CREATED)) return this.#over(reply, undefined);
      return this.#pin();
    });
  }

  #pin(): void {
    const { bucket, stream, offset } = this.#fork;
    const { contentType } = this.#asked;
    const fork = `${this.#asked.bucket}\0${this.#asked.stream}`;
    const asked = { bucket, stream, contentType, forkToken: this.#token, fork, offset };
    const request = requestFor(COMMANDS.forkPin, this.#sourceGroup, asked);
    step(this.#port, request, (reply) => {
      if (reply.code !== 0) return this.#undo(reply.withoutBody());
      const { startOffset, incarnation, ttlSeconds, expiresAtMs } = COMMANDS.forkPin.result.read(reply);
      const anchor = offset === FORK_AT_TAIL ? reply.nextOffset : offset;
      this.#source = {
        contentType: reply.contentType,
        anchor,
        ...{ incarnation, ttlSeconds, expiresAtMs },
      };
      const cutter = new Cutter({
        json: isJson(reply.contentType),
        anchor,
        subOffset: this.#fork.subOffset,
        startOffset,
        recordFirst: reply.recordFirst,
      });
      return this.#reserve(anchor - startOffset + this.#fork.subOffset, () => {
        // The first piece says where the fork begins, even when it inherits nothing.
        if (cutter.done) return this.#write(cutter, cutter.at, cutter.record, { ends: [], bytes: new Uint8Array(0) });
        return this.#read(cutter);
      });
    });
  }

  /** Reserves all space of the copy, on this node and in the bucket's quota, before the first byte is copied. */
  #reserve(bytes: number, run: () => void): void {
    if (!this.#pacer.begin(bytes)) return this.#fail('FORKS_FULL');
    this.#bytes = bytes;
    const all = bytes + (this.#asked.payload?.length ?? 0);
    if (all === 0) return run();
    return this.#port.reserve(
      this.#asked.bucket,
      all,
      (room) => {
        this.#room = room;
        run();
      },
      (reply) => this.#undo(reply),
    );
  }

  #over(reply: Reply, rest: Rest): void {
    this.#pacer.end(this.#bytes);
    this.#room?.end();
    this.#done(reply, rest);
  }

  /** Reads local state, which has applied the pin and therefore has everything that existed then. */
  #read(cutter: Cutter): void {
    const { bucket, stream } = this.#fork;
    const request = requestFor(QUERIES.read, this.#sourceGroup, {
      ...{ bucket, stream, mode: READ_OFFSET, value: cutter.at },
      ...{ maxBytes: this.#port.pieceBytes, readFlags: READ_FLAG_PARTS | READ_FLAG_NO_TOUCH },
    });
    step(this.#port, request, (reply) => {
      const code = errorCode(reply.code);
      if (MOVED.has(code)) return this.#fail('FORK_SOURCE_MOVED');
      if (code === 'STREAM_NOT_FOUND' || code === 'STREAM_DELETED') return this.#fail('FORK_SOURCE_DELETED');
      if (code !== 'OK') return this.#undo(reply.withoutBody());
      if (readIncarnation(reply) !== this.#source?.incarnation) return this.#fail('FORK_SOURCE_MOVED');
      const { at, record } = cutter;
      const taken = cutter.take(decodeParts(reply.body ?? new Uint8Array(4)));
      if (typeof taken === 'string') return this.#fail(taken);
      return this.#write(cutter, at, record, taken);
    });
  }

  #write(cutter: Cutter, at: number, record: number, parts: { ends: readonly number[]; bytes: Uint8Array }): void {
    const source = this.#source as Source;
    const { contentType, anchor } = source;
    const asked = { ...this.#named, contentType, anchor, at, record, ...parts };
    const request = requestFor(COMMANDS.forkData, this.group, asked);
    step(this.#port, request, (reply) => {
      if (reply.code !== 0) return this.#undo(reply.withoutBody());
      this.#room?.used(parts.bytes.length);
      if (cutter.done) return this.#end(source);
      return this.#pacer.pass(parts.bytes.length, () => this.#read(cutter));
    });
  }

  #end(source: Source): void {
    const { ttlSeconds, expiresAtMs } = this.#asked;
    const inherits = ttlSeconds < 0 && expiresAtMs < 0;
    const lifetime = inherits ? source : { ttlSeconds, expiresAtMs };
    const { contentType } = source;
    const request = requestFor(COMMANDS.forkEnd, this.group, {
      ...this.#asked,
      ...this.#named,
      contentType,
      ...lifetime,
    });
    step(this.#port, request, (reply) => {
      if (reply.code !== 0) return this.#undo(reply.withoutBody());
      return this.#over(reply, undefined);
    });
  }

  #fail(code: ErrorCode): void {
    this.#undo(new Reply().refuse(0, code));
  }

  #undo(answer: Reply): void {
    step(this.#port, this.abort(), (undone) => this.#over(answer, undone.code === 0 ? undone : 'unknown'));
  }

  /** The command that abandons the fork; repetitions are harmless. */
  abort(): Request {
    return requestFor(COMMANDS.forkAbort, this.group, this.#named);
  }

  get #named(): ForkName {
    const { bucket, stream } = this.#asked;
    return { bucket, stream, forkToken: this.#token };
  }

  get #sourceKey(): string {
    return `${this.#fork.bucket}\0${this.#fork.stream}`;
  }
}
