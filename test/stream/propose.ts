// The way of a command into the log as a leader takes it: written by the HTTP side, prepared by the group, one entry.
import { errorCode } from '../../src/base/errors.ts';
import { prepare } from '../../src/group/prepare.ts';
import { Command, commandBytesMax, newCommandFields, writeCommand } from '../../src/protocol/command.ts';
import { EntryBuilder } from '../../src/group/entry.ts';
import { Reply } from '../../src/protocol/reply.ts';
import type { ModelCommand } from './model-command.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

const KINDS = {
  create: COMMANDS.create.number,
  append: COMMANDS.append.number,
  batch: COMMANDS.appendBatch.number,
  delete: COMMANDS.deleteStream.number,
  attributes: COMMANDS.setAttributes.number,
  touch: COMMANDS.touch.number,
  expire: COMMANDS.expire.number,
  'delete-bucket': COMMANDS.deleteBucket.number,
  purge: COMMANDS.purge.number,
  quota: COMMANDS.quota.number,
} as const;

export class Proposer {
  readonly #builder = new EntryBuilder();
  readonly #command = new Command();

  /**
   * Adds to the entry under construction; returns the code of the refusal, or 'OK'. `isTransferred`: the payload comes
   * outside the ring.
   */
  add(command: ModelCommand, attributesAsSent: string | undefined, isTransferred: boolean): string {
    const fields = newCommandFields();
    fields.kind = KINDS[command.kind];
    fields.bucket = command.bucket;
    fields.stream = command.stream;
    fields.close = command.close;
    fields.contentType = command.type;
    fields.streamSeq = command.seq;
    fields.producerId = command.producer?.id ?? '';
    fields.producerEpoch = command.producer?.epoch ?? 0;
    fields.producerSeq = command.producer?.seq ?? 0;
    fields.recordMatch = command.match;
    fields.expectedOffset = command.expected;
    fields.ttlSeconds = command.ttl;
    fields.expiresAtMs = command.expires;
    fields.attributes = attributesAsSent === undefined ? undefined : new Uint8Array(Buffer.from(attributesAsSent));
    fields.payload = command.body.length === 0 ? undefined : command.body;
    const apart = isTransferred && fields.payload !== undefined;
    // At an odd offset, as in a ring, and among bytes that are not the command's.
    const bytes = new Uint8Array(commandBytesMax(fields) + 64).fill(0x5a);
    const view = new DataView(bytes.buffer);
    const at = 24;
    writeCommand(fields, bytes, view, at, apart);
    this.#command.read(bytes, view, at, apart ? fields.payload : undefined);
    const reply = new Reply();
    const added = prepare(this.#command, command.now, this.#builder, reply);
    return added ? 'OK' : errorCode(reply.code);
  }

  finish(): Uint8Array {
    return this.#builder.finish();
  }
}
