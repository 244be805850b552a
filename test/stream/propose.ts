// The way of a command into the log as a leader takes it: written by the HTTP side, prepared by the group, one entry.
import { errorCode } from '../../src/base/errors.ts';
import { prepare } from '../../src/group/prepare.ts';
import {
  COMMAND_APPEND,
  COMMAND_APPEND_BATCH,
  COMMAND_CREATE,
  COMMAND_DELETE,
  COMMAND_DELETE_BUCKET,
  COMMAND_PURGE,
  COMMAND_QUOTA,
  COMMAND_SET_ATTRIBUTES,
  COMMAND_SWEEP,
  COMMAND_TOUCH,
  Command,
  commandBytesMax,
  newCommandFields,
  writeCommand,
} from '../../src/protocol/command.ts';
import { EntryBuilder } from '../../src/group/entry.ts';
import { Reply } from '../../src/protocol/reply.ts';
import type { ModelCommand } from './model-command.ts';

const KINDS = {
  create: COMMAND_CREATE,
  append: COMMAND_APPEND,
  batch: COMMAND_APPEND_BATCH,
  delete: COMMAND_DELETE,
  attributes: COMMAND_SET_ATTRIBUTES,
  touch: COMMAND_TOUCH,
  sweep: COMMAND_SWEEP,
  'delete-bucket': COMMAND_DELETE_BUCKET,
  purge: COMMAND_PURGE,
  quota: COMMAND_QUOTA,
} as const;

export class Proposer {
  readonly #builder = new EntryBuilder();
  readonly #command = new Command();

  /** Adds to the entry under construction; the code of the refusal, or 'OK'. `inLane`: the payload comes beside the ring. */
  add(command: ModelCommand, attributesAsSent: string | undefined, inLane: boolean): string {
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
    fields.ttlSeconds = command.ttl;
    fields.expiresAtMs = command.expires;
    fields.attributes = attributesAsSent === undefined ? undefined : new Uint8Array(Buffer.from(attributesAsSent));
    fields.payload = command.body.length === 0 ? undefined : command.body;
    const lane = inLane && fields.payload !== undefined;
    // At an odd offset, as in a ring, and among bytes that are not the command's.
    const bytes = new Uint8Array(commandBytesMax(fields) + 64).fill(0x5a);
    const view = new DataView(bytes.buffer);
    const at = 24;
    writeCommand(fields, bytes, view, at, lane);
    this.#command.read(bytes, view, at);
    if (lane) this.#command.end = this.#command.payloadAt;
    const reply = new Reply();
    const added = prepare(this.#command, lane ? fields.payload : undefined, command.now, this.#builder, reply);
    return added ? 'OK' : errorCode(reply.code);
  }

  finish(): Uint8Array {
    return this.#builder.finish();
  }
}
