import type { Codec, Envelope } from './codec.ts';

export interface ReadIndexRequest extends Envelope {
  readonly type: 'read-index';
  readonly context: number;
}

export interface ReadIndexResponse extends Envelope {
  readonly type: 'read-index-response';
  readonly context: number;
  readonly index: number;
}

/** No flags. Body: context f64. */
export const readIndexCodec: Codec<ReadIndexRequest> = {
  number: 9,
  flagMask: 0,
  flags: () => 0,
  bodyBytes: () => 8,
  writeBody(writer, message) {
    writer.int53(message.context);
  },
  readBody: (reader, _flags, { from, to, term }) => ({ type: 'read-index', from, to, term, context: reader.int53() }),
};

/** No flags. Body: context f64 | index f64. */
export const readIndexResponseCodec: Codec<ReadIndexResponse> = {
  number: 10,
  flagMask: 0,
  flags: () => 0,
  bodyBytes: () => 16,
  writeBody(writer, message) {
    writer.int53(message.context);
    writer.int53(message.index);
  },
  readBody: (reader, _flags, { from, to, term }) => ({
    type: 'read-index-response',
    from,
    to,
    term,
    context: reader.int53(),
    index: reader.int53(),
  }),
};
