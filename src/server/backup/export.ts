/**
 * A group as this node has applied it, as a document: pieces of rows are taken from the shard one by one, at the pace of whoever
 * reads. A small document is held until it is whole, so that its digest can stand in a header; of a large one the digest stands
 * at its end only.
 */
import { DocumentWriter } from '../../backup/document.ts';
import { errorCode } from '../../base/errors.ts';
import { EXPORT_PIECE_BYTES } from '../../base/limits.ts';
import { toHex } from '../../base/hex.ts';
import { createHasher } from '../../digest/blake3.ts';
import type { ExportSink } from '../../http/backup.ts';
import type { ShardGateway } from '../../ports.ts';
import { Canonical } from '../../stream/backup/canonical.ts';
import { decodeBucket } from '../../stream/buckets.ts';
import { TAG_BUCKET, TAG_HEAD } from '../../stream/keys.ts';
import type { Reply } from '../../wire/reply.ts';
import { EXPORT_CLOSE, EXPORT_NEXT, EXPORT_OPEN, OP_EXPORT, newRequest } from '../../wire/request.ts';
import { eachRow } from '../../wire/rows.ts';

/** Documents up to this size come with their digest. */
const HELD_BYTES_MAX = 1024 * 1024;
/** A shard whose mailbox is full is asked again. */
const AGAIN_MS = 20;

export function exportGroup(gateway: ShardGateway, group: number, sink: ExportSink): void {
  new Export(gateway, group, sink).start();
}

class Export {
  readonly #gateway: ShardGateway;
  readonly #group: number;
  readonly #sink: ExportSink;
  readonly #request = newRequest();
  readonly #hasher = createHasher();
  /** Made and not yet written. */
  #pieces: Uint8Array[] = [];
  #heldBytes = 0;
  #begun = false;
  #id = 0;
  #commitIndex = 0;
  #document: DocumentWriter | undefined;
  #canonical: Canonical | undefined;
  #buckets = 0;
  #streams = 0;
  /** The shard has said that nothing more comes. */
  #complete = false;

  constructor(gateway: ShardGateway, group: number, sink: ExportSink) {
    this.#gateway = gateway;
    this.#group = group;
    this.#sink = sink;
    this.#request.op = OP_EXPORT;
    this.#request.group = group;
    this.#request.maxBytes = EXPORT_PIECE_BYTES;
  }

  start(): void {
    this.#request.mode = EXPORT_OPEN;
    const sent = this.#gateway.send(this.#request, { onReply: (reply) => this.#opened(reply) });
    if (!sent) this.#sink.fail('SHARD_BUSY');
  }

  #opened(reply: Reply): void {
    const code = errorCode(reply.code);
    if (code !== 'OK') return this.#sink.fail(code);
    this.#id = reply.a;
    this.#commitIndex = reply.b;
    if (this.#sink.isOver) return this.#close();
    this.#sink.onOver = () => this.#close();
    const { groupCount } = this.#gateway;
    const head = { group: this.#group, groupCount, commitIndex: this.#commitIndex, origin: reply.text };
    const document = new DocumentWriter(head, (piece) => {
      this.#hasher.update(piece);
      this.#pieces.push(piece);
      this.#heldBytes += piece.length;
    });
    this.#document = document;
    this.#canonical = new Canonical((key, value) => {
      if (key[0] === TAG_HEAD) this.#streams++;
      else if (key[0] === TAG_BUCKET && decodeBucket(key.slice(1), value).exists) this.#buckets++;
      document.row(key, value);
    });
    return this.#more();
  }

  /** Asks for the next piece. */
  #more(): void {
    if (this.#sink.isOver) return;
    this.#request.mode = EXPORT_NEXT;
    this.#request.value = this.#id;
    const sent = this.#gateway.send(this.#request, { onReply: (reply) => this.#took(reply) });
    if (!sent) setTimeout(() => this.#more(), AGAIN_MS).unref();
  }

  #took(reply: Reply): void {
    if (this.#sink.isOver) return;
    const code = errorCode(reply.code);
    if (code !== 'OK') return this.#sink.fail(code);
    if (reply.body === undefined) {
      this.#complete = true;
      this.#document?.end(this.#buckets, this.#streams);
    } else {
      // Rows carry a prefix of their store: two bytes in front of the key.
      for (const { key, value } of eachRow(reply.body, 0)) this.#canonical?.row(key.subarray(2), value);
    }
    if (!this.#begun) {
      if (!this.#complete && this.#heldBytes < HELD_BYTES_MAX) return this.#more();
      this.#begun = true;
      this.#sink.begin(this.#commitIndex, this.#complete ? toHex(this.#hasher.digest()) : undefined);
    }
    return this.#drain();
  }

  #drain(): void {
    const piece = this.#pieces.shift();
    if (piece !== undefined) return this.#sink.write(piece, () => this.#drain());
    this.#heldBytes = 0;
    return this.#complete ? this.#sink.end() : this.#more();
  }

  /** Lets the shard end its read transaction; it does so anyway when nobody asks for long. */
  #close(): void {
    if (this.#complete) return;
    this.#request.mode = EXPORT_CLOSE;
    this.#request.value = this.#id;
    this.#gateway.send(this.#request, { onReply: () => undefined });
  }
}
