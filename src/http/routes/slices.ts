/** A published snapshot, fetched from its shard in slices, so that neither a shard nor this process holds more than one of them. */
import type { ReplyHandler, ShardGateway } from '../../ports.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { Request } from '../../protocol/request.ts';
import type { StreamingResponse } from '../streaming.ts';
import { QUERIES } from '../../protocol/operations.ts';

/** What the first slice says of stream and snapshot. */
export interface Published {
  /** -1: none, for those who ask for whatever there is. */
  readonly offset: number;
  readonly contentType: string;
  readonly digest: string;
  readonly size: number;
  readonly incarnation: number;
  readonly tail: number;
  /** Flags of the reply: closed, records. */
  readonly flags: number;
  readonly recordFirst: number;
  readonly recordNext: number;
}

export class Slices implements ReplyHandler {
  readonly #gateway: ShardGateway;
  readonly #response: StreamingResponse;
  readonly #query: Request;
  #first: Published | undefined;
  #body: Uint8Array = new Uint8Array(0);
  #sent = 0;
  #then: ((first: Published) => void) | undefined;
  #done: (() => void) | undefined;

  constructor(gateway: ShardGateway, response: StreamingResponse, query: Request) {
    this.#gateway = gateway;
    this.#response = response;
    this.#query = query;
  }

  /** Asks for the first slice. A refusal is answered here. */
  start(then: (first: Published) => void): void {
    this.#then = then;
    this.#ask();
  }

  /** The first slice is all of it. */
  get isWhole(): boolean {
    return this.#first === undefined || this.#body.length >= this.#first.size;
  }

  get body(): Uint8Array | undefined {
    return this.#body.length === 0 ? undefined : this.#body;
  }

  /** Writes all slices, the first included. */
  writeAll(done: () => void): void {
    this.#done = done;
    this.#write();
  }

  onReply(reply: Reply): void {
    this.#response.guard(() => this.#take(reply));
  }

  #ask(): void {
    this.#query.maxRecords = this.#sent;
    this.#query.maxBytes = this.#response.pieceBytes;
    if (!this.#gateway.send(this.#query, this)) this.#response.fail('SHARD_BUSY');
  }

  #take(reply: Reply): void {
    if (reply.code !== 0) return this.#response.refusal(reply);
    // The reply's memory is gone after this call, and the answer may have to wait.
    this.#body = reply.body === undefined ? new Uint8Array(0) : reply.body.slice();
    const first = this.#first;
    if (first !== undefined) {
      // Another snapshot took its place, or another stream: half of each is none.
      const { incarnation, digest, offset } = QUERIES.snapshot.result.read(reply);
      const same = incarnation === first.incarnation && digest === first.digest && offset === first.offset;
      return same && this.#body.length > 0 ? this.#write() : this.#response.cut();
    }
    this.#first = {
      ...QUERIES.snapshot.result.read(reply),
      contentType: reply.contentType,
      tail: reply.nextOffset,
      flags: reply.flags,
      recordFirst: reply.recordFirst,
      recordNext: reply.recordNext,
    };
    return this.#then?.(this.#first);
  }

  #write(): void {
    this.#sent += this.#body.length;
    const piece = this.#body;
    this.#body = new Uint8Array(0);
    const size = this.#first?.size ?? 0;
    this.#response.write(piece, () => (this.#sent < size ? this.#ask() : this.#done?.()));
  }
}
